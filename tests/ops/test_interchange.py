"""`adt-engine interchange password`: a hash for the configuration, from a terminal or from standard input."""

import os
import pty
import subprocess
import sys
from typing import Any

import pytest

from engine.interchange.oauth.password import hash_password, is_password

COMMAND = (sys.executable, "-m", "engine", "interchange", "password")
WORD = "correct horse bättery"


def test_a_password_from_standard_input() -> None:
    """The first line is hashed, and the hash is all that is printed."""
    done = subprocess.run(COMMAND, input=f"{WORD}\nmore\n", capture_output=True, text=True, check=True)
    printed = done.stdout.rstrip("\n")
    assert printed.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert is_password(printed, WORD)
    assert not is_password(printed, f"{WORD}\n")
    assert WORD not in done.stdout + done.stderr


@pytest.mark.parametrize("typed", ["", "short", "1234567\n"])
def test_a_password_that_is_too_short(typed: str) -> None:
    """Fewer than eight characters are refused with exit 2 and without a hash."""
    done = subprocess.run(COMMAND, input=typed, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "at least 8 characters" in done.stderr


def test_a_password_from_a_terminal() -> None:
    """At a terminal it is asked for twice and not shown."""
    ours, theirs = pty.openpty()
    settings: dict[str, Any] = {"stdin": theirs, "stderr": theirs, "stdout": subprocess.PIPE, "start_new_session": True}
    shown = b""
    with subprocess.Popen(COMMAND, **settings) as run:
        os.close(theirs)
        for prompt in (b"Password: ", b"confirmation: "):
            while prompt not in shown:
                shown += os.read(ours, 1000)
            os.write(ours, f"{WORD}\n".encode())
        assert run.stdout is not None
        printed = run.stdout.read().decode().strip()
    os.close(ours)
    assert run.returncode == 0
    assert is_password(printed, WORD)
    assert WORD.encode() not in shown


def test_accents_however_they_are_typed() -> None:
    """One letter with its accent or two characters: it is the same password; a broken hash is nobody's."""
    assert is_password(hash_password("ze\u0301ro-zero"), "z\u00e9ro-zero")
    assert not is_password("$argon2id$broken", "zero")

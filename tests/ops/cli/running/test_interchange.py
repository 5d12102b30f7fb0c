"""`adt-engine interchange`: the hash of a password, from a terminal or from standard input; what is refused."""

import os
import pty
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.security.passwords import is_password

INTERCHANGE = (sys.executable, "-m", "engine", "interchange")
COMMAND = (*INTERCHANGE, "password")
WORD = "correct horse bättery"


def test_a_password_from_standard_input() -> None:
    """The first line is hashed, and the hash is all that is printed."""
    done = subprocess.run(COMMAND, input=f"{WORD}\nmore\n", capture_output=True, text=True, check=True)
    printed = done.stdout.rstrip("\n")
    assert printed.startswith("$argon2id$v=19$m=65536,t=3,p=1$")
    assert is_password(printed, WORD)
    assert not is_password(printed, f"{WORD}\n")
    assert WORD not in done.stdout + done.stderr


@pytest.mark.parametrize("typed", ["", "short", "fourteen chars\n"])
def test_a_password_that_is_too_short(typed: str) -> None:
    """Fewer than 15 characters are refused with exit 2 and without a hash."""
    done = subprocess.run(COMMAND, input=typed, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "at least 15 characters" in done.stderr


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


def test_a_password_that_is_tried_first() -> None:
    """Length alone does not do."""
    done = subprocess.run(COMMAND, input="passwordpassword\n", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "words that are tried first" in done.stderr


SERVICE = """
environment: sandbox
base_url: http://127.0.0.1:{port}
service_identifier_system: https://cdis.example
tenants: {{riverbend: {{}}}}
clients: {{engine: {{tenant: riverbend, secret: {{env: ENGINE_SECRET}}, scopes: ["system/*.*"]}}}}
"""


def said(*arguments: str) -> str:
    """Return what a command says when it refuses: one line, and nothing on standard output."""
    done = subprocess.run([*INTERCHANGE, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode in {1, 2}, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize("option", [("--database", "sqlite:///x.db"), ("--config", "x.yaml")])
def test_options_before_a_command_are_refused(option: tuple[str, str]) -> None:
    """An option before the command's name would be lost, and another database be looked at."""
    assert f"write {option[0]} after verify" in said(*option, "verify")


def test_a_token_for_no_service(tmp_path: Path) -> None:
    """Where no service has made a database, a token is refused with the next step, and no file is left behind."""
    file = tmp_path / "interchange.yaml"
    file.write_text(SERVICE.format(port=0))
    told = said("token", "--config", str(file), "--client", "engine", "--database", f"sqlite:///{tmp_path}/s.db")
    assert "s.db: name another with --database" in told
    assert list(tmp_path.iterdir()) == [file]


def test_an_address_that_cannot_be_had(tmp_path: Path) -> None:
    """A port in use and an address of another machine are told apart, each with what to do."""
    file = tmp_path / "interchange.yaml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file.write_text(SERVICE.format(port=port))
        arguments = ("--config", str(file), "--database", f"sqlite:///{tmp_path}/s.db")
        assert f"cannot listen on 127.0.0.1:{port} (Address already in use): stop the program" in said(*arguments)
    assert "name an address of this machine with --host" in said(*arguments, "--host", "192.0.2.7")


def test_the_service_is_checked_without_a_start(tmp_path: Path) -> None:
    """What the service would refuse is an error; what it would start without is a warning, unless --strict says no."""
    file = tmp_path / "interchange.yaml"
    file.write_text(SERVICE.format(port=0).replace("ENGINE_SECRET", "NO_SUCH_SECRET").replace("system/*.*", "all"))
    arguments = [*INTERCHANGE, "check", "--config", str(file)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{file}: warnings: 2\n")
    assert f"warning: {file}:6:" in done.stderr
    assert "clients.engine.secret.env: the environment variable NO_SUCH_SECRET is not set" in done.stderr
    assert "clients.engine.scopes.0: no scope 'all'" in done.stderr
    assert said("check", "--config", str(file), "--strict", "--offline").startswith(f"{file}:6:")


def test_all_that_is_wrong_with_the_service_comes_at_once(tmp_path: Path) -> None:
    """A misspelt key hides neither a tenant that is none nor a certificate that is not there."""
    text = (
        SERVICE.format(port=0).replace("environment", "environments").replace("tenant: riverbend", "tenant: lakeside")
    )
    file = tmp_path / "interchange.yaml"
    file.write_text(f"{text}tls: {{certificate: /no/s.pem, key: /no/s.key}}\nmax_body_bytes: 1\n")
    done = subprocess.run([*INTERCHANGE, "check", "--config", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    for path in ("environments", "base_url", "clients.engine.tenant", "tls.certificate", "tls.key", "max_body_bytes"):
        assert f" {path}: " in done.stderr

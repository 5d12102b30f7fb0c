"""The command's last resort: one line with the next step, no traceback, and nothing that may be a patient's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FAILS = """
import sys
from engine import __main__ as command
def app():
    raise {error}
command.app = app
command.main()
"""


def ended(*arguments: str) -> tuple[int, str]:
    """Run Python and return its exit code and what it said on standard error."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("KeyError('QUINTERO')", "a fault of adt-engine (KeyError at <string>:5): report this line"),
        (
            "PermissionError(13, 'Permission denied', '/data/x')",
            "/data/x cannot be used (Permission denied): run this as",
        ),
        ("OSError(28, 'No space left on device', '/b/y')", "/b/y cannot be used (No space left on device): free space"),
        ("OSError(5, 'Input/output error')", "the system refused it (Input/output error): fix that"),
    ],
)
def test_what_nobody_foresaw_is_one_line(error: str, said: str) -> None:
    """Exit 1, what and where, and never the text of an error that may hold a value."""
    code, text = ended("-c", FAILS.format(error=error))
    assert code == 1
    assert text.startswith(said)
    assert len(text.splitlines()) == 1
    assert "QUINTERO" not in text


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A file stands where a command would make its folder."""
    (tmp_path / "file").touch()
    code, text = ended("-m", "engine", "demo", "--once", "--data", str(tmp_path / "file"))
    assert (code, len(text.splitlines())) == (1, 1)
    assert f"{tmp_path / 'file'} cannot be used (" in text


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(
    "command",
    [
        ("doctor",),
        *(
            pytest.param(one, marks=pytest.mark.matrix)
            for one in [("journal", "stats"), ("messages", "list"), ("channels", "list")]
        ),
    ],
)
def test_whoever_may_not_look_into_the_data_folder_is_told(command: tuple[str, ...], tmp_path: Path) -> None:
    """A data folder below one that belongs to the engine's user alone."""
    (tmp_path / "closed" / "data").mkdir(parents=True)
    tmp_path.chmod(0o755)
    (tmp_path / "closed").chmod(0o700)
    code, text = ended(
        "-c",
        "import os, sys; from engine.__main__ import main, Commands\n"
        "from importlib import import_module\n"
        "for one in Commands.table.values():\n"
        "    for place in one.places(): import_module(place.partition(':')[0])\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534); main()",
        *command,
        "--data",
        str(tmp_path / "closed" / "data"),
    )
    assert code in {1, 2}
    assert "Permission denied" in text
    assert "Traceback" not in text


def test_help_is_wrapped_by_the_terminal_alone() -> None:
    """Where a line of the code ends is not where a line of the help does."""
    done = subprocess.run(
        [sys.executable, "-m", "engine", "messages", "replay", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ, COLUMNS="300"),
    )
    assert "A filter makes a bulk run, which the engine carries out: shown and confirmed first" in done.stdout

"""A journal moves to PostgreSQL and back from the command line, under an engine that goes on with it."""

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import orjson
import pytest

from engine.journal.file.database import FILE
from engine.ops.sender.line import send_messages
from tests.flow.rig import Rig
from tests.interchange.nursery import ran
from tests.ops.at_work import at_work, message
from tests.postgresql import new_database


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    """An empty database."""
    with new_database(postgres) as address:
        yield address


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """An engine at work: one entry delivered, one held."""
    async with at_work(tmp_path) as opened:
        yield opened


def copy(source: Path | str, target: Path | str, *more: str) -> "subprocess.CompletedProcess[str]":
    """Run `adt-engine journal copy`."""
    return ran("journal", "copy", "--from", str(source), "--to", str(target), *more)


async def test_an_engine_goes_on_with_a_journal_that_went_there_and_back(
    rig: Rig, database: str, tmp_path: Path
) -> None:
    """What is in use is refused; then all is copied twice, and a resend is known to the engine that starts on it."""
    data = rig.folder / "data"
    refused = copy(data, database)
    assert (refused.returncode, "stop it" in refused.stderr) == (1, True)
    assert await rig.engine.stop() == 0
    there = copy(data, database)
    assert there.returncode == 0, there.stderr
    assert "2 entries, 1 unfinished" in there.stdout
    for part in (f"--journal {database}", "access.key", f"take {FILE} out of {data}", f"Start none on {data} any more"):
        assert part in there.stderr
    again = copy(data, database)
    assert (again.returncode, "holds a journal already: name an empty one" in again.stderr) == (1, True)
    back = copy(database, tmp_path / "back", "--json")
    assert back.returncode == 0, back.stderr
    told = orjson.loads(back.stdout)
    assert (told["to"], told["entries"], told["bodies"], told["audit_faults"]) == (str(tmp_path / "back"), 2, 2, 0)
    assert told["rows"]["entry"] == 2
    (data / FILE).rename(tmp_path / "before.db")
    (tmp_path / "back" / FILE).rename(data / FILE)
    await rig.engine.start()
    await rig.engine.line("started")
    await send_messages(*await rig.address(), [message(b"C1", b"RB-1"), message(b"C3", b"RB-3")])
    await rig.until(lambda rows: [row.state for row in rows] == ["delivered", "held", "delivered"])


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("a", "b", "one of --from and --to is a database"),
        ("a", "mysql://db/adt", "--to: expected postgresql://USER@HOST/NAME"),
        ("postgresql://me:secret@db/adt", "b", "--from holds a password"),
    ],
)
def test_wrong_use_is_told(source: str, target: str, said: str) -> None:
    """Two folders, another database and a password that everybody could read: exit 2, and no secret is shown."""
    done = copy(source, target)
    assert (done.returncode, said in done.stderr, "secret" in done.stderr) == (2, True, False)


def test_a_database_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    """Exit 1, with the address and what to look at; the folder that was to be made is not begun."""
    done = copy("postgresql://me@/adt?host=/nowhere", tmp_path / "new")
    assert done.returncode == 1
    assert "postgresql://me@/adt cannot be used" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "new").exists()


SLOW = """
import time
from engine.__main__ import main
from engine.ops.cli.operating import copying

def slow(source, target, watch, whole=copying.copy_journal):
    def heard(*_heard):
        print("began", flush=True)
        time.sleep(30)
    whole(source, target, heard)

copying.copy_journal = slow
main()
"""


def slow(source: Path, target: str) -> "subprocess.Popen[str]":
    """Start a copy that is under way for long."""
    command = [sys.executable, "-c", SLOW, "journal", "copy", "--from", str(source), "--to", target]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_ctrl_c_says_how_to_go_on(number: int, code: int, rig: Rig, database: str) -> None:
    """Cut off by a person or a service manager, it ends with the usual code, and the command goes on when repeated."""
    data = rig.folder / "data"
    assert await rig.engine.stop() == 0
    with slow(data, database) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "began\n"
        second = copy(data, database)
        assert (second.returncode, "another engine" in second.stderr) == (1, True)
        process.send_signal(number)
        _out, said = process.communicate(timeout=30)
    assert process.returncode == code
    assert ("repeat the command" in said) == (number == signal.SIGINT)
    assert copy(data, database).returncode == 0

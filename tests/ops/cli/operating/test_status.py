"""`status`, `top` and `messages list --follow`, against an engine that runs."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from engine.__main__ import app
from tests.flow.operator import ended, message, sent, started
from tests.flow.rig import Rig, running


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A service and an engine that run, with one entry delivered."""
    async with running(tmp_path) as opened:
        await started(opened)
        await sent(opened, message("C1", "RB-1", event="A28"))
        await opened.until(ended("delivered"))
        yield opened


async def cli(rig: Rig, *arguments: str) -> tuple[int, str]:
    """Run a command on the rig's data folder; return its exit code and what it prints."""
    done = await asyncio.to_thread(CliRunner().invoke, app, [*arguments, "--data", str(rig.folder / "data")])
    return done.exit_code, done.stdout


async def test_the_status_says_what_is_wrong_and_ends_by_it(rig: Rig) -> None:
    """0 where all is well, 1 where a person decides, 2 where messages do not flow, 3 where no engine runs."""
    code, text = await cli(rig, "status")
    assert (code, text.splitlines()[0]) == (0, "Messages flow: nothing needs a person.")
    assert "interchange\tready" in text
    await sent(rig, message("C2", "RB-2", event="A28", born=""))
    await rig.until(ended("delivered", "held"))
    async with asyncio.timeout(60):
        while (await cli(rig, "status"))[0] != 1:  # noqa: ASYNC110 - the watch looks every five seconds
            await asyncio.sleep(0)
    code, text = await cli(rig, "status")
    assert text.startswith("TO DECIDE: One patient's messages are held at interchange and wait for a person. Since ")
    assert "Next: `lanes list` shows why" in text
    await cli(rig, "destinations", "pause", "interchange", "--reason", "upgrade")
    code, text = await cli(rig, "status")
    assert (code, text.splitlines()[0].partition(" Since ")[0]) == (
        2,
        "URGENT: interchange is paused: somebody paused it.",
    )
    code, text = await cli(rig, "status", "--json")
    found = orjson.loads(text)
    assert (code, found["severity"], found["sentence"]) == (2, "urgent", "interchange is paused: somebody paused it.")
    assert [stage["place"] for stage in found["stages"]] == ["senders", "channels", "waiting", "destination"]
    await rig.engine.stop()
    code, text = await cli(rig, "status")
    assert (code, text.splitlines()[0].startswith("No engine runs on ")) == (3, True)
    code, text = await cli(rig, "status", "--json")
    assert (code, orjson.loads(text)["severity"]) == (3, "urgent")


async def test_top_shows_each_channel_and_destination(rig: Rig) -> None:
    """In a pipe once; a destination that takes nothing is said in words."""
    code, text = await cli(rig, "top", "--once")
    assert code == 0
    assert "riverbend-adt\tlistening\t" in text
    assert "interchange\tready\t" in text
    await cli(rig, "destinations", "pause", "interchange")
    assert "interchange\tis paused: somebody paused it\t" in (await cli(rig, "top"))[1]


async def test_a_list_that_follows_shows_each_entry_once_as_it_comes(rig: Rig) -> None:
    """Oldest first: what is there, then what comes, until Ctrl-C; also of more entries at once than a page has."""
    line = [sys.executable, "-m", "engine", "messages", "list", "--follow", "--limit", "2"]
    process = await asyncio.create_subprocess_exec(
        *line, "--data", str(rig.folder / "data"), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert (await process.stdout.readline()).startswith(b"Entry #\tReceived (UTC)\t")
        assert (await process.stdout.readline()).startswith(b"1\t")
        await sent(rig, *(message(f"F{number}", f"RB-{number}", event="A28") for number in range(2, 8)))
        rows = [await process.stdout.readline() for _ in range(6)]
        assert [int(row.split(b"\t")[0]) for row in rows] == [2, 3, 4, 5, 6, 7]
        process.send_signal(signal.SIGINT)
        _out, error = await process.communicate()
    assert b"Traceback" not in error

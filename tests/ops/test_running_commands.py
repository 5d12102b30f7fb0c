"""Channels, destinations and alerts from the command line, through the admin socket of a running engine."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.flow.rig import Rig, running
from tests.flow.test_brakes import person, up
from tests.ops.command import command


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A service and an engine that run."""
    async with running(tmp_path, contact="desk 7") as opened:
        await up(opened)
        yield opened


async def cli(rig: Rig, *arguments: str, code: int = 0) -> str:
    """Run a command of `adt-engine` on the rig's data folder and return what it printed."""
    done = await command(*arguments, data=rig.folder / "data", environment={"COLUMNS": "200"})
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


async def read(rig: Rig, *arguments: str) -> Any:
    """Run a command with --json and return what it says."""
    return orjson.loads(await cli(rig, *arguments, "--json"))


async def test_channels_are_listed_stopped_drained_and_started(rig: Rig) -> None:
    """What one types at night works, and says in one line what it did."""
    await rig.sender([person(1)], 1).run()
    await rig.drained()
    (row,) = await read(rig, "channels", "list")
    assert (row["state"], row["messages"], row["contact"]) == ("listening", 1, "desk 7")
    listed = await cli(rig, "channels", "list")
    assert "listening" in listed
    assert max(map(len, listed.splitlines())) <= 80
    assert "is stopped" in await cli(rig, "channels", "stop", "riverbend-adt")
    assert "has no deliveries in progress" in await cli(rig, "channels", "drain", "riverbend-adt")
    drained = await read(rig, "channels", "drain", "riverbend-adt")
    assert (drained["state"], drained["unfinished"]) == ("stopped", 0)
    assert "is listening" in await cli(rig, "channels", "start", "riverbend-adt")
    assert "is listening" in await cli(rig, "channels", "allow-merge", "riverbend-adt")
    assert "changed: nothing" in await cli(rig, "channels", "reload")
    assert "adt_queue_depth" in await cli(rig, "channels", "metrics")
    assert "there is no channel" in await cli(rig, "channels", "stop", "elsewhere", code=2)


async def test_destinations_are_paused_and_alerts_acknowledged(rig: Rig) -> None:
    """A pause shows in the list with its reason, and opens an alert that somebody takes care of."""
    assert "is paused" in await cli(rig, "destinations", "pause", "interchange", "--reason", "upgrade")
    await rig.sender([person(1)], 1).run()
    assert "auth.client_secret" in await cli(rig, "destinations", "settings", "interchange")
    listed = await cli(rig, "destinations", "list")
    assert "by-operator upgrade" in listed
    async with asyncio.timeout(40):
        while not (alerts := await read(rig, "alerts", "list")):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.5)
    assert alerts[0]["kind"] == "destination-paused"
    assert "destinations resume" in await cli(rig, "alerts", "list")
    assert "acknowledged" in await cli(rig, "alerts", "acknowledge", str(alerts[0]["id"]))
    assert "no alert 99 is open" in await cli(rig, "alerts", "acknowledge", "99", code=2)
    assert "destinations resume interchange" in await cli(rig, "destinations", "retry", "interchange", code=2)
    assert "is ready" in await cli(rig, "destinations", "resume", "interchange")
    assert "is tried now" in await cli(rig, "destinations", "retry", "interchange")
    assert "there is no destination" in await cli(rig, "destinations", "resume", "elsewhere", code=2)
    await rig.drained()


async def test_messages_say_what_their_reason_means(rig: Rig) -> None:
    """`messages list` and `show` print the line of the table of reasons, and whether it can wait."""
    born = person(1)
    await rig.sender([type(born)("P1", 1, born.raw.replace(b"19840229", b""), "")], 1).run()
    await rig.until(lambda rows: [row.state for row in rows] == ["held"])
    for words in (("messages", "list"), ("messages", "show", "1")):
        done = await command(*words, data=rig.folder / "data")
        said = done.stdout + done.stderr
        assert "The destination requires name, gender or birth date" in said
        assert "It can wait until morning. Next: Wait" in said


async def test_without_an_engine_the_next_step_is_named(tmp_path: Path) -> None:
    """Nothing runs: how to start it."""
    done = await command("destinations", "list", data=tmp_path)
    assert done.returncode == 1
    assert "adt-engine run --data" in done.stderr

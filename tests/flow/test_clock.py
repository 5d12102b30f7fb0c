"""A wrong clock, in a whole engine: what is tried again goes on, over a restart too; and it is said."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from engine.errors import ClockAheadError
from engine.pipeline.configuration import Files
from engine.pipeline.engine import Engine
from engine.pipeline.maintenance.journal import prune_all
from engine.pipeline.maintenance.watch import Monitor
from engine.receive.block import Block, BlockKind
from engine.receive.reply import Peer
from tests.deliver.fake_fhir import FakeFhir, Step
from tests.flow.operator import message
from tests.flow.rig import channel_file

HERE = Peer("127.0.0.1", 4711)


class Clock:
    """The machine's clock, which may be set."""

    def __init__(self) -> None:
        self.off = timedelta()

    def __call__(self) -> datetime:
        """Tell the time of day."""
        return datetime.now(UTC) + self.off


class House:
    """An engine within the test on a clock that the test sets, and a server that refuses until it is told otherwise."""

    def __init__(self, folder: Path, server: FakeFhir) -> None:
        self.folder, self.server, self.clock = folder, server, Clock()

    async def start(self) -> None:
        """Start the engine."""
        channel = channel_file(self.server.base.removesuffix("/fhir/R4"))
        channel["destinations"][0]["auth"] = {"type": "none"}
        (self.folder / "channels").mkdir(exist_ok=True)
        (self.folder / "channels" / "a.yaml").write_bytes(orjson.dumps(channel))
        self.engine = await Engine.start(Files(self.folder / "channels", None, self.folder / "data"), self.clock)
        self.watch = Monitor(self.engine)

    async def look(self) -> list[tuple[str, str]]:
        """Look once, and return the alerts that are open, with their details."""
        await self.watch.look(self.clock())
        return [(one.kind, one.detail) for one in self.engine.alerts.open()]

    async def prune(self) -> int:
        """Take away what is old, as every hour; return how many bodies."""
        channels = {name: feed.channel for name, feed in self.engine.feeds.items()}
        return (await prune_all(self.engine.journal, channels, self.clock()))["bodies"]

    async def receive(self, raw: bytes) -> None:
        """Take a message in, as if it came by the door."""
        await self.engine.listeners.intakes["riverbend-adt"].answer(Block(raw, BlockKind.COMPLETE, 0.0, 0.0), HERE)

    async def state(self, wanted: str, tries: int = 0) -> None:
        """Wait until the newest delivery is in a state, after so many tries."""
        query = "SELECT state, tries FROM delivery ORDER BY seq DESC LIMIT 1"
        async with asyncio.timeout(25):
            while True:
                row = await self.engine.journal.read(lambda connection: connection.execute(query).fetchone())
                if row[0] == wanted and row[1] >= tries:
                    return
                await asyncio.sleep(0.02)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    """A house whose engine the test starts."""
    server = await FakeFhir().start()
    found = House(tmp_path, server)
    yield found
    await found.engine.stop()
    await server.stop()


@pytest.mark.parametrize("restarted", [False, True], ids=["while it runs", "over a restart"])
async def test_a_clock_set_back_keeps_no_retry_waiting(house: House, restarted: bool) -> None:
    """Two hours back: what was to be tried again in three seconds is, and an alert says what happened."""
    await house.start()
    house.server.script.append(Step("POST", 429, headers={"Retry-After": "3"}, path="Patient"))
    await house.receive(message("C1", "RB-1", event="A28"))
    await house.state("received", tries=1)
    if restarted:
        await house.engine.stop()
    house.clock.off = -timedelta(hours=2)
    if restarted:
        await house.start()
    await house.state("delivered")
    ((kind, detail),) = await house.look()
    assert (kind, detail.split()[0]) == ("clock-went-back", "by")
    assert 7100 < int(detail.split()[1]) < 7300
    number = house.engine.alerts.open()[0].id
    await house.engine.alerts.acknowledge(number, house.clock(), "root")
    assert await house.look() == []


async def test_a_clock_far_ahead_takes_no_bodies_until_somebody_says_that_it_is_right(house: House) -> None:
    """Neither in this life nor in the next, whatever came in by that clock; then what is old leaves."""
    await house.start()
    for number in (1, 2):
        await house.receive(message(f"C{number}", f"RB-{number}", event="A28"))
    await house.state("delivered")
    assert await house.prune() == 0
    for _life in range(2):
        house.clock.off = timedelta(days=4000)
        with pytest.raises(ClockAheadError, match="4000 days beyond"):
            await house.prune()
        assert await house.look() == [("clock-ahead", "4000 days beyond what was known")]
        await house.receive(message("C3", "RB-3", event="A28"))
        await house.state("delivered")
        await house.engine.stop()
        await house.start()
    house.clock.off = timedelta()
    assert [kind for kind, _detail in await house.look()] == ["clock-went-back"]
    house.clock.off = timedelta(days=4000)
    await house.look()
    (ahead,) = [one for one in house.engine.alerts.open() if one.kind == "clock-ahead"]
    await house.engine.alerts.acknowledge(ahead.id, house.clock(), "root")
    assert "clock-ahead" not in dict(await house.look())
    assert await house.prune() == 2


@pytest.mark.parametrize(("days", "bodies"), [(2.9, 0), (31, None)])
async def test_a_clock_that_is_a_weekend_ahead_is_believed(house: House, days: float, bodies: int | None) -> None:
    """An engine that was off for two days asks nobody; one that was off for a month does."""
    await house.start()
    await house.receive(message("C1", "RB-1", event="A28"))
    await house.state("delivered")
    house.clock.off = timedelta(days=days)
    if bodies is None:
        with pytest.raises(ClockAheadError):
            await house.prune()
    else:
        assert await house.prune() == bodies

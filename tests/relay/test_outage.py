"""A receiver that is away for three hours, on a clock that the test sets: everybody else gets all at once, in order."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from engine.config.destination import Retry
from engine.pipeline.configuration import Files
from engine.pipeline.engine import AHEAD, Engine
from engine.pipeline.maintenance.watch import Monitor
from engine.pipeline.outbound.throttle import DeliveryThrottle
from engine.receive.block import Block, BlockKind
from engine.receive.reply import Peer
from tests.deliver.fake_fhir import FakeFhir
from tests.flow.operator import message
from tests.flow.rig import channel_file
from tests.relay.receiver import Receiver
from tests.relay.rig import relay

HERE = Peer("127.0.0.1", 4711)
HOURS, EVERY, EACH = 3, timedelta(minutes=5), 3


class Clock:
    """The time of day, and a steady clock beside it; both go on as the test says."""

    def __init__(self) -> None:
        self.off = timedelta()

    def __call__(self) -> datetime:
        """Tell the time of day."""
        return datetime.now(UTC) + self.off

    def steady(self) -> float:
        """Read the steady clock."""
        return asyncio.get_running_loop().time() + self.off.total_seconds()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the engine goes on
            await asyncio.sleep(0.01)


async def ended(engine: Engine) -> Counter[tuple[str, str]]:
    """Return how many deliveries stand in each state at each destination."""
    query = "SELECT destination, state, COUNT(*) FROM delivery GROUP BY destination, state"
    rows = await engine.journal.read(lambda connection: connection.execute(query).fetchall())
    return Counter({(name, state): count for name, state, count in rows})


async def test_a_receiver_that_is_away_for_three_hours(tmp_path: Path) -> None:
    """Two other relays and a FHIR server get each message before the next one comes; then it gets all, in order."""
    clock, server = Clock(), await FakeFhir().start()
    names = ("ris", "lab", "pacs")
    receivers = {name: await Receiver().start() for name in names}
    channel = channel_file(server.base.removesuffix("/fhir/R4"))
    channel["destinations"][0]["auth"] = {"type": "none"}
    channel["destinations"] += [relay(name, receivers[name].port) for name in names]
    (tmp_path / "channels").mkdir()
    (tmp_path / "channels" / "a.yaml").write_bytes(orjson.dumps(channel))
    await receivers["ris"].stop()
    engine = await Engine.start(Files(tmp_path / "channels", None, tmp_path / "data"), clock)
    try:
        away = engine.dispatches["ris"]
        away.throttle = DeliveryThrottle("ris", 1, Retry(), clock.steady, random.random, AHEAD)
        away._worker = replace(away._worker, throttle=away.throttle)
        watch, intake = Monitor(engine), engine.listeners.intakes["riverbend-adt"]
        sent: list[bytes] = []
        for _ in range(int(timedelta(hours=HOURS) / EVERY)):
            for number in range(EACH):
                raw = message(f"C{len(sent)}", f"RB-{number + 1}", event="A28", at=f"{clock():%Y%m%d%H%M%S}")
                sent.append(raw)
                await intake.answer(Block(raw, BlockKind.COMPLETE, 0.0, 0.0), HERE)
            for name in ("lab", "pacs"):
                await until(lambda name=name: len(receivers[name].received) == len(sent))
                assert receivers[name].raws == sent
            while (await ended(engine))["interchange", "delivered"] < len(sent):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            clock.off += EVERY
            away.look_again()
            await watch.look(clock())
        assert ("destination-down", "ris") in {(one.kind, one.subject) for one in engine.alerts.open()}
        assert receivers["ris"].received == []
        await receivers["ris"].start()
        await away.retry_now()
        await until(lambda: len(receivers["ris"].received) == len(sent))
        assert receivers["ris"].raws == sent
        assert {one.raws == sent for one in receivers.values()} == {True}
    finally:
        await engine.stop()
        await server.stop()
        for receiver in receivers.values():
            await receiver.stop()

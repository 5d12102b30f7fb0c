"""Every metric moves: what the help says of it happens, and its figure is another one."""

import asyncio
from pathlib import Path

import orjson
import pytest

from engine import telemetry
from tests.flow.feed import FeedMessage
from tests.flow.proxy import Fault
from tests.flow.rig import Rig, channel_file, destination, running, write
from tests.flow.test_brakes import person, up

# Some metrics are of a file.
pytestmark = pytest.mark.parametrize("journal", ["sqlite"], indirect=True)

# Moved where they belong: tests/ops/access and tests/relay/test_answers.py.
ELSEWHERE = {"adt_log_ins", "adt_relay_repeats", "adt_relay_application_acks"}


async def figures(rig: Rig) -> dict[str, float]:
    """Return the sum of each family's samples, as the engine tells them."""
    text = (await rig.ask("metrics"))["done"]
    found: dict[str, float] = {}
    for line in text.splitlines():
        if not line.startswith("#") and "_created" not in line.partition("{")[0]:
            name, _, value = line.rpartition(" ")
            found[name.partition("{")[0]] = found.get(name.partition("{")[0], 0.0) + float(value)
    return found


def names() -> list[str]:
    """Return the names under which the families tell their figures."""
    kinds = {"counter": "_total", "histogram": "_count"}
    families = [one for one in telemetry.REGISTRY.collect() if one.name not in ELSEWHERE]
    return [family.name + kinds.get(family.type, "") for family in families]


def unmapped(message: FeedMessage) -> FeedMessage:
    """Return a message with a marital status that no table knows."""
    raw = message.raw.replace(b"|F\r", b"|F||||||||NOBODYKNOWS\r").replace(b"|P3|", b"|W3|")
    return FeedMessage("W3", message.family, raw, "")


async def test_every_metric_moves(tmp_path: Path) -> None:
    """One delivered, one held, one refused, one with an unknown code; a destination that is down, and one paused."""
    routed = {"rule": "routed", "when": "PID-3.1 = RB-3", "send_to": ["interchange"]}
    async with running(tmp_path, lookup_on=["A28"], lookup_max_age_hours=876_000, filters=[routed]) as rig:
        file = rig.folder / "channels" / "riverbend-adt.yaml"
        told = {"destinations": [destination(rig.proxy.url, notify="admin-notify")]}
        write(file, orjson.loads(file.read_bytes()) | told)
        await up(rig)
        before = await figures(rig)
        rig.proxy.script = lambda call: Fault(status=422) if b"RB-2" in call.body else None
        await rig.sender([person(1), person(2), unmapped(person(3))], 2).run()
        await rig.until(lambda rows: not [row for row in rows if row.state in {"received", "claimed", "waiting"}])
        rig.proxy.script = lambda call: Fault(status=503) if call.writes else None
        await rig.sender([person(number) for number in range(10, 20)], 1).run()
        other = destination(rig.proxy.url, name="second")
        text = channel_file(rig.proxy.url) | {"destinations": [destination(rig.proxy.url), other]}
        write(file, text)
        await rig.ask("reload")
        await rig.ask("destinations.pause", destination="second")
        host, port = await rig.address()
        _reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"MSH|without a frame")
        seen: set[str] = set()
        for _ in range(600):
            after = await figures(rig)
            seen |= {name for name in names() if after.get(name, 0.0) != before.get(name, 0.0)}
            if not set(names()) - seen:
                break
            await asyncio.sleep(0.2)
        writer.close()
        assert set(names()) - seen == set()

"""Overload: a flood at many times the drain rate of a slow destination, and idle connections that want every place."""

import asyncio
import contextlib
import hashlib
import itertools
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import orjson
import pytest

from tests.flow.proxy import Call, Fault
from tests.flow.rig import Rig, channel_file, destination, running
from tests.flow.sender import Sender
from tests.flow.test_brakes import person, the, up

DRAIN_PER_SECOND: Final = 20
FLOOD_PER_SECOND: Final = 50 * DRAIN_PER_SECOND
# What an engine may take under a flood: its own memory and the caches' full size, not what waits.
CAP_MIB: Final = 400
SENDERS: Final = 16
PER_ADDRESS: Final = 50


def slow(call: Call) -> Fault | None:
    """Let a destination take no more than 20 writes a second; one at a time is under way."""
    return Fault(wait_seconds=1 / DRAIN_PER_SECOND) if call.writes else None


def configure(rig: Rig, limits: dict[str, int], concurrency: int) -> None:
    """Write the channel file."""
    settings = [destination(rig.proxy.url, concurrency=concurrency)]
    text = orjson.dumps(channel_file(rig.proxy.url) | {"destinations": settings, "limits": limits})
    (rig.folder / "channels" / "riverbend-adt.yaml").write_bytes(text)


def peak_mib(pid: int) -> float:
    """Return the most memory that a process has held."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


@contextlib.asynccontextmanager
async def idle(port: int, count: int) -> AsyncIterator[list[asyncio.StreamWriter]]:
    """Hold idle connections from many addresses of this machine, as many as are let in."""
    writers: list[asyncio.StreamWriter] = []

    async def one(number: int) -> None:
        address = number // PER_ADDRESS
        source = (f"127.{1 + address // 200}.0.{1 + address % 200}", 0)
        with contextlib.suppress(OSError):
            _reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=source)
            writers.append(writer)

    try:
        for first in range(0, count, 100):
            await asyncio.gather(*(one(number) for number in range(first, min(first + 100, count))))
        yield writers
    finally:
        for writer in writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


async def connected(rig: Rig, count: int) -> None:
    """Wait until the engine holds so many connections: the system makes them before the engine has taken them."""
    async with asyncio.timeout(60):
        while (await the(rig, "channels.list"))["connections"] != count:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)


async def flood(rig: Rig, seconds: float) -> tuple[Sender, float]:
    """Send at the rate of the flood, for so long; return the sender and how many it sent a second."""
    numbers = itertools.count(1)
    until = time.monotonic() + seconds
    sender = rig.sender([], SENDERS)

    async def work() -> None:
        due = time.monotonic()
        while due < until:
            mine = Sender([person(next(numbers)) for _ in range(20)], 1, rig.address)
            await mine.run()
            sender.log.extend(mine.log)
            due = max(due + 20 * SENDERS / FLOOD_PER_SECOND, time.monotonic() - 1)
            await asyncio.sleep(max(due - time.monotonic(), 0))

    began = time.monotonic()
    await asyncio.gather(*(work() for _ in range(SENDERS)))
    return sender, len(sender.log) / (time.monotonic() - began)


@pytest.mark.timeout(3600)
async def test_a_flood_and_idle_connections_lose_nothing(
    tmp_path: Path, full_sweep: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Memory stays under its cap, senders who speak are served, nothing is dropped, and it drains afterwards."""
    seconds, connections = (60.0, 10_000) if full_sweep else (0.5, 300)
    limits = {"connections": connections, "connections_per_address": PER_ADDRESS}
    async with running(tmp_path, limits=limits) as rig:
        configure(rig, limits, concurrency=1)
        rig.proxy.script = slow
        await up(rig)
        _host, port = await rig.address()
        async with idle(port, connections) as held:
            await connected(rig, connections)
            await asyncio.sleep(5.5)
            sender, rate = await flood(rig, seconds)
            shown = await the(rig, "channels.list")
            waiting = (await the(rig, "destinations.list"))["waiting"]
            peak = peak_mib(rig.engine.pid)
        answered = [line for line in sender.log if line.code == "AA"]
        rows = rig.rows()
        assert len(answered) == len(sender.log) == len(rows)
        assert {row.digest for row in rows} == {hashlib.sha256(line.message.raw).digest() for line in answered}
        assert peak < CAP_MIB
        rig.proxy.script = lambda _call: None
        configure(rig, limits, concurrency=16)
        await rig.ask("reload")
        drained_from = time.monotonic()
        await rig.drained(3300.0)
        took = time.monotonic() - drained_from
        assert {row.state for row in rig.rows()} == {"delivered"}
        with capsys.disabled():
            if full_sweep:
                slowest = max((line.heard_ns - line.sent_ns) / 1e6 for line in answered)
                print(  # noqa: T201
                    f"\noverload: {len(answered)} messages at {rate:.0f}/s against {DRAIN_PER_SECOND}/s, {len(held)} "
                    f"idle connections ({shown['connections']} held), {waiting} waited, slowest ACK {slowest:.0f} ms, "
                    f"peak {peak:.0f} MiB, drained in {took:.0f} s, 0 lost"
                )

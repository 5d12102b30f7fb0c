"""What the journal costs: record, acknowledge, claim, intend and settle, with 32 messages in flight.

    python tests/benchmarks/bench_journal.py [--messages 20000] [--in-flight 32] [--patients 2000] [--folder DIR]

Durability as in production (WAL, synchronous=FULL, group commit). The figure to hold is CPU per message: <= 100 us.
"""

import argparse
import asyncio
import platform
import resource
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvloop

from engine.http.request import HttpRequest
from engine.journal.entry import AckOutcome, KnownIdentity, NewEntry, RequestOutcome, Settlement, State
from engine.journal.journal import Journal

RAW = b"MSH|^~\\&|ADT|RVB|ENG|HIE|20260101120000||ADT^A01^ADT_A01|%08d|P|2.5.1\rPID|" + b"x" * 1900
BODY = b"{" + b"y" * 1500 + b"}"
ACK = b"MSH|^~\\&|ENG|HIE|ADT|RVB|20260101120000||ACK^A01^ACK|1|P|2.5.1\rMSA|AA|%08d\r"


def entry(number: int, patients: int, now: datetime) -> NewEntry:
    """Return an A01 of 2 kB about one of the patients."""
    return NewEntry(
        channel="riverbend-adt",
        peer="127.0.0.1",
        source="ADT|RVB",
        control_id=f"{number:08d}",
        event="A01",
        version="2.5.1",
        raw=RAW % number,
        received_at=now,
        event_at=now,
        visit=f"V{number}",
        patients=((f"https://mrn.riverbend.example|{number % patients}",),),
        destinations=("interchange",),
        acknowledgement=ACK % number,
        ack_code="AA",
        ack_outcome=AckOutcome.OWED,
    )


async def one_loop(journal: Journal, numbers: Any, patients: int, done: asyncio.Queue[int]) -> None:
    """Send messages one after the other, each until its acknowledgement."""
    for number in numbers:
        recorded = await journal.record(entry(number, patients, datetime.now(UTC)))
        journal.acknowledged(recorded.seq, AckOutcome.SENT)
        done.put_nowait(recorded.seq)


async def deliver(journal: Journal, claimed: Any, now: datetime) -> None:
    """Carry out one delivery without a server."""
    seq, name = claimed.seq, claimed.destination
    intent = HttpRequest(1, "PUT", "http://127.0.0.1/Patient/1", (("If-Match", 'W/"1"'),), BODY, now)
    await journal.intend(seq, name, intent)
    known = (KnownIdentity(name, "https://mrn.riverbend.example", str(seq), f"id-{seq}"),) if claimed.tries else ()
    outcome = RequestOutcome(1, 200, (), "", 2.5, b"")
    settlement = Settlement(
        seq, name, State.DELIVERED, now, outcomes=(outcome,), mapping="abc", known=known, applied_at=now,
        source=claimed.source,
    )  # fmt: skip
    await journal.settle(settlement)


async def dispatch(journal: Journal, total: int, in_flight: int, arrived: asyncio.Queue[int]) -> None:
    """Claim and deliver until everything is delivered, `in_flight` at a time."""
    left, under_way = total, set()
    wake = asyncio.Event()

    def ended(task: Any) -> None:
        under_way.discard(task)
        wake.set()

    while left or under_way:
        room = in_flight - len(under_way)
        if room >= in_flight // 2 and left:
            while not arrived.empty():
                arrived.get_nowait()
            claims = await journal.claim("interchange", room, datetime.now(UTC))
            for claimed in claims:
                task = asyncio.create_task(deliver(journal, claimed, datetime.now(UTC)))
                under_way.add(task)
                task.add_done_callback(ended)
            left -= len(claims)
            if not claims and not under_way and left:
                await arrived.get()
                continue
        wake.clear()
        if under_way:
            await wake.wait()


async def measure(folder: Path, arguments: Any) -> tuple[float, float]:
    """Return CPU microseconds a message, and messages a second."""

    def failed(error: BaseException) -> None:
        raise error

    journal = await Journal.open(folder, clock=lambda: datetime.now(UTC), fail=failed)
    count, loops = arguments.messages, arguments.in_flight
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    arrived: asyncio.Queue[int] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        for start in range(loops):
            group.create_task(one_loop(journal, range(start, count, loops), arguments.patients, arrived))
        group.create_task(dispatch(journal, count, loops, arrived))
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    await journal.close()
    return cpu / count * 1e6, count / seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--patients", type=int, default=2000)
    parser.add_argument("--folder", type=Path, default=None)
    arguments = parser.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, WAL + FULL, group commit")  # noqa: T201
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        cpu, rate = uvloop.run(measure(Path(folder), arguments))
    print(f"record + acknowledge + claim + intend + settle: {cpu:6.1f} us CPU a message, {rate:7.0f} messages/s")  # noqa: T201


if __name__ == "__main__":
    main()

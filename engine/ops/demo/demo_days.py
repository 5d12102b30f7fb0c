"""The demo's hospital days: a simulated stream sent to the engine, and how its messages ended."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from engine.ops.operations.messages import ListMessages, Stats
from engine.ops.sender.line import BlockAnswer, send_stream
from engine.ops.terminal.command import ask
from engine.ops.views.entry import RowFacts
from engine.simulation.world import SimulatedMessage, simulate

SEED: Final = 2026
PATIENTS: Final = 40
DRAIN_SECONDS: Final = 60.0
CONNECTIONS: Final = 4
PAGE: Final = 1000
FEED: Final = "riverbend-adt"
UNDER_WAY: Final = frozenset({"received", "claimed"})


@dataclass(slots=True)
class Days:
    """What came of the simulated messages: answers by code, entries by state and reason, those never recorded."""

    sent: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    missing: int = 0

    @property
    def good(self) -> bool:
        """Whether every message was answered AA or CA, is in the journal, and ended or waits behind a held one."""
        under_way = sum(count for (state, _), count in self.ends.items() if state in UNDER_WAY)
        return set(self.answers) <= {"AA", "CA"} and not self.missing and not under_way

    def count(self, answer: BlockAnswer) -> None:
        """Count what was answered."""
        self.answers[answer.code or "no answer"] += 1

    def as_row(self) -> dict[str, object]:
        """Return it for JSON."""
        ends = [{"state": state, "reason": reason, "messages": n} for (state, reason), n in sorted(self.ends.items())]
        return {"sent": self.sent, "answers": dict(self.answers), "ends": ends, "missing": self.missing}


def stream() -> Iterator[SimulatedMessage]:
    """Return the demo's days: endless, and the same each time."""
    return simulate(SEED, PATIENTS)


async def live(data: Path, port: int, messages: Iterator[SimulatedMessage], count: int) -> Days:
    """Send a number of messages, wait until all that can end has ended, and tell what came of them."""
    days = Days()
    recorded_before = (await asyncio.to_thread(ask, data, Stats())).last
    sent: set[bytes] = set()

    def feed() -> Iterator[tuple[int, bytes]]:
        for message in islice(messages, count):
            sent.add(message.raw)
            days.sent += 1
            yield message.family, message.raw

    await send_stream("127.0.0.1", port, feed(), days.count, connections=CONNECTIONS)
    rows = await ended(data, FEED, recorded_before)
    days.ends.update((row.state.value, row.reason) for row in rows)
    days.missing = max(len(sent) - len(rows), 0)
    return days


async def go_on(port: int, messages: Iterator[SimulatedMessage], rate: float) -> None:
    """Send at a rate of messages a second until cancelled, so that there is something to watch."""
    feed = ((message.family, message.raw) for message in messages)
    await send_stream("127.0.0.1", port, feed, _uncounted, rate=rate)


def _uncounted(_answer: BlockAnswer) -> None:
    """Stand in for a listener where nobody counts the answers."""


async def ended(data: Path, channel: str, after: int = 0) -> list[RowFacts]:
    """Return the entries of a channel recorded since, once none is under way or the time for that is over."""
    loop = asyncio.get_running_loop()
    until = loop.time() + DRAIN_SECONDS
    while True:
        rows = await _since(data, channel, after)
        if loop.time() > until or not any(row.state in UNDER_WAY for row in rows):
            return rows
        await asyncio.sleep(0.1)


async def _since(data: Path, channel: str, after: int) -> list[RowFacts]:
    found: list[RowFacts] = []
    before = 0
    while True:
        page = await asyncio.to_thread(ask, data, ListMessages(channel=channel, limit=PAGE, before=before))
        found += [row for row in page.entries if row.entry > after]
        before = page.before or 0
        if before <= after:
            return found

"""Short ways to make entries and to carry them through a journal."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from engine.http.request import HttpRequest
from engine.journal.entry import AckOutcome, Claimed, NewEntry, RequestOutcome, Settlement, State
from engine.journal.journal import Journal
from engine.journal.read.reading import Filters
from engine.journal.state import memory
from engine.journal.write.entry_lookup import OperationRequest

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LATE = NOW + timedelta(hours=1)


def entry(control_id: str, *patients: tuple[str, ...], **given: Any) -> NewEntry:
    """Return an A08 about patients, each a group of identity keys; accepted for destination `d` unless told."""
    settings: dict[str, Any] = {
        "channel": "adt",
        "peer": "127.0.0.1",
        "source": "ADT|RVB",
        "control_id": control_id,
        "event": "A08",
        "version": "2.5.1",
        "raw": f"MSH|^~\\&|ADT|RVB|||||ADT^A08|{control_id}|P|2.5.1".encode(),
        "received_at": NOW,
        "patients": patients,
        "destinations": ("d",),
        "acknowledgement": f"MSA|AA|{control_id}".encode(),
        "ack_code": "AA",
        "ack_outcome": AckOutcome.OWED,
    }
    if given.get("state", State.RECEIVED) is not State.RECEIVED:
        settings["destinations"] = ()
    return NewEntry(**settings | given)


def intent(number: int = 1) -> HttpRequest:
    """Return the intent of a PUT."""
    return HttpRequest(number, "PUT", "http://127.0.0.1/Patient/1", (("If-Match", 'W/"1"'),), b"{}", NOW)


def settlement(seq: int, state: State = State.DELIVERED, destination: str = "d", **given: Any) -> Settlement:
    """Return how a delivery ended."""
    return Settlement(seq, destination, state, **{"at": NOW} | given)


class Desk:
    """A journal with the steps that tests take again and again."""

    def __init__(self, journal: Journal, folder: Path, failures: list[BaseException]) -> None:
        self.journal = journal
        self.folder = folder
        self.failures = failures

    everything = Filters()
    entry = staticmethod(entry)

    @staticmethod
    async def together(calls: Iterable[Awaitable[Any]], *, errors: bool = False) -> list[Any]:
        """Await calls that are made in one turn of the loop, and so meet in one transaction."""
        return await asyncio.gather(*calls, return_exceptions=errors)

    async def record(self, control_id: str, *patients: tuple[str, ...], **given: Any) -> int:
        """Record an entry; return its number."""
        return (await self.journal.record(entry(control_id, *patients, **given))).seq

    async def claim(self, limit: int = 100, destination: str = "d", now: datetime = NOW) -> tuple[Claimed, ...]:
        """Claim what may run."""
        return await self.journal.claim(destination, limit, now)

    async def claimed(self, limit: int = 100, destination: str = "d", now: datetime = NOW) -> list[int]:
        """Claim what may run; return the numbers."""
        return [one.seq for one in await self.journal.claim(destination, limit, now)]

    async def deliver(self, seq: int, **given: Any) -> int:
        """Carry a claimed delivery to its end with one attempt; return how many others may run."""
        await self.journal.intend(seq, given.get("destination", "d"), intent())
        outcome = RequestOutcome(1, 200, (), "", 1.5, b"{}")
        return await self.journal.settle(settlement(seq, outcomes=(outcome,), **given))

    async def remembered(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Return what the journal remembers, by a function of its memory."""
        return await self.journal.look(lambda context: work(context.connection, context.sealing, *arguments))

    async def last_applied(self, destination: str, lanes: tuple[int, ...], source: str) -> datetime | None:
        """Return the newest event time applied in lanes."""
        return await self.journal.read(lambda connection: memory.last_applied(connection, destination, lanes, source))

    async def replay(
        self,
        seq: int,
        destinations: tuple[str, ...] = (),
        give: tuple[str, ...] = (),
        where_known: tuple[str, ...] = (),
        **asked: Any,
    ) -> int:
        """Deliver an entry again; return at how many destinations."""
        who = OperationRequest(**asked)
        return await self.journal.act(
            lambda context: context.operations.replay(seq, destinations, who, give, where_known)
        )

    async def release(self, seq: int, **asked: Any) -> int:
        """Let what is held of an entry be tried again; return at how many destinations."""
        return await self.journal.act(lambda context: context.operations.release(seq, (), OperationRequest(**asked)))

    async def discard(self, seq: int, reason: str, by: str) -> int:
        """End an entry for good; return how many others may run because of it."""
        return await self.journal.act(lambda context: context.operations.discard(seq, reason, by=by))


Opener = Callable[..., contextlib.AbstractAsyncContextManager[Desk]]


@contextlib.asynccontextmanager
async def open_desk(folder: Path, clock: Callable[[], datetime] = lambda: NOW, **given: Any) -> AsyncIterator[Desk]:
    """Open the journal of a folder until the block ends."""
    failures: list[BaseException] = []
    journal = await Journal.open(folder, clock=clock, fail=failures.append, **given)
    try:
        yield Desk(journal, folder, failures)
    finally:
        await journal.close()

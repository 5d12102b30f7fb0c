"""The door of the tests: it records pieces in a real journal, as the door of events does."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from engine.errors import EventError, JournalError
from engine.fhir.event import read_event
from engine.journal.entry import NewEntry, Recorded, State
from engine.journal.journal import Journal
from engine.receive.reply import Peer
from tests.journal.desk import NOW


class Door:
    """Records each piece as an entry; `handed` are their names, `recorded` what the journal made of them.

    `fails_after`: how many calls are taken before one is not stored. `filters`: what comes in is delivered nowhere.
    """

    def __init__(self, journal: Journal, *, filters: bool = False) -> None:
        self.journal = journal
        self.filters = filters
        self.came = asyncio.Condition()
        self.handed: list[str] = []
        self.recorded: list[Recorded] = []
        self.peers: set[Peer] = set()
        self.fails_after: int | None = None

    async def take(self, channel: str, pieces: Sequence[bytes], peer: Peer) -> list[Recorded]:
        """Record pieces in their order."""
        if self.fails_after is not None:
            self.fails_after -= 1
            if self.fails_after < 0:
                raise JournalError
        self.peers.add(peer)
        entries = [entry_of(channel, piece) for piece in pieces]
        if self.filters:
            entries = [
                replace(one, state=State.FILTERED, reason="event-type-not-taken", destinations=()) for one in entries
            ]
        found = [await self.journal.record(one) for one in entries]
        self.handed += [_name(piece) for piece in pieces]
        self.recorded += found
        async with self.came:
            self.came.notify_all()
        return found

    async def until(self, *names: str) -> None:
        """Wait until events have come in."""
        async with asyncio.timeout(30), self.came:
            await self.came.wait_for(lambda: set(names) <= set(self.handed))

    async def names(self) -> list[str]:
        """Return the names of the journal's entries, in order."""
        sql = "SELECT control_id FROM entry ORDER BY seq"
        return [name for (name,) in await self.journal.read(lambda connection: connection.execute(sql).fetchall())]


def entry_of(channel: str, piece: bytes) -> NewEntry:
    """Return a piece as an entry."""
    name = _name(piece)
    state = State.RECEIVED if name != "none" else State.REJECTED
    return NewEntry(
        channel=channel, peer="record", source="record", control_id=name, event=name.partition("/")[0], version="R4",
        raw=piece, received_at=NOW, patients=((f"record|{name.rpartition('/')[0]}",),), state=state,
        destinations=("ehr",) if state is State.RECEIVED else (), mapping="",
    )  # fmt: skip


def _name(piece: bytes) -> str:
    try:
        return read_event(piece).name
    except EventError:
        return "none"

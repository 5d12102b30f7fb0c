"""Operations on lanes: what is held and what waits behind it, shown before you decide."""

import asyncio
from functools import partial
from typing import Annotated, Final

from pydantic import Field

from engine.clock import now
from engine.journal.entry import State
from engine.journal.read.holding import Held, held, held_at
from engine.ops.access.actor import Actor, Permission
from engine.ops.operations.fields import EntryNumber, Limit, Word
from engine.ops.operations.held import HeldFilter
from engine.ops.operations.operation import Operation
from engine.ops.views.answer import Answer, Count, EntrySeq, Time, known_as
from engine.pipeline.engine import Engine


class Behind(Answer, facts=True):
    """How much waits behind a held entry."""

    entries: Count
    patients: Count


class HeldView(Answer, facts=True):
    """An entry that is held at a destination; at several it is shown at each.

    `contact` is whom to call about the channel; `more` says that the counts are bounded and there are more.
    `particulars`: what is known beyond the reason, such as the element that is missing.
    """

    entry: EntrySeq
    destination: str
    lanes: tuple[Count, ...]
    channel: str
    contact: str
    event: str
    control_id: str
    received_at: Time
    reason: str
    held_since: Annotated[Time | None, known_as("held_since", "since")]
    age_seconds: Count | None
    waiting: Behind
    more: bool
    particulars: tuple[str, ...]


class WaitingView(Answer, facts=True):
    """An entry that waits in a lane."""

    entry: EntrySeq
    event: str
    control_id: str
    channel: str
    received_at: Time
    state: State


class LaneView(HeldView, facts=True):
    """A held entry, with what waits behind it in lane order."""

    waits: tuple[WaitingView, ...]


class ListHeld(HeldFilter, Operation[list[HeldView]]):
    """List held entries, oldest first: why, since when, how much waits behind each, and whom to call."""

    name = "lanes.list"
    permission = Permission.METADATA

    limit: Limit = 200

    async def run(self, engine: Engine, _actor: Actor) -> list[HeldView]:
        """Return what is held."""
        names = {"reason": self.reason, "channel": self.channel, "destination": self.destination}
        rows = await asyncio.to_thread(partial(held, engine.files.data, since=self.since, limit=self.limit, **names))
        return [_held(engine, row) for row in rows]


class ShowLane(Operation[LaneView]):
    """Show what waits behind a held entry."""

    name = "lanes.show"
    permission = Permission.METADATA

    entry: EntryNumber
    destination: Word = Field("", description="The destination, if it is held at several.")
    limit: Limit = 200

    async def run(self, engine: Engine, _actor: Actor) -> LaneView:
        """Return it; UnknownEntryError where there is no such entry."""
        row, waits = await asyncio.to_thread(held_at, engine.files.data, self.entry, self.destination, self.limit)
        return LaneView.of(_held(engine, row), waits=waits)


def _held(engine: Engine, row: Held) -> HeldView:
    feed = engine.feeds.get(row.channel)
    return HeldView.of(
        row,
        contact=feed.channel.contact if feed else "",
        age_seconds=round((now() - row.since).total_seconds()) if row.since else None,
        waiting=row,
    )


LANES: Final = (ListHeld, ShowLane)

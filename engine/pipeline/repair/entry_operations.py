"""Operations on single entries, where they need mapping or destinations: the journal alone cannot judge a message."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from engine.config.channel import Channel, Mode
from engine.deliver.destination import FhirDestination
from engine.errors import ForbiddenMoveError, UsageError
from engine.fhir.plan import Identity
from engine.hl7.header import read_header
from engine.journal.entry import AckOutcome, NewEntry, State
from engine.journal.journal import Journal
from engine.journal.read.reading import Reader
from engine.journal.read.views import EntryView
from engine.journal.write.bulk_replay import standing
from engine.journal.write.entry_lookup import OperationRequest
from engine.pipeline.dispatch import Dispatch
from engine.pipeline.feed import Feed, Feeds
from engine.pipeline.inbound.entries import Arrival, entry_of, in_feed_order
from engine.pipeline.inbound.event_entries import event_entry, is_event
from engine.pipeline.inbound.judgement import Judgement, judge
from engine.pipeline.outbound.change_messages import ChangeMessages
from engine.receive.reply import Peer

# What was kept of these is only a part of a message, or none.
PARTIAL: Final = frozenset({"torn", "too-large", "no-header", "end-within-block"})
MOST_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class EntryOperations:
    """Operations on entries of a running engine, and what they share; `room` bounds how many ask servers at once.

    `changes` makes the messages of the events of FHIR servers. `other_forms`: of a number that a destination knows.
    """

    folder: Path
    journal: Journal
    feeds: Feeds
    dispatches: Mapping[str, Dispatch]
    clock: Callable[[], datetime]
    changes: ChangeMessages
    other_forms: Callable[[str, Identity], tuple[Identity, ...]]
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_AT_ONCE))

    async def entry(self, seq: int) -> EntryView:
        """Read an entry; UnknownEntryError where there is none, ForbiddenMoveError where its message is gone."""
        view = await asyncio.to_thread(_read, self.folder, seq)
        if not view.raw:
            raise ForbiddenMoveError(f"entry {seq} has no message any more: retention removed it")
        return view

    def feed(self, channel: str) -> Feed:
        """Return the feed of a channel; ForbiddenMoveError where it was removed."""
        feed = self.feeds.get(channel)
        if feed is None:
            raise ForbiddenMoveError(f"channel {channel} is not configured any more: configure it and reload first")
        return feed

    def live(self, channel: str) -> Feed:
        """Return the feed of a channel that delivers; ForbiddenMoveError where it is in shadow."""
        feed = self.feed(channel)
        if feed.channel.mode is Mode.SHADOW:
            raise ForbiddenMoveError(
                f"channel {channel} is in shadow: it delivers nothing; `--dry-run` shows what it would"
            )
        return feed

    def dispatch(self, name: str) -> Dispatch:
        """Return what delivers to a destination; UsageError where there is none of that name."""
        dispatch = self.dispatches.get(name)
        if dispatch is None:
            raise UsageError(f"there is no destination {name}: there are {', '.join(sorted(self.dispatches))}")
        return dispatch

    def server(self, name: str) -> FhirDestination:
        """Return a destination that is a FHIR server; UsageError where there is none of that name, or it is a relay."""
        server = self.dispatch(name).server
        if server is None:
            raise UsageError(f"{name} is a relay: it gets messages, and holds no records")
        return server

    def wake(self) -> None:
        """Tell every destination that there may be something new."""
        for dispatch in self.dispatches.values():
            dispatch.wake()

    def asked(self, by: str, *, force: bool = False) -> OperationRequest:
        """Return who asks, now."""
        return OperationRequest(by, self.clock(), force=force)

    async def replay(self, seq: int, destination: str, *, force: bool, by: str) -> int:
        """Deliver an entry again, or judge anew what the door refused; return at how many destinations.

        ForbiddenMoveError says why not: refused still, overtaken, under way, in shadow.
        """
        there = await self.journal.read(partial(standing, seq=seq))
        feed = self.live(there.channel)
        if destination:
            self.dispatch(destination)
        asked = self.asked(by, force=force)._replace(in_feed_order=in_feed_order(feed))
        if there.state == State.RECEIVED:
            named = (destination,) if destination else ()
            give, where_known = await self.given(seq, destination, feed)
            count = await self.journal.act(
                lambda context: context.operations.replay(seq, named, asked, give, where_known)
            )
        else:
            entry = judged_anew(await self.entry(seq), feed)
            count = await self.journal.act(lambda context: context.operations.admit(seq, entry, asked))
        self.wake()
        return count

    async def given(self, seq: int, destination: str, feed: Feed) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the destination if an entry may be given to it that was not before, or where it has a patient of it.

        An entry is delivered again where it went, whatever the filters of its channel say now; to another destination
        it goes only if they send such a message there today.
        """
        if destination not in feed.destinations:
            return (), ()
        if not feed.channel.filters:
            return (destination,), ()
        view = await self.entry(seq)
        _, entry = judge_bytes(view.raw, view, feed)
        found = (entry.destinations, entry.where_known) if entry is not None else ((), ())
        to, where_known = (tuple(name for name in names if name == destination) for names in found)
        return to, where_known

    async def release(self, seq: int, *, force: bool, by: str) -> int:
        """Let what is held of an entry be tried again; return at how many destinations."""
        self.live((await self.journal.read(partial(standing, seq=seq))).channel)
        asked = self.asked(by, force=force)
        count = await self.journal.act(lambda context: context.operations.release(seq, (), asked))
        self.wake()
        return count

    async def retry(self, seq: int, *, by: str) -> int:
        """Try at once what waits for its next try, or is held; return at how many destinations."""
        asked = self.asked(by)
        count = await self.journal.act(lambda context: context.operations.retry(seq, asked))
        self.wake()
        return count

    async def discard(self, seq: int, reason: str, *, by: str) -> int:
        """End what is unfinished of an entry for good; return how many others may run because of it."""
        count = await self.journal.act(lambda context: context.operations.discard(seq, reason, by=by))
        self.wake()
        return count


def judged_anew(view: EntryView, feed: Feed) -> NewEntry:
    """Return what the door would record of an entry today; ForbiddenMoveError where it would not take it in."""
    seq = view.row.seq
    if view.row.reason in PARTIAL:
        raise ForbiddenMoveError(f"entry {seq} is no whole message ({view.row.reason}): the sender must send it again")
    judged, entry = judge_bytes(view.raw, view, feed)
    if entry is None or judged.state is not State.RECEIVED:
        raise ForbiddenMoveError(f"entry {seq} would be {judged.state} again: {judged.reason}")
    return entry


def judge_bytes(raw: bytes, view: EntryView, feed: Feed) -> tuple[Judgement, NewEntry | None]:
    """Judge bytes in the place of an entry's; the entry is None where they have no header.

    Its own bytes keep the event that the journal has of them, as where they are delivered (`read_message`).
    """
    if is_event(feed.channel):
        entry = event_entry(raw, feed, Peer(view.peer, 0), view.row.received_at)
        return Judgement(entry.state, entry.reason), entry
    event = view.row.event if raw == view.raw else ""
    header = read_header(raw, event_from_evn=feed.channel.reads_evn(event), charset=feed.channel.charset)
    if header is None:
        return Judgement(State.REJECTED, "no-header"), None
    judged = judge(raw, header, feed.channel, feed.mapping)
    arrival = Arrival(raw, header, judged, Peer(view.peer, 0), view.row.received_at)
    return judged, entry_of(arrival, feed, b"", None, AckOutcome.NOT_OWED)


def check_message(seq: int, channel: Channel) -> None:
    """ForbiddenMoveError where what a channel takes in are no HL7 v2 messages."""
    if is_event(channel):
        raise ForbiddenMoveError(
            f"entry {seq} is an event of a FHIR server and no HL7 v2 message: change the resource there, which makes a "
            "new event, or replay the entry"
        )


def _read(folder: Path, seq: int) -> EntryView:
    with Reader(folder) as reader:
        return reader.show(seq)

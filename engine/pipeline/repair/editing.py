"""Editing an entry: other bytes in its place, judged as if they came in, recorded as an entry of their own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import orjson

from engine.errors import EditError, ForbiddenMoveError, MessageError
from engine.hl7.edit import FieldChange, edited, written
from engine.journal.entry import UNFINISHED, State
from engine.journal.read.views import EntryView
from engine.pipeline.feed import Feed
from engine.pipeline.inbound.judgement import read_message
from engine.pipeline.repair.dry_run import changes_of
from engine.pipeline.repair.entry_operations import EntryOperations, judge_bytes


@dataclass(frozen=True, slots=True, repr=False)
class EditResult:
    """The new entry and what differs; `original` is the state of the entry that was edited."""

    seq: int
    state: State
    changes: tuple[FieldChange, ...]
    original: State


def bytes_of(view: EntryView, feed: Feed, message: str, changes: Mapping[str, str]) -> bytes:
    """Return an entry's message as it is to be: as a whole, or with parts set anew; EditError says what is wrong."""
    if message:
        return written(message, feed.channel.charset)
    try:
        there = read_message(view.raw, feed.channel)
    except MessageError as error:
        raise EditError("the message cannot be read: give the whole message with --file") from error
    return edited(there, changes)


async def edit(
    operations: EntryOperations, seq: int, raw: bytes, *, by: str, force: bool = False, discard: str = ""
) -> EditResult:
    """Record other bytes in place of an entry's; with `discard`, why the original ends, if it is unfinished.

    ForbiddenMoveError: nothing differs, the door would refuse it, or something newer was applied without `force`.
    """
    view = await operations.entry(seq)
    feed = operations.live(view.row.channel)
    changes = changes_of(view.raw, raw, feed)
    if not changes:
        raise ForbiddenMoveError(f"nothing differs from entry {seq}: replay it instead")
    judged, entry = judge_bytes(raw, view, feed)
    if entry is None or judged.state is not State.RECEIVED:
        where = " ".join(place for finding in judged.findings for place in finding.locations)
        raise ForbiddenMoveError(f"the edited message would be {judged.state}: {judged.reason} {where}".rstrip())
    entry = replace(entry, received_at=operations.clock(), parent=seq, batch="")
    asked, noted = operations.asked(by, force=force), orjson.dumps([change._asdict() for change in changes])
    recorded = await operations.journal.act(lambda context: context.operations.edit(seq, entry, noted, asked, discard))
    operations.wake()
    ended = discard and view.row.state in UNFINISHED
    return EditResult(recorded.seq, recorded.state, changes, State.DISCARDED if ended else view.row.state)

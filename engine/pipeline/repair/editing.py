"""Editing an entry, and the dry run of a replay or an edit: what it would do at its destinations now."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import orjson

from engine.config.fhir_events import FhirEvents
from engine.config.relay import Relay
from engine.deliver.verdict import Failure, Verdict, VerdictKind
from engine.deliver.wire.dry_run import DryRun, ElementDifference
from engine.errors import (
    EditError,
    EventError,
    ForbiddenMoveError,
    MappingError,
    MessageError,
    UnreadServerError,
    UsageError,
)
from engine.fhir.plan import Plan
from engine.hl7.edit import FieldChange, differences, edited, written
from engine.hl7.finding import Finding
from engine.hl7.message import Message
from engine.journal.claim.claiming import by_release
from engine.journal.entry import UNFINISHED, Claimed, NewEntry, State
from engine.journal.read.views import EntryView
from engine.journal.write.entry_lookup import overtaken_at
from engine.mapping.compile import Mapping as CompiledMapping
from engine.pipeline.feed import Feed, writers_of
from engine.pipeline.inbound.judgement import read_message
from engine.pipeline.outbound.memory import DestinationMemory
from engine.pipeline.outbound.relaying import OutgoingMessage, message_of, relay_dry_run
from engine.pipeline.outbound.settling import held
from engine.pipeline.repair.entry_operations import EntryOperations, check_message, judge_bytes

# What a relay's edit changes: the message as it leaves, compared with how it came in.
MESSAGE: Final = "message"


@dataclass(frozen=True, slots=True, repr=False)
class EntryDryRun:
    """What a replay would do: refused at the door (`reason`, `findings`), or a dry run by destination.

    `changes` are those of an edit. `overtaken`: destinations where something newer was applied, so that it needs force.
    `relays`: those of the destinations that get the message itself.
    """

    changes: tuple[FieldChange, ...]
    reason: str
    findings: tuple[Finding, ...]
    by_destination: dict[str, DryRun]
    overtaken: frozenset[str]
    relays: frozenset[str] = frozenset()


async def dry_run(
    operations: EntryOperations,
    seq: int,
    destination: str = "",
    edited: bytes | None = None,
    *,
    release: bool = False,
) -> EntryDryRun:
    """Try an entry, or other bytes in its place, without a write; ForbiddenMoveError where there is nothing to try.

    If no destination is named, where the entry went, or where it would go that went nowhere, or other bytes than its
    own. `release`: what is held is let go, which decides what waits for a person's decision.
    """
    view = await operations.entry(seq)
    feed = operations.feed(view.row.channel)
    if edited is not None:
        check_message(seq, feed.channel)
    events = feed.channel.listen.fhir
    raw = view.raw if edited is None else edited
    judged, entry = judge_bytes(raw, view, feed)
    changes = changes_of(view.raw, raw, feed) if edited is not None else ()
    went = [one.destination for one in view.deliveries if edited is None and one.destination in feed.destinations]
    # What was taken in is delivered again, whatever a filter says of it now.
    refused = judged.state is not State.RECEIVED and not (went and judged.filter)
    if entry is None or refused or (judged.message is None and not judged.relayed and events is None):
        return EntryDryRun(changes, judged.reason, judged.findings, {}, frozenset())
    names = tuple(went) if went else await _would_go(operations, entry)
    if destination:
        names = (operations.dispatch(destination).name,)
    patients = entry.patients
    overtaken = await operations.journal.act(
        lambda context: overtaken_at(context.connection, context.sealing, seq, patients, names)
    )
    decided = {
        delivery.destination: by_release(delivery.reason, delivery.notes)
        for delivery in view.deliveries
        if release and delivery.state is State.HELD
    }
    event = view.row.event if edited is None else ""
    found: dict[str, DryRun] = {}
    for name in names:
        settings = operations.dispatch(name).settings
        if not isinstance(settings, Relay):
            found[name] = await _at(operations, feed, name, judged.message, decided.get(name, ()))
        elif events is not None:
            found[name] = await _of_event(operations, settings, feed, events, name, view)
        else:
            found[name] = _at_relay(settings, feed, name, raw, seq, event)
    relays = frozenset(name for name in found if operations.dispatch(name).server is None)
    return EntryDryRun(changes, "", (), found, overtaken, relays)


async def _would_go(operations: EntryOperations, entry: NewEntry) -> tuple[str, ...]:
    return (await operations.journal.act(lambda context: context.operations.lookup.reaching(entry))).destinations


def changes_of(before: bytes, after: bytes, feed: Feed) -> tuple[FieldChange, ...]:
    """Return what differs between two messages; MessageError where one cannot be read."""
    return differences(read_message(before, feed.channel), read_message(after, feed.channel))


async def _at(
    operations: EntryOperations, feed: Feed, name: str, message: Message | None, decided: tuple[str, ...]
) -> DryRun:
    plan = held("unreadable") if message is None else _plan(feed.mapping_at(name), message)
    if isinstance(plan, Verdict):
        return DryRun(plan)
    memory = DestinationMemory(name, operations.journal, operations.other_forms)
    async with operations.room:
        return await operations.server(name).dry_run(
            plan, memory, at=operations.clock(), channel=feed.channel, decided=decided
        )


def _at_relay(settings: Relay, feed: Feed, name: str, raw: bytes, seq: int, event: str) -> DryRun:
    try:
        message = message_of(raw, seq, event, feed, name)
        changes = changes_of(raw, message.raw, feed) if message.raw != raw else ()
    except (MappingError, MessageError) as error:
        return DryRun(held(error.reason if isinstance(error, MappingError) else "unreadable"))
    different = tuple(ElementDifference(MESSAGE, one.path, one.before, one.after) for one in changes)
    return replace(relay_dry_run(settings, message), differences=different)


async def _of_event(
    operations: EntryOperations, settings: Relay, feed: Feed, events: FhirEvents, name: str, view: EntryView
) -> DryRun:
    """Return what a relay would be sent of an event of a FHIR server now; the server is asked, as for a delivery."""
    relay = feed.channel.relay_of(name)
    if relay is None:
        raise UsageError(f"{name} gets nothing of channel {feed.channel.channel}")
    row = view.row
    under_way = {one.destination for one in view.deliveries if one.state in UNFINISHED}
    claimed = Claimed(
        row.seq, name, view.raw, row.channel, row.source, row.control_id, row.event, row.received_at,
        attempts_made=0, tries=0, open_intent=None, lanes=(), replay=name not in under_way, forced=False,
    )  # fmt: skip
    writers = writers_of(operations.feeds, events.server)
    try:
        async with operations.room:
            made = await operations.changes.message(claimed, relay, feed.outgoing[name], writers, operations.clock())
    except UnreadServerError as error:
        return DryRun(Verdict(VerdictKind.RETRY, str(error), error.codes, Failure.TRANSIENT, unasked=True))
    except (MappingError, EventError) as error:
        return DryRun(held(error.reason if isinstance(error, MappingError) else "unreadable"))
    if made.nothing:
        return DryRun(Verdict(VerdictKind.FILTERED, made.nothing, unasked=True))
    found = relay_dry_run(settings, OutgoingMessage(made.raw, made.control_id))
    return replace(found, verdict=found.verdict.noting(*made.notes))


def _plan(mapping: CompiledMapping, message: Message) -> Plan | Verdict:
    try:
        return mapping.plan(message)
    except MappingError as error:
        return held(error.reason)


@dataclass(frozen=True, slots=True, repr=False)
class EditResult:
    """The new entry and what differs; `original` is the state of the entry that was edited."""

    seq: int
    state: State
    changes: tuple[FieldChange, ...]
    original: State


def bytes_of(view: EntryView, feed: Feed, message: str, changes: Mapping[str, str]) -> bytes:
    """Return an entry's message as it is to be: as a whole, or with parts set anew; EditError says what is wrong."""
    check_message(view.row.seq, feed.channel)
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
    check_message(seq, feed.channel)
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

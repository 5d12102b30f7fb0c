"""Rehearsing an entry: what replaying it, or an edit of it, would do at its destinations now; nothing is written."""

from dataclasses import dataclass

from engine.deliver.dry_run import Rehearsal
from engine.deliver.verdict import Verdict
from engine.errors import MappingError
from engine.fhir.plan import Plan
from engine.hl7.edit import FieldChange, differences
from engine.hl7.finding import Finding
from engine.hl7.message import Message
from engine.journal.entry import State
from engine.journal.write.operations import overtaken_at
from engine.pipeline.feed import Feed
from engine.pipeline.inbound.judgement import read_message
from engine.pipeline.outbound.memory import DestinationMemory
from engine.pipeline.outbound.settling import held
from engine.pipeline.repair.entry_operations import Desk, judge_bytes


@dataclass(frozen=True, slots=True, repr=False)
class Rehearsed:
    """What a replay would do: refused at the door (`reason`, `findings`), or a rehearsal by destination.

    `changes` are those of an edit. `overtaken`: destinations where something newer was applied, so that it needs force.
    """

    changes: tuple[FieldChange, ...]
    reason: str
    findings: tuple[Finding, ...]
    told: dict[str, Rehearsal]
    overtaken: frozenset[str]


async def rehearse(desk: Desk, seq: int, destination: str = "", edited: bytes | None = None) -> Rehearsed:
    """Rehearse an entry, or other bytes in its place; ForbiddenMoveError where there is nothing to rehearse.

    At all destinations of its channel, if none is named.
    """
    view = await desk.entry(seq)
    feed = desk.feed(view.row.channel)
    raw = view.raw if edited is None else edited
    judged, entry = judge_bytes(raw, view, feed)
    changes = changes_of(view.raw, raw, feed) if edited is not None else ()
    if entry is None or judged.message is None or judged.state is not State.RECEIVED:
        return Rehearsed(changes, judged.reason, judged.findings, {}, frozenset())
    names = (desk.dispatch(destination).name,) if destination else feed.destinations
    patients = entry.patients
    overtaken = await desk.journal.act(
        lambda rooms: overtaken_at(rooms.connection, rooms.sealing, seq, patients, names)
    )
    told = {name: await _at(desk, feed, name, judged.message) for name in names}
    return Rehearsed(changes, "", (), told, overtaken)


def changes_of(before: bytes, after: bytes, feed: Feed) -> tuple[FieldChange, ...]:
    """Return what differs between two messages; MessageError where one cannot be read."""
    return differences(read_message(before, feed.channel), read_message(after, feed.channel))


async def _at(desk: Desk, feed: Feed, name: str, message: Message) -> Rehearsal:
    plan = _plan(feed, message)
    if isinstance(plan, Verdict):
        return Rehearsal(plan)
    memory = DestinationMemory(name, desk.journal)
    async with desk.room:
        return await desk.dispatch(name).destination.rehearse(plan, memory, at=desk.clock(), channel=feed.channel)


def _plan(feed: Feed, message: Message) -> Plan | Verdict:
    try:
        return feed.mapping.plan(message)
    except MappingError as error:
        return held(error.reason)

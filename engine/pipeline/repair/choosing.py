"""Choosing the record of an ambiguous patient, and what destinations hold of a patient now."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from engine.deliver.destination import FhirDestination
from engine.deliver.patient.chart import Alike, PatientChart
from engine.deliver.patient.question import ChoiceRefusal, PatientQuestion
from engine.deliver.stored import ServerResource
from engine.deliver.verdict import VerdictKind
from engine.errors import DeliveryError, ForbiddenMoveError, MappingError, MessageError, UsageError
from engine.fhir.plan import Identity, Plan
from engine.journal.entry import State
from engine.journal.read.views import DeliveryView, EntryView
from engine.journal.state.memory import choose
from engine.journal.write.job import WriterContext
from engine.pipeline.inbound.judgement import read_message
from engine.pipeline.outbound.memory import DestinationMemory
from engine.pipeline.repair.entry_operations import EntryOperations

# A person who waits at a page sees the rest without a destination that is slower.
SECONDS: Final = 8.0
SLOW: Final = "timeout"

T = TypeVar("T")


async def charts(operations: EntryOperations, identities: Sequence[Identity]) -> dict[str, PatientChart | str]:
    """Return what each destination holds under identifiers, or the reason why it could not be read."""
    return await _each(operations, lambda server, memory: server.chart(identities, memory, at=operations.clock()))


async def alike(operations: EntryOperations, identities: Sequence[Identity]) -> dict[str, Alike | str]:
    """Return the patient's record and its possible duplicates at each destination, or why it could not be read."""
    return await _each(operations, lambda server, memory: server.alike(identities, memory, at=operations.clock()))


async def records(
    operations: EntryOperations, wanted: Mapping[str, Sequence[str]], seconds: float = SECONDS
) -> dict[str, dict[str, ServerResource] | str]:
    """Return Patients by id at destinations, or why one could not be read; one without a file is left out."""

    async def at(name: str, ids: Sequence[str]) -> dict[str, ServerResource] | str:
        return await _at(
            operations, name, lambda server, memory: server.records(ids, memory, at=operations.clock()), seconds
        )

    here = {name: ids for name, ids in wanted.items() if name in operations.dispatches}
    return dict(zip(here, await asyncio.gather(*(at(name, ids) for name, ids in here.items())), strict=True))


async def _each(
    operations: EntryOperations, ask: Callable[[FhirDestination, DestinationMemory], Awaitable[T]]
) -> dict[str, T | str]:
    names = sorted(name for name, dispatch in operations.dispatches.items() if dispatch.server is not None)
    return dict(zip(names, await asyncio.gather(*(_at(operations, name, ask) for name in names)), strict=True))


async def _at(
    operations: EntryOperations,
    name: str,
    ask: Callable[[FhirDestination, DestinationMemory], Awaitable[T]],
    seconds: float = SECONDS,
) -> T | str:
    memory = DestinationMemory(name, operations.journal, operations.other_forms)
    try:
        async with asyncio.timeout(seconds), operations.room:
            return await ask(operations.server(name), memory)
    except DeliveryError as error:
        return str(error)
    except TimeoutError:
        return SLOW


# Holds that a choice among records of the server can end.
CHOICES: Final = frozenset(
    {"ambiguous-identity", "identity-conflict", "multiple-matches", "demographic-match", "duplicate-after-create"}
)
REFUSALS: Final = {
    ChoiceRefusal.ABSENT: "the server has no Patient {named}",
    ChoiceRefusal.MERGED_AWAY: "Patient {named} was merged into another record: choose that one",
    ChoiceRefusal.UNRELATED: "Patient {named} neither carries one of the numbers nor is one of the matches",
}


@dataclass(frozen=True, slots=True, repr=False)
class ChoiceRequest:
    """The choice that an entry held at a destination waits for, and the reason of the hold.

    `settled`: at most one record is left to choose from, and a release would be delivered.
    """

    destination: str
    reason: str
    question: PatientQuestion
    settled: bool = False


async def ask(operations: EntryOperations, seq: int, destination: str = "", named: str = "") -> ChoiceRequest:
    """Return the question behind a hold; ForbiddenMoveError where nothing is held that a choice can end.

    `named`: the record that somebody chose, to be checked.
    """
    view = await operations.entry(seq)
    held = _held(view, destination)
    plan = _plan(operations, view, held.destination)
    memory = DestinationMemory(held.destination, operations.journal, operations.other_forms)
    async with operations.room:
        server = operations.server(held.destination)
        question = await server.question(plan, memory, at=operations.clock(), named=named)
        if named or question.left > 1:
            return ChoiceRequest(held.destination, held.reason, question)
        # Other than several records can hold it (a visit, another registration): only a dry run shows that none does.
        channel = operations.live(view.row.channel).channel
        dry_run = await server.dry_run(plan, memory, at=operations.clock(), channel=channel)
    settled = dry_run.verdict.kind is VerdictKind.DELIVERED
    return ChoiceRequest(held.destination, held.reason, question, settled)


async def resolve(operations: EntryOperations, seq: int, destination: str, named: str, *, by: str) -> int:
    """Keep that an entry's patient is this record of the server, and release the entry; return at how many places.

    ForbiddenMoveError: the record is not there, was merged away, or is no match; nothing is held that a choice ends.
    """
    asked = await ask(operations, seq, destination, named)
    refusal = asked.question.refusal
    if refusal:
        raise ForbiddenMoveError(REFUSALS[refusal].format(named=named))
    who = operations.asked(by)

    def carry_out(context: WriterContext) -> int:
        count = context.operations.release(seq, (asked.destination,), who)
        choose(context.connection, asked.destination, asked.question.identities, named, context.sealing)
        return count

    count = await operations.journal.act(carry_out)
    operations.wake()
    return count


def _held(view: EntryView, destination: str) -> DeliveryView:
    held = [delivery for delivery in view.deliveries if delivery.state is State.HELD and delivery.reason in CHOICES]
    found = [one for one in held if one.destination == (destination or one.destination)]
    if not found:
        reasons = ", ".join(sorted(CHOICES))
        raise ForbiddenMoveError(f"entry {view.row.seq} is not held for a choice among records ({reasons})")
    if len(found) > 1:
        raise UsageError(f"name one of its destinations: {', '.join(one.destination for one in found)}")
    return found[0]


def _plan(operations: EntryOperations, view: EntryView, destination: str) -> Plan:
    feed = operations.live(view.row.channel)
    try:
        return feed.mapping_at(destination).plan(read_message(view.raw, feed.channel, view.row.event))
    except (MappingError, MessageError) as error:
        raise ForbiddenMoveError(f"entry {view.row.seq} cannot be mapped any more: see `mappings explain`") from error

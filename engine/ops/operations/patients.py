"""Operations on patients: find one by a number, show everything about one, name those whom entries are about."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from engine.clock import now
from engine.errors import ForbiddenMoveError, UsageError
from engine.fhir.plan import Identity
from engine.journal.entry import State
from engine.journal.read.holding import Held
from engine.journal.read.patients import UNDER_WAY, PatientNumber, Progress, ProgressAt, patients
from engine.journal.read.patients import Patient as Found
from engine.journal.read.persons import find_persons, kept
from engine.journal.read.reading import Reader
from engine.journal.read.wording import Parts
from engine.ops.access.actor import Actor, Permission
from engine.ops.operations.fields import Count, EntryNumber, EntryNumbers, Limit, Patient, Text
from engine.ops.operations.operation import Operation, Reading, ReadingMessages
from engine.ops.views.answer import time_of
from engine.ops.views.entry import HeldAbout, NamedEntry, Row
from engine.ops.views.patient import (
    LEAST,
    AtDestination,
    FoundPatient,
    FoundPatients,
    HeldOf,
    MergeView,
    NumberAt,
    NumberView,
    Other,
    PatientView,
    SearchedView,
    held_at,
    refused_at,
)
from engine.ops.views.segments import Named, named
from engine.ops.views.verdict import HeldFact, LastFact, PatientFacts, PlaceFact, verdict
from engine.ops.views.view import involved
from engine.pipeline.engine import Engine
from engine.pipeline.repair.choosing import charts
from engine.pipeline.repair.entry_operations import judge_bytes

MOST_NAMED: Final = 100
# How many numbers one search of a destination has: the length of a URL is bounded.
MOST_ASKED: Final = 20
# How many of a sealed journal's messages are read to learn the numbers that it keeps as marks.
MOST_READ: Final = 20

Lane = Annotated[Count, Field(description="Which patient, where the entry names several: the lane, as it is shown.")]
PatientNamed = Annotated[Patient, Field(description="The patient's number: value, or system|value.")]


class FindPatients(Operation[list[Other]]):
    """Find the patients who have a number, each with the newest entry that names them."""

    name = "patients.find"
    permission = Permission.PHI

    patient: PatientNamed = ""

    async def run(self, engine: Engine, _actor: Actor) -> list[Other]:
        """Return them; nothing where nobody has it."""
        if not self.patient:
            raise UsageError("name the patient by a number: value, or system|value")
        return await asyncio.to_thread(_found, engine.files.data, self.patient, engine.charsets())


class SearchPatients(ReadingMessages[FoundPatients]):
    """Find patients by parts of their names, numbers and visit numbers, those of the newest messages first."""

    name = "patients.search"
    permission = Permission.PHI

    text: Text = Field("", description="Parts of names and numbers, all of which must match; one has 3 characters.")
    limit: Limit = 20

    def read(self, folder: Path, charsets: Mapping[str, str] | None = None) -> FoundPatients:
        """Return them, without names; UsageError where no part has 3 characters."""
        if not Parts(self.text):
            raise UsageError(f"type at least {LEAST} characters of a name or number")
        found = find_persons(folder, self.text, charsets or {}, self.limit)
        patients = tuple(FoundPatient(lane=lane, entry=entry) for lane, entry in found.persons)
        return FoundPatients.of(found, patients=patients)


class CountSearched(Reading[SearchedView]):
    """Count the messages that a search can find, and say since when they are kept."""

    name = "messages.span"
    permission = Permission.METADATA

    def read(self, folder: Path) -> SearchedView:
        """Return it."""
        messages, oldest_at = kept(folder)
        return SearchedView(messages=messages, oldest_at=time_of(oldest_at))


class ShowPatient(Operation[PatientView]):
    """Show everything about the patient of an entry: records at destinations now, numbers, merges, held, messages."""

    name = "patients.show"
    permission = Permission.PHI

    entry: EntryNumber
    lane: Lane = 0
    before: Count = Field(0, description="Only messages with a smaller number: the next page.")
    limit: Limit = 50

    async def run(self, engine: Engine, _actor: Actor) -> PatientView:
        """Return it; UsageError where the entry names nobody, or nobody of that lane."""
        folder, names, charsets = engine.files.data, sorted(engine.dispatches), engine.charsets()
        found, others, progress, fronts = await asyncio.to_thread(self._read, folder, names, charsets)
        who = await asyncio.to_thread(_newest, folder, found, charsets)
        keys = await keys_of(engine, found)
        identities = {stored: identity_of(key) for stored, key in keys.items()}
        known = await asyncio.to_thread(_known, folder, names, tuple(identities.values()))
        asked = tuple(identities.values())[-MOST_ASKED:]
        there = await charts(engine.entry_operations, asked) if asked else {}
        at_places = tuple(
            refused_at(name, one) if isinstance(one, str) else held_at(name, one) for name, one in there.items()
        )
        return PatientView(
            entry=self.entry,
            lane=found.lane,
            name=who.name,
            born=who.born,
            verdict=verdict(_facts(engine, found, progress, fronts, at_places)),
            numbers=tuple(_number(number, identities.get(number.stored), known) for number in found.numbers),
            crowded=found.more,
            merges=tuple(
                MergeView.of(merge, source=keys.get(merge.source, ""), survivor=keys.get(merge.survivor, ""))
                for merge in found.merges
            ),
            held=tuple(map(HeldOf.of, found.held)),
            destinations=at_places,
            others=others,
            messages=tuple(map(Row.of, found.rows)),
            before=found.before,
        )

    def _read(
        self, folder: Path, destinations: Sequence[str], charsets: Mapping[str, str]
    ) -> tuple[Found, tuple[Other, ...], Progress, list[Held]]:
        with patients(folder) as reader:
            lanes = reader.lanes_of(self.entry)
            if not lanes:
                raise UsageError(f"entry {self.entry} names no patient")
            lane = self.lane or lanes[0]
            if lane not in lanes:
                raise UsageError(f"entry {self.entry} names nobody of lane {lane}: {', '.join(map(str, lanes))}")
            others = [reader.show(one, (), 1) for one in lanes if one != lane]
            found = reader.show(lane, destinations, self.limit, self.before)
            progress = reader.progress(lane)
            fronts = [reader.held_here(place.front, place.destination) for place in progress.places if place.front]
        others_named = tuple(_other(folder, other, charsets) for other in others)
        return found, others_named, progress, [front for front in fronts if front]


def _facts(
    engine: Engine, found: Found, progress: Progress, fronts: Sequence[Held], there: Sequence[AtDestination]
) -> PatientFacts:
    """Return what the verdict is made of."""
    visits = {row.seq: row.visit for row in found.rows}
    held = {(one.seq, one.destination): one for one in (*found.held, *fronts)}
    has_record = {at.destination: bool(at.records) for at in there if not at.refused}
    return PatientFacts(
        messages=progress.messages,
        now=now(),
        last=_last(progress),
        held=tuple(
            HeldFact(
                one.seq, one.destination, one.reason, one.since, one.entries, one.particulars, visits.get(one.seq, "")
            )
            for one in sorted(held.values(), key=lambda one: -one.entries)
        ),
        places=tuple(_place(engine, place, has_record.get(place.destination)) for place in progress.places),
        more=progress.more,
        at_door=progress.at_door,
    )


def _last(progress: Progress) -> LastFact | None:
    row = progress.last
    if row is None:
        return None
    at = next((place.destination for place in progress.places if State.REJECTED in place.states), "")
    return LastFact(row.seq, row.state, row.reason, row.received_at, row.ack_code, "" if row.ack_code != "AA" else at)


def _place(engine: Engine, place: ProgressAt, has_record: bool | None) -> PlaceFact:
    """Return how far a patient's messages are at a destination; one that is gone from the files takes nothing."""
    dispatch, pause = engine.dispatches.get(place.destination), engine.pauses.of(place.destination)
    reason = pause.reason if pause else dispatch.health.failing or dispatch.health.cause if dispatch else ""
    return PlaceFact(
        place.destination,
        delivered=place.states.get(State.DELIVERED, 0),
        under_way=sum(place.states.get(state, 0) for state in UNDER_WAY),
        rejected=place.states.get(State.REJECTED, 0),
        discarded=place.states.get(State.DISCARDED, 0),
        filtered=place.states.get(State.FILTERED, 0),
        oldest_at=place.oldest_at,
        retry=place.retry,
        last_at=place.settled_at,
        state=dispatch.condition if dispatch else "removed",
        reason=reason,
        has_record=has_record,
    )


class NameEntries(ReadingMessages[list[NamedEntry]]):
    """Say whom entries are about, in the words of their messages; of what is held also the records that it is about."""

    name = "messages.named"
    permission = Permission.PHI
    lists = True

    entries: EntryNumbers

    def read(self, folder: Path, charsets: Mapping[str, str] | None = None) -> list[NamedEntry]:
        """Return it in the order of the numbers, for at most 100; an entry that is not there is left out."""
        if len(self.entries) > MOST_NAMED:
            raise UsageError(f"name at most {MOST_NAMED} entries at once")
        with Reader(folder) as reader:
            channels = reader.channels(self.entries)
            sets = {seq: (charsets or {}).get(channel, "") for seq, channel in channels.items()}
            held: dict[int, list[HeldAbout]] = {}
            for seq, name, plan in reader.held_plans(self.entries):
                held.setdefault(seq, []).append(HeldAbout(destination=name, records=tuple(involved(plan))))
            return [
                NamedEntry.of(named(seq, reader.raw(seq), sets.get(seq, "")), held=tuple(held.get(seq, ())))
                for seq in self.entries
            ]


def _found(folder: Path, patient: str, charsets: Mapping[str, str]) -> list[Other]:
    with patients(folder) as reader:
        found = [reader.show(lane, (), 1) for lane in reader.lanes_named(patient)]
    return [_other(folder, one, charsets) for one in found if one.rows]


def _other(folder: Path, found: Found, charsets: Mapping[str, str]) -> Other:
    who = _newest(folder, found, charsets)
    return Other(lane=found.lane, entry=who.entry, name=who.name, numbers=who.numbers)


def _newest(folder: Path, found: Found, charsets: Mapping[str, str]) -> Named:
    """Return whom the newest message that has a name is about."""
    who = [Named(entry=0, name="", numbers=(), born="")]
    with Reader(folder) as reader:
        for row in found.rows[:MOST_READ]:
            who.append(named(row.seq, reader.raw(row.seq), charsets.get(row.channel, "")))
            if who[-1].name:
                return who[-1]
    return who[min(1, len(who) - 1)]


def _known(folder: Path, destinations: Sequence[str], identities: Sequence[Identity]) -> dict[Identity, list[NumberAt]]:
    found: dict[Identity, list[NumberAt]] = {identity: [] for identity in identities}
    with patients(folder) as reader:
        for name in destinations:
            for one in reader.known(name, identities):
                at = NumberAt.of(one, destination=name, patient=one.logical_id)
                found[Identity(one.system, one.value)].append(at)
    return found


def _number(one: PatientNumber, identity: Identity | None, known: Mapping[Identity, Sequence[NumberAt]]) -> NumberView:
    system, value = identity or ("", "")
    return NumberView.of(one, system=system, value=value, at=tuple(known.get(identity, ())) if identity else ())


def identity_of(key: str) -> Identity:
    """Return the identity of a lane's key (`system|value`)."""
    system, _, value = key.partition("|")
    return Identity(system, value)


async def keys_of(engine: Engine, found: Found) -> dict[str, str]:
    """Return the numbers by what they are stored as; of a sealed journal those that the newest messages name."""
    keys = {number.stored: number.key for number in found.numbers if number.key}
    if len(keys) == len(found.numbers):
        return keys
    named_there: set[str] = set()
    for row in found.rows[:MOST_READ]:
        feed = engine.feeds.get(row.channel)
        with suppress(ForbiddenMoveError):
            view = await engine.entry_operations.entry(row.seq)
            entry = judge_bytes(view.raw, view, feed)[1] if feed else None
            named_there |= {key for group in (entry.patients if entry else ()) for key in group}
    wanted = {number.stored for number in found.numbers}
    with patients(engine.files.data) as reader:
        opened = {reader.stored(key): key for key in sorted(named_there)}
    return keys | {stored: key for stored, key in opened.items() if stored in wanted}


PATIENTS: Final = (FindPatients, SearchPatients, CountSearched, ShowPatient, NameEntries)

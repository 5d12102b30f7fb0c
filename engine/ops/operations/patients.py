"""Operations on patients: find one by a number, show everything about one, name those whom entries are about."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from engine.errors import ForbiddenMoveError, UsageError
from engine.fhir.plan import Identity
from engine.journal.read.patients import Patient as Found
from engine.journal.read.patients import PatientNumber, patients
from engine.journal.read.reading import Reader
from engine.ops.access.actor import Actor, Permission
from engine.ops.operations.fields import Count, EntryNumber, EntryNumbers, Limit, Patient
from engine.ops.operations.operation import Operation, ReadingMessages
from engine.ops.views.entry import HeldAbout, NamedEntry, Row
from engine.ops.views.patient import HeldOf, MergeView, NumberAt, NumberView, Other, PatientView, held_at, refused_at
from engine.ops.views.segments import Named, named
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
        found, others = await asyncio.to_thread(self._read, folder, names, charsets)
        who = await asyncio.to_thread(_newest, folder, found, charsets)
        keys = await keys_of(engine, found)
        identities = {stored: identity_of(key) for stored, key in keys.items()}
        known = await asyncio.to_thread(_known, folder, names, tuple(identities.values()))
        asked = tuple(identities.values())[-MOST_ASKED:]
        there = await charts(engine.entry_operations, asked) if asked else {}
        return PatientView(
            entry=self.entry,
            lane=found.lane,
            name=who.name,
            born=who.born,
            numbers=tuple(_number(number, identities.get(number.stored), known) for number in found.numbers),
            crowded=found.more,
            merges=tuple(
                MergeView.of(merge, source=keys.get(merge.source, ""), survivor=keys.get(merge.survivor, ""))
                for merge in found.merges
            ),
            held=tuple(map(HeldOf.of, found.held)),
            destinations=tuple(
                refused_at(name, one) if isinstance(one, str) else held_at(name, one) for name, one in there.items()
            ),
            others=others,
            messages=tuple(map(Row.of, found.rows)),
            before=found.before,
        )

    def _read(
        self, folder: Path, destinations: Sequence[str], charsets: Mapping[str, str]
    ) -> tuple[Found, tuple[Other, ...]]:
        with patients(folder) as reader:
            lanes = reader.lanes_of(self.entry)
            if not lanes:
                raise UsageError(f"entry {self.entry} names no patient")
            lane = self.lane or lanes[0]
            if lane not in lanes:
                raise UsageError(f"entry {self.entry} names nobody of lane {lane}: {', '.join(map(str, lanes))}")
            others = [reader.show(one, (), 1) for one in lanes if one != lane]
            found = reader.show(lane, destinations, self.limit, self.before)
        return found, tuple(_other(folder, other, charsets) for other in others)


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


PATIENTS: Final = (FindPatients, ShowPatient, NameEntries)

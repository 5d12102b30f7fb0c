"""Operations on possible duplicates: list pairs by what was decided, compare one, and decide; the trail keeps it."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from engine.clock import now
from engine.errors import UsageError
from engine.journal.access.audited import Decision, decisions
from engine.journal.read.duplicates import POSSIBLE, NotedPair, noted_pairs
from engine.journal.read.patients import Patient, patients
from engine.journal.read.reading import Reader
from engine.journal.read.views import EntryRow, Filters
from engine.ops.access.actor import Actor, Permission
from engine.ops.audit.trail import Audited
from engine.ops.operations.fields import Count, EntryNumber, EntryNumbers, Reason
from engine.ops.operations.filters import PageOf
from engine.ops.operations.operation import Operation, Reading
from engine.ops.operations.patients import MOST_NAMED, MOST_READ, identity_of, keys_of
from engine.ops.views.answer import Answer
from engine.ops.views.answer import Count as Number
from engine.ops.views.duplicate import (
    NEW,
    Choice,
    Duplicate,
    DuplicatePage,
    Pair,
    PairAt,
    PairStatus,
    RecordNamed,
    alike_at,
    duplicate,
    pair,
    record_named,
    records_at,
)
from engine.ops.views.view import USUAL_ROWS
from engine.pipeline.engine import Engine
from engine.pipeline.repair.choosing import alike, records

DECIDE: Final = "duplicates.decide"
MOST_LOOKED_THROUGH: Final = 2_000
AT_ONCE: Final = 200
MOST_RECORDS: Final = 50
# A list is shown without the names that a destination does not say in this time.
LIST_SECONDS: Final = 3.0
ALL: Final = "all"
SHOWN: Final = (*PairStatus, ALL)


def _shown(value: object) -> str:
    if value not in SHOWN:
        raise UsageError(f"--show is one of {', '.join(SHOWN)}")
    return str(value)


def _choice(value: object) -> str:
    if value not in list(Choice):
        raise UsageError(f"decide one of {', '.join(Choice)}")
    return str(value)


Show = Annotated[
    str,
    BeforeValidator(_shown),
    Audited.VALUE,
    Field(
        description="open: nothing decided, noted in the last 30 days; older: open for longer; sent: with the MPI "
        "team; closed: same, different, done, merged, linked or unlinked; or all."
    ),
]
Decided = Annotated[
    str,
    BeforeValidator(_choice),
    Audited.VALUE,
    Field(description="same, different, sent (to the MPI team) or done."),
]
PairNumber = Annotated[Count, Field(description="Which pair, where the entry noted several, as the list shows it.")]


class NewPairs(Answer, facts=True):
    """How many pairs are open that were noted in the last 30 days; `more`: at least as many."""

    count: Number
    more: bool


class ListDuplicates(PageOf, Reading[DuplicatePage]):
    """List pairs of patients who may be one person, newest first, with what was decided."""

    name = "duplicates.list"
    permission = Permission.METADATA

    show: Show = PairStatus.OPEN.value

    def read(self, folder: Path) -> DuplicatePage:
        """Return a page; it looks through 2,000 entries at most, and `before` continues there."""
        limit, before = self.limit or USUAL_ROWS, self.before or None
        found: list[Duplicate] = []
        at, left = now(), MOST_LOOKED_THROUGH // AT_ONCE
        with Reader(folder) as reader:
            while left and len(found) <= limit:
                page = reader.page(Filters(outcome=POSSIBLE), AT_ONCE, before)
                found += [one for one in _pairs(folder, page.rows, at) if self.show in {ALL, one.status}]
                before, left = page.before, left - 1 if page.before else 0
        new = _count_new(folder, at)
        shown = _whole_entries(found, limit)
        if len(shown) < len(found):
            before = shown[-1].entry
        return DuplicatePage(pairs=tuple(shown), before=before, new=new.count, more_new=new.more)


class CountDuplicates(Reading[NewPairs]):
    """Count the pairs that are open and were noted in the last 30 days."""

    name = "duplicates.count"
    permission = Permission.METADATA

    def read(self, folder: Path) -> NewPairs:
        """Return the count; of at most the newest 2,000 entries."""
        return _count_new(folder, now())


class NameRecords(Operation[list[RecordNamed]]):
    """Say whom those records of pairs are about that no message names, as the destinations have them now."""

    name = "duplicates.records"
    permission = Permission.PHI

    entries: EntryNumbers

    async def run(self, engine: Engine, _actor: Actor) -> list[RecordNamed]:
        """Return them for the pairs of at most 100 entries, 50 records at most; a silent destination is left out."""
        if len(self.entries) > MOST_NAMED:
            raise UsageError(f"name at most {MOST_NAMED} entries at once")
        noted = await asyncio.to_thread(noted_pairs, engine.files.data, self.entries)
        wanted: dict[str, list[str]] = {}
        unnamed = dict.fromkeys(one for pairs in noted.values() for pair in pairs for one in _unnamed(pair))
        for destination, logical_id in list(unnamed)[:MOST_RECORDS]:
            wanted.setdefault(destination, []).append(logical_id)
        found = await records(engine.entry_operations, wanted, LIST_SECONDS)
        return [
            record_named(name, one)
            for name, there in found.items()
            if not isinstance(there, str)
            for one in there.values()
        ]


class CompareDuplicate(Operation[Pair]):
    """Compare the two patients of a pair: their records at each destination side by side, as of now."""

    name = "duplicates.show"
    permission = Permission.PHI

    entry: EntryNumber
    number: PairNumber = 0

    async def run(self, engine: Engine, _actor: Actor) -> Pair:
        """Return them; UsageError for an entry that bears no such note, or fewer pairs."""
        row, pairs = await asyncio.to_thread(_about, engine.files.data, self.entry)
        one = _numbered(self.entry, pairs, self.number or 1)
        decision = (await asyncio.to_thread(_decisions, engine.files.data, [one]))[0]
        return pair(row, one, len(pairs), decision, await self._there(engine, one), now())

    async def _there(self, engine: Engine, one: NotedPair) -> list[PairAt]:
        """Return the records of a pair, or of the same demographics where its note names none."""
        named = [place for place in one.places if place.that]
        if named:
            wanted = {place.destination: (place.this, place.that) for place in named}
            found = await records(engine.entry_operations, wanted)
            return [records_at(place, found[place.destination]) for place in named if place.destination in found]
        patient = await asyncio.to_thread(_patient, engine.files.data, self.entry)
        identities = tuple(map(identity_of, (await keys_of(engine, patient)).values()))
        there = await alike(engine.entry_operations, identities) if identities else {}
        return [alike_at(name, each) for name, each in there.items()]


class DecidedView(Answer):
    """What was decided of an entry, and by whom."""

    entry: Number
    decision: str
    by: str


class DecideDuplicate(Operation[DecidedView]):
    """Decide whether the patients of a pair are the same person; the audit trail keeps it, and nothing is merged."""

    name = DECIDE
    permission = Permission.OPERATE

    entry: EntryNumber
    decision: Decided
    number: PairNumber = 0
    reason: Reason = ""

    async def run(self, engine: Engine, actor: Actor) -> DecidedView:
        """Return what was decided, of all pairs of the entry for number 0; UsageError for one without such a note."""
        _row, pairs = await asyncio.to_thread(_about, engine.files.data, self.entry)
        if self.number:
            _numbered(self.entry, pairs, self.number)
        return DecidedView(entry=self.entry, decision=self.decision, by=actor.name)


def _pairs(folder: Path, rows: Sequence[EntryRow], at: datetime) -> list[Duplicate]:
    """Return the pairs of entries, each with the newest entry that noted it."""
    noted = noted_pairs(folder, [row.seq for row in rows])
    found = [(row, one) for row in rows for one in noted.get(row.seq, ()) if one.noted[0][0] == row.seq]
    decided = _decisions(folder, [one for _, one in found])
    return [duplicate(row, one, what, at) for (row, one), what in zip(found, decided, strict=True)]


def _whole_entries(found: Sequence[Duplicate], limit: int) -> Sequence[Duplicate]:
    """Return the first pairs, all of an entry or none, as the next page begins below an entry; one entry at least."""
    if len(found) <= limit:
        return found
    cut = found[limit].entry
    return [one for one in found if one.entry > cut] or [one for one in found if one.entry == cut]


def _count_new(folder: Path, at: datetime) -> NewPairs:
    with Reader(folder) as reader:
        page = reader.page(Filters(outcome=POSSIBLE, since=at - NEW), MOST_LOOKED_THROUGH)
    count = sum(1 for one in _pairs(folder, page.rows, at) if one.status is PairStatus.OPEN)
    return NewPairs(count=count, more=page.before is not None)


def _decisions(folder: Path, pairs: Sequence[NotedPair]) -> list[Decision | None]:
    """Return the newest decision of each pair, of any entry that noted it."""
    entries = sorted({entry for one in pairs for entry, _ in one.noted})
    known = decisions(folder, DECIDE, entries)
    return [_newest(one, known) for one in pairs]


def _newest(one: NotedPair, known: Mapping[tuple[int, int], Decision]) -> Decision | None:
    keys = {key for entry, number in one.noted for key in ((entry, number), (entry, 0))}
    return max((known[key] for key in keys if key in known), key=lambda decision: decision.at, default=None)


def _unnamed(one: NotedPair) -> Iterator[tuple[str, str]]:
    """Yield destination and id of the records of a pair whose patient no message names."""
    place = one.places[0]
    yield from (
        (place.destination, record)
        for record, entry in ((place.this, one.this), (place.that, one.that))
        if record and not entry
    )


def _about(folder: Path, entry: int) -> tuple[EntryRow, tuple[NotedPair, ...]]:
    """Return an entry and its pairs; UsageError for one without such a note, UnknownEntryError where there is none."""
    with Reader(folder) as reader:
        row = reader.show(entry).row
    found = noted_pairs(folder, [entry])
    if entry not in found:
        raise UsageError(f"entry {entry} made no possible duplicate: `duplicates list` shows those that did")
    return row, found[entry]


def _numbered(entry: int, pairs: Sequence[NotedPair], number: int) -> NotedPair:
    if number > len(pairs):
        raise UsageError(f"entry {entry} has no pair {number}: it noted {len(pairs)}")
    return pairs[number - 1]


def _patient(folder: Path, entry: int) -> Patient:
    with patients(folder) as reader:
        return reader.show(reader.lanes_of(entry)[0], (), MOST_READ)


DUPLICATES: Final = (ListDuplicates, CountDuplicates, NameRecords, CompareDuplicate, DecideDuplicate)

"""Possible duplicates as people see them: pairs of patients with what was decided, and both records of a pair."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from engine.deliver.patient.chart import Alike
from engine.deliver.stored import ServerResource
from engine.fhir.patient import links, replaced_by
from engine.journal.access.audited import Decision
from engine.journal.read.duplicates import NotedPair, PairEnd, PairEnding, PairPlace
from engine.journal.read.views import EntryRow
from engine.ops.views.answer import Answer, Count, Time, moment_text
from engine.ops.views.entry import Row as RowView
from engine.ops.views.entry import RowFacts
from engine.ops.views.patient import Record, record
from engine.ops.views.view import row_facts

# An open pair that was noted longer ago is older work: it is listed under a filter and not counted as new.
NEW: Final = timedelta(days=30)
SEE_ALSO: Final = "seealso"


class Choice(StrEnum):
    """What may be decided of a possible duplicate."""

    SAME = "same"
    DIFFERENT = "different"
    SENT = "sent"
    DONE = "done"


class PairStatus(StrEnum):
    """How far a pair is: open and new, open for longer, with the MPI team, or closed."""

    OPEN = "open"
    OLDER = "older"
    SENT = "sent"
    CLOSED = "closed"


class DecisionView(Answer, facts=True):
    """What was decided, by whom and when."""

    what: str
    by: str
    at: Time


class SettledView(Answer, facts=True):
    """How a pair was settled: merged, linked or unlinked; `entry` is null where the destination did it by itself."""

    how: PairEnding
    entry: Count | None


class RecordsAt(Answer, facts=True):
    """The two records of a pair at a destination: `this` was created next to `that`; '' where the note names none."""

    destination: str
    this: str
    that: str
    settled: SettledView | None


class Duplicate(RowFacts, facts=True):
    """A pair of patients who may be one person, with the newest entry that noted it.

    `number`: which of the entry's pairs, as `duplicates.show` takes it. `noted`: all entries that noted it. `this`,
    `that`: an entry about each of the two patients, null where the journal has none. `decision` is null where nobody
    decided, `settled` where no message has.
    """

    number: Count
    status: PairStatus
    places: tuple[RecordsAt, ...]
    noted: tuple[Count, ...]
    this: Count | None
    that: Count | None
    decision: DecisionView | None
    settled: SettledView | None


class RecordNamed(Answer):
    """Whom a record of a destination is about, as it says itself."""

    destination: str
    record: str
    name: str
    born: str
    numbers: tuple[str, ...]


class DuplicatePage(Answer, facts=True):
    """A page of pairs, newest first; `before` is for the next page, null where there is nothing older.

    `new`: how many pairs are open that were noted in the last 30 days; `more_new`: at least as many.
    """

    pairs: tuple[Duplicate, ...]
    before: Count | None
    new: Count
    more_new: bool


class Line(Answer):
    """One line of a comparison: what the record says, and what each of the others says; `differs` in which of them."""

    what: str
    mine: str
    theirs: tuple[str, ...]
    differs: tuple[bool, ...]


class PairAt(Answer):
    """The patient's record at a destination, those that may be the same, and the lines that compare them.

    `refused` says why the destination could not be read, '' where it was. `mine` is null where no record is left.
    `gone`: records of the pair that are not there any more. `settled`: what the records themselves say: merged, or
    linked; '' for neither.
    """

    destination: str
    refused: str
    gone: tuple[str, ...]
    mine: Record | None
    others: tuple[Record, ...]
    lines: tuple[Line, ...]
    settled: str


class Pair(Answer):
    """Both patients of a pair at each destination; `pairs` says how many the entry noted, the rest is as in the list.

    Where the note names no records these are all with the same name, gender and birth date.
    """

    entry: Count
    number: Count
    pairs: Count
    status: PairStatus
    this: Count | None
    that: Count | None
    decision: DecisionView | None
    settled: SettledView | None
    destinations: tuple[PairAt, ...]


def decided(one: Decision | None) -> DecisionView | None:
    """Return a decision as it is shown; None for none."""
    return DecisionView(what=one.what, by=one.by, at=moment_text(one.at)) if one else None


def status_of(settled: PairEnd | None, decision: Decision | None, received_at: datetime, now: datetime) -> PairStatus:
    """Return how far a pair is that an entry noted which was received then."""
    if settled is not None or (decision is not None and decision.what != Choice.SENT):
        return PairStatus.CLOSED
    if decision is not None:
        return PairStatus.SENT
    return PairStatus.OPEN if received_at >= now - NEW else PairStatus.OLDER


def duplicate(row: EntryRow, one: NotedPair, decision: Decision | None, now: datetime) -> Duplicate:
    """Return a pair with the entry that noted it last, and its decision."""
    return Duplicate(
        **dict(row_facts(RowView.of(row))),
        number=one.number,
        status=status_of(one.settled, decision, row.received_at, now),
        places=tuple(map(_records, one.places)),
        noted=tuple(entry for entry, _ in one.noted),
        this=one.this or None,
        that=one.that or None,
        decision=decided(decision),
        settled=_settled(one.settled),
    )


def _records(place: PairPlace) -> RecordsAt:
    return RecordsAt(destination=place.destination, this=place.this, that=place.that, settled=_settled(place.settled))


def _settled(one: PairEnd | None) -> SettledView | None:
    return SettledView(how=one.how, entry=one.entry or None) if one else None


Found = Mapping[str, ServerResource]


def pair(
    row: EntryRow,
    one: NotedPair,
    pairs: int,
    decision: Decision | None,
    destinations: Sequence[PairAt],
    now: datetime,
) -> Pair:
    """Return a pair as it is shown; what the records say at each destination closes it as a message does."""
    settled, said = one.settled, {at.settled for at in destinations}
    if settled is None and said and "" not in said:
        settled = PairEnd(PairEnding.MERGED if PairEnding.MERGED in said else PairEnding.LINKED, 0)
    return Pair(
        entry=row.seq,
        number=one.number,
        pairs=pairs,
        status=status_of(settled, decision, row.received_at, now),
        this=one.this or None,
        that=one.that or None,
        decision=decided(decision),
        settled=_settled(settled),
        destinations=tuple(destinations),
    )


def records_at(place: PairPlace, found: Found | str) -> PairAt:
    """Return both records of a pair at a destination, or why it could not be read."""
    if isinstance(found, str):
        return _refused(place.destination, found)
    there = [found[one] for one in (place.this, place.that) if one in found]
    gone = tuple(one for one in (place.this, place.that) if one not in found)
    return _at(place.destination, there, gone)


def alike_at(destination: str, found: Alike | str) -> PairAt:
    """Return a patient's record and those of the same demographics, or why the destination could not be read."""
    if isinstance(found, str):
        return _refused(destination, found)
    return _at(destination, [found.mine, *found.others] if found.mine else [], ())


def record_named(destination: str, stored: ServerResource) -> RecordNamed:
    """Return whom a record is about."""
    shown = record(stored)
    numbers = tuple(number.value for number in shown.numbers)
    return RecordNamed(destination=destination, record=shown.patient, name=shown.name, born=shown.born, numbers=numbers)


def _refused(destination: str, why: str) -> PairAt:
    return PairAt(destination=destination, refused=why, gone=(), mine=None, others=(), lines=(), settled="")


def _at(destination: str, found: Sequence[ServerResource], gone: tuple[str, ...]) -> PairAt:
    shown = [*map(record, found)]
    return PairAt(
        destination=destination,
        refused="",
        gone=gone,
        mine=shown[0] if shown else None,
        others=tuple(shown[1:]),
        lines=_lines(shown[0], shown[1:]) if shown else (),
        settled=_said_by(*found) if len(found) == 2 else "",
    )


def _said_by(one: ServerResource, other: ServerResource) -> str:
    """Return what the records of a pair say of each other: merged, linked, or '' for neither."""
    heads = [replaced_by(side.body) or side.logical_id for side in (one, other)]
    if heads[0] == heads[1]:
        return PairEnding.MERGED
    mutual = other.logical_id in links(dict(one.body), SEE_ALSO) and one.logical_id in links(dict(other.body), SEE_ALSO)
    return PairEnding.LINKED if mutual else ""


def _lines(mine: Record, others: Sequence[Record]) -> tuple[Line, ...]:
    sides = [_said(one) for one in (mine, *others)]
    return tuple(
        Line(what=what, mine=said, theirs=(theirs := tuple(one[what] for one in sides[1:])),
             differs=tuple(one.casefold() != said.casefold() for one in theirs))
        for what, said in sides[0].items()
        if any(one[what] for one in sides)
    )  # fmt: skip


def _said(one: Record) -> dict[str, str]:
    return {
        "Name": one.name,
        "Former names": ", ".join(one.former),
        "Born": one.born,
        "Gender": one.gender,
        "Died": one.died,
        "Address": one.address,
        "Phone": one.phone,
        "Numbers": ", ".join(number.value for number in one.numbers if number.value != one.patient),
        "State": "merged away" if one.merged else "active" if one.active else "inactive",
        "Links": ", ".join(f"{link.kind} {link.patient}" for link in one.links),
        "Changed": one.updated[:19].replace("T", " "),
    }

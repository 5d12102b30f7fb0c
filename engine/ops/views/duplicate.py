"""Possible duplicates as people see them: the entries with what was decided, and a pair side by side."""

from collections.abc import Mapping
from enum import StrEnum

from engine.deliver.patient.chart import Alike
from engine.journal.access.audited import Decision
from engine.journal.read.views import EntryRow
from engine.ops.views.answer import Answer, Count, Time, moment_text
from engine.ops.views.entry import Row as RowView
from engine.ops.views.entry import RowFacts
from engine.ops.views.patient import Record, record
from engine.ops.views.view import row_facts


class Choice(StrEnum):
    """What may be decided of a possible duplicate."""

    SAME = "same"
    DIFFERENT = "different"
    SENT = "sent"
    DONE = "done"


class DecisionView(Answer, facts=True):
    """What was decided, by whom and when."""

    what: str
    by: str
    at: Time


class Duplicate(RowFacts, facts=True):
    """An entry whose patient was created although another may be the same; `decision` is null where nobody decided.

    `merged_by`: the entry whose merge made one record of them, which closes it; null where none has.
    """

    decision: DecisionView | None
    merged_by: Count | None


class DuplicatePage(Answer, facts=True):
    """A page of them, newest first; `before` is for the next page, null where there is nothing older."""

    entries: tuple[Duplicate, ...]
    before: Count | None


class Line(Answer):
    """One line of a comparison: what the record says, and what each of the others says; `differs` in which of them."""

    what: str
    mine: str
    theirs: tuple[str, ...]
    differs: tuple[bool, ...]


class PairAt(Answer):
    """The patient's record at a destination, those with the same demographics, and the lines that compare them.

    `refused` says why the destination could not be read, '' where it was. `mine` is null where no record is left.
    """

    destination: str
    refused: str
    mine: Record | None
    others: tuple[Record, ...]
    lines: tuple[Line, ...]


class Pair(Answer):
    """The patient of an entry and those who may be the same, at each destination; `merged_by` as in the list."""

    entry: Count
    decision: DecisionView | None
    merged_by: Count | None
    destinations: tuple[PairAt, ...]


def decided(one: Decision | None) -> DecisionView | None:
    """Return a decision as it is shown; None for none."""
    return DecisionView(what=one.what, by=one.by, at=moment_text(one.at)) if one else None


def duplicate(row: EntryRow, decision: Decision | None, merged: int | None) -> Duplicate:
    """Return an entry with its decision, and the entry of the merge that settled it."""
    return Duplicate(**dict(row_facts(RowView.of(row))), decision=decided(decision), merged_by=merged)


def pair(entry: int, decision: Decision | None, there: Mapping[str, Alike | str], merged: int | None) -> Pair:
    """Return a pair as it is shown."""
    return Pair(
        entry=entry,
        decision=decided(decision),
        merged_by=merged,
        destinations=tuple(_at(name, one) for name, one in there.items()),
    )


def _at(name: str, found: Alike | str) -> PairAt:
    if isinstance(found, str):
        return PairAt(destination=name, refused=found, mine=None, others=(), lines=())
    mine = record(found.mine) if found.mine else None
    others = tuple(map(record, found.others))
    return PairAt(destination=name, refused="", mine=mine, others=others, lines=_lines(mine, others) if mine else ())


def _lines(mine: Record, others: tuple[Record, ...]) -> tuple[Line, ...]:
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

"""Operations on possible duplicates: list them by what was decided, compare a pair, and decide; the trail keeps it."""

import asyncio
from pathlib import Path
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from engine.errors import UsageError
from engine.journal.access.audited import Decision, decisions
from engine.journal.read.patients import POSSIBLE, Patient, merged_by, patients
from engine.journal.read.reading import Reader
from engine.journal.read.views import Filters
from engine.ops.access.actor import Actor, Permission
from engine.ops.audit.trail import Audited
from engine.ops.operations.fields import EntryNumber, Reason
from engine.ops.operations.filters import PageOf
from engine.ops.operations.operation import Operation, Reading
from engine.ops.operations.patients import MOST_READ, identity_of, keys_of
from engine.ops.views.answer import Answer, Count
from engine.ops.views.duplicate import Choice, Duplicate, DuplicatePage, Pair, duplicate, pair
from engine.ops.views.view import USUAL_ROWS
from engine.pipeline.engine import Engine
from engine.pipeline.repair.choosing import alike

DECIDE: Final = "duplicates.decide"
MOST_LOOKED_THROUGH: Final = 2_000
AT_ONCE: Final = 200
SHOWN: Final = ("open", "sent", "closed", "all")


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
        description="open: nothing decided; sent: with the MPI team; closed: same, different, done or merged; or all."
    ),
]
Decided = Annotated[
    str,
    BeforeValidator(_choice),
    Audited.VALUE,
    Field(description="same, different, sent (to the MPI team) or done."),
]


class ListDuplicates(PageOf, Reading[DuplicatePage]):
    """List entries whose patient was created although another may be the same, newest first, with what was decided."""

    name = "duplicates.list"
    permission = Permission.METADATA

    show: Show = "open"

    def read(self, folder: Path) -> DuplicatePage:
        """Return a page; it looks through 2,000 entries at most, and `before` continues there."""
        limit, before = self.limit or USUAL_ROWS, self.before or None
        found: list[Duplicate] = []
        left = MOST_LOOKED_THROUGH // AT_ONCE
        with Reader(folder) as reader:
            while left and len(found) <= limit:
                page = reader.page(Filters(outcome=POSSIBLE), AT_ONCE, before)
                seqs = [row.seq for row in page.rows]
                known, merged = decisions(folder, DECIDE, seqs), merged_by(folder, seqs)
                wanted = [row for row in page.rows if self._is_wanted(known.get(row.seq), row.seq in merged)]
                found += [
                    duplicate(row, known.get(row.seq), merged.get(row.seq)) for row in wanted[: limit - len(found) + 1]
                ]
                before, left = page.before, left - 1 if page.before else 0
        if len(found) > limit:
            return DuplicatePage(entries=tuple(found[:limit]), before=found[limit - 1].entry)
        return DuplicatePage(entries=tuple(found), before=before)

    def _is_wanted(self, decision: Decision | None, merged: bool) -> bool:
        waits = "open" if decision is None else "sent" if decision.what == Choice.SENT else "closed"
        state = "closed" if merged else waits
        return self.show in {"all", state}


class CompareDuplicate(Operation[Pair]):
    """Compare the patient of an entry with those at the destination who may be the same: side by side, as of now."""

    name = "duplicates.show"
    permission = Permission.PHI

    entry: EntryNumber

    async def run(self, engine: Engine, _actor: Actor) -> Pair:
        """Return them; UsageError for an entry that bears no such note."""
        found, known, merged = await asyncio.to_thread(_about, engine.files.data, self.entry)
        identities = tuple(map(identity_of, (await keys_of(engine, found)).values()))
        there = await alike(engine.entry_operations, identities) if identities else {}
        return pair(self.entry, known, there, merged)


class DecidedView(Answer):
    """What was decided of an entry, and by whom."""

    entry: Count
    decision: str
    by: str


class DecideDuplicate(Operation[DecidedView]):
    """Decide whether the patient of an entry is the same person; the audit trail keeps it, and nothing is merged."""

    name = DECIDE
    permission = Permission.OPERATE

    entry: EntryNumber
    decision: Decided
    reason: Reason = ""

    async def run(self, engine: Engine, actor: Actor) -> DecidedView:
        """Return what was decided; UsageError for an entry that bears no such note."""
        await asyncio.to_thread(_check, engine.files.data, self.entry)
        return DecidedView(entry=self.entry, decision=self.decision, by=actor.name)


def _check(folder: Path, entry: int) -> None:
    """UsageError for an entry that bears no such note, UnknownEntryError for one that is not there."""
    with Reader(folder) as reader:
        view = reader.show(entry)
    if not any(POSSIBLE in delivery.notes for delivery in view.deliveries):
        raise UsageError(f"entry {entry} made no possible duplicate: `duplicates list` shows those that did")


def _about(folder: Path, entry: int) -> tuple[Patient, Decision | None, int | None]:
    """Return an entry's patient as the journal has it, what was decided of it, and the merge that settled it."""
    _check(folder, entry)
    with patients(folder) as reader:
        found = reader.show(reader.lanes_of(entry)[0], (), MOST_READ)
    return found, decisions(folder, DECIDE, [entry]).get(entry), merged_by(folder, [entry]).get(entry)


DUPLICATES: Final = (ListDuplicates, CompareDuplicate, DecideDuplicate)

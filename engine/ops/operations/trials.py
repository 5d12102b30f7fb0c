"""Trials of a bulk run: its oldest entries in a dry run, how many would be delivered, and of the others how and why."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from engine.errors import AdtEngineError
from engine.journal.entry import State
from engine.journal.read.views import EntryView
from engine.journal.write.bulk_replay import RunKind
from engine.ops.views.answer import Answer, Count
from engine.pipeline.engine import Engine
from engine.pipeline.repair.editing import dry_run

MOST_TRIED: Final = 200
TRY_SECONDS: Final = 20.0
DELIVERED: Final = "delivered"
REFUSED: Final = "refused"
OVERTAKEN: Final = "overtaken"
NOT_DUE: Final = "neither held nor waiting for its next try"
NOT_HELD: Final = "not held"


class Again(Answer):
    """An entry that would not be delivered, by a dry run: how it would end, and why."""

    entry: Count
    destination: str
    verdict: str
    reason: str


class Outlook(Answer):
    """How many of the entries that were tried would end in one way for one reason."""

    verdict: str
    reason: str
    entries: Count


class Trial(Answer):
    """What a dry run of the oldest `tried` entries says: `deliver` would be delivered wherever they go.

    `again`: the others, at each destination where they would not be; `outlook` counts those by verdict and reason.
    """

    tried: Count = 0
    deliver: Count = 0
    outlook: tuple[Outlook, ...] = ()
    again: tuple[Again, ...] = ()


@dataclass(frozen=True, slots=True)
class TrialOf:
    """What is tried: which act it is that would take the entries up, and at which destination alone ('' for all).

    RETRY and RELEASE take up what is held, a retry also what waits for its next try; a release decides what waits for
    a person's decision. REPLAY takes up what has ended, and without `force` nothing that was overtaken.
    """

    kind: RunKind
    destination: str = ""
    force: bool = False

    def refusal(self, view: EntryView) -> str:
        """Return why an entry would not be taken up, '' where it would."""
        if self.kind is RunKind.REPLAY:
            return ""
        held = any(one.state is State.HELD for one in view.deliveries)
        due = any(one.state is State.RECEIVED and one.due_at for one in view.deliveries)
        if held or (due and self.kind is RunKind.RETRY):
            return ""
        return NOT_DUE if self.kind is RunKind.RETRY else NOT_HELD


async def tried(engine: Engine, seqs: Sequence[int], what: TrialOf) -> Trial:
    """Try the first 200 entries at their destinations without a write, as far as 20 seconds allow; each by itself."""
    tasks = [asyncio.create_task(_try(engine, seq, what)) for seq in seqs[:MOST_TRIED]]
    if not tasks:
        return Trial()
    done, late = await asyncio.wait(tasks, timeout=TRY_SECONDS)
    for task in late:
        task.cancel()
    ended = [task.result() for task in tasks if task in done]
    again = tuple(one for each in ended for one in each)
    counts = Counter(
        (verdict, reason) for _, verdict, reason in {(one.entry, one.verdict, one.reason) for one in again}
    )
    outlook = tuple(
        Outlook(verdict=verdict, reason=reason, entries=count) for (verdict, reason), count in counts.most_common()
    )
    return Trial(tried=len(ended), deliver=sum(not each for each in ended), outlook=outlook, again=again)


async def _try(engine: Engine, seq: int, what: TrialOf) -> list[Again]:
    operations = engine.entry_operations
    try:
        refusal = what.refusal(await operations.entry(seq))
        if refusal:
            return [Again(entry=seq, destination="", verdict=REFUSED, reason=refusal)]
        found = await dry_run(operations, seq, what.destination, release=what.kind is RunKind.RELEASE)
    except AdtEngineError as error:
        return [Again(entry=seq, destination="", verdict=REFUSED, reason=str(error))]
    if found.reason:
        return [Again(entry=seq, destination="", verdict="rejected", reason=found.reason)]
    late = found.overtaken if what.kind is RunKind.REPLAY and not what.force else frozenset()
    return [
        Again(entry=seq, destination=name, verdict=REFUSED, reason=OVERTAKEN)
        if name in late
        else Again(entry=seq, destination=name, verdict=one.verdict.kind, reason=one.verdict.reason)
        for name, one in found.by_destination.items()
        if name in late or one.verdict.kind != DELIVERED
    ]

"""Operations on held entries in bulk: what one would do, then retry, release or discard, as a run of the engine."""

import asyncio
from typing import Annotated, Final

from pydantic import Field

from engine.errors import AdtEngineError, UsageError
from engine.journal.entry import State
from engine.journal.read.selecting import Selected, Selection
from engine.journal.write.bulk_replay import BECAUSE, RunKind
from engine.ops.access.actor import Actor, Permission
from engine.ops.operations.entries import check_reason
from engine.ops.operations.fields import EntryNumbers, Rate, Reason, ReasonCode, Switch, Word
from engine.ops.operations.operation import Confirm, Operation, Request
from engine.ops.operations.replays import RATE, BulkPlan, ReplayRun, begun, chosen, kept_of
from engine.ops.views.answer import Answer, Count
from engine.pipeline.engine import Engine
from engine.pipeline.repair.editing import dry_run

MOST_TRIED: Final = 10
TRY_SECONDS: Final = 20.0

Because = Annotated[Reason, Field(description="Why they are discarded; kept with each entry and in the audit trail.")]


class HeldFilter(Request):
    """What is held: for a reason, of a channel, at a destination."""

    reason: ReasonCode = Field("", description="Held for this reason, such as http-422.")
    channel: Word = Field("", description="Only of this channel.")
    destination: Word = Field("", description="Only at this destination.")


class HeldSelection(HeldFilter):
    """Held entries by their numbers, or all that the filters choose."""

    entries: EntryNumbers = ()

    def selection(self) -> Selection:
        """Return which entries are meant; UsageError where both numbers and filters are given."""
        if self.entries and (self.reason or self.channel or self.destination):
            raise UsageError("name entries, or filter them, not both")
        if self.entries:
            return Selection(entries=self.entries)
        return Selection(state=State.HELD, reason=self.reason, channel=self.channel, destination=self.destination)

    async def begin(self, engine: Engine, actor: Actor, kind: RunKind, rate: float, because: str = "") -> ReplayRun:
        """Begin a run over what is meant; UsageError where that is nothing."""
        found = await chosen(engine, self.selection())
        asked = kept_of(self) | ({"entries": len(found.seqs)} if self.entries else {})
        asked |= {BECAUSE: because} if because else {}
        return await begun(engine, actor, kind, found, asked, force=False, rate=rate)


class Again(Answer):
    """An entry that would not be delivered, by a dry run: how it would end, and why."""

    entry: Count
    destination: str
    verdict: str
    reason: str


class HeldPlan(BulkPlan):
    """What a release would take up; of the first `tried` entries, those that would not be delivered (`again`)."""

    tried: Count
    again: tuple[Again, ...]


class PlanHeld(HeldSelection, Operation[HeldPlan]):
    """Show which held entries a retry, release or discard would take up, and which would be held again."""

    name = "lanes.plan"
    permission = Permission.OPERATE

    dry_run: Switch = Field(default=True, description="Try the first 10 at the server, without writing anything.")
    retry: Switch = Field(default=False, description="Of a retry, which decides nothing; else of a release.")

    async def run(self, engine: Engine, _actor: Actor) -> HeldPlan:
        """Return the plan; UnknownEntryError for an entry that is not there."""
        found = await chosen(engine, self.selection())
        tried, again = await tried_of(engine, found, release=not self.retry) if self.dry_run else (0, ())
        return HeldPlan.chosen(found, tried=tried, again=again)


class ReleaseHeld(HeldSelection, Operation[ReplayRun]):
    """Release all held entries that match, once their cause is fixed, as a bulk run of the engine."""

    name = "lanes.release"
    permission = Permission.OPERATE

    rate: Rate = RATE

    async def run(self, engine: Engine, actor: Actor) -> ReplayRun:
        """Return the run; UsageError where no held entry matches."""
        return await self.begin(engine, actor, RunKind.RELEASE, self.rate)


class RetryHeld(HeldSelection, Operation[ReplayRun]):
    """Retry entries now, whether they are held or wait for their next retry, as a bulk run of the engine."""

    name = "lanes.retry"
    permission = Permission.OPERATE

    rate: Rate = RATE

    async def run(self, engine: Engine, actor: Actor) -> ReplayRun:
        """Return the run; UsageError where no entry matches."""
        return await self.begin(engine, actor, RunKind.RETRY, self.rate)


class DiscardHeld(HeldSelection, Operation[ReplayRun]):
    """Discard held entries for good, with a reason, as a bulk run of the engine; what waits behind them continues."""

    name = "lanes.discard"
    permission = Permission.OPERATE
    confirm = Confirm.STEP_UP

    because: Because = ""
    rate: Rate = RATE

    async def run(self, engine: Engine, actor: Actor) -> ReplayRun:
        """Return the run; UsageError without a reason, or where neither entries nor a filter are named."""
        check_reason(self.because, "the entries are discarded", "--because")
        if not (self.entries or self.reason or self.channel or self.destination):
            raise UsageError("say which held entries are discarded: name them, or filter by reason or channel")
        return await self.begin(engine, actor, RunKind.DISCARD, self.rate, self.because)


async def tried_of(engine: Engine, found: Selected, *, release: bool = False) -> tuple[int, tuple[Again, ...]]:
    """Try the first entries at their destinations without a write, as far as a bounded time allows."""
    tasks = [asyncio.create_task(_try(engine, seq, release=release)) for seq in found.seqs[:MOST_TRIED]]
    if not tasks:
        return 0, ()
    done, late = await asyncio.wait(tasks, timeout=TRY_SECONDS)
    for task in late:
        task.cancel()
    ended = [task.result() for task in tasks if task in done]
    return len(ended), tuple(one for each in ended for one in each)


async def _try(engine: Engine, seq: int, *, release: bool) -> list[Again]:
    try:
        found = await dry_run(engine.entry_operations, seq, release=release)
    except AdtEngineError as error:
        return [Again(entry=seq, destination="", verdict="refused", reason=str(error))]
    if found.reason:
        return [Again(entry=seq, destination="", verdict="rejected", reason=found.reason)]
    return [
        Again(entry=seq, destination=name, verdict=one.verdict.kind, reason=one.verdict.reason)
        for name, one in found.by_destination.items()
        if one.verdict.kind != "delivered"
    ]


HELD: Final = (PlanHeld, ReleaseHeld, RetryHeld, DiscardHeld)

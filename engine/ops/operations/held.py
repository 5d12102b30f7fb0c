"""Operations on held entries in bulk: what one would do, then retry, release or discard, as a run of the engine."""

from typing import Annotated, Final

from pydantic import Field

from engine.errors import UsageError
from engine.journal.entry import State
from engine.journal.read.selecting import Selection
from engine.journal.write.bulk_replay import BECAUSE, RunKind
from engine.ops.access.actor import Actor, Permission
from engine.ops.operations.entries import check_reason
from engine.ops.operations.fields import EntryNumbers, Moment, Rate, Reason, ReasonCode, Switch, Word
from engine.ops.operations.operation import Confirm, Operation, Request
from engine.ops.operations.replays import RATE, BulkPlan, ReplayRun, begun, chosen, kept_of
from engine.ops.operations.trials import TrialOf, tried
from engine.pipeline.engine import Engine

Because = Annotated[Reason, Field(description="Why they are discarded; kept with each entry and in the audit trail.")]


HeldSince = Annotated[
    Moment, Field(description="Only what has been held since then: 22:00, 2025-07-01T22:00, or 12h for 12 hours ago.")
]


class HeldFilter(Request):
    """What is held: for a reason, of a channel, at a destination, since a time."""

    reason: ReasonCode = Field("", description="Held for this reason, such as http-422.")
    channel: Word = Field("", description="Only of this channel.")
    destination: Word = Field("", description="Only at this destination.")
    since: HeldSince = None


class HeldSelection(HeldFilter):
    """Held entries by their numbers, or all that the filters choose."""

    entries: EntryNumbers = ()

    def selection(self) -> Selection:
        """Return which entries are meant; UsageError where both numbers and filters are given."""
        if self.entries and (self.reason or self.channel or self.destination or self.since):
            raise UsageError("name entries, or filter them, not both")
        if self.entries:
            return Selection(entries=self.entries)
        return Selection(
            state=State.HELD,
            reason=self.reason,
            channel=self.channel,
            destination=self.destination,
            failed_since=self.since,
        )

    async def begin(self, engine: Engine, actor: Actor, kind: RunKind, rate: float, because: str = "") -> ReplayRun:
        """Begin a run over what is meant; UsageError where that is nothing."""
        found = await chosen(engine, self.selection())
        asked = kept_of(self) | ({"entries": len(found.seqs)} if self.entries else {})
        asked |= {BECAUSE: because} if because else {}
        return await begun(engine, actor, kind, found, asked, force=False, rate=rate)


class HeldPlan(BulkPlan):
    """What a retry, release or discard would take up, and what a dry run of its oldest entries says."""


class PlanHeld(HeldSelection, Operation[HeldPlan]):
    """Show which held entries a retry, release or discard would take up, and which would be held again."""

    name = "lanes.plan"
    permission = Permission.OPERATE

    dry_run: Switch = Field(default=True, description="Try the oldest 200 at the server, without writing anything.")
    retry: Switch = Field(default=False, description="Of a retry, which decides nothing; else of a release.")

    async def run(self, engine: Engine, _actor: Actor) -> HeldPlan:
        """Return the plan; UnknownEntryError for an entry that is not there."""
        found = await chosen(engine, self.selection())
        if not self.dry_run:
            return HeldPlan.chosen(found)
        kind = RunKind.RETRY if self.retry else RunKind.RELEASE
        trial = await tried(engine, found.seqs, TrialOf(kind, self.destination))
        return HeldPlan.chosen(found, trial)


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
        if not (self.entries or self.reason or self.channel or self.destination or self.since):
            raise UsageError("say which held entries are discarded: name them, or filter by reason, channel or time")
        return await self.begin(engine, actor, RunKind.DISCARD, self.rate, self.because)


HELD: Final = (PlanHeld, ReleaseHeld, RetryHeld, DiscardHeld)

"""Operations on what a channel kept: what came in shadow, or a rule filtered that has changed, is delivered later."""

import asyncio
from typing import Final

from pydantic import Field

from engine.config.channel import Mode
from engine.errors import ForbiddenMoveError, UsageError
from engine.journal.entry import SHADOW, State
from engine.journal.read.backlog import left_of_channel
from engine.journal.read.selecting import Selection
from engine.journal.write.bulk_replay import RunKind
from engine.ops.access.actor import Actor, Permission
from engine.ops.operations.channels import OfChannel
from engine.ops.operations.fields import Force, Rate, ReasonCode, Since, Switch, Until, Word
from engine.ops.operations.operation import Operation
from engine.ops.operations.replays import MOST_ENTRIES, RATE, BulkPlan, ReplayRun, begun, chosen, kept_of
from engine.ops.operations.trials import TrialOf, tried
from engine.ops.views.answer import Count, Time
from engine.pipeline.engine import Engine


class KeptFilter(OfChannel):
    """What a channel kept since a time: in shadow, or by a rule."""

    since: Since = None
    until: Until = None
    event: Word = Field("", description="Only of this trigger event, such as A40.")
    reason: ReasonCode = Field(SHADOW, description="What kept them: shadow, or the name of a rule that filtered them.")
    destination: Word = Field("", description="Only at this destination.")
    force: Force = False
    rate: Rate = RATE

    def selection(self, engine: Engine) -> Selection:
        """Return which entries are meant; UsageError without a beginning, or for a channel that is none."""
        if self.since is None:
            raise UsageError("say since when what was kept is to be delivered: --since 2025-07-01T18:00, or 12h")
        return Selection(
            state=State.FILTERED,
            channel=self.found(engine),
            event=self.event,
            reason=self.reason,
            destination=self.destination,
            since=self.since,
            until=self.until,
        )


class KeptPlan(BulkPlan):
    """What a delivery of kept entries would take up, the first 1,000 `entries`, and what a dry run says of the oldest.

    `overtaken`: refused without `force`, as something newer was applied for the patient. `pending`: deliveries
    of the channel that are still tried in shadow, which no run takes up before that has ended. `mode`: the channel's.
    """

    overtaken: Count
    entries: tuple[Count, ...]
    pending: Count
    mode: str
    since: Time


class PlanKept(KeptFilter, Operation[KeptPlan]):
    """Show what a channel kept since a time, and which of it would not be delivered now."""

    name = "kept.plan"
    permission = Permission.OPERATE

    dry_run: Switch = Field(default=True, description="Try the oldest 200 at the server, without writing anything.")

    async def run(self, engine: Engine, _actor: Actor) -> KeptPlan:
        """Return the plan."""
        found = await chosen(engine, self.selection(engine))
        trial = await tried(engine, found.seqs if self.dry_run else (), TrialOf(RunKind.REPLAY, force=True))
        pending = await asyncio.to_thread(
            left_of_channel, engine.files.data, self.channel, tuple(engine.dispatches), in_shadow=True
        )
        return KeptPlan.chosen(
            found,
            trial,
            entries=found.seqs[:MOST_ENTRIES],
            pending=pending,
            mode=str(engine.feeds[self.channel].channel.mode),
            since=self.since,
        )


class DeliverKept(KeptFilter, Operation[ReplayRun]):
    """Deliver what a channel kept since a time, in journal order, as a bulk run of the engine."""

    name = "kept.start"
    permission = Permission.OPERATE

    async def run(self, engine: Engine, actor: Actor) -> ReplayRun:
        """Return the run; UsageError where nothing was kept, ForbiddenMoveError while the channel is in shadow."""
        selection = self.selection(engine)
        if engine.feeds[self.channel].channel.mode is Mode.SHADOW:
            raise ForbiddenMoveError(
                f"channel {self.channel} is in shadow: it delivers nothing; remove `mode: shadow` and reload first"
            )
        found = await chosen(engine, selection)
        if not found.seqs:
            raise UsageError(f"channel {self.channel} kept nothing for {self.reason} since then")
        asked = kept_of(self) | {"state": str(State.FILTERED)}
        return await begun(engine, actor, RunKind.REPLAY, found, asked, force=self.force, rate=self.rate)


KEPT: Final = (PlanKept, DeliverKept)

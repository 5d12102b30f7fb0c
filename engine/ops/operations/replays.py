"""Operations on bulk replays: many entries replayed or released in journal order, by the engine, at a bounded rate."""

import asyncio
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final, Self

from pydantic import Field

from engine.clock import now
from engine.errors import UsageError
from engine.journal.entry import State
from engine.journal.read.selecting import Selected, Selection, select
from engine.journal.write.bulk_replay import BECAUSE, Run, RunKind, RunState
from engine.journal.write.entry_lookup import NAMED
from engine.ops.access.actor import Actor, Permission
from engine.ops.operations.fields import Force, Rate, RunNumber, Switch, UpTo200
from engine.ops.operations.filters import ReplayFilter
from engine.ops.operations.operation import Operation, Request
from engine.ops.operations.trials import Trial, TrialOf, tried
from engine.ops.views.answer import Answer, AnyJson, Count, Time, known_as
from engine.pipeline.engine import Engine

RATE: Final = 200.0
MOST_ENTRIES: Final = 1_000
CODE: Final = re.compile(r"[a-z0-9-]{1,64}")
FILTERS: Final = ("state", "channel", "event", "patient", "reason", "destination", "since", "until")


class OfRun(Request):
    """A bulk run by its number."""

    number: RunNumber = Field(alias="run")


class BulkPlan(Trial):
    """What a bulk run would take up, and where a dry run was asked for, what that says of its oldest entries."""

    count: Count
    first: Count | None
    last: Count | None
    events: dict[str, Count]
    states: dict[str, Count]

    @classmethod
    def chosen(cls, found: Selected, trial: Trial | None = None, **more: object) -> Self:
        """Return the plan of entries that were chosen, with the further fields of this kind of plan."""
        seqs = found.seqs
        ends = {"count": len(seqs), "first": seqs[0] if seqs else None, "last": seqs[-1] if seqs else None}
        return cls.of(found, **ends, **more, **dict(trial or Trial()))


class ReplayPlan(BulkPlan):
    """What a bulk replay would include: the first 1,000 `entries`; `overtaken` will be refused without `force`."""

    overtaken: Count
    entries: tuple[Count, ...]


class Refusal(Answer, facts=True):
    """An entry of a run that was refused, and why."""

    entry: Count
    why: str


class HeldAgain(Answer, facts=True):
    """An entry of a run that ended held, and the reason if it still is."""

    entry: Count
    reason: str


class ReplayRun(Answer, facts=True):
    """A bulk run: `position` is how many of `total` are taken up, `done` how many of those have ended.

    `refusals` are the first 100, and so are those that were held `again`, `held` in all. `per_second`: how many end a
    second, of the last minute, and `seconds_left` at that rate; null where it is not running or not known yet. A filter
    by patient is shown as "named".
    """

    run: Annotated[Count, known_as("run", "number")]
    kind: RunKind
    state: RunState
    by: str
    filter: Annotated[dict[str, AnyJson], known_as("filter", "asked")]
    force: bool
    destination: str
    rate: float
    started_at: Time
    ended_at: Time | None
    total: Count
    position: Count
    counts: dict[str, Count]
    refusals: tuple[Refusal, ...]
    again: tuple[HeldAgain, ...] = ()
    done: Count = 0
    held: Count = 0
    per_second: float | None = None
    seconds_left: Count | None = None


class PlanReplay(ReplayFilter, Operation[ReplayPlan]):
    """Show what a bulk replay would include."""

    name = "replays.plan"
    permission = Permission.OPERATE

    force: Force = False
    rate: Rate = RATE
    dry_run: Switch = Field(default=False, description="Try the oldest 200 at the server, without writing anything.")

    async def run(self, engine: Engine, _actor: Actor) -> ReplayPlan:
        """Return the plan; UnknownEntryError for an entry that is not there."""
        found = await chosen(engine, self.selection())
        seqs = found.seqs if self.dry_run else ()
        trial = await tried(engine, seqs, TrialOf(RunKind.REPLAY, self.destination, self.force))
        return ReplayPlan.chosen(found, trial, entries=found.seqs[:MOST_ENTRIES])


class StartReplay(ReplayFilter, Operation[ReplayRun]):
    """Replay all matching entries in journal order at a bounded rate (default: 200 a second)."""

    name = "replays.start"
    permission = Permission.OPERATE

    force: Force = False
    rate: Rate = RATE

    async def run(self, engine: Engine, actor: Actor) -> ReplayRun:
        """Return the run; UsageError where no entries match."""
        found = await chosen(engine, self.selection())
        asked = kept_of(self) | ({"entries": len(found.seqs)} if self.entries else {})
        return await begun(engine, actor, RunKind.REPLAY, found, asked, force=self.force, rate=self.rate)


class ShowReplay(OfRun, Operation[ReplayRun]):
    """Show the progress of a bulk run."""

    name = "replays.progress"
    permission = Permission.METADATA

    async def run(self, engine: Engine, _actor: Actor) -> ReplayRun:
        """Return the run; UnknownRunError where there is none."""
        run = await engine.bulk_replays.show(self.number)
        return run_view(run, engine.bulk_replays.rate(run))


class ListReplays(Operation[list[ReplayRun]]):
    """List bulk runs, newest first."""

    name = "replays.list"
    permission = Permission.METADATA

    limit: UpTo200 = 50

    async def run(self, engine: Engine, _actor: Actor) -> list[ReplayRun]:
        """Return the runs."""
        return [run_view(run) for run in await engine.bulk_replays.listed(self.limit)]


class PauseReplay(OfRun, Operation[ReplayRun]):
    """Pause a bulk run after its current entry, until somebody resumes it; it stays paused over a restart."""

    name = "replays.pause"
    permission = Permission.OPERATE

    async def run(self, engine: Engine, _actor: Actor) -> ReplayRun:
        """Return the run; UnknownRunError where there is none."""
        return run_view(await engine.bulk_replays.pause(self.number))


class StopReplay(OfRun, Operation[ReplayRun]):
    """Stop a bulk run after its current entry."""

    name = "replays.stop"
    permission = Permission.OPERATE

    async def run(self, engine: Engine, _actor: Actor) -> ReplayRun:
        """Return the run; UnknownRunError where there is none."""
        return run_view(await engine.bulk_replays.stop(self.number))


class ResumeReplay(OfRun, Operation[ReplayRun]):
    """Resume a paused or stopped bulk run."""

    name = "replays.resume"
    permission = Permission.OPERATE

    async def run(self, engine: Engine, _actor: Actor) -> ReplayRun:
        """Return the run; UnknownRunError where there is none."""
        return run_view(await engine.bulk_replays.resume(self.number))


async def chosen(engine: Engine, selection: Selection) -> Selected:
    """Return the entries that a selection means; UsageError for a destination that is none."""
    if selection.destination:
        engine.entry_operations.dispatch(selection.destination)
    return await asyncio.to_thread(select, engine.files.data, selection)


def kept_of(request: Request) -> dict[str, object]:
    """Return what a run keeps of the filters it was asked for with: moments, not `12h`, which is of now."""
    kept: dict[str, object] = {name: value for name in FILTERS if (value := getattr(request, name, None))}
    for name, value in kept.items():
        if isinstance(value, datetime):
            kept[name] = value.isoformat()
        elif name == "patient" or (name == "reason" and not CODE.fullmatch(str(value))):
            kept[name] = NAMED
    return kept


async def begun(
    engine: Engine,
    actor: Actor,
    kind: RunKind,
    found: Selected,
    asked: Mapping[str, object],
    *,
    force: bool,
    rate: float,
) -> ReplayRun:
    """Begin a run over what was chosen; UsageError where nothing was."""
    if not found.seqs:
        raise UsageError("no entries match: `messages list` shows what there is")
    destination = str(asked.get("destination", ""))
    run = Run(0, kind, actor.name, asked, destination, force, rate, RunState.FILLING, now(), None, 0, {})
    return run_view(await engine.bulk_replays.start(run, found.seqs))


def run_view(run: Run, rate: float | None = None) -> ReplayRun:
    """Return a run as it is shown; nothing of a patient, and nothing that somebody wrote as a reason."""
    left = run.total - run.done
    refusals = tuple(Refusal(entry=seq, why=why) for seq, why in run.refusals)
    again = tuple(HeldAgain(entry=seq, reason=reason) for seq, reason in run.again)
    asked = {name: value for name, value in run.asked.items() if name != BECAUSE}
    return ReplayRun.of(
        run,
        asked=asked,
        position=run.position,
        refusals=refusals,
        again=again,
        done=run.done,
        held=run.counts.get(State.HELD, 0),
        per_second=None if rate is None else round(rate, 1),
        seconds_left=round(left / rate) if rate else None,
    )


REPLAYS: Final = (PlanReplay, StartReplay, ShowReplay, ListReplays, PauseReplay, StopReplay, ResumeReplay)

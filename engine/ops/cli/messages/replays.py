"""`adt-engine messages replay` and `replays`: entries delivered again by the running engine, one by one or in bulk."""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, TypeVar

import orjson
import typer

from engine.errors import AdtEngineError, UsageError
from engine.ops.operations.entries import DryRunMessage, DryRunView, ReplayMessage
from engine.ops.operations.fields import entry_of, run_of
from engine.ops.operations.operation import Operation
from engine.ops.operations.replays import (
    ListReplays,
    PlanReplay,
    ReplayPlan,
    ReplayRun,
    ResumeReplay,
    ShowReplay,
    StartReplay,
    StopReplay,
)
from engine.ops.terminal.asking import asked
from engine.ops.terminal.options import DATA, Data, Json, Since, Until
from engine.ops.terminal.table import NEGATIVE, cell, errors, output, progress, say_json, table

A = TypeVar("A")

POLL_SECONDS: Final = 0.3
MOST_DRY_RUNS: Final = 1_000
SHOWN: Final = 10
# What a dry run cannot know, said where one reads it.
NOT_FORESEEN: Final = (
    "Each for itself, against the server as it is now. Whether it takes a write, only the server can say: a number "
    "that is taken, or too many patients of the same demographics (409), is not foreseen."
)

Some = Annotated[
    list[int] | None,
    typer.Argument(metavar="[ENTRY...]", parser=entry_of, help="Numbers of entries, as `messages list` shows them."),
]
State = Annotated[str, typer.Option(help="Only in this state; default: delivered.")]
Channel = Annotated[str, typer.Option(help="Only of this channel.")]
Event = Annotated[str, typer.Option(help="Only of this trigger event, such as A40.")]
Patient = Annotated[str, typer.Option(help="Only naming this identifier: value, or system|value.")]
Reason = Annotated[str, typer.Option(help="Only with this reason.")]
Place = Annotated[str, typer.Option("--destination", help="Only at this destination; fills a new one.")]
Force = Annotated[bool, typer.Option("--force", help="Even if something newer has been applied since.")]
Rate = Annotated[float, typer.Option(help="Entries per second, of a bulk run.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print each planned call and what would differ; change nothing.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Resume = Annotated[
    int | None, typer.Option(metavar="RUN", parser=run_of, help="Resume a stopped bulk run and watch it.")
]


def replay(
    entries: Some = None,
    state: State = "",
    channel: Channel = "",
    event: Event = "",
    since: Since = "",
    until: Until = "",
    patient: Patient = "",
    reason: Reason = "",
    destination: Place = "",
    force: Force = False,
    rate: Rate = 200.0,
    dry_run: DryRun = False,
    yes: Yes = False,
    resume: Resume = None,
    data: Data = DATA,
) -> None:
    """Replay entries: deliver them again in journal order, each in its original place among its patient's messages.

    Named entries are replayed at once; what the door refused is judged anew. A filter makes a bulk run, which the
    engine carries out: shown first, then asked for, resumed after a restart, and left to itself with Ctrl-C. What is
    already true on the server changes nothing; what was overtaken by newer data is refused without --force.

    Example: adt-engine messages replay 37 41 --dry-run --data /var/lib/adt-engine

    Example: adt-engine messages replay --state rejected --since 2025-07-01 --rate 50 --data /var/lib/adt-engine

    Example: adt-engine messages replay --destination warehouse --yes --data /var/lib/adt-engine
    """
    filters = {
        "state": state, "channel": channel, "event": event, "since": since, "until": until, "patient": patient,
        "reason": reason,
    }  # fmt: skip
    given = {name: value for name, value in filters.items() if value}
    if resume:
        watch(data, asked(data, ResumeReplay, run=resume))
        return
    if entries and given:
        raise UsageError("name entries, or filter them, not both")
    if destination:
        given["destination"] = destination
    if not entries and not given:
        raise UsageError("name entries, or a filter such as --since or --state; --state delivered means all of them")
    if dry_run:
        _dry_run(data, sorted(set(entries or ())) or _shown(data, given | {"force": force}, rate), destination)
    elif entries:
        act_on(data, ReplayMessage, entries, "replayed", force=force, destination=destination)
    else:
        _in_bulk(data, given | {"force": force}, rate, sure=yes)


def replays(
    data: Data = DATA,
    stop: Annotated[int | None, typer.Option(metavar="RUN", parser=run_of, help="Stop this run.")] = None,
    as_json: Json = False,
) -> None:
    """List bulk runs, newest first, or stop one; `messages replay --resume N` resumes it.

    Example: adt-engine messages replays --data /var/lib/adt-engine
    """
    runs = [asked(data, StopReplay, run=stop)] if stop else asked(data, ListReplays)
    if as_json:
        say_json(runs)
        return
    headings = ("Run #", "What", "State", "By", "Started (UTC)", "Processed", "Outcome")
    output().print(table(headings, (_row(run) for run in runs)))


def act_on(data: Path, operation: type[Operation[A]], entries: list[int], done: str, **given: object) -> None:
    """Do an operation on each entry and say so; AdtEngineError names those that were refused, and why."""
    failures = []
    for entry in sorted(set(entries)):
        try:
            asked(data, operation, entry=entry, **given)
        except UsageError:
            raise
        except AdtEngineError as error:
            if "no engine runs" in str(error):
                raise
            failures.append(f"{entry}: {error}")
        else:
            output().print(f"{entry} {done}")
    if failures:
        raise AdtEngineError("\n".join(failures))


def watch(data: Path, run: ReplayRun) -> None:
    """Show how a run comes along until it is done; Ctrl-C leaves it to the engine."""
    with progress(shown=True) as bar:
        task = bar.add_task(f"run {run.run}", total=run.total)
        try:
            while run.state == "running":
                bar.update(task, completed=run.position - run.counts.get("under way", 0))
                time.sleep(POLL_SECONDS)
                run = asked(data, ShowReplay, run=run.run)
        except KeyboardInterrupt:
            output().print(f"run {run.run} goes on in the engine; stop it with `messages replays --stop {run.run}`")
            return
    _report(run)


def _in_bulk(data: Path, given: Mapping[str, object], rate: float, *, sure: bool) -> None:
    if not _shown(data, given, rate):
        return
    if not sure and not typer.confirm("replay them?"):
        return
    watch(data, asked(data, StartReplay, **given, rate=rate))


def _shown(data: Path, given: Mapping[str, object], rate: float) -> Sequence[int]:
    """Say what a bulk run would take up, and return the first of its entries."""
    plan = asked(data, PlanReplay, **given)
    if plan.count:
        output().print("\n".join(_told(plan, rate, force=bool(given.get("force")))))
    else:
        output().print("no entries match")
    return plan.entries


def _told(plan: ReplayPlan, rate: float, *, force: bool) -> Iterator[str]:
    events = ", ".join(f"{count} {event}" for event, count in list(plan.events.items())[:SHOWN])
    yield f"{plan.count} entries, {plan.first} to {plan.last}: {events}"
    yield f"in journal order, {rate:g} a second: about {plan.count / rate:.0f} seconds"
    if plan.overtaken:
        end = "are delivered all the same (--force)" if force else "will be refused without --force"
        yield f"{plan.overtaken} were overtaken by newer data of their patients and {end}"


def _dry_run(data: Path, entries: Sequence[int], destination: str) -> None:
    for entry in entries[:MOST_DRY_RUNS]:
        print_dry_run(asked(data, DryRunMessage, entry=entry, destination=destination))
    if len(entries) > MOST_DRY_RUNS:
        output().print("and more: name entries to see theirs")
    if entries:
        print_what_a_dry_run_leaves_open()


def print_dry_run(told: DryRunView) -> None:
    """Print what a replay would do: each planned call, and what would differ."""
    console = output()

    def say(text: str, style: str = "") -> None:
        console.print(cell(text, style), soft_wrap=True)

    say(f"Entry {told.entry}", "bold")
    for one in told.differences:
        say(f"  edited {one.path}: {_value(one.before)} -> {_value(one.after)}")
    if told.refused:
        say(f"  would be refused: {told.refused.reason}", NEGATIVE)
        for finding in told.refused.findings:
            say(f"    {finding}")
    for place in told.destinations:
        late = ", but needs --force: something newer was applied" if place.overtaken else ""
        say(f"  {place.destination}: would be {place.verdict} {place.reason}{late}".rstrip())
        for call in place.calls:
            say(f"    {call.method} {call.path}{'' if call.changes else ' (preview)'}")
        for change in place.differences:
            say(f"      {change.resource} {change.path}: {_value(change.before)} -> {_value(change.after)}")


def print_what_a_dry_run_leaves_open() -> None:
    """Say on standard error what a dry run leaves open."""
    errors().print(NOT_FORESEEN, soft_wrap=True)


def _value(value: object) -> str:
    return "nothing" if value is None else value if isinstance(value, str) else orjson.dumps(value).decode()


def _report(run: ReplayRun) -> None:
    counts = ", ".join(f"{count} {how}" for how, count in run.counts.items())
    output().print(f"run {run.run} {run.state}: {run.position} of {run.total} processed: {counts}")
    for one in run.refusals[:SHOWN]:
        output().print(cell(f"  {one.entry}: {one.why}"), soft_wrap=True)
    if len(run.refusals) > SHOWN:
        output().print(f"  and more: `messages replays --json` lists the first {len(run.refusals)}")


def _row(run: ReplayRun) -> tuple[object, ...]:
    counts = ", ".join(f"{count} {how}" for how, count in run.counts.items())
    started = run.started_at[:19].replace("T", " ")
    return run.run, run.kind, run.state, run.by, started, f"{run.position} of {run.total}", counts

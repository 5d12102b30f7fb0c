"""`adt-engine messages replay` and `replays`: entries delivered again by the running engine, one by one or in bulk."""

import time
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer

from engine.config.relay import MLLP
from engine.errors import AdtEngineError, UnreachableError, UsageError
from engine.ops.operations.entries import DryRunMessage, DryRunView, ReplayMessage
from engine.ops.operations.fields import run_of
from engine.ops.operations.filters import EntryFilter
from engine.ops.operations.operation import Operation
from engine.ops.operations.replays import (
    BulkPlan,
    ListReplays,
    PauseReplay,
    PlanReplay,
    ReplayPlan,
    ReplayRun,
    ResumeReplay,
    ShowReplay,
    StartReplay,
    StopReplay,
)
from engine.ops.operations.trials import Trial
from engine.ops.terminal.command import ask, takes
from engine.ops.views.phrases import counted, phrase
from engine.terminal.options import DATA, AsJson, Data, Yes, agreed
from engine.terminal.table import NEGATIVE, note, output, print_json, print_line, progress, table, utc

POLL_SECONDS: Final = 0.3
MOST_DRY_RUNS: Final = 1_000
SHOWN: Final = 10
FILTERS: Final = frozenset({*EntryFilter.model_fields, "patient"})
# What a dry run cannot know, printed with it, by the type of the destinations.
LEFT_OPEN: Final = {
    "fhir": "Each entry is taken by itself, against the server as it is now. Whether the server accepts a write only "
    "the server can say: a number that is taken, or too many patients of the same demographics (409), is not foreseen.",
    MLLP: "A relay's receiver is not asked: whether it takes a message it says once it has it.",
}

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print each planned call and what would differ; change nothing.")
]
Resume = Annotated[
    int | None, typer.Option(metavar="RUN", parser=run_of, help="Resume a paused or stopped bulk run and watch it.")
]


@takes(StartReplay, entries="[ENTRY...]")
def replay(
    request: StartReplay,
    dry_run: DryRun = False,
    yes: Yes = False,
    resume: Resume = None,
    data: Data = DATA,
    as_json: AsJson = False,
) -> None:
    """Replay entries: deliver them again in journal order, each in its original place among its patient's messages.

    Named entries are replayed at once; messages that were refused on arrival are judged anew. A filter makes a bulk
    run, which the engine carries out: shown and confirmed first, resumed after a restart, and left to itself with
    Ctrl-C. What is already true on the server changes nothing; what was overtaken by newer data is refused without
    --force.

    Example: adt-engine messages replay 37 41 --dry-run --data /var/lib/adt-engine

    Example: adt-engine messages replay --state rejected --since 2025-07-01 --rate 50 --data /var/lib/adt-engine

    Example: adt-engine messages replay --destination warehouse --yes --data /var/lib/adt-engine
    """
    entries, destination = request.entries, request.destination
    is_filtered = bool(FILTERS & request.model_fields_set)
    if resume:
        watch(data, ask(data, ResumeReplay(run=resume)), as_json=as_json)
    elif entries and is_filtered:
        raise UsageError("name entries, or filter them, not both")
    elif not (entries or is_filtered or destination):
        raise UsageError("name entries, or a filter such as --since or --state; --state delivered means all of them")
    elif dry_run:
        dry_runs(data, entries or _planned(data, request, as_json=as_json).entries, destination, as_json=as_json)
    elif entries:
        each = [ReplayMessage(entry=entry, force=request.force, destination=destination) for entry in entries]
        ask_each(data, each, "replayed", as_json=as_json)
    else:
        _bulk(data, request, yes=yes, as_json=as_json)


def replays(
    data: Data = DATA,
    pause: Annotated[
        int | None, typer.Option(metavar="RUN", parser=run_of, help="Pause this run, until it is resumed.")
    ] = None,
    stop: Annotated[int | None, typer.Option(metavar="RUN", parser=run_of, help="Stop this run.")] = None,
    as_json: AsJson = False,
) -> None:
    """List bulk runs, newest first, or pause or stop one; `messages replay --resume N` resumes it.

    Example: adt-engine messages replays --data /var/lib/adt-engine
    """
    if pause and stop:
        raise UsageError("pause a run or stop it, not both")
    if pause or stop:
        runs = [ask(data, PauseReplay(run=pause) if pause else StopReplay(run=stop))]
    else:
        runs = ask(data, ListReplays())
    if as_json:
        print_json(runs)
        return
    headings = ("Run #", "What", "State", "By", "Started (UTC)", "Processed", "Outcome")
    output().print(table(headings, (_row(run) for run in runs)))


def ask_each(data: Path, requests: Sequence[Operation[Any]], done: str, *, as_json: bool) -> None:
    """Ask for an operation on each entry and print what was done; AdtEngineError names refused entries, and why.

    As JSON each entry with its answer, or why it was refused; what was done is shown even after an interruption.
    """
    answers: list[dict[str, object]] = []
    try:
        failures = list(_asked_each(data, requests, done, None if not as_json else answers))
    finally:
        if as_json:
            print_json(answers)
    if failures:
        raise AdtEngineError("\n".join(failures))


def _asked_each(
    data: Path, requests: Sequence[Operation[Any]], done: str, answers: list[dict[str, object]] | None
) -> Iterator[str]:
    """Ask for each and yield what was refused; what was done is printed, or added to `answers`."""
    for request in requests:
        entry = request.given()["entry"]
        try:
            answer = ask(data, request)
        except (UsageError, UnreachableError):
            raise
        except AdtEngineError as error:
            yield f"{entry}: {error}"
            row = {"refused": str(error)}
        else:
            row = request.to_json(answer)
            if answers is None:
                print_line(f"{entry} {done}")
        if answers is not None:
            answers.append({"entry": entry, **row})


def watch(data: Path, run: ReplayRun, *, as_json: bool) -> None:
    """Show the progress of a run until it is done; Ctrl-C leaves it to the engine."""
    with progress(shown=not as_json) as bar:
        task = bar.add_task(f"run {run.run}", total=run.total)
        try:
            while run.state == "running":
                bar.update(task, completed=run.position - run.counts.get("under way", 0))
                time.sleep(POLL_SECONDS)
                run = ask(data, ShowReplay(run=run.run))
        except KeyboardInterrupt:
            note(
                f"run {run.run} continues in the engine; pause it with `messages replays --pause {run.run}`, or --stop"
            )
            if not as_json:
                return
    (print_json if as_json else _report)(run)


def _bulk(data: Path, request: StartReplay, *, yes: bool, as_json: bool) -> None:
    """Show what a bulk run takes up, ask, and carry it out; where it takes up nothing, the plan is the answer."""
    plan = _planned(data, request, as_json=as_json)
    if not plan.count:
        if as_json:
            print_json(plan)
    elif agreed("replay them?", yes=yes, as_json=as_json):
        watch(data, ask(data, request), as_json=as_json)


def _planned(data: Path, request: StartReplay, *, as_json: bool) -> ReplayPlan:
    """Return what a bulk run would take up, printed for people."""
    plan = ask(data, PlanReplay.parse(request.given()))
    for line in () if as_json else plan_lines(plan, plan.overtaken, request.rate, force=request.force):
        print_line(line)
    return plan


def plan_lines(plan: BulkPlan, overtaken: int, rate: float, *, force: bool) -> Iterator[str]:
    """Yield what a bulk run would take up, and how much of that was overtaken by newer data."""
    if not plan.count:
        yield "no entries match"
        return
    events = ", ".join(f"{count} {event}" for event, count in list(plan.events.items())[:SHOWN])
    yield f"{plan.count} entries, {plan.first} to {plan.last}: {events}"
    yield f"in journal order, {rate:g} a second: about {plan.count / rate:.0f} seconds"
    if overtaken:
        end = "are delivered all the same (--force)" if force else "will be refused without --force"
        yield f"{overtaken} were overtaken by newer data of their patients and {end}"


def trial_lines(plan: Trial, *, again: bool = False) -> Iterator[str]:
    """Yield what a dry run says of the oldest entries of a bulk run: how many, and of the others how, why and which.

    `again`: what would be held is held now.
    """
    if not plan.tried:
        return
    yield f"dry run of the oldest {plan.tried}, without a write: {plan.deliver} would be delivered"
    for one in plan.outlook:
        of = [str(row.entry) for row in plan.again if (row.verdict, row.reason) == (one.verdict, one.reason)]
        named = ", ".join(of[:SHOWN]) + (" …" if len(of) > SHOWN else "")
        verdict = "held again" if again and one.verdict == "held" else phrase(one.verdict)
        yield f"{one.entries} would be {verdict}: {one.reason} ({named})"


def dry_runs(data: Path, entries: Sequence[int], destination: str, *, as_json: bool) -> None:
    """Print what a replay of entries would do, the first 1,000 of them; nothing is written."""
    found = (ask(data, DryRunMessage(entry=entry, destination=destination)) for entry in entries[:MOST_DRY_RUNS])
    if as_json:
        print_json(list(found))
        return
    types: set[str] = set()
    for one in found:
        print_dry_run(one)
        types.update(place.type for place in one.destinations)
    if len(entries) > MOST_DRY_RUNS:
        print_line("and more: name entries to see theirs")
    left_open(types)


def left_open(types: Set[str]) -> None:
    """Print what a dry run at destinations of these types cannot know."""
    for type_, text in LEFT_OPEN.items():
        if type_ in types:
            note(text)


def print_dry_run(found: DryRunView) -> None:
    """Print what a replay would do: each planned call, what would differ, and a message as a relay would send it."""
    print_line(f"Entry {found.entry}", "bold")
    for difference in found.differences:
        print_line(f"  edited {difference.path}: {_value(difference.before)} -> {_value(difference.after)}")
    if found.refused:
        print_line(f"  would be refused: {found.refused.reason}", NEGATIVE)
        for finding in found.refused.findings:
            print_line(f"    {finding}")
    for place in found.destinations:
        late = ", but needs --force: something newer was applied" if place.overtaken else ""
        print_line(f"  {place.destination}: would be {phrase(place.verdict)} {place.reason}{late}".rstrip())
        for call in place.calls:
            print_line(f"    {call.method} {call.path}{'' if call.changes else ' (preview)'}")
            for segment in call.body.splitlines() if place.type == MLLP and isinstance(call.body, str) else ():
                print_line(f"      {segment}")
        for change in place.differences:
            print_line(f"      {change.resource} {change.path}: {_value(change.before)} -> {_value(change.after)}")


def _value(value: object) -> str:
    return "nothing" if value is None else value if isinstance(value, str) else orjson.dumps(value).decode()


def _report(run: ReplayRun) -> None:
    print_line(f"run {run.run} {phrase(run.state, 'run')}: {run.position} of {run.total} processed: {_counts(run)}")
    for refusal in run.refusals[:SHOWN]:
        print_line(f"  {refusal.entry}: {refusal.why}")
    if len(run.refusals) > SHOWN:
        print_line(f"  and more: `messages replays --json` lists the first {len(run.refusals)}")
    for held in run.again[:SHOWN]:
        print_line(f"  {held.entry} is held again: {held.reason or 'released since'}")


def _row(run: ReplayRun) -> tuple[object, ...]:
    position = f"{run.position} of {run.total}"
    return run.run, run.kind, phrase(run.state, "run"), run.by, utc(run.started_at), position, _counts(run)


def _counts(run: ReplayRun) -> str:
    return counted(run.counts)

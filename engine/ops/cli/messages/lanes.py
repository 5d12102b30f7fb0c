"""`adt-engine lanes`: what is held, what waits behind it, and its release, retry and discard in bulk."""

from pathlib import Path
from typing import Annotated, cast

import typer

from engine.ops.cli.messages.replays import trial_lines, watch
from engine.ops.operations.entries import check_reason
from engine.ops.operations.held import DiscardHeld, HeldPlan, HeldSelection, PlanHeld, ReleaseHeld, RetryHeld
from engine.ops.operations.lanes import HeldView, LaneView, ListHeld, ShowLane
from engine.ops.operations.operation import Operation
from engine.ops.operations.replays import ReplayRun
from engine.ops.terminal.command import ask, asks, takes
from engine.ops.views.phrases import phrase
from engine.terminal.options import DATA, AsJson, Data, Yes, agreed
from engine.terminal.table import output, print_json, print_line, remark, table, utc

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say how many would be delivered, and why not the others; change nothing.")
]

app = typer.Typer(
    help="Show what is held and what is waiting behind it; release, retry or discard in bulk.", no_args_is_help=True
)


@app.command(name="list")
@asks(ListHeld, limit=None)
def list_(rows: list[HeldView]) -> None:
    """List what is held, oldest first: since when, why, how much is waiting behind it, and whom to call.

    Example: adt-engine lanes list --data /var/lib/adt-engine
    """
    several = len({row.destination for row in rows}) > 1
    headings = ("Entry #", "Reason", "Held for", "Event", "Waiting #", "Patients #", "Channel", "Destination")
    output().print(table(headings[: None if several else -1], (_row(row, several=several) for row in rows)))
    for name, contact in sorted({(row.channel, row.contact) for row in rows if row.contact}):
        remark(f"{name}: call {contact}")


@app.command()
@asks(ShowLane, entry="ENTRY", limit=None)
def show(found: LaneView) -> None:
    """Show what is waiting behind an entry in its lanes, in order.

    Example: adt-engine lanes show 37 --data /var/lib/adt-engine
    """
    print_line(f"Entry {found.entry} at {found.destination}: {found.reason}", "bold")
    if found.contact:
        print_line(f"contact of {found.channel}: {found.contact}")
    print_line(f"behind it {found.waiting.entries} entries of {found.waiting.patients} patients")
    headings = ("Entry #", "Received (UTC)", "Event", "Control ID", "State")
    rows = ((row.entry, utc(row.received_at), row.event, row.control_id, phrase(row.state)) for row in found.waits)
    output().print(table(headings, rows))


@app.command()
@takes(ReleaseHeld, entries="[ENTRY...]")
def release(
    request: ReleaseHeld, dry_run: DryRun = False, yes: Yes = False, data: Data = DATA, as_json: AsJson = False
) -> None:
    """Release held entries in bulk once the cause is fixed: the engine carries out a bulk run.

    The oldest 200 are tried at the server before you confirm, without a write: how many would be delivered, and of the
    others why not. --dry-run stops there.

    Example: adt-engine lanes release --reason http-422 --rate 50 --data /var/lib/adt-engine
    """
    _begin(data, request, "release", dry_run=dry_run, yes=yes, as_json=as_json)


@app.command()
@takes(RetryHeld, entries="[ENTRY...]")
def retry(
    request: RetryHeld, dry_run: DryRun = False, yes: Yes = False, data: Data = DATA, as_json: AsJson = False
) -> None:
    """Retry held entries in bulk now; named entries also where they wait for their next retry.

    With --since those that have been held since then: all of last night's. The oldest 200 are tried before you confirm,
    as for a release; --dry-run stops there.

    Example: adt-engine lanes retry --since 22:00 --dry-run --data /var/lib/adt-engine

    Example: adt-engine lanes retry 37 41 --data /var/lib/adt-engine
    """
    _begin(data, request, "retry", dry_run=dry_run, yes=yes, as_json=as_json)


@app.command()
@takes(DiscardHeld, entries="[ENTRY...]")
def discard(request: DiscardHeld, yes: Yes = False, data: Data = DATA, as_json: AsJson = False) -> None:
    """Discard held entries in bulk for good, with a reason; what is waiting behind them continues.

    Example: adt-engine lanes discard --reason no-identity --because "test data" --data /var/lib/adt-engine
    """
    check_reason(request.because, "the entries are discarded", "--because")
    _begin(data, request, "discard", dry_run=False, yes=yes, as_json=as_json)


def _begin(data: Path, request: HeldSelection, what: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Show what a run would take up, ask, begin it and watch it.

    Where it takes up nothing, or in a dry run, the plan is the answer.
    """
    named = {name: value for name, value in request.given().items() if name in HeldSelection.model_fields}
    plan = ask(
        data, PlanHeld.parse({**named, "dry_run": what != "discard" and (dry_run or not yes), "retry": what == "retry"})
    )
    if as_json and (dry_run or not plan.count):
        print_json(plan)
        return
    if not as_json:
        _preview(plan)
    if plan.count and not dry_run and agreed(f"{what} {plan.count} entries?", yes=yes, as_json=as_json):
        run: ReplayRun = ask(data, cast("Operation[ReplayRun]", request))
        watch(data, run, as_json=as_json)


def _preview(plan: HeldPlan) -> None:
    if not plan.count:
        print_line("nothing held matches")
        return
    print_line(f"{plan.count} {'entry' if plan.count == 1 else 'entries'}, {plan.first} to {plan.last}")
    for line in trial_lines(plan, again=True):
        print_line(line)


def _row(row: HeldView, *, several: bool) -> tuple[object, ...]:
    more = "+" if row.more else ""
    cells = (
        row.entry, row.reason, _age(row.age_seconds), row.event, f"{row.waiting.entries}{more}",
        row.waiting.patients, row.channel,
    )  # fmt: skip
    return (*cells, row.destination) if several else cells


def _age(seconds: int | None) -> str:
    if seconds is None:
        return ""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    return f"{days} d" if days > 1 else f"{hours} h" if hours > 1 else f"{minutes} min"

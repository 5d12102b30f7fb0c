"""Bulk runs: which entries, what it would be, then its progress; stop and resume."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from engine.errors import UsageError
from engine.ops.access.actor import Permission
from engine.ops.operations.fields import STATES, digits_of
from engine.ops.operations.held import DiscardHeld, HeldSelection, PlanHeld, ReleaseHeld, RetryHeld
from engine.ops.operations.operation import Operation
from engine.ops.operations.replays import (
    BulkPlan,
    ListReplays,
    PauseReplay,
    PlanReplay,
    ReplayRun,
    ResumeReplay,
    ShowReplay,
    StartReplay,
    StopReplay,
)
from engine.ops.web.call import WebCall, form, go
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Route
from engine.ops.web.stream import streamed

FILTERS: Final = ("state", "channel", "event", "patient", "reason", "since", "until", "destination")
RATE: Final = 200


async def _list(call: WebCall) -> Response:
    return await _form(call, {})


async def _plan(call: WebCall) -> Response:
    """Show what a run would take up; nothing is begun before that was seen."""
    given = _given(call)
    try:
        plan = await call.perform(PlanReplay, **given, dry_run=True)
    except UsageError as error:
        return await _form(call, given, 422, str(error).removeprefix("--"))
    kept = call.context.searches.keep(call.owner, given)
    return await call.page(
        "run_plan.html", plan=plan, kept=kept, filters={k: v for k, v in given.items() if k in FILTERS}, given=given
    )


async def _start(call: WebCall) -> Response:
    """Begin what was planned, as it was kept: the form carries its id alone."""
    given = call.context.searches.find(call.owner, call.form.get("plan", ""))
    if given is None:
        raise RefusedRequestError(404, "this plan has expired: make it again")
    run = await call.perform(StartReplay, **given)
    return go(f"/runs/{run.run}", "run")


async def _show(call: WebCall) -> Response:
    return await call.page("run.html", run=await _run(call))


async def _live(call: WebCall) -> Response:
    number = call.run()
    await call.perform(ShowReplay, run=number)

    async def progress() -> str:
        return await call.part("parts/run.html", run=await call.perform(ShowReplay, run=number))

    return streamed(call, progress)


async def _form(call: WebCall, given: dict[str, object], status: int = 200, alarm: str = "") -> Response:
    runs = await call.perform(ListReplays, limit=50)
    channels, destinations = sorted(call.context.engine.feeds), sorted(call.context.engine.dispatches)
    return await call.page(
        "runs.html", status, runs=runs, given=given, alarm=alarm, channels=channels, destinations=destinations,
        rate=RATE, states=STATES,
    )  # fmt: skip


async def _run(call: WebCall) -> ReplayRun:
    return await call.perform(ShowReplay, run=call.run())


def _given(call: WebCall) -> dict[str, object]:
    given: dict[str, object] = {name: call.form[name].strip() for name in FILTERS if call.form.get(name, "").strip()}
    rate = call.form.get("rate", "").strip()
    if rate:
        given["rate"] = digits_of(rate)
        if given["rate"] is None:
            raise RefusedRequestError(422, "the rate is a number of entries a second")
    return given


ROUTES: Final = (
    Route("GET", "/runs", Permission.METADATA, _list, label="Bulk runs"),
    Route("POST", "/runs/plan", Permission.OPERATE, _plan),
    Route("POST", "/runs/start", Permission.OPERATE, _start),
    Route("GET", "/runs/{run}", Permission.METADATA, _show),
    Route("GET", "/live/run", Permission.METADATA, _live),
    form("/runs/{run}/pause", PauseReplay, to="/runs/{run}", notice="paused"),
    form("/runs/{run}/stop", StopReplay, to="/runs/{run}", notice="stopped"),
    form("/runs/{run}/resume", ResumeReplay, to="/runs/{run}", notice="run"),
)


# The name of a row's box is this and the number of its entry: a form names no field twice.
BOX: Final = "entry-"


@dataclass(frozen=True, slots=True)
class BulkAct:
    """What a bulk run does: its verb, what plans it and with what, and what begins it."""

    verb: str
    plan: type[Operation[Any]]
    options: Mapping[str, object]
    start: type[Operation[ReplayRun]]


ACTS: Final[Mapping[str, BulkAct]] = {
    "release": BulkAct("Release", PlanHeld, {}, ReleaseHeld),
    "retry": BulkAct("Retry", PlanHeld, {"retry": True}, RetryHeld),
    "discard": BulkAct("Discard", PlanHeld, {"dry_run": False}, DiscardHeld),
    "replay": BulkAct("Replay", PlanReplay, {"dry_run": True}, StartReplay),
}


def act_of(call: WebCall) -> str:
    """Return what the form asks for; RefusedRequestError 400 for what is no bulk act."""
    act = call.form.get("do", "")
    if act not in ACTS:
        raise RefusedRequestError(400, f"choose what to do: {', '.join(ACTS)}")
    return act


async def plan(call: WebCall, act: str, given: Mapping[str, Any], back: str) -> Response:
    """Show what would be taken up and what would not be delivered; nothing is begun before that was seen."""
    if given.get("since"):
        # A moment: `12h` is another one when the run begins.
        since = HeldSelection.parse(given).since
        given = {**given, "since": since.isoformat() if since else ""}
    found: BulkPlan = await call.perform(ACTS[act].plan, **given, **ACTS[act].options)
    return await _planned(call, act, given, found, back)


async def _planned(
    call: WebCall,
    act: str,
    given: Mapping[str, Any],
    found: BulkPlan,
    back: str,
    status: int = 200,
    alarm: str = "",
) -> Response:
    kept = call.context.searches.keep(call.owner, {"do": act, "given": given, "plan": found, "back": back})
    return await call.page(
        "held_plan.html",
        status,
        act=act,
        verb=ACTS[act].verb,
        given=given,
        plan=found,
        kept=kept,
        alarm=alarm,
        back=back,
    )


async def start(call: WebCall) -> Response:
    """Begin what was planned, as it was kept: the form carries its id, and of a discard the reason."""
    kept = call.context.searches.find(call.owner, call.form.get("plan", ""))
    if kept is None or "do" not in kept:
        raise RefusedRequestError(404, "this plan has expired: make it again")
    given = dict(kept["given"])
    if kept["do"] == "discard":
        given["because"] = call.form.get("because", "")
    try:
        run = await call.perform(ACTS[kept["do"]].start, **given)
    except UsageError as error:
        alarm = str(error).removeprefix("--")
        return await _planned(call, kept["do"], kept["given"], kept["plan"], kept["back"], 422, alarm)
    return go(f"/runs/{run.run}", "run")

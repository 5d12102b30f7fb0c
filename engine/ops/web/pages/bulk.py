"""Bulk runs over chosen entries: a plan with a dry run, shown first, then the run that was planned."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from engine.errors import UsageError
from engine.ops.operations.held import DiscardHeld, HeldSelection, PlanHeld, ReleaseHeld, RetryHeld
from engine.ops.operations.operation import Operation
from engine.ops.operations.replays import BulkPlan, PlanReplay, ReplayRun, StartReplay
from engine.ops.web.call import WebCall, go
from engine.ops.web.refusal import RefusedRequestError

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
    return _planned(call, act, given, found, back)


def _planned(
    call: WebCall,
    act: str,
    given: Mapping[str, Any],
    found: BulkPlan,
    back: str,
    status: int = 200,
    alarm: str = "",
) -> Response:
    kept = call.context.searches.keep(call.owner, {"do": act, "given": given, "plan": found, "back": back})
    return call.page(
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
        return _planned(call, kept["do"], kept["given"], kept["plan"], kept["back"], 422, alarm)
    return go(f"/runs/{run.run}", "run")

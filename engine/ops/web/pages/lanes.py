"""Held work: lanes that stand still, for whom and why, what waits behind them; retry, release and discard in bulk."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from engine.errors import UsageError
from engine.ops.access.actor import Permission
from engine.ops.operations.fields import digits_of
from engine.ops.operations.held import DiscardHeld, HeldSelection, PlanHeld, ReleaseHeld, RetryHeld
from engine.ops.operations.lanes import ListHeld
from engine.ops.operations.operation import Operation
from engine.ops.operations.replays import ReplayRun
from engine.ops.views.reasons import reason_of
from engine.ops.web.call import WebCall, go, names_of
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Route

# As many names as one look puts on record, and as many boxes as a form may have.
MOST: Final = 100
FILTERS: Final = ("reason", "channel", "destination")
# The name of a row's box is this and the number of its entry: a form names no field twice.
BOX: Final = "entry-"
ACTS: Final[Mapping[str, type[Operation[ReplayRun]]]] = {
    "release": ReleaseHeld,
    "retry": RetryHeld,
    "discard": DiscardHeld,
}


async def _list(call: WebCall) -> Response:
    return await _page(call, {name: call.asked(name) for name in FILTERS if call.asked(name)})


async def _page(call: WebCall, chosen: Mapping[str, str], status: int = 200, alarm: str = "") -> Response:
    held = await call.perform(ListHeld, **chosen, limit=MOST)
    counts = Counter(one.reason for one in held).most_common()
    reasons = sorted(((code, reason_of(code), count) for code, count in counts), key=lambda one: one[1].can_wait)
    names = await names_of(call, [one.entry for one in held])
    return call.page(
        "lanes.html", status, held=held, reasons=reasons, chosen=chosen, most=MOST, names=names, alarm=alarm, box=BOX
    )


async def _plan(call: WebCall) -> Response:
    """Show what would be taken up and what would be held again; nothing is begun before that was seen."""
    act = call.form.get("do", "")
    if act not in ACTS:
        raise RefusedRequestError(400, f"choose what to do: {', '.join(ACTS)}")
    given = _given(call)
    if not given:
        filters = {name: call.form[f"shown-{name}"] for name in FILTERS if call.form.get(f"shown-{name}")}
        return await _page(call, filters, 422, "tick the entries that you mean")
    plan = await call.perform(PlanHeld, **given, dry_run=act != "discard", retry=act == "retry")
    return _planned(call, act, given, plan)


def _planned(
    call: WebCall, act: str, given: Mapping[str, Any], plan: object, status: int = 200, alarm: str = ""
) -> Response:
    kept = call.context.searches.keep(call.owner, {"do": act, "given": given, "plan": plan})
    return call.page("held_plan.html", status, act=act, given=given, plan=plan, kept=kept, alarm=alarm)


async def _start(call: WebCall) -> Response:
    """Begin what was planned, as it was kept: the form carries its id, and of a discard the reason."""
    kept = call.context.searches.find(call.owner, call.form.get("plan", ""))
    if kept is None or "do" not in kept:
        raise RefusedRequestError(404, "this plan has expired: make it again")
    given = dict(kept["given"])
    if kept["do"] == "discard":
        given["because"] = call.form.get("because", "")
    try:
        run = await call.perform(ACTS[kept["do"]], **given)
    except UsageError as error:
        return _planned(call, kept["do"], kept["given"], kept["plan"], 422, str(error).removeprefix("--"))
    return go(f"/runs/{run.run}", "run")


def _given(call: WebCall) -> dict[str, object]:
    """Return the entries that were ticked, or the filters where all that they choose is meant."""
    boxes = [name.removeprefix(BOX) for name in call.form if name.startswith(BOX)]
    entries = [number for box in boxes if (number := digits_of(box)) is not None]
    if entries:
        return {"entries": entries}
    return {name: call.form[name] for name in HeldSelection.model_fields if name in FILTERS and call.form.get(name)}


ROUTES: Final = (
    Route("GET", "/lanes", Permission.METADATA, _list, label="Held work"),
    Route("POST", "/lanes/plan", Permission.OPERATE, _plan),
    Route("POST", "/lanes/start", Permission.OPERATE, _start),
)

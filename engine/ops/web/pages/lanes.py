"""Held work: lanes that stand still, for whom and why, what waits behind them; retry, release and discard in bulk."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from engine.errors import UsageError
from engine.ops.access.actor import Permission
from engine.ops.operations.fields import digits_of
from engine.ops.operations.held import HeldSelection
from engine.ops.operations.lanes import ListHeld
from engine.ops.views.reasons import reason_of
from engine.ops.web.call import WebCall, names_of
from engine.ops.web.pages.runs import BOX, act_of, plan, start
from engine.ops.web.route import Route

# As many names as one look puts on record, and as many boxes as a form may have.
MOST: Final = 100
# What is meant by "since" until somebody writes another time: a night.
SINCE: Final = "12h"
FILTERS: Final = ("reason", "channel", "destination", "since")


async def _list(call: WebCall) -> Response:
    return await _page(call, {name: call.asked(name) for name in FILTERS if call.asked(name)})


async def _page(call: WebCall, chosen: Mapping[str, str], status: int = 200, alarm: str = "") -> Response:
    held = await call.perform(ListHeld, **chosen, limit=MOST)
    counts = Counter(one.reason for one in held).most_common()
    reasons = sorted(((code, reason_of(code), count) for code, count in counts), key=lambda one: one[1].can_wait)
    names = await names_of(call, [one.entry for one in held])
    destinations = sorted(call.context.engine.dispatches)
    return await call.page(
        "lanes.html", status, held=held, reasons=reasons, chosen=chosen, most=MOST, names=names, alarm=alarm, box=BOX,
        destinations=destinations, since=call.form.get("since", SINCE),
    )  # fmt: skip


async def _plan(call: WebCall) -> Response:
    """Show what would be taken up and what would be held again; nothing is begun before that was seen."""
    act = act_of(call)
    given = _given(call)
    if not given:
        return await _page(call, _filters(call), 422, "tick the entries that you mean")
    try:
        return await plan(call, act, given, "/lanes")
    except UsageError as error:
        return await _page(call, _filters(call), 422, str(error).removeprefix("--"))


def _filters(call: WebCall) -> dict[str, str]:
    return {name: call.form[f"shown-{name}"] for name in FILTERS if call.form.get(f"shown-{name}")}


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
    Route("POST", "/lanes/start", Permission.OPERATE, start),
)

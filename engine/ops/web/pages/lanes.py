"""Held work: the lanes that stand still, why and for how long, what waits behind them; release in bulk."""

from collections import Counter
from typing import Final

from starlette.responses import Response

from engine.ops.access.actor import Permission
from engine.ops.operations.lanes import ListHeld, ReleaseHeld
from engine.ops.views.reasons import reason_of
from engine.ops.web.call import Call, go
from engine.ops.web.route import Route

MOST: Final = 200


async def _list(call: Call) -> Response:
    given = {name: call.asked(name) for name in ("reason", "channel", "destination") if call.asked(name)}
    held = await call.perform(ListHeld, **given, limit=MOST)
    counts = Counter(one.reason for one in held).most_common()
    reasons = sorted(((code, reason_of(code), count) for code, count in counts), key=lambda one: one[1].can_wait)
    return call.page("lanes.html", held=held, reasons=reasons, chosen=given, most=MOST)


async def _release(call: Call) -> Response:
    given: dict[str, object] = {
        name: call.form[name] for name in ("reason", "channel", "destination") if call.form.get(name)
    }
    run = await call.perform(ReleaseHeld, **given)
    return go(f"/runs/{run.run}", "run")


ROUTES: Final = (
    Route("GET", "/lanes", Permission.METADATA, _list, label="Held work"),
    Route("POST", "/lanes/release", Permission.OPERATE, _release),
)

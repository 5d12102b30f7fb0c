"""The first page, live: what is wrong now, where messages are, how it went, what is held; and the menu's counts."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from starlette.responses import HTMLResponse, Response

from engine.ops.access.actor import Permission
from engine.ops.operations.alerts import AlertView, ListAlerts
from engine.ops.operations.destinations import ResumeDestination, RetryDestination
from engine.ops.operations.lanes import ListHeld
from engine.ops.operations.messages import ShowCharts
from engine.ops.operations.status import ShowStatus
from engine.ops.views.counts import SPANS, Charts
from engine.ops.views.incident import GRAVITY, Severity
from engine.ops.web.call import WebCall, form, go
from engine.ops.web.charts import LineChart, chart, per_minute
from engine.ops.web.pages.login import home_of
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Free, Route
from engine.ops.web.stream import streamed
from engine.ops.web.wording import moment_of


async def _counts(call: WebCall) -> Response:
    call.held = await call.context.tally.held(call.context.engine)
    return HTMLResponse(call.part("parts/counts.html"))


MOST_HELD: Final = 8
MOST_DESTINATIONS: Final = 8


async def _home(call: WebCall) -> Response:
    return go(home_of(call))


async def _show(call: WebCall) -> Response:
    parts = await asyncio.gather(_now(call), _alerts(call), _charts(call), _held(call))
    return call.page("overview.html", **{name: value for part in parts for name, value in part.items()})


async def _live(call: WebCall) -> Response:
    async def now() -> str:
        return call.part("parts/overview.html", **await _now(call))

    async def alerts() -> str:
        return call.part("parts/alerts.html", **await _alerts(call))

    async def held() -> str:
        return call.part("parts/held.html", **await _held(call))

    async def charts() -> str:
        return call.part("parts/charts.html", **await _charts(call))

    _span(call)
    return streamed(call, now, charts, alerts=alerts, held=held)


async def _now(call: WebCall) -> dict[str, object]:
    """Gather what is wrong, and how the stages do that messages pass."""
    status = await call.perform(ShowStatus)
    urgent = [incident for incident in status.incidents if incident.severity is Severity.URGENT]
    destinations = {stage.name: stage.destination for stage in status.stages if stage.destination}
    return {"status": status, "urgent": urgent, "destinations": destinations}


async def _alerts(call: WebCall) -> dict[str, object]:
    """Gather the alerts, the gravest first and then the oldest; acknowledged ones apart."""
    alerts = await call.perform(ListAlerts)
    ordered: list[AlertView] = sorted(alerts, key=lambda one: (GRAVITY[one.severity], one.opened_at))
    return {
        "alerts": [one for one in ordered if not one.acknowledged_at],
        "acknowledged": [one for one in ordered if one.acknowledged_at],
    }


async def _held(call: WebCall) -> dict[str, object]:
    held = await call.perform(ListHeld, limit=MOST_HELD + 1)
    return {"held": held[:MOST_HELD], "more_held": len(held) > MOST_HELD}


def _span(call: WebCall) -> str:
    span = call.asked("span") or "1h"
    if span not in SPANS:
        raise RefusedRequestError(404, f"there are no charts of that time: {', '.join(SPANS)}")
    return span


async def _charts(call: WebCall) -> dict[str, object]:
    span = _span(call)
    found = await call.perform(ShowCharts, span=span)
    shown, more = sorted(found.delivery_ms)[:MOST_DESTINATIONS], sorted(found.delivery_ms)[MOST_DESTINATIONS:]
    return {
        "span": span,
        "spans": tuple(SPANS),
        "charts": list(_drawn(found, shown, call.context.clock())),
        "more": more,
    }


def _drawn(found: Charts, destinations: Iterable[str], now: datetime) -> Iterator[LineChart]:
    times = [moment_of(at) or now for at in found.at]
    total = partial(_sum, times)
    rate = partial(per_minute, times, found.seconds, now)
    yield chart(
        "Messages",
        "a minute",
        times,
        {"received": rate(total(found.received.values())), "delivered": rate(total(found.delivered.values()))},
    )
    yield chart(
        "Held and refused", "", times, {"held": total(found.held.values()), "refused": total(found.refused.values())}
    )
    yield chart("Waiting", "", times, found.depth)
    yield chart("ACK time", "ms", times, found.ack_ms)
    for name in destinations:
        yield chart(f"Delivery to {name}", "ms", times, found.delivery_ms[name])


def _sum(times: Sequence[datetime], series: Iterable[Sequence[int]]) -> list[int]:
    """Return the sum of series at each time; zeros where there is no series."""
    return [sum(values) for values in zip([0] * len(times), *series, strict=True)]


_DONE: Final = {"to": "/overview", "notice": "channel"}


ROUTES: Final = (
    Route("GET", "/", Free.SIGNED_IN, _home),
    Route("GET", "/overview", Permission.METADATA, _show, label="Overview"),
    Route("GET", "/live/overview", Permission.METADATA, _live),
    form("/overview/retry", RetryDestination, "destination", to="/overview", notice="tried"),
    form("/overview/resume", ResumeDestination, "destination", **_DONE),
    Route("GET", "/live/menu", Permission.METADATA, _counts),
)

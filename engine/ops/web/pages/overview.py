"""The first page, live: what is wrong now, where messages are, how it went, what is held; and the menu's counts."""

import asyncio
from typing import Final
from urllib.parse import urlencode

from starlette.responses import HTMLResponse, Response

from engine.errors import UsageError
from engine.ops.access.actor import Permission
from engine.ops.operations.alerts import AlertView, ListAlerts
from engine.ops.operations.destinations import ResumeDestination, RetryDestination
from engine.ops.operations.lanes import ListHeld
from engine.ops.operations.messages import ShowCharts
from engine.ops.operations.status import ShowStatus
from engine.ops.views.charting import SPANS
from engine.ops.views.incident import GRAVITY, Severity
from engine.ops.views.wording import span
from engine.ops.web.call import WebCall, form, go, names_of
from engine.ops.web.chart_page import ChartPage, volumes
from engine.ops.web.pages.login import home_of
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Free, Route
from engine.ops.web.stream import streamed


async def _counts(call: WebCall) -> Response:
    call.held = await call.context.tally.held(call.context.engine)
    return HTMLResponse(call.part("parts/counts.html"))


MOST_HELD: Final = 8
PERIOD: Final = ("span", "since", "until")
MOST_DESTINATIONS: Final = 8


async def _home(call: WebCall) -> Response:
    return go(home_of(call))


async def _show(call: WebCall) -> Response:
    parts = await asyncio.gather(_now(call), _alerts(call), _charts(call), _held(call))
    values = {name: value for part in parts for name, value in part.items()}
    return call.page("overview.html", 422 if values["alarm"] else 200, **values)


async def _live(call: WebCall) -> Response:
    async def now() -> str:
        return call.part("parts/overview.html", **await _now(call))

    async def alerts() -> str:
        return call.part("parts/alerts.html", **await _alerts(call))

    async def held() -> str:
        return call.part("parts/held.html", **await _held(call))

    async def charts() -> str:
        return call.part("parts/charts.html", **await _charts(call))

    _period(call)
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
    names = await names_of(call, [one.entry for one in held[:MOST_HELD]])
    return {"held": held[:MOST_HELD], "more_held": len(held) > MOST_HELD, "names": names}


def _period(call: WebCall) -> dict[str, str]:
    """Return what the address says of the charts' time: a span, or two moments."""
    given = {name: text for name in PERIOD if (text := call.asked(name).strip())}
    if given.get("span", "1h") not in SPANS:
        raise RefusedRequestError(404, f"there are no charts of that time: {', '.join(SPANS)}")
    return given or {"span": "1h"}


async def _charts(call: WebCall) -> dict[str, object]:
    """Gather the charts of a time; of one that they do not show, why."""
    period = _period(call)
    around: dict[str, object] = {
        "period": {name: period.get(name, "") for name in PERIOD},
        "query": urlencode(period),
        "spans": tuple(SPANS),
    }
    try:
        found = await call.perform(ShowCharts, **period)
    except UsageError as error:
        why = str(error).replace("--since", "From").replace("--until", "Until").replace("--span", "Span")
        return {**around, "alarm": f"{why[:1].upper()}{why[1:]}", "charts": [], "more": [], "volumes": [], "point": ""}
    page = ChartPage(found, call.context.clock())
    destinations = page.destinations()
    return {
        **around,
        "alarm": "",
        "charts": list(page.charts(destinations[:MOST_DESTINATIONS])),
        "more": destinations[MOST_DESTINATIONS:],
        "volumes": volumes(found),
        "point": span(found.seconds),
    }


_DONE: Final = {"to": "/overview", "notice": "channel"}


ROUTES: Final = (
    Route("GET", "/", Free.SIGNED_IN, _home),
    Route("GET", "/overview", Permission.METADATA, _show, label="Overview"),
    Route("GET", "/live/overview", Permission.METADATA, _live),
    form("/overview/retry", RetryDestination, "destination", to="/overview", notice="tried"),
    form("/overview/resume", ResumeDestination, "destination", **_DONE),
    Route("GET", "/live/menu", Permission.METADATA, _counts),
)

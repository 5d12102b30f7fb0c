"""The first page, live: what is wrong now, where messages are, how it went, what is held; and the menu's counts."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final
from urllib.parse import urlencode

from markupsafe import Markup
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
    return HTMLResponse(await call.part("parts/counts.html"))


MOST_HELD: Final = 8
PERIOD: Final = ("span", "since", "until")
MOST_DESTINATIONS: Final = 8


# `call.perform`, or in a stream `call.share`.
Ask = Callable[..., Coroutine[Any, Any, Any]]


async def _home(call: WebCall) -> Response:
    return go(home_of(call))


async def _show(call: WebCall) -> Response:
    # One after the other: threads that read at once keep the interpreter longest from the loop. Charts may be a little
    # old.
    values = await _now(call, call.perform) | await _alerts(call, call.perform) | await _held(call, call.perform)
    values |= await _charts(call)
    return await call.page("overview.html", 422 if values["alarm"] else 200, **values)


async def _live(call: WebCall) -> Response:
    async def now() -> str:
        return await call.part("parts/overview.html", **await _now(call, call.share))

    async def alerts() -> str:
        return await call.part("parts/alerts.html", **await _alerts(call, call.share))

    async def held() -> str:
        return await call.part("parts/held.html", **await _held(call, call.share))

    async def charts() -> str:
        values = await _charts(call)
        return await call.part("parts/drawn_charts.html", **values)

    _period(call)
    return streamed(call, now, charts, alerts=alerts, held=held)


async def _now(_call: WebCall, ask: Ask) -> dict[str, object]:
    """Gather what is wrong, and how the stages do that messages pass."""
    status = await ask(ShowStatus)
    urgent = [incident for incident in status.incidents if incident.severity is Severity.URGENT]
    destinations = {stage.name: stage.destination for stage in status.stages if stage.destination}
    return {"status": status, "urgent": urgent, "destinations": destinations}


async def _alerts(_call: WebCall, ask: Ask) -> dict[str, object]:
    """Gather the alerts, the gravest first and then the oldest; acknowledged ones apart."""
    alerts = await ask(ListAlerts)
    ordered: list[AlertView] = sorted(alerts, key=lambda one: (GRAVITY[one.severity], one.opened_at))
    return {
        "alerts": [one for one in ordered if not one.acknowledged_at],
        "acknowledged": [one for one in ordered if one.acknowledged_at],
    }


async def _held(call: WebCall, ask: Ask) -> dict[str, object]:
    held = await ask(ListHeld, limit=MOST_HELD + 1)
    names = await names_of(call, [one.entry for one in held[:MOST_HELD]])
    return {"held": held[:MOST_HELD], "more_held": len(held) > MOST_HELD, "names": names}


def _period(call: WebCall) -> dict[str, str]:
    """Return what the address says of the charts' time: a span, or two moments."""
    given = {name: text for name in PERIOD if (text := call.asked(name).strip())}
    if given.get("span", "1h") not in SPANS:
        raise RefusedRequestError(404, f"there are no charts of that time: {', '.join(SPANS)}")
    return given or {"span": "1h"}


async def _charts(call: WebCall) -> dict[str, object]:
    """Gather the charts of a time, drawn for all browsers at once; of a time that they do not show, why."""
    period = _period(call)

    async def drawn() -> Markup:
        found = await call.perform(ShowCharts, **period)
        shown = await asyncio.to_thread(_shown, ChartPage(found, call.context.clock()))
        volume = {"volumes": volumes(found), "point": span(found.seconds)}
        text = await call.context.renderer.render("parts/charts.html", {**shown, **volume})
        return Markup(text)  # noqa: S704 - rendered, so escaped

    alarm, charts = "", Markup()
    try:
        charts = await call.context.shared.of((ShowCharts, *period.items()), drawn)
    except UsageError as error:
        why = str(error).replace("--since", "From").replace("--until", "Until").replace("--span", "Span")
        alarm = f"{why[:1].upper()}{why[1:]}"
    return {
        "period": {name: period.get(name, "") for name in PERIOD},
        "query": urlencode(period),
        "spans": tuple(SPANS),
        "alarm": alarm,
        "charts": charts,
    }


def _shown(page: ChartPage) -> dict[str, object]:
    destinations = page.destinations()
    charts = list(page.charts(destinations[:MOST_DESTINATIONS]))
    return {"charts": charts, "more": destinations[MOST_DESTINATIONS:]}


_DONE: Final = {"to": "/overview", "notice": "channel"}


ROUTES: Final = (
    Route("GET", "/", Free.SIGNED_IN, _home),
    Route("GET", "/overview", Permission.METADATA, _show, label="Overview"),
    Route("GET", "/live/overview", Permission.METADATA, _live),
    form("/overview/retry", RetryDestination, "destination", to="/overview", notice="tried"),
    form("/overview/resume", ResumeDestination, "destination", **_DONE),
    Route("GET", "/live/menu", Permission.METADATA, _counts),
)

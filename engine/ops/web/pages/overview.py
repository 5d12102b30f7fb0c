"""The first page: what is wrong now, what waits, and how the last hour went; live."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from starlette.responses import Response

from engine.ops.access.actor import Permission
from engine.ops.operations.alerts import ListAlerts
from engine.ops.operations.destinations import ListDestinations
from engine.ops.operations.lanes import ListHeld
from engine.ops.operations.messages import CountMessages, ShowThroughput
from engine.ops.web.call import Call, go
from engine.ops.web.charts import Point, chart
from engine.ops.web.pages.entrance import home_of
from engine.ops.web.route import Free, Route
from engine.ops.web.stream import streamed
from engine.ops.web.wording import moment_of

MOST_HELD: Final = 8
HOUR: Final = timedelta(hours=1)
POINTS: Final = 60
WRONG: Final = frozenset({"held", "rejected"})


async def _home(call: Call) -> Response:
    return go(home_of(call))


async def _show(call: Call) -> Response:
    now, charts = await asyncio.gather(_now(call), _charts(call))
    return call.page("overview.html", **now, **charts)


async def _live(call: Call) -> Response:
    async def now() -> str:
        return call.part("parts/overview.html", **await _now(call))

    async def charts() -> str:
        return call.part("parts/charts.html", **await _charts(call))

    return streamed(call, now, charts)


async def _now(call: Call) -> dict[str, object]:
    """Gather what is wrong, the oldest and the worst first."""
    counts, held, alerts, destinations = await asyncio.gather(
        call.perform(CountMessages, since="1h"),
        call.perform(ListHeld, limit=MOST_HELD + 1),
        call.perform(ListAlerts),
        call.perform(ListDestinations),
    )
    queues = counts.queues.values()
    return {
        "counts": counts,
        "received": sum(one["received"] for one in counts.received.values()),
        "refused": sum(one["refused"] for one in counts.received.values()),
        "unfinished": sum(one.unfinished for one in queues),
        "held_count": sum(one.held for one in queues),
        "oldest_seconds": max((one.age_seconds or 0 for one in queues), default=0),
        "held": held[:MOST_HELD],
        "more_held": len(held) > MOST_HELD,
        "alerts": sorted(alerts, key=lambda one: (bool(one.acknowledged_at), one.can_wait, one.opened_at)),
        "stuck": [one for one in destinations if one.state != "ready"],
    }


async def _charts(call: Call) -> dict[str, object]:
    now = call.desk.clock()
    since = now - HOUR
    series = await call.perform(ShowThroughput, since=since.isoformat(), until=now.isoformat(), points=POINTS)
    times = [moment_of(at) or now for at in series.at]
    errors = [
        *series.refused.values(),
        *(ends for one in series.settled.values() for state, ends in one.items() if state in WRONG),
    ]
    latency = _worst([one["p99"] for one in series.ack_ms.values()])
    minutes = max(series.seconds, 1) / 60
    charts = (
        chart("Received", "a minute", _points(times, _rate(_sum(series.received.values(), times), minutes))),
        chart("ACK time, p99", "ms", _points(times, latency)),
        chart("Oldest unfinished", "s", [one for one in call.desk.history.samples if one[0] >= since]),
        chart("Refused or held", "a minute", _points(times, _rate(_sum(errors, times), minutes))),
    )
    return {"charts": charts}


def _sum(series: Iterable[Sequence[float]], times: Sequence[datetime]) -> list[float]:
    """Return the sum of series at each time; zeros where there is no series."""
    return [sum(values) for values in zip([0.0] * len(times), *series, strict=True)]


def _worst(series: Sequence[Sequence[float | None]]) -> list[float | None]:
    found = ([value for value in values if value is not None] for values in zip(*series, strict=True))
    return [max(values) if values else None for values in found]


def _rate(values: Sequence[float], minutes: float) -> list[float | None]:
    return [value / minutes for value in values]


def _points(times: Sequence[datetime], values: Sequence[float | None]) -> list[Point]:
    return list(zip(times, values, strict=False))


ROUTES: Final = (
    Route("GET", "/", Free.SIGNED_IN, _home),
    Route("GET", "/overview", Permission.METADATA, _show, label="Overview"),
    Route("GET", "/live/overview", Permission.METADATA, _live),
)

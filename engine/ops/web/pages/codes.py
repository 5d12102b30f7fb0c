"""Unmapped codes: where messages held a code that a table has no row for."""

from typing import Final

from starlette.responses import Response

from engine.ops.acts.role import Permission
from engine.ops.web.call import Call
from engine.ops.web.route import Route

# The answer for as far back as an author would look.
SPANS: Final = ("24h", "7d", "30d")


async def _show(call: Call) -> Response:
    since = call.asked("since")
    since = since if since in SPANS else SPANS[1]
    found = await call.perform("codes.unmapped", since=since)
    return call.page("codes.html", found=found, since=since, spans=SPANS)


async def _values(call: Call) -> Response:
    place = call.asked("place")
    found = await call.perform("codes.values", entry=call.entry(), place=place)
    return call.page("code_values.html", found=found, entry=call.entry(), place=place)


ROUTES: Final = (
    Route("GET", "/codes", Permission.METADATA, _show, label="Unmapped codes"),
    Route("GET", "/codes/{entry}", Permission.PHI, _values),
)

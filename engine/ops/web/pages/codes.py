"""Codes that no table has a row for."""

from typing import Final

from starlette.responses import Response

from engine.ops.access.actor import Permission
from engine.ops.operations.messages import ListCodeValues, ListUnmapped
from engine.ops.web.call import WebCall
from engine.ops.web.route import Route

SPANS: Final = ("24h", "7d", "30d")


async def _show(call: WebCall) -> Response:
    since = _since(call)
    return call.page("codes.html", found=await call.perform(ListUnmapped, since=since), since=since, spans=SPANS)


async def _values(call: WebCall) -> Response:
    place, since = call.asked("place"), _since(call)
    found = await call.perform(ListCodeValues, place=place, since=since)
    return call.page("code_values.html", found=found, place=place, since=since)


def _since(call: WebCall) -> str:
    asked = call.asked("since")
    return asked if asked in SPANS else SPANS[1]


ROUTES: Final = (
    Route("GET", "/codes", Permission.METADATA, _show, label="Unmapped codes"),
    Route("GET", "/codes/values", Permission.PHI, _values),
)

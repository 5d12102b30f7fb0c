"""Lists of work: codes that no table has a row for, and patients who may be there twice."""

from typing import Final

from starlette.responses import Response

from engine.ops.access.actor import Permission
from engine.ops.operations.messages import ListCodeValues, ListMessages, ListUnmapped
from engine.ops.views.reasons import reason_of
from engine.ops.web.call import Call
from engine.ops.web.route import Route

PAGE: Final = 50
DUPLICATE: Final = "possible-duplicate"
SPANS: Final = ("24h", "7d", "30d")


async def _show(call: Call) -> Response:
    since = _since(call)
    return call.page("codes.html", found=await call.perform(ListUnmapped, since=since), since=since, spans=SPANS)


async def _values(call: Call) -> Response:
    place, since = call.asked("place"), _since(call)
    found = await call.perform(ListCodeValues, place=place, since=since)
    return call.page("code_values.html", found=found, place=place, since=since)


async def _duplicates(call: Call) -> Response:
    """List the entries whose patient was made beside one who may be the same, as work to go through."""
    before = call.number("before")
    found = await call.perform(ListMessages, outcome=DUPLICATE, before=before, limit=PAGE)
    more = f"/duplicates?before={found.before}" if found.before else ""
    return call.page(
        "duplicates.html", found=found, more=more, why=reason_of(DUPLICATE), criteria={"outcome": DUPLICATE},
        before=before,
    )  # fmt: skip


def _since(call: Call) -> str:
    asked = call.asked("since")
    return asked if asked in SPANS else SPANS[1]


ROUTES: Final = (
    Route("GET", "/codes", Permission.METADATA, _show, label="Unmapped codes"),
    Route("GET", "/codes/values", Permission.PHI, _values),
    Route("GET", "/duplicates", Permission.METADATA, _duplicates, label="Possible duplicates"),
)

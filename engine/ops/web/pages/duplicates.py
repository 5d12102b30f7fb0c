"""Possible duplicates: patients that were made beside one who may be the same, as a list of work."""

from typing import Final

from starlette.responses import Response

from engine.ops.access.role import Permission
from engine.ops.operations.messages import ListMessages
from engine.ops.views.reasons import reason_of
from engine.ops.web.call import Call
from engine.ops.web.route import Route

NOTE: Final = "possible-duplicate"
PAGE: Final = 50


async def _show(call: Call) -> Response:
    before = call.number("before")
    found = await call.perform(ListMessages, outcome=NOTE, before=before, limit=PAGE)
    more = f"/duplicates?before={found.before}" if found.before else ""
    return call.page(
        "duplicates.html", found=found, more=more, why=reason_of(NOTE), criteria={"outcome": NOTE}, before=before
    )


ROUTES: Final = (Route("GET", "/duplicates", Permission.METADATA, _show, label="Possible duplicates"),)

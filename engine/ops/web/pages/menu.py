"""The counts of the menu, which every page asks for anew by itself every few seconds."""

from typing import Final

from starlette.responses import HTMLResponse, Response

from engine.ops.access.actor import Permission
from engine.ops.web.call import WebCall
from engine.ops.web.route import Route


async def _counts(call: WebCall) -> Response:
    call.held = await call.context.tally.held(call.context.engine)
    return HTMLResponse(call.part("parts/counts.html"))


ROUTES: Final = (Route("GET", "/live/menu", Permission.METADATA, _counts),)

"""The table of reasons: what each code means, whether it can wait until morning, and what to do next."""

from typing import Final

from starlette.responses import Response

from engine.ops.access.role import Permission
from engine.ops.operations.reasons import ListReasons
from engine.ops.web.call import Call
from engine.ops.web.route import Route


async def _show(call: Call) -> Response:
    return call.page("reasons.html", reasons=await call.perform(ListReasons))


ROUTES: Final = (Route("GET", "/reasons", Permission.METADATA, _show, label="Reasons"),)

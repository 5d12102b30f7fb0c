"""The routes of the API, one for each operation, and of its description."""

from collections.abc import Iterable
from functools import cache

import orjson
from starlette.responses import Response

from engine.ops.operations.operation import AnyOperation
from engine.ops.web.api.addresses import ROOT, endpoints
from engine.ops.web.api.answer import View
from engine.ops.web.api.openapi import described
from engine.ops.web.call import Call
from engine.ops.web.route import Free, Gate, Route


def api_routes(operations: Iterable[AnyOperation]) -> tuple[Route, ...]:
    """Return the routes of the API over these operations; each needs what its operation needs."""
    offered = tuple(endpoints(operations))

    @cache
    def description() -> bytes:
        return orjson.dumps(described(offered))

    async def describe(_call: Call) -> Response:
        return Response(description(), media_type="application/json")

    return (
        Route("GET", f"{ROOT}/openapi.json", Free.SIGNED_IN, describe, Gate.TOKEN),
        *(Route(one.method, ROOT + one.path, one.operation.permission, View(one), Gate.TOKEN) for one in offered),
    )

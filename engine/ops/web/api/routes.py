"""The routes of the API, one for each act, and of its description."""

from collections.abc import Iterable

from starlette.responses import Response

from engine.ops.operations.act import Act
from engine.ops.web.api.answer import View, as_json
from engine.ops.web.api.offer import ROOT, offers
from engine.ops.web.api.openapi import described
from engine.ops.web.call import Call
from engine.ops.web.route import Free, Gate, Route


def api_routes(acts: Iterable[Act]) -> tuple[Route, ...]:
    """Return the routes of the API over these acts; each needs what its act needs."""
    offered = tuple(offers(acts))
    description = described(offered)

    async def describe(_call: Call) -> Response:
        return as_json(description)

    return (
        Route("GET", f"{ROOT}/openapi.json", Free.SIGNED_IN, describe, Gate.TOKEN),
        *(Route(offer.method, ROOT + offer.path, act.permission, View(offer), Gate.TOKEN) for offer, act in offered),
    )

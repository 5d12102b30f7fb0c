"""The routes of the API, one for each operation: JSON in, JSON out."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final

import orjson
from starlette.responses import Response

from engine.ops.operations.addresses import ROOT
from engine.ops.operations.operation import AnyOperation
from engine.ops.web.api.openapi import Endpoint, described, endpoints
from engine.ops.web.body import read_json
from engine.ops.web.call import WebCall, numbered
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Authentication, Free, Route

MOST_NAME: Final = 40


@dataclass(frozen=True, slots=True)
class View:
    """The view of one endpoint."""

    endpoint: Endpoint

    async def __call__(self, call: WebCall) -> Response:
        """Do the operation and answer with what it returns."""
        operation, is_read = self.endpoint.operation, self.endpoint.method == "GET"
        given = self._asked(call) if is_read else dict(await read_json(call.request))
        self._check_names(given)
        _check_nulls(given)
        for name in self.endpoint.in_path:
            given[name] = numbered(name, call.request.path_params[name], 404)
        done = await call.context.operations.perform(operation, call.by, given, written=is_read)
        return as_json(operation.to_json(done))

    def _asked(self, call: WebCall) -> dict[str, object]:
        """Return the parameters of an address; RefusedRequestError 400 for one that comes twice."""
        found: dict[str, object] = {}
        for name, text in call.request.query_params.multi_items():
            if name in found:
                raise RefusedRequestError(400, f"{name[:MOST_NAME]} comes twice")
            found[name] = text
        return found

    def _check_names(self, given: dict[str, object]) -> None:
        """RefusedRequestError 400 for a name that this address does not take, or that is part of it."""
        others = self.endpoint.others
        for name in given:
            if name not in others:
                known = ", ".join(others) or "nothing"
                raise RefusedRequestError(400, f"{name[:MOST_NAME]} is not taken here; what is: {known}")


def _check_nulls(given: dict[str, object]) -> None:
    """RefusedRequestError 422 for a null at any depth: no field takes one, and what is left out says the same."""
    waiting: list[tuple[str, object]] = list(given.items())
    while waiting:
        name, value = waiting.pop()
        if value is None:
            raise RefusedRequestError(422, f"{name[:MOST_NAME]} is null: leave it out, or give a value")
        if isinstance(value, dict):
            waiting += [(name, one) for one in value.values()]
        elif isinstance(value, list):
            waiting += [(name, one) for one in value]


def as_json(value: object, status: int = 200) -> Response:
    """Return a value as JSON; what JSON has no form for as its text."""
    return Response(orjson.dumps(value, default=str), status, media_type="application/json")


def api_routes(operations: Iterable[AnyOperation]) -> tuple[Route, ...]:
    """Return the routes of the API over these operations; each needs what its operation needs."""
    offered = tuple(endpoints(operations))

    @cache
    def description() -> bytes:
        return orjson.dumps(described(offered))

    async def describe(_call: WebCall) -> Response:
        return Response(description(), media_type="application/json")

    return (
        Route("GET", f"{ROOT}/openapi.json", Free.SIGNED_IN, describe, Authentication.TOKEN),
        *(
            Route(one.method, ROOT + one.path, one.operation.permission, View(one), Authentication.TOKEN)
            for one in offered
        ),
    )

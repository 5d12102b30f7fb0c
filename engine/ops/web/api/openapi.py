"""The description of the API (OpenAPI 3.1), made from the same table as its routes."""

import re
from collections.abc import Iterable
from typing import Any, Final

from engine import __version__
from engine.ops.acts.act import Act
from engine.ops.web.api.answer import NUMBERS
from engine.ops.web.api.offer import ROOT, Offer

_REFUSALS: Final = {
    "400": "it cannot be read",
    "401": "no token, or one that has ended",
    "403": "not with the token's role",
    "404": "there is no such thing",
    "409": "not as things are",
    "413": "more than 1 MiB",
    "422": "it cannot be done as asked",
    "503": "not at this moment",
}
_NAMED: Final = re.compile(r"{(\w+)}")


def described(offers: Iterable[tuple[Offer, Act]]) -> dict[str, Any]:
    """Return the description of the API as JSON-able values."""
    paths: dict[str, dict[str, Any]] = {}
    for offer, act in offers:
        paths.setdefault(ROOT + offer.path, {})[offer.method.lower()] = _operation(offer, act)
    return {
        "openapi": "3.1.0",
        "info": {"title": "adt-engine", "version": __version__, "summary": "What operators do, for programs"},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Problem": _PROBLEM},
            "responses": {status: _refusal(text) for status, text in _REFUSALS.items()},
        },
    }


def _operation(offer: Offer, act: Act) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": act.name,
        "summary": _summary(act),
        "tags": [act.name.partition(".")[0]],
        "x-permission": str(act.permission),
        "responses": {
            "200": {"description": "what the act returns", "content": {"application/json": {"schema": {}}}},
            **{status: {"$ref": f"#/components/responses/{status}"} for status in _REFUSALS},
        },
    }
    named = _NAMED.findall(offer.path)
    if named or offer.query:
        found["parameters"] = [_parameter(name, "path") for name in named] + [
            _parameter(name, "query") for name in offer.query
        ]
    if offer.method == "POST":
        found["requestBody"] = {"content": {"application/json": {"schema": {"type": "object"}}}}
    return found


def _parameter(name: str, place: str) -> dict[str, Any]:
    kind = {"type": "integer", "minimum": 0} if name in NUMBERS else {"type": "string"}
    return {"name": name, "in": place, "required": place == "path", "schema": kind}


def _summary(act: Act) -> str:
    text = (act.run.__doc__ or "").strip().partition("\n")[0]
    return text or act.name


def _refusal(text: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": text, "content": {"application/problem+json": {"schema": schema}}}


_PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}

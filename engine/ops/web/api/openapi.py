"""The description of the API (OpenAPI 3.1), made from the same table as its routes."""

import re
from collections.abc import Iterable
from typing import Any, Final

from engine import __version__
from engine.ops.operations.act import Act
from engine.ops.web.api.given import GIVEN, SCHEMAS
from engine.ops.web.api.offer import ROOT, Offer
from engine.ops.web.api.shape import COUNT, TEXT, Schema, optional, ref, thing
from engine.ops.web.api.taken import TAKEN

_REFUSALS: Final = {
    "400": "it cannot be read",
    "401": "no token, or one that has ended",
    "403": "not with the token's role",
    "404": "there is no such thing",
    "409": "not as things are",
    "413": "more than 1 MiB",
    "415": "not as JSON",
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
            "schemas": {"Problem": _PROBLEM, **SCHEMAS},
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
            "200": {
                "description": "what the act returns",
                "content": {"application/json": {"schema": GIVEN[act.name]}},
            },
            **{status: {"$ref": f"#/components/responses/{status}"} for status in _REFUSALS},
        },
    }
    taken, named = TAKEN[act.name], _NAMED.findall(offer.path)
    if named or offer.query:
        found["parameters"] = [_parameter(name, "path", taken[name]) for name in named] + [
            _parameter(name, "query", taken[name]) for name in offer.query
        ]
    if offer.method == "POST":
        body = optional({name: schema for name, schema in taken.items() if name not in named})
        found["requestBody"] = {"content": {"application/json": {"schema": body}}}
    return found


def _parameter(name: str, place: str, schema: Schema) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _summary(act: Act) -> str:
    text = (act.run.__doc__ or "").strip().partition("\n")[0]
    return text or act.name


def _refusal(text: str) -> dict[str, Any]:
    return {"description": text, "content": {"application/problem+json": {"schema": ref("Problem")}}}


_PROBLEM: Final = thing(type=TEXT, title=TEXT, status=COUNT, detail=TEXT)

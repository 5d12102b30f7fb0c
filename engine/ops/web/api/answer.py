"""Answering programs: what was asked as JSON in, what an act returns as JSON out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from starlette.responses import Response

from engine.ops.request import digits_of
from engine.ops.web.api.offer import Offer
from engine.ops.web.api.shape import COUNT, TRUTH, Schema
from engine.ops.web.api.taken import TAKEN
from engine.ops.web.body import read_json
from engine.ops.web.call import NAMED, Call, numbered
from engine.ops.web.refusal import RefusedRequestError

TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict,
}  # fmt: skip
SWITCHES: Final = {"true": True, "false": False}
MOST_NAME: Final = 40


@dataclass(frozen=True, slots=True)
class View:
    """The view of one offer."""

    offer: Offer

    async def __call__(self, call: Call) -> Response:
        """Do the act and answer with what it returns."""
        taken = TAKEN[self.offer.act]
        named = {name: _value(name, text, taken[name]) for name, text in call.request.path_params.items()}
        if self.offer.method == "GET":
            given = self._asked(call)
        else:
            given = await read_json(call.request)
            _check(given, {name: schema for name, schema in taken.items() if name not in named})
        return as_json(await call.perform(self.offer.act, **given, **named))

    def _asked(self, call: Call) -> Mapping[str, Any]:
        """Return the parameters of an address; RefusedRequestError 400 for one that is none of this address's."""
        found: dict[str, Any] = {}
        for name, text in call.request.query_params.multi_items():
            if name not in self.offer.query or name in found:
                what = "comes twice" if name in found else "is no parameter of this address"
                raise RefusedRequestError(400, f"{name[:MOST_NAME]} {what}")
            found[name] = _value(name, text, TAKEN[self.offer.act][name])
        return found


def as_json(value: Any, status: int = 200) -> Response:
    """Return a value as JSON; what JSON has no form for as its text."""
    return Response(orjson.dumps(value, default=str), status, media_type="application/json")


def _check(given: Mapping[str, Any], taken: Mapping[str, Schema], within: str = "") -> None:
    """RefusedRequestError 400 for a name that is none of these: a mistyped filter would mean everything."""
    for name, value in given.items():
        if name not in taken:
            known = ", ".join(taken) or "nothing"
            raise RefusedRequestError(400, f"{within}{name[:MOST_NAME]} is not taken here; what is: {known}")
        if value is not None and not _is_of(value, taken[name]):
            raise RefusedRequestError(400, f"{within}{name} must be of the type {taken[name]['type']}")
        if isinstance(value, dict) and "properties" in taken[name]:
            _check(value, taken[name]["properties"], f"{name}.")


def _is_of(value: Any, schema: Schema) -> bool:
    """Say whether a value is of a schema's type, and what a list or an object of ours holds is too."""
    inner = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    of = schema.get("items") or schema.get("additionalProperties")
    fits = isinstance(value, TYPES[schema["type"]]) and isinstance(value, bool) is (schema["type"] == "boolean")
    return fits and (not isinstance(of, dict) or all(_is_of(one, of) for one in inner))


def _value(name: str, text: str, schema: Schema) -> Any:
    if schema is COUNT:
        if name in NAMED:
            return numbered(name, text, 404)
        found = digits_of(text)
        if found is None:
            raise RefusedRequestError(400, f"{name} is no number")
        return found
    return SWITCHES.get(text, text) if schema is TRUTH else text

"""Answering programs: what was asked as JSON in, what an act returns as JSON out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from starlette.responses import Response

from engine.ops.web.api.offer import Offer
from engine.ops.web.body import read_json
from engine.ops.web.call import Call
from engine.ops.web.refusal import RefusedRequestError

NUMBERS: Final = frozenset({"entry", "run", "before", "limit", "points"})
SWITCHES: Final = {"true": True, "false": False}
_MOST_DIGITS: Final = 15


@dataclass(frozen=True, slots=True)
class View:
    """The view of one offer."""

    offer: Offer

    async def __call__(self, call: Call) -> Response:
        """Do the act and answer with what it returns."""
        named = {name: _value(name, text) for name, text in call.request.path_params.items()}
        given = self._asked(call) if self.offer.method == "GET" else await read_json(call.request)
        twice = [name for name in named if name in given]
        if twice:
            raise RefusedRequestError(400, f"{twice[0]} stands in the address already")
        return as_json(await call.perform(self.offer.act, **_keyed(given), **named))

    def _asked(self, call: Call) -> Mapping[str, Any]:
        """Return the parameters of an address; RefusedRequestError 400 for one that is none of this address's."""
        found: dict[str, Any] = {}
        for name, text in call.request.query_params.multi_items():
            if name not in self.offer.query or name in found:
                what = "comes twice" if name in found else "is no parameter of this address"
                raise RefusedRequestError(400, f"{name[:40]} {what}")
            found[name] = _value(name, text)
        return found


def as_json(value: Any, status: int = 200) -> Response:
    """Return a value as JSON; what JSON has no form for as its text."""
    return Response(orjson.dumps(value, default=str), status, media_type="application/json")


def _keyed(given: Mapping[str, Any]) -> Mapping[str, Any]:
    if not all(isinstance(name, str) and name.isidentifier() for name in given):
        raise RefusedRequestError(400, "the body has a name that is none")
    return given


def _value(name: str, text: str) -> Any:
    if name in NUMBERS:
        if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
            raise RefusedRequestError(404 if name in {"entry", "run"} else 400, f"{name} is no number")
        return int(text)
    return SWITCHES.get(text, text) if name == "all" else text

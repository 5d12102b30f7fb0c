"""JSON in and out, with decimals kept digit for digit (FHIR: the precision of a decimal has a meaning)."""

import json
import re
from decimal import Decimal
from typing import Any, Final

import orjson

Json = Any

DECIMAL: Final = re.compile(rb"[:\[,]\s*-?\d+[.eE]")
NO_JSON: Final = (ValueError, RecursionError)


def read_json(text: bytes) -> Json:
    """Read JSON; decimals become Decimal. ValueError or RecursionError for what is no JSON."""
    value = orjson.loads(text)
    return json.loads(text, parse_float=Decimal) if DECIMAL.search(text) else value


def write_json(value: Json) -> bytes:
    """Write JSON; a Decimal with the digits that it came with, orjson.Fragment as it is."""
    return orjson.dumps(value, default=_decimal)


def _decimal(value: object) -> orjson.Fragment:
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value).encode())
    raise TypeError

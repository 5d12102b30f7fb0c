"""JSON in and out, with numbers kept digit for digit (FHIR: the precision of a decimal has a meaning)."""

import json
import re
from decimal import Decimal
from typing import Any, Final

import orjson

Json = Any

# A number that orjson would not give back with its digits: a decimal, a minus zero, and one beyond 64 bits. It begins
# with two characters that are found fast; FHIR has no lists of decimals.
EXACT: Final = re.compile(rb'":\s*(?:-?\d+[.eE]|-?\d{19}|-0)')
NO_JSON: Final = (ValueError, RecursionError)
MAX_DEPTH: Final = 100
# A NUL in a string: no text of FHIR may have one, and PostgreSQL keeps none.
NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
# The longest whole number that surely fits in 64 bits.
MAX_DIGITS: Final = 18


class TooDeepError(ValueError):
    """The JSON has more levels than a body may have."""


def read_json(text: bytes) -> Json:
    """Read JSON; decimals and long numbers become Decimal. ValueError or RecursionError for what is no JSON."""
    if EXACT.search(text):
        return json.loads(text, parse_float=_decimal, parse_int=_whole)
    return orjson.loads(text)


def read_strictly(text: bytes) -> Json:
    """Read JSON of a stranger as `read_json` does; ValueError too for what readers understand differently.

    That is: a key given twice in one object, a NUL, and more than 100 levels (TooDeepError). A byte order mark, NaN,
    Infinity, lone surrogates and numbers beyond a double are no JSON here.
    """
    value = orjson.loads(text)
    if text.count(b"[") + text.count(b"{") > MAX_DEPTH and too_deep(value):
        raise TooDeepError("too many levels")
    if b"\\u0000" in text and NUL.search(text):
        raise ValueError("NUL in a string")
    # What comes out as it came in has no key twice, and is what almost all clients send.
    if EXACT.search(text) or orjson.dumps(value) != text:
        return json.loads(text, parse_float=_decimal, parse_int=_whole, object_pairs_hook=_unique)
    return value


def write_json(value: Json) -> bytes:
    """Write JSON; a Decimal with the digits that it came with, orjson.Fragment as it is."""
    return orjson.dumps(value, default=_written)


def too_deep(value: Json) -> bool:
    """Say whether a value has more levels than a body may have."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            part
            for whole in level
            for part in (whole.values() if isinstance(whole, dict) else whole)
            if isinstance(part, dict | list)
        ]
        if not level:
            return False
    return True


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key is given twice")
    return value


def _whole(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= MAX_DIGITS and digits != "-0" else Decimal(digits)


def _decimal(digits: str) -> Decimal:
    try:
        value = Decimal(digits)
    except ArithmeticError as error:
        raise ValueError("a number beyond a double") from error
    if value and not float(digits):
        raise ValueError("a number beyond a double")
    return value


def _written(value: object) -> orjson.Fragment:
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value).encode())
    raise TypeError

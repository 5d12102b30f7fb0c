"""Reads and writes JSON with all digits of its numbers (FHIR: the precision of a decimal is significant)."""

import json
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final, NoReturn

import orjson

from engine.fhir.json import Json, JsonObject

# Numbers whose digits orjson does not preserve: decimals, minus zero, and integers beyond 64 bits. The pattern begins
# with two literal characters, which is fast; FHIR has no lists of decimals.
EXACT: Final = re.compile(rb'":\s*(?:-?\d+[.eE]|-?\d{19}|-0)')
NO_JSON: Final = (ValueError, RecursionError)
MAX_DEPTH: Final = 100
# A NUL in a string: FHIR forbids it, and PostgreSQL cannot store it.
NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
# Diagnostics of valid JSON that is refused.
DEEP: Final = f"The body has more than {MAX_DEPTH} levels."
BEYOND: Final = "The number is beyond those that readers of JSON agree on (a double)."
TWICE: Final = "The key is given twice in one object."
NUL_TEXT: Final = "The text has a NUL, which no text of FHIR may have."
STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
# An element's name in a location.
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
# Digits of an integer that certainly fits in 64 bits.
MAX_DIGITS: Final = 18


class UnfitJsonError(ValueError):
    """Valid JSON that parsers interpret differently: `place` is the location, the text the reason."""

    def __init__(self, text: str, place: str = "http.body") -> None:
        super().__init__(text)
        self.place = place


class TooDeepError(UnfitJsonError):
    """The JSON exceeds the maximum depth."""


def read_json(text: bytes) -> Json:
    """Read JSON; decimals and long integers become Decimal. ValueError or RecursionError for invalid JSON."""
    value: Json = _read(text)
    return value


def read_resource(text: bytes) -> JsonObject:
    """Read an object that this service wrote, as `read_json` does."""
    resource: JsonObject = _read(text)
    return resource


def _read(text: bytes) -> Any:
    if EXACT.search(text):
        return json.loads(text, parse_float=_decimal, parse_int=_whole)
    return orjson.loads(text)


def read_strictly(text: bytes) -> JsonObject:
    """Read untrusted JSON as `read_json` does; UnfitJsonError for JSON that parsers interpret differently.

    That is: a duplicate key, a NUL, a number beyond a double, and more than 100 levels (TooDeepError). A byte order
    mark, NaN, Infinity, lone surrogates, and more levels than the parser can read are invalid JSON.
    """
    try:
        value: JsonObject = orjson.loads(text)
    except ValueError as error:
        unfit = _unfit(text)
        raise (unfit or error) from None
    if text.count(b"[") + text.count(b"{") > MAX_DEPTH and too_deep(value):
        raise TooDeepError(DEEP, _deepest(value))
    if b"\\u0000" in text and NUL.search(text) and (found := _unfit(text)) is not None:
        raise found
    # The fast path: a body that is written back unchanged has no duplicate key, as almost all bodies.
    if EXACT.search(text) or orjson.dumps(value) != text:
        try:
            value = json.loads(text, parse_float=_decimal, parse_int=_whole, object_pairs_hook=_unique)
        except ValueError as error:
            raise (_unfit(text) or error) from None
    return value


def write_json(value: object) -> bytes:
    """Write JSON; a Decimal with its original digits, an orjson.Fragment unchanged."""
    return orjson.dumps(value, default=_written)


def too_deep(value: Json, most: int = MAX_DEPTH) -> bool:
    """Say whether a value has more than `most` levels."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(most):
        level = [
            part
            for whole in level
            for part in (whole.values() if isinstance(whole, dict) else whole)
            if isinstance(part, dict | list)
        ]
        if not level:
            return False
    return True


class _Twice:
    """Marks an object with a duplicate key."""

    def __init__(self, key: str, value: JsonObject) -> None:
        self.key = key
        self.value = value


class _Beyond:
    """Marks a number beyond a double."""


def _unfit(text: bytes) -> UnfitJsonError | None:
    """Return why and where JSON is unfit; None for invalid JSON, or JSON with another fault."""
    try:
        value = json.loads(
            text.decode(), parse_float=_fitting, parse_int=_fitting, parse_constant=_no_json, object_pairs_hook=_object
        )
        # Other JSON that orjson refuses, as a lone surrogate, is invalid here.
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except RecursionError:
        # The parser does not report the location; balanced brackets are taken for valid JSON.
        left = STRINGS.sub(b"", text)
        balanced = left.count(b"[") + left.count(b"{") == left.count(b"]") + left.count(b"}")
        return TooDeepError(DEEP) if balanced else None
    except ValueError:
        return None
    return TooDeepError(DEEP, _deepest(value)) if too_deep(value) else _unfit_part(value, _root(value))


def _root(value: Any) -> str:
    value = value.value if isinstance(value, _Twice) else value
    name = value.get("resourceType") if isinstance(value, dict) else None
    return name if isinstance(name, str) and NAME.fullmatch(name) else ""


def _deepest(value: Json) -> str:
    """Return the element that is too deep."""
    parts = value.items() if isinstance(value, dict) else ()
    deep = next((key for key, part in parts if too_deep(part, MAX_DEPTH - 1) and NAME.fullmatch(key)), "")
    return f"{_root(value)}.{deep}".strip(".") if deep else "http.body"


def _unfit_part(value: Any, place: str) -> UnfitJsonError | None:
    if isinstance(value, _Beyond):
        return UnfitJsonError(BEYOND, place or "http.body")
    if isinstance(value, _Twice):
        return UnfitJsonError(TWICE, f"{place}.{value.key}".strip(".") if NAME.fullmatch(value.key) else place)
    if isinstance(value, str):
        return UnfitJsonError(NUL_TEXT, place or "http.body") if "\0" in value else None
    parts: Iterable[tuple[str, Json]] = ()
    if isinstance(value, dict):
        if any("\0" in key for key in value):
            return UnfitJsonError(NUL_TEXT, place or "http.body")
        parts = ((f"{place}.{key}".strip("."), part) for key, part in value.items())
    elif isinstance(value, list):
        parts = ((f"{place}[{at}]", part) for at, part in enumerate(value))
    return next((found for name, part in parts if (found := _unfit_part(part, name)) is not None), None)


def _object(pairs: list[tuple[str, Any]]) -> Any:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return _Twice(key, value)
        seen.add(key)
    return value


def _fitting(digits: str) -> Decimal | _Beyond:
    try:
        value = _decimal(digits)
        return value if abs(float(value)) != float("inf") else _Beyond()
    except (ValueError, OverflowError):
        return _Beyond()


def _no_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _unique(pairs: list[tuple[str, Json]]) -> JsonObject:
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

"""Functions that de-identify: a keyed hash of a text, a mask, and dates that are shifted by days of their patient.

The key is named in the mapping; its text is a secret of the channel (`keys`), and is in no result, log or explanation.
"""

import hmac
import re
import unicodedata
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from functools import partial
from hashlib import sha256
from typing import Any, Final

from engine.errors import MappingError
from engine.hl7.leaf import NULL
from engine.hl7.message import Segment
from engine.mapping.language.function_context import Function, FunctionContext, Takes
from engine.mapping.language.identifier import Identifiers
from engine.mapping.language.node import Apply
from engine.mapping.language.reading import MessageReading

BAD_VALUE: Final = "bad-value"
NO_PATIENT: Final = "no-patient-identifier"
# 128 bits as hexadecimal digits: within the bounds of CX.1 in every version.
HASH_DIGITS: Final = 32
# Characters of a masked text.
MOST: Final = 1000
# Days back, where the mapping does not say how many; and the most that it may say.
DAYS: Final = 365
MOST_DAYS: Final = 3650
# A timestamp to the year, the month or the day, with the rest of one that has a day.
STAMP: Final = re.compile(r"(\d{4})(?:(\d{2})(?:(\d{2})((?:\d{2}){0,3}(?:\.\d{1,4})?))?)?([+-]\d{4})?", re.ASCII)
# The day that stands for a year or a month.
MIDDLE: Final = {4: (7, 1), 6: (0, 15)}


def hashed(context: FunctionContext, words: tuple[str, ...]) -> Apply:
    """Return the HMAC-SHA-256 of a text; a placeholder, which identifies nobody, as it is."""
    digest, placeholder = _digest(context, words[0]), context.identifiers.placeholder
    return lambda value, _: value if placeholder(value) else digest(value).hex()[:HASH_DIGITS]


def masked(value: str, _: MessageReading) -> str:
    """Return a text with X in place of letters and 9 in place of digits, cut to 1000 characters."""
    return "".join([_mask(character) for character in value[:MOST]])


def _mask(character: str) -> str:
    kind = unicodedata.category(character)[0]
    return "X" if kind in "LM" else "9" if kind == "N" else character


def days_shifted(context: FunctionContext, words: tuple[str, ...]) -> Apply:
    """Return a timestamp moved back by the days of its patient; the null, and a warning, for an unusable one."""
    most = int(words[1]) if len(words) > 1 else DAYS
    return partial(_shifted, context.identifiers, _digest(context, words[0]), most)


def _shifted(
    identifiers: Identifiers, digest: Callable[[str], bytes], most: int, value: str, reading: MessageReading
) -> Any:
    match = STAMP.fullmatch(value)
    if match is None:
        reading.warn(BAD_VALUE)
        return NULL
    patient = patient_number(identifiers, reading.pid)
    if not patient:
        reading.warn(NO_PATIENT)
        return NULL
    days = 1 + int.from_bytes(digest(f"days\0{patient}")[:8]) % most
    year, month, day, rest, offset = match.groups("")
    middle = MIDDLE.get(len(year + month + day), (0, 0))
    try:
        moved = date(int(year), int(month or middle[0]), int(day or middle[1])) - timedelta(days=days)
    except (ValueError, OverflowError):
        reading.warn(BAD_VALUE)
        return NULL
    return f"{moved.year:04}{moved:%m%d}"[: len(year + month + day)] + rest + offset


def patient_number(identifiers: Identifiers, pid: Segment | None) -> str:
    """Return the number that the mapping prefers of a PID, whether it has expired or not; empty if there is none."""
    best: tuple[int, str] | None = None
    for place in identifiers.rules.fields if pid is not None else ():
        for cells in pid.cells(int(place[4:])) if pid is not None else ():
            one = identifiers.identity(cells, place, "")
            if one is None or identifiers.is_nobody(one):
                continue
            if best is None or one.rank < best[0]:
                best = (one.rank, one.identity.value)
    return best[1] if best is not None else ""


def _digest(context: FunctionContext, name: str) -> Callable[[str], bytes]:
    """Return the keyed digest of texts; it raises MappingError (`key-unavailable`) if the key cannot be read."""
    try:
        key = context.setting.keys[name].read().encode()
    except LookupError:
        # `channels check` has named it; without the key nothing may leave.
        return partial(_unavailable, name)
    return lambda text: hmac.digest(key, text.encode("utf-8", "surrogatepass"), sha256)


def _unavailable(name: str, _: str) -> bytes:
    raise MappingError("key-unavailable", name)


def _days_fault(words: tuple[str, ...]) -> str:
    word = words[1] if len(words) > 1 else "1"
    good = word.isascii() and word.isdigit() and len(word) <= 4 and 1 <= int(word) <= MOST_DAYS
    return "" if good else f"{word!r} is no whole number from 1 to {MOST_DAYS}"


DEIDENTIFYING_FUNCTIONS: Final[Mapping[str, Function]] = {
    "hash": Function(
        Takes.TEXT,
        "string",
        hashed,
        f"{HASH_DIGITS} hexadecimal digits that stand for a text under the channel's key of that name",
        words=1,
        keyed=True,
    ),
    "mask": Function(Takes.TEXT, "string", lambda _, __: masked, "a text with X for each letter and 9 for each digit"),
    "shift-days": Function(
        Takes.TEXT,
        "string",
        days_shifted,
        f"a timestamp, earlier by 1 to {DAYS} days (or as many as the second word says): the same for all of a patient",
        words=1,
        more=1,
        fault=_days_fault,
        keyed=True,
        asks="pid",
    ),
}

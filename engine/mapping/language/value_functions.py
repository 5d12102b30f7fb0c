"""Functions of moments, spans and measured values: instants, ends after minutes, times, texts, attachments."""

import re
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote

from engine.mapping.language.coding import is_cdc_code, text_at
from engine.mapping.language.expression import SegmentPath, parse_path
from engine.mapping.language.function_context import FunctionContext, Takes
from engine.mapping.language.identifier import universal_uri
from engine.mapping.language.node import Apply, function_of
from engine.mapping.language.path import field_node
from engine.mapping.language.reading import Cells, MessageReading

BAD_VALUE: Final = "bad-value"
MINUTE: Final = 12
MINUTES: Final = re.compile(r"[0-9]{1,6}")
TIME: Final = re.compile(r"(\d{2})(\d{2})(\d{2})?(?:\.(\d{1,4}))?(?:[+-]\d{4})?")
BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
RANGE: Final = re.compile(r" *(-?\d{1,15}(?:\.\d{1,15})?) *- *(-?\d{1,15}(?:\.\d{1,15})?) *")
MEDIA: Final = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}")
# In CDC's list ethnicities follow races.
FIRST_ETHNICITY: Final = "2133"
# Table 0191, type of referenced data: its words for media types.
MEDIA_TYPES: Final = {"ap": "application", "au": "audio", "im": "image", "text": "text", "ft": "text"}


def instant(context: FunctionContext, _: tuple[str, ...]) -> Apply:
    """Return a timestamp that has a time of day, with its offset; nothing for a mere date."""
    read = context.stamps.read

    def apply(value: str, reading: MessageReading) -> Any:
        stamp = read(value, reading.offset)
        if stamp is None:
            return reading.warn(BAD_VALUE)
        return stamp.fhir_datetime() if stamp.precision >= MINUTE else None

    return apply


def minutes_after(context: FunctionContext, words: tuple[str, ...]) -> Apply:
    """Return the moment a number of minutes after a field's; nothing for a mere date."""
    read, head = context.stamps.read, parse_path(words[0])
    start = function_of(field_node(head, Takes.TEXT, "")) if isinstance(head, SegmentPath) else (lambda _, __: None)

    def apply(value: str, reading: MessageReading) -> Any:
        if not MINUTES.fullmatch(value):
            return reading.warn(BAD_VALUE)
        place = reading.place
        text = start(None, reading)
        reading.place = place
        stamp = read(text, reading.offset) if isinstance(text, str) else None
        if stamp is None or stamp.precision < MINUTE:
            return None
        return (stamp.at + timedelta(minutes=int(value))).isoformat(timespec="seconds")

    return apply


def time(value: str, reading: MessageReading) -> str | None:
    """Return a time of day; FHIR's has seconds and no offset."""
    match = TIME.fullmatch(value)
    if match is None or not (int(match[1]) < 24 and int(match[2]) < 60 and int(match[3] or 0) < 60):
        reading.warn(BAD_VALUE)
        return None
    return f"{match[1]}:{match[2]}:{match[3] or '00'}" + (f".{match[4]}" if match[4] else "")


def cdc_race(value: str, _: MessageReading) -> str | None:
    """Return a code of a race of CDC's list, by its number and check digit."""
    return value if is_cdc_code(value) and value < FIRST_ETHNICITY else None


def cdc_ethnicity(value: str, _: MessageReading) -> str | None:
    """Return a code of an ethnicity of CDC's list, by its number and check digit."""
    return value if is_cdc_code(value) and value >= FIRST_ETHNICITY else None


def address_text(cells: Cells, _: MessageReading) -> str | None:
    """Return an XAD as a line: street, city, state and code, country."""
    return ", ".join(part for index in range(6) if (part := text_at(cells.first, index))) or None


def joined(repetitions: tuple[Cells, ...], _: MessageReading) -> str | None:
    """Return all components of all repetitions: separated by blanks, one line a repetition."""
    lines = (" ".join(cell for cell in cells.first if isinstance(cell, str) and cell) for cells in repetitions)
    return "\n".join(line for line in lines if line) or None


def lines(repetitions: tuple[Cells, ...], _: MessageReading) -> str | None:
    """Return the texts of all repetitions, a line each."""
    return "\n".join(text for cells in repetitions if (text := text_at(cells.first, 0))) or None


def media_type(_: FunctionContext, words: tuple[str, ...]) -> Apply:
    """Return the media type that two components of an ED or RP name, the first of them by its number."""
    index = int(words[0]) - 1 if words[0].isdigit() else 1

    def apply(cells: Cells, _: MessageReading) -> str | None:
        named, part = text_at(cells.first, index).casefold(), text_at(cells.first, index + 1).casefold()
        kind, _slash, own = named.partition("/")
        kind, part = MEDIA_TYPES.get(kind, kind), own or part
        return f"{kind}/{part}" if MEDIA.fullmatch(kind) and MEDIA.fullmatch(part) else None

    return apply


def left_out(_: str, reading: MessageReading) -> Any:
    """Return nothing, and warn that no rule uses the value."""
    return reading.warn("value-left-out")


def uri_of_hd(cells: Cells, _: MessageReading) -> str | None:
    """Return the URI of an HD's universal id."""
    return universal_uri(text_at(cells.first, 1), text_at(cells.first, 2)) or None


def url(value: str, reading: MessageReading) -> str | None:
    """Return a text without blanks as an address."""
    return reading.warn(BAD_VALUE) if any(map(str.isspace, value)) else value


def binary(value: str, reading: MessageReading) -> str | None:
    """Return Base64 as FHIR has it, without blanks."""
    plain = "".join(value.split())
    return plain if BASE64.fullmatch(plain) else reading.warn(BAD_VALUE)


def sender_system(context: FunctionContext, words: tuple[str, ...]) -> Apply:
    """Return this engine's system for values that are unique within the message's sender."""
    base = context.setting.base_uri + words[0]
    return lambda _, reading: f"{base}:{quote(reading.source, safe='')}"


def range_low(value: str, _: MessageReading) -> float | None:
    """Return the lower of the two numbers of a range, `3.5-5.0`; nothing for any other text."""
    return _ends(value)[0]


def range_high(value: str, _: MessageReading) -> float | None:
    """Return the higher of the two numbers of a range."""
    return _ends(value)[1]


def _ends(value: str) -> tuple[float | None, float | None]:
    match = RANGE.fullmatch(value)
    if match is None:
        return None, None
    low, high = (float(end) if "." in end else int(end) for end in match.groups())
    return (low, high) if low <= high else (None, None)

"""Functions of texts: parts, case, padding, concatenation; and of dates: days added, years between.

Each takes a text and gives one; an empty result makes nothing.
"""

import re
from calendar import monthrange
from collections.abc import Callable, Mapping
from datetime import UTC, date, timedelta
from functools import partial
from typing import Any, Final

from engine.hl7.leaf import NULL
from engine.mapping.language.expression import unquoted
from engine.mapping.language.function_context import Function, FunctionContext, Takes
from engine.mapping.language.node import Apply
from engine.mapping.language.reading import MessageReading

BAD_VALUE: Final = "bad-value"
MOST: Final = 1000
MOST_DAYS: Final = 40_000
# Digits of a timestamp down to the minute.
MINUTES: Final = 12
# The end of a timestamp without a time of day, or padded with zeros; an offset is not a time of day.
MIDNIGHT: Final = re.compile(r"(0+(\.0*)?)?([+-].*)?")
DAY: Final = re.compile(r"(\d{4})(\d{2})(\d{2})(.*)", re.DOTALL)

# One at sign, with a name before it and a domain of two or more parts after it.
EMAIL: Final = re.compile(r"[^@\s,;<>]{1,64}@[^@\s,;<>.]+(?:\.[^@\s,;<>.]+)+")

Made = Callable[[FunctionContext, tuple[str, ...]], Apply]


def case(change: Callable[[str], str]) -> Made:
    """Return the maker of a function that changes the case of a text."""
    return lambda _, __: lambda value, _reading: change(value)


def stripped(strip: Callable[[str, str], str]) -> Made:
    """Return the maker of a function that strips characters, and then blanks, from a text's ends."""

    def make(_: FunctionContext, words: tuple[str, ...]) -> Apply:
        characters = unquoted(words[0])
        return lambda value, _reading: strip(value, characters).strip() or None

    return make


def substring(_: FunctionContext, words: tuple[str, ...]) -> Apply:
    """Return the part of a text from a place, counted from 1: a number of characters, or to its end."""
    first = int(words[0]) - 1
    part = slice(first, first + int(words[1]) if len(words) > 1 else None)
    return lambda value, _reading: value[part].strip() or None


def utc_minute(context: FunctionContext, _: tuple[str, ...]) -> Apply:
    """Return the minute of a timestamp in UTC; nothing, and no warning, without a time of day."""

    def apply(value: str, reading: MessageReading) -> str | None:
        stamp = context.stamps.read(value, reading.offset)
        if stamp is None or stamp.precision < MINUTES or MIDNIGHT.fullmatch(value.strip()[8:]):
            return None
        return stamp.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")

    return apply


def pad(_: FunctionContext, words: tuple[str, ...]) -> Apply:
    """Return a text padded on the left to a width; a longer one as it is."""
    width, filler = int(words[0]), unquoted(words[1])
    return lambda value, _reading: value.rjust(width, filler)


def replaced(_: FunctionContext, words: tuple[str, ...]) -> Apply:
    """Return a text with every occurrence of one text replaced by another."""
    old, new = map(unquoted, words)
    # Bounds the number of replacements: a text of 1 MiB could grow to a gigabyte before it is cut.
    times = MOST if new else -1
    return lambda value, _reading: value.replace(old, new, times)[:MOST].strip() or None


def split(_: FunctionContext, words: tuple[str, ...]) -> Apply:
    """Return a part of a text split at a separator, counted from 1; nothing if there are fewer."""
    separator, index = unquoted(words[0]), int(words[1]) - 1

    def apply(value: str, _: MessageReading) -> str | None:
        parts = value.split(separator, index + 1)
        return (parts[index].strip() or None) if index < len(parts) else None

    return apply


def concat(_: FunctionContext, words: tuple[str, ...]) -> Apply:
    """Return a text with others after it; a text before an empty path is left out with it."""
    fixed = tuple(unquoted(word) if word[0] == "'" else None for word in words)

    def apply(values: tuple[Any, ...], _: MessageReading) -> str:
        text, pending = values[0], ""
        for word, value in zip(fixed, values[1:], strict=True):
            if word is not None:
                pending += word
            else:
                text += pending + value if value and value is not NULL else ""
                pending = ""
        return str(text + pending).strip()

    return apply


def shifted(sign: int) -> Made:
    """Return the maker of a function that moves a timestamp by whole days and keeps its time of day."""

    def make(_: FunctionContext, words: tuple[str, ...]) -> Apply:
        return partial(_shifted, timedelta(days=sign * int(words[0])))

    return make


def _shifted(days: timedelta, value: str, reading: MessageReading) -> Any:
    match = DAY.fullmatch(value)
    try:
        day = date(int(match[1]), int(match[2]), int(match[3])) + days if match else None
    except (ValueError, OverflowError):
        day = None
    return reading.warn(BAD_VALUE) if day is None or match is None else f"{day:%Y%m%d}{match[4]}".rjust(8, "0")


def age(value: str, reading: MessageReading) -> int | None:
    """Return the whole years from a date to the day of the event; nothing if either is not known to the day."""
    born, today = DAY.fullmatch(value), DAY.fullmatch(reading.today)
    if born is None or today is None or value[:8] > reading.today[:8]:
        return None
    if not (1 <= int(born[2]) <= 12 and 1 <= int(born[3]) <= monthrange(int(born[1]) or 1, int(born[2]))[1]):
        reading.warn(BAD_VALUE)
        return None
    return int(today[1]) - int(born[1]) - ((today[2], today[3]) < (born[2], born[3]))


def _counts(*places: int, most: int = MOST) -> Callable[[tuple[str, ...]], str]:
    """Return a check that the words at some places are whole numbers from 1; it returns what is wrong, or nothing."""

    def fault(words: tuple[str, ...]) -> str:
        wrong = [words[at] for at in places if at < len(words) and not _is_count(words[at], most)]
        return f"{wrong[0]!r} is no whole number from 1 to {most}" if wrong else ""

    return fault


def _pad_fault(words: tuple[str, ...]) -> str:
    """Return what is wrong with a width and the character to fill with."""
    return _counts(0)(words) or ("" if len(unquoted(words[1])) == 1 else f"{words[1]} is not one character")


def _some_text(words: tuple[str, ...]) -> str:
    """Return what is wrong with a first word that must be a text."""
    return "" if unquoted(words[0]) else "an empty text"


def _split_fault(words: tuple[str, ...]) -> str:
    """Return what is wrong with a separator and a number."""
    return _some_text(words) or _counts(1)(words)


def _days_fault(words: tuple[str, ...]) -> str:
    """Return what is wrong with a number of days."""
    return _counts(0, most=MOST_DAYS)(words)


def _is_count(word: str, most: int) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= 6 and 1 <= int(word) <= most


def if_email(_: FunctionContext, words: tuple[str, ...]) -> Apply:
    """Return the word named, where a text is an e-mail address."""
    return lambda value, _: words[0] if EMAIL.fullmatch(value) else None


TEXT_FUNCTIONS: Final[Mapping[str, Function]] = {
    "if-email": Function(Takes.TEXT, "code", if_email, "the word named, where a text is an e-mail address", words=1),
    "upper": Function(Takes.TEXT, "string", case(str.upper), "a text in capitals"),
    "lower": Function(Takes.TEXT, "string", case(str.lower), "a text in small letters"),
    "strip": Function(
        Takes.TEXT,
        "string",
        stripped(str.strip),
        "a text without these characters at its ends",
        words=1,
        fault=_some_text,
    ),
    "strip-start": Function(
        Takes.TEXT,
        "string",
        stripped(str.lstrip),
        "a text without these characters at its beginning: strip-start(0)",
        words=1,
        fault=_some_text,
    ),
    "strip-end": Function(
        Takes.TEXT,
        "string",
        stripped(str.rstrip),
        "a text without these characters at its end",
        words=1,
        fault=_some_text,
    ),
    "substring": Function(
        Takes.TEXT,
        "string",
        substring,
        "the part of a text from a place, counted from 1: a number of characters, or to its end",
        words=1,
        more=1,
        fault=_counts(0, 1),
    ),
    "split": Function(
        Takes.TEXT,
        "string",
        split,
        "the part of that number, counted from 1, of a text that a separator parts: split('-' 2)",
        words=2,
        fault=_split_fault,
    ),
    "pad": Function(
        Takes.TEXT,
        "string",
        pad,
        "a text filled on the left to a width: pad(8 0); a longer one as it is",
        words=2,
        fault=_pad_fault,
    ),
    "replace": Function(
        Takes.TEXT,
        "string",
        replaced,
        "a text with one text in place of another: replace('/' '-')",
        words=2,
        fault=_some_text,
    ),
    "concat": Function(
        Takes.TEXT,
        "string",
        concat,
        "a text with others after it: concat(', ' PID-5.2); what comes before an empty path is left out with it",
        words=1,
        more=9,
        pieces=True,
    ),
    "plus-days": Function(
        Takes.TEXT,
        "string",
        shifted(1),
        "a timestamp that number of days later: plus-days(30), then date",
        words=1,
        fault=_days_fault,
    ),
    "minus-days": Function(
        Takes.TEXT, "string", shifted(-1), "a timestamp that number of days earlier", words=1, fault=_days_fault
    ),
    "utc-minute": Function(
        Takes.TEXT,
        "string",
        utc_minute,
        "the minute of a timestamp, in UTC; nothing for a date alone or midnight exactly",
    ),
    "age": Function(
        Takes.TEXT, "integer", lambda _, __: age, "the whole years from a date to the day of the event", asks="today"
    ),
}

"""The kind of a value, without the value; and the values that may be shown as they are."""

import re
from collections.abc import Collection
from typing import Final

from engine.hl7.leaf import NULL_TEXT

LONGEST: Final = 64
# A code of a table: short, without blanks, and with too few digits for a person's number or date.
_CODE: Final = re.compile(r"(?!(?:\D*\d){5})[A-Za-z0-9][A-Za-z0-9_.+/*^-]{0,19}")
_STAMP: Final = re.compile(r"\d{10,14}(?:\.\d+)?(?P<offset>[+-]\d{4})?")
_KINDS: Final = (
    (re.compile(r"[YN]"), "Y or N"),
    (re.compile(r"(?:18|19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"), "date"),
    (re.compile(r"\d{10,14}(?:\.\d+)?"), "time without a zone, or a long number"),
    (re.compile(r"\d{10,14}(?:\.\d+)?[+-]\d{4}"), "time with a zone"),
    (re.compile(r"[0-9]+"), "digits"),
    (re.compile(r"[+-]?\d+\.\d+"), "decimal number"),
    (re.compile(r"\S+"), "one word"),
)
SHORTEST: Final = 3


def kind_of(text: str, component: str) -> str:
    """Return the kind of one repetition of a field; `component` separates its components."""
    if text == NULL_TEXT:
        return '"" (delete)'
    count = text.count(component) + 1 if component else 1
    if count > 1:
        return f"{count} components"
    return next((name for form, name in _KINDS if form.fullmatch(text.strip())), "text")


def offset_of(text: str) -> str | None:
    """Return the offset of a time of day, empty if it has none; None for anything else."""
    match = _STAMP.fullmatch(text.strip())
    return None if match is None else match["offset"] or ""


def name_shown(text: str, personal: Collection[str]) -> str:
    """Return the name of a system, an authority or an event; its length if it could be a person's name or number."""
    if not text.isprintable() or len(text) > LONGEST or text.casefold() in personal:
        return f"({len(text)} characters)"
    return text


def code_shown(text: str, personal: Collection[str]) -> str:
    """Return a code; its length if it does not look like one, or could be a person's name or number."""
    if not _CODE.fullmatch(text) or text.casefold() in personal:
        return f"({len(text)} characters)"
    return text


def is_shown(text: str) -> bool:
    """True if a name may be shown as it is."""
    return not (text.startswith("(") and text.endswith(" characters)"))

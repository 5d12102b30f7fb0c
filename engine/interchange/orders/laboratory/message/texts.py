"""Texts and their joints: leaf values escaped exactly, joined into components, repetitions, fields and segments."""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

from engine.fhir.json import Json
from engine.hl7.delimiters import STANDARD
from engine.hl7.escape import escape
from engine.hl7.leaf import NULL_TEXT

# What would end a block or a segment elsewhere, or vanish on its way; line ends the escape knows by itself.
CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_MOMENT: Final = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(\.\d{1,4})?\d*)?(Z|[+-]\d\d:\d\d)?)?)?)?"
)


class UnwritableError(ValueError):
    """An order cannot be written as a message; the text says why, and holds nothing of it."""


def leaf(value: Json) -> str:
    """Return a value as the text of a leaf: what reads it back gets exactly this text."""
    text = "" if value is None else f"{value:f}" if isinstance(value, Decimal) else str(value)
    if text == NULL_TEXT:
        return "\\X22\\\\X22\\"  # unescaped it would mean: delete
    return CONTROL.sub(lambda found: f"\\X{ord(found[0]):02X}\\", escape(text, STANDARD))


def joined(separator: str, parts: Iterable[str]) -> str:
    """Return parts joined, without empty ones at the end."""
    return separator.join(parts).rstrip(separator)


def components(*values: Json) -> str:
    """Return leaf values as the components of a field."""
    return joined("^", map(leaf, values))


def repeated(fields: Iterable[str]) -> str:
    """Return the repetitions of a field."""
    return "~".join(one for one in fields if one)


def row(name: str, fields: Mapping[int, str]) -> str:
    """Return a segment from its fields by number, up to the last one that holds something."""
    made = ["", *("" for _ in range(max(fields)))]
    made[0] = name
    for number, text in fields.items():
        made[number] = text
    return joined("|", made)


def moment(value: Json) -> str:
    """Return a FHIR date or dateTime as one of HL7, as precise as it is; '' for none."""
    found = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return ""
    *parts, zone = found.groups("")
    return "".join(parts) + ("+0000" if zone == "Z" else zone.replace(":", ""))

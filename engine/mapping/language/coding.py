"""Functions of codes: by a table to code, Coding and CodeableConcept; unmapped codes are kept as sent."""

import re
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final
from urllib.parse import quote

from engine.config.text import URI
from engine.errors import MappingError
from engine.hl7.leaf import NULL, Null
from engine.mapping.files.table import V2_SYSTEM, MappingTable, UnmappedPolicy
from engine.mapping.language.bounded_cache import BoundedCache
from engine.mapping.language.function_context import FunctionContext, Make
from engine.mapping.language.identifier import OID
from engine.mapping.language.node import Apply, PrecomputedFunction
from engine.mapping.language.reading import Cells, MessageReading, UnmappedWarning

UNMAPPED_CODE: Final = "unmapped-code"
# The prefixes of local coding systems (table 0396, 99zzz).
LOCAL_NAMES: Final = "99"
LOCAL_CODES: Final = "urn:adt-engine:code-system:"
MAX_KEPT: Final = 1024
MAX_CONCEPTS: Final = 4096
# CWE.10 to CWE.13: code, display, system and version of the second alternate code.
SECOND_ALTERNATE: Final = range(9, 13)
# Races have numbers from 1002, ethnicities from 2133.
CDC_CODE: Final = re.compile(r"(?:1\d{3}|20\d\d|21[0-8]\d)-\d")
NO_CODE: Final = ("", "", "", "")


def _by_table(table: MappingTable, look_up: Apply) -> Apply:
    """Return a function with precomputed results for the table's own codes, which never cause a warning."""
    # These do not depend on the message.
    return PrecomputedFunction(table.answers(lambda code: look_up(code, None)), look_up)  # type: ignore[arg-type]


def once(make: Make) -> Make:
    """Make one function of codes for all uses of the same tables."""

    @wraps(make)
    def shared(context: FunctionContext, names: tuple[str, ...]) -> Apply:
        return context.by_table.get((make, names)) or context.by_table.setdefault((make, names), make(context, names))

    return shared


@once
def code(context: FunctionContext, names: tuple[str, ...]) -> Apply:
    """Return the FHIR code of a text."""
    table = context.tables[names[0]]

    def apply(value: str, reading: MessageReading) -> str | None:
        key = table.key(value)
        if key is not None:
            target = table.codes[key]
            return target.code if target else None
        _unknown(table, reading)
        return table.default.code if table.default else None

    return _by_table(table, apply)


@once
def coding(context: FunctionContext, names: tuple[str, ...]) -> Apply:
    """Return the Coding of a text."""
    table = context.tables[names[0]]

    def apply(value: str, reading: MessageReading) -> dict[str, Any] | None:
        key = table.key(value)
        if key is not None:
            target = table.codes[key]
            return target.coding() if target else None
        _unknown(table, reading)
        if table.unmapped is UnmappedPolicy.IGNORE:
            return None
        return table.default.coding() if table.default else {"code": value}

    return _by_table(table, apply)


@once
def concept(context: FunctionContext, names: tuple[str, ...]) -> Apply:
    """Return a CodeableConcept of one coding and its text."""
    plain = coding(context, names)

    def apply(value: str, reading: MessageReading) -> dict[str, Any] | None:
        found = plain(value, reading)
        if found is None:
            return None
        return {"coding": [found], "text": found.get("display") or value} if "system" in found else {"text": value}

    return _by_table(context.tables[names[0]], apply)


@once
def unmapped(context: FunctionContext, names: tuple[str, ...]) -> Apply:
    """Return the code as sent if no table has a target for it."""
    first, *others = [context.tables[name] for name in names]

    def apply(value: str, _: MessageReading) -> dict[str, Any] | None:
        key = first.key(value)
        if key is not None and first.codes[key]:
            return None
        if any(table.codes.get(table.key(value) or "") for table in others):
            return None
        if key is None:
            return {"coding": [{"code": value}], "text": value}
        coding = {"system": first.original_system, "code": key}
        if first.displays[key]:
            coding["display"] = first.displays[key]
        return {"coding": [coding]}

    return _by_table(first, apply)


@once
def coded(context: FunctionContext, names: tuple[str, ...]) -> Apply:
    """Return the CodeableConcept of a CWE: first code by the table, both alternate codes and text kept."""
    table = context.tables[names[0]] if names else None
    as_sent = _sender(coding_system(context, ()))
    known: BoundedCache[tuple[str | Null, ...], dict[str, Any]] = BoundedCache(MAX_CONCEPTS)

    def apply(cells: Cells, reading: MessageReading) -> Any:
        key = tuple(cells.first)
        found = known.get(key)
        if found is not None:
            return found
        warned = len(reading.warnings)
        concept = _concept_of(cells.first, table, as_sent, reading)
        if concept is None:
            return NULL if NULL in cells.first else None
        return concept if len(reading.warnings) > warned else known.keep(key, concept)

    return apply


Sender = Callable[[str, str, str, str, MessageReading], dict[str, Any]]


def _concept_of(
    first: Sequence[str | Null], table: MappingTable | None, as_sent: Sender, reading: MessageReading
) -> dict[str, Any] | None:
    texts = [cell or "" for cell in first[:9]]
    code, display, system, other, other_display, other_system, version, other_version, text = (
        texts if len(texts) == 9 else texts + [""] * (9 - len(texts))
    )
    third = [text_at(first, index) for index in SECOND_ALTERNATE] if len(first) > SECOND_ALTERNATE[0] else NO_CODE
    codings = []
    if code:
        codings.append(_mapped(table, code, system, reading) or as_sent(code, display, system, version, reading))
    if other:
        codings.append(as_sent(other, other_display, other_system, other_version, reading))
    if third[0]:
        codings.append(as_sent(third[0], third[1], third[2], third[3], reading))
    text = text or display or (_shown(codings[0]) if codings else "")
    if not codings:
        return {"text": text} if text else None
    return {"coding": codings, "text": text}


def _sender(uri_of: Apply) -> Sender:
    def as_sent(code: str, display: str, system: str, version: str, reading: MessageReading) -> dict[str, Any]:
        coding = {"code": code}
        if system:
            coding["system"] = uri_of(system, reading)
            if version:
                coding["version"] = version
        if display:
            coding["display"] = display
        return coding

    return as_sent


def _mapped(table: MappingTable | None, code: str, system: str, reading: MessageReading) -> dict[str, Any] | None:
    """Return the table's coding; None if the code is kept as sent."""
    if table is None:
        return None
    if system and table.hl7 and system.upper() not in {f"HL7{table.hl7}", f"HL70{table.hl7}", table.hl7, "L"}:
        return None
    key = table.key(code)
    if key is None:
        _unknown(table, reading)
        return table.default.coding() if table.default else None
    target = table.codes[key]
    if target:
        return target.coding()
    return (
        {"system": table.original_system, "code": key, "display": table.displays[key]} if table.displays[key] else None
    )


def coding_system(context: FunctionContext, _: tuple[str, ...]) -> Apply:
    """Return the URI of a coding system's name; for an unknown one a local URI, with a warning."""
    table = context.tables.get("coding-system")
    known: BoundedCache[str, str] = BoundedCache(MAX_KEPT)

    def apply(name: str, reading: MessageReading) -> str:
        uri = known.get(name) or _system_uri(table, name)
        if uri:
            return known.keep(name, uri)
        if table is not None:
            table.key(name)
            _unknown(table, reading)
        return LOCAL_CODES + quote(name, safe="")

    return apply


def _system_uri(table: MappingTable | None, name: str) -> str:
    """Return the URI of a coding system's name, a local one where the table has no target; empty if unknown."""
    if table is not None and (name in table.codes or name.casefold() in table.folded):
        target = table.codes[table.key(name) or name]
        return target.code if target else LOCAL_CODES + quote(name, safe="")
    digits = name[3:]
    if name[:3].upper() == "HL7" and digits.isascii() and digits.isdigit() and 3 <= len(digits) <= 5:
        return V2_SYSTEM + digits[-4:].zfill(4)
    if OID.fullmatch(name):
        return f"urn:oid:{name}"
    return name if URI.fullmatch(name) else LOCAL_CODES + quote(name, safe="") if name.startswith(LOCAL_NAMES) else ""


def texts(context: FunctionContext, names: tuple[str, ...]) -> Apply:
    """Return the distinct texts of all repetitions, joined by commas; a warning for codes that no table has."""
    tables = [context.tables[name] for name in names]

    def apply(repetitions: tuple[Cells, ...], reading: MessageReading) -> str | None:
        if tables and not all(map(known, repetitions)):
            reading.warnings.append(UnmappedWarning(f"{UNMAPPED_CODE} {reading.place}", tables[0].name))
        texts = [text for cells in repetitions if (text := _display(cells, tables))]
        return ", ".join(dict.fromkeys(texts)) or None

    def known(cells: Cells) -> bool:
        codes = [code for at in (0, 3) if (code := text_at(cells.first, at))]
        return not codes or any(is_cdc_code(code) or any(table.key(code) for table in tables) for code in codes)

    return apply


def is_cdc_code(text: str) -> bool:
    """True if a text has the form of a CDC race or ethnicity code, with the right check digit."""
    if CDC_CODE.fullmatch(text) is None:
        return False
    doubled = (sum(divmod(int(digit) * 2, 10)) for digit in text[3::-2])
    return (sum(doubled) + int(text[2]) + int(text[0]) + int(text[5])) % 10 == 0


def _display(cells: Cells, tables: list[MappingTable]) -> str:
    text = text_at(cells.first, 8) or text_at(cells.first, 1) or text_at(cells.first, 4)
    code = text_at(cells.first, 0) or text_at(cells.first, 3)
    if text or not code:
        return text
    for table in tables:
        key = table.key(code)
        target = table.codes[key] if key is not None else None
        if target:
            return target.display or code
    return code


def text_at(first: Sequence[str | Null], index: int) -> str:
    """Return the text of a cell; empty if it is absent or deleted."""
    return (first[index] or "") if index < len(first) else ""


def _shown(coding: dict[str, Any]) -> str:
    return str(coding.get("display") or coding["code"])


def _unknown(table: MappingTable, reading: MessageReading) -> None:
    if table.unmapped is UnmappedPolicy.REFUSE:
        raise MappingError(UNMAPPED_CODE, reading.place)
    if table.unmapped is not UnmappedPolicy.IGNORE:
        reading.warnings.append(UnmappedWarning(f"{UNMAPPED_CODE} {reading.place}", table.name))

"""The closed registry of functions that expressions may use; nothing else can be called from a mapping.

Each takes one kind of thing and gives one FHIR type. `text` is a leaf; `cells` one repetition, `all` every repetition
of a field. A function returns None where it makes nothing; what it cannot use it notes as a warning, by place.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from urllib.parse import quote

from engine.errors import MappingError
from engine.hl7.leaf import Null
from engine.hl7.timestamp import Timestamp
from engine.mapping.identifier import URI, Identifiers
from engine.mapping.reading import Cells, Reading
from engine.mapping.setting import Setting
from engine.mapping.stamp import Stamps
from engine.mapping.table import V2_SYSTEM, Table, Unmapped

BAD_VALUE: Final = "bad-value"
UNMAPPED_CODE: Final = "unmapped-code"
LOCAL_CODES: Final = "urn:adt-engine:code-system:"
MAX_INTEGER: Final = 2_147_483_647
Made = Callable[[Any, Reading], Any]


class Takes(StrEnum):
    """What a function works on."""

    TEXT = "text"
    CELLS = "cells"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Kit:
    """What functions are made with: the channel's setting, the tables, how identifiers and timestamps are read."""

    setting: Setting
    tables: Mapping[str, Table]
    identifiers: Identifiers
    stamps: Stamps


@dataclass(frozen=True, slots=True)
class Function:
    """One entry of the registry; `gives` is a FHIR type, `tables` how many tables it must and may name."""

    takes: Takes
    gives: str
    make: Callable[[Kit, tuple[str, ...]], Made]
    text: str
    tables: tuple[int, int] = (0, 0)
    words: int = 0


def _date(kit: Kit, _: tuple[str, ...]) -> Made:
    return _timed(kit, lambda stamp: stamp.fhir_date())


def _datetime(kit: Kit, _: tuple[str, ...]) -> Made:
    return _timed(kit, lambda stamp: stamp.fhir_datetime())


def _birth_time(kit: Kit, _: tuple[str, ...]) -> Made:
    made = _datetime(kit, ())
    return lambda value, reading: made(value, reading) if len(value) > 8 and value[8].isdigit() else None


def _timed(kit: Kit, shape: Callable[[Timestamp], str]) -> Made:
    read = kit.stamps.read

    def made(value: str, reading: Reading) -> Any:
        stamp = read(value, reading.offset)
        return reading.warn(BAD_VALUE) if stamp is None else shape(stamp)

    return made


def _boolean(kit: Kit, names: tuple[str, ...]) -> Made:
    table = kit.tables[names[0]]

    def made(value: str, reading: Reading) -> bool | None:
        key = table.key(value)
        target = table.codes[key] if key is not None else None
        return reading.warn(BAD_VALUE) if target is None else target.code == "true"

    return made


def _integer(least: int) -> Callable[[Kit, tuple[str, ...]], Made]:
    def make(_: Kit, __: tuple[str, ...]) -> Made:
        def made(value: str, reading: Reading) -> int | None:
            number = int(value) if value.isascii() and value.isdigit() and len(value) <= 10 else -1
            return number if least <= number <= MAX_INTEGER else reading.warn(BAD_VALUE)

        return made

    return make


def _code(kit: Kit, names: tuple[str, ...]) -> Made:
    table = kit.tables[names[0]]

    def made(value: str, reading: Reading) -> str | None:
        key = table.key(value)
        if key is not None:
            target = table.codes[key]
            return target.code if target else None
        _unknown(table, reading)
        return table.default.code if table.default else None

    return made


def _coding(kit: Kit, names: tuple[str, ...]) -> Made:
    table = kit.tables[names[0]]

    def made(value: str, reading: Reading) -> dict[str, Any] | None:
        key = table.key(value)
        if key is not None:
            target = table.codes[key]
            return target.coding() if target else None
        _unknown(table, reading)
        if table.unmapped is Unmapped.IGNORE:
            return None
        return table.default.coding() if table.default else {"code": value}

    return made


def _concept(kit: Kit, names: tuple[str, ...]) -> Made:
    coding = _coding(kit, names)

    def made(value: str, reading: Reading) -> dict[str, Any] | None:
        found = coding(value, reading)
        if found is None:
            return None
        return {"coding": [found], "text": found.get("display") or value} if "system" in found else {"text": value}

    return made


def _identifier_type(kit: Kit, names: tuple[str, ...]) -> Made:
    concept, type_of = _concept(kit, names), kit.identifiers.type_of

    def made(value: Cells, reading: Reading) -> dict[str, Any] | None:
        type_ = type_of(value, reading.place)
        return concept(type_, reading) if type_ else None

    return made


def _identifier_system(kit: Kit, _: tuple[str, ...]) -> Made:
    system = kit.identifiers.system
    return lambda value, reading: system(value, reading.place).uri


def _identifier_value(kit: Kit, _: tuple[str, ...]) -> Made:
    placeholder = kit.identifiers.placeholder

    def made(value: str, reading: Reading) -> str | None:
        return reading.warn("placeholder-identifier") if placeholder(value) else value

    return made


def _identifier_use(kit: Kit, _: tuple[str, ...]) -> Made:
    expired = kit.identifiers.expired
    return lambda value, reading: "old" if expired(value, reading.today) else None


def _own_system(kit: Kit, words: tuple[str, ...]) -> Made:
    base = kit.setting.base_uri + words[0]
    return lambda value, _: f"{base}:{quote(value, safe='')}"


def _unmapped(kit: Kit, names: tuple[str, ...]) -> Made:
    tables = [kit.tables[name] for name in names]
    first = tables[0]

    def made(value: str, _: Reading) -> dict[str, Any] | None:
        keys = [(table, table.key(value)) for table in tables]
        if any(key is not None and table.codes[key] for table, key in keys):
            return None
        key = keys[0][1]
        if key is None:
            return {"coding": [{"code": value}], "text": value}
        coding = {"system": first.original_system, "code": key}
        if first.displays[key]:
            coding["display"] = first.displays[key]
        return {"coding": [coding]}

    return made


def _coded(kit: Kit, names: tuple[str, ...]) -> Made:
    table = kit.tables[names[0]] if names else None
    systems = _coding_system(kit, ())

    def made(cells: Cells, reading: Reading) -> dict[str, Any] | None:
        first = cells.first
        code, display, system, *others = [_plain(first, index) for index in range(9)]
        codings = []
        if code:
            codings.append(_mapped(table, code, system, reading) or _as_sent(code, display, system, others[3]))
        if others[0]:
            codings.append(_as_sent(others[0], others[1], others[2], others[4]))
        text = others[5] or display or (_shown(codings[0]) if codings else "")
        if not codings:
            return {"text": text} if text else None
        return {"coding": codings, "text": text}

    def _as_sent(code: str, display: str, system: str, version: str) -> dict[str, Any]:
        coding = {"code": code}
        if system:
            coding["system"] = systems(system, None)  # type: ignore[arg-type]
        if version and system:
            coding["version"] = version
        if display:
            coding["display"] = display
        return coding

    return made


def _mapped(table: Table | None, code: str, system: str, reading: Reading) -> dict[str, Any] | None:
    """Return the table's coding; None where the code must go on as it was sent."""
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


def _coding_system(kit: Kit, _: tuple[str, ...]) -> Made:
    table = kit.tables.get("coding-system")
    known: dict[str, str] = {}

    def made(value: str, _: Reading) -> str:
        uri = known.get(value)
        if uri is None:
            uri = _system_uri(table, value)
            if len(known) < 1024:
                known[value] = uri
        return uri

    return made


def _system_uri(table: Table | None, name: str) -> str:
    key = table.key(name) if table else None
    target = table.codes[key] if table and key is not None else None
    if target:
        return target.code
    digits = name[3:]
    if name[:3].upper() == "HL7" and digits.isascii() and digits.isdigit() and 3 <= len(digits) <= 5:
        return V2_SYSTEM + digits[-4:].zfill(4)
    return name if URI.fullmatch(name) else LOCAL_CODES + quote(name, safe="")


def _texts(kit: Kit, names: tuple[str, ...]) -> Made:
    tables = [kit.tables[name] for name in names]

    def made(repetitions: tuple[Cells, ...], _: Reading) -> str | None:
        texts = [text for cells in repetitions if (text := _display(cells, tables))]
        return ", ".join(dict.fromkeys(texts)) or None

    return made


def _display(cells: Cells, tables: list[Table]) -> str:
    text = _plain(cells.first, 8) or _plain(cells.first, 1)
    code = _plain(cells.first, 0)
    if text or not code:
        return text
    for table in tables:
        key = table.key(code)
        target = table.codes[key] if key is not None else None
        if target:
            return target.display or code
    return code


def _phone_number(_: Kit, __: tuple[str, ...]) -> Made:
    def made(cells: Cells, _: Reading) -> str | None:
        first = cells.first
        whole, local = _plain(first, 11), _plain(first, 6)
        if whole or not local:
            return whole or _plain(first, 0) or None
        country, area, extension = _plain(first, 4), _plain(first, 5), _plain(first, 7)
        parts = [f"+{country.lstrip('+')}" if country else "", area, local, f"X{extension}" if extension else ""]
        return " ".join(part for part in parts if part)

    return made


def _person_name(_: Kit, __: tuple[str, ...]) -> Made:
    def made(cells: Cells, _: Reading) -> str | None:
        first = cells.first
        parts = (_plain(first, index) for index in (5, 2, 3, 1, 4))
        return " ".join(part for part in parts if part) or None

    return made


def _plain(first: list[str | Null], index: int) -> str:
    value = first[index] if index < len(first) else ""
    return value if isinstance(value, str) else ""


def _shown(coding: dict[str, Any]) -> str:
    return str(coding.get("display") or coding["code"])


def _unknown(table: Table, reading: Reading) -> None:
    if table.unmapped is Unmapped.REFUSE:
        raise MappingError(UNMAPPED_CODE, reading.place)
    if table.unmapped is not Unmapped.IGNORE:
        reading.warn(UNMAPPED_CODE)


TEXT, CELLS, ALL = Takes.TEXT, Takes.CELLS, Takes.ALL
FUNCTIONS: Final[Mapping[str, Function]] = {
    "date": Function(TEXT, "date", _date, "the date of a timestamp, never shifted, as precise as it came"),
    "datetime": Function(TEXT, "dateTime", _datetime, "a timestamp with offset, as precise as it came"),
    "birth-time": Function(
        TEXT, "dateTime", _birth_time, "a timestamp that has a time of day; nothing for a mere date"
    ),
    "boolean": Function(TEXT, "boolean", _boolean, "true or false by the table named", (1, 1)),
    "integer": Function(TEXT, "integer", _integer(0), "a whole number from 0"),
    "positive-integer": Function(TEXT, "positiveInt", _integer(1), "a whole number from 1"),
    "code": Function(TEXT, "code", _code, "the FHIR code by the table named", (1, 1)),
    "coding": Function(TEXT, "Coding", _coding, "system, code and display by the table named", (1, 1)),
    "concept": Function(TEXT, "CodeableConcept", _concept, "one coding by the table named, and its text", (1, 1)),
    "unmapped": Function(
        TEXT, "CodeableConcept", _unmapped, "the code as it came, where no table named has a target for it", (1, 3)
    ),
    "coded": Function(
        CELLS, "CodeableConcept", _coded, "a CWE: first code by the table named, alternate code and text kept", (0, 1)
    ),
    "coding-system": Function(TEXT, "uri", _coding_system, "the URI of a coding system's name (HL7 table 0396)"),
    "texts": Function(ALL, "string", _texts, "the texts of all repetitions of a CWE, joined by commas", (0, 3)),
    "phone-number": Function(
        CELLS, "string", _phone_number, "an XTN's number: XTN.12, else country, area, number, extension, else XTN.1"
    ),
    "person-name": Function(CELLS, "string", _person_name, "an XCN's name: prefix, given names, family, suffix"),
    "identifier-system": Function(CELLS, "uri", _identifier_system, "a CX's FHIR system, by the channel's authorities"),
    "identifier-type": Function(
        CELLS, "CodeableConcept", _identifier_type, "a CX's type by the table named; `untyped` for an identity", (1, 1)
    ),
    "identifier-value": Function(TEXT, "string", _identifier_value, "an identifier's value; nothing for a placeholder"),
    "identifier-use": Function(CELLS, "code", _identifier_use, "`old` for a CX that expired before the event"),
    "own-system": Function(
        TEXT, "uri", _own_system, "a system of this engine: base URI, the word named, the text", words=1
    ),
}

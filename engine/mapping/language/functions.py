"""The closed registry of functions that expressions may use; nothing else can be called from a mapping.

Each takes one kind of input and gives one FHIR type. `text` is a leaf; `cells` one repetition, `all` every repetition
of a field. A function returns None if it makes nothing; it warns, by place, of a value that it cannot use.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from engine.hl7.leaf import NULL, Null
from engine.hl7.timestamp import Timestamp
from engine.mapping.language.coding import code, coded, coding, coding_system, concept, text_at, texts, unmapped
from engine.mapping.language.deidentification import DEIDENTIFYING_FUNCTIONS
from engine.mapping.language.function_context import Function, FunctionContext, Takes
from engine.mapping.language.identifier import Authority
from engine.mapping.language.node import Apply
from engine.mapping.language.reading import Cells, MessageReading
from engine.mapping.language.string_functions import MIDNIGHT, TEXT_FUNCTIONS
from engine.mapping.language.value_functions import (
    address_text,
    binary,
    cdc_ethnicity,
    cdc_race,
    instant,
    joined,
    left_out,
    lines,
    media_type,
    minutes_after,
    range_high,
    range_low,
    sender_system,
    time,
    uri_of_hd,
    url,
)

BAD_VALUE: Final = "bad-value"
MAX_INTEGER: Final = 2_147_483_647
DECIMAL: Final = re.compile(r"[+-]?(\d{1,15})(\.\d{1,15})?")
# Significant digits that a double always keeps.
MOST_DIGITS: Final = 15


def _date(context: FunctionContext, _: tuple[str, ...]) -> Apply:
    return _timed(context, lambda stamp: stamp.fhir_date())


def _datetime(context: FunctionContext, _: tuple[str, ...]) -> Apply:
    return _timed(context, lambda stamp: stamp.fhir_datetime())


def _birth_time(context: FunctionContext, _: tuple[str, ...]) -> Apply:
    made = _datetime(context, ())
    return lambda value, reading: made(value, reading) if MIDNIGHT.fullmatch(value[8:]) is None else None


def _timed(context: FunctionContext, shape: Callable[[Timestamp], str]) -> Apply:
    read = context.stamps.read

    def apply(value: str, reading: MessageReading) -> Any:
        stamp = read(value, reading.offset)
        return reading.warn(BAD_VALUE) if stamp is None else shape(stamp)

    return apply


def _boolean(context: FunctionContext, names: tuple[str, ...]) -> Apply:
    table = context.tables[names[0]]

    def apply(value: str, reading: MessageReading) -> bool | None:
        key = table.key(value)
        target = table.codes[key] if key is not None else None
        return reading.warn(BAD_VALUE) if target is None else target.code == "true"

    return apply


def _integer(value: str, reading: MessageReading, least: int = 0) -> int | None:
    number = int(value) if value.isascii() and value.isdigit() and len(value) <= 10 else -1
    return number if least <= number <= MAX_INTEGER else reading.warn(BAD_VALUE)


def _decimal(value: str, reading: MessageReading) -> int | float | None:
    match = DECIMAL.fullmatch(value)
    if match is None or len(value.replace(".", "").lstrip("+-0")) > MOST_DIGITS:
        reading.warn(BAD_VALUE)
        return None
    return float(value) if match[2] else int(value)


def _if_past(context: FunctionContext, words: tuple[str, ...]) -> Apply:
    read = context.stamps.read

    def apply(value: str, reading: MessageReading) -> str | None:
        stamp = read(value, reading.offset)
        if stamp is None or stamp.precision < 8 or not reading.today:
            return None
        return words[0] if value[:8] < reading.today else None

    return apply


def _line(first: Sequence[str | Null], order: Iterable[int]) -> str | None:
    """Return the cells of these numbers that hold text, joined by blanks; None if there are none."""
    count = len(first)
    return " ".join([part for index in order if index < count and (part := first[index])]) or None


def _name_text(cells: Cells, _: MessageReading) -> str | None:
    return _line(cells.first, (4, 1, 2, 0, 3))


def _one_coding(number: int) -> Callable[[FunctionContext, tuple[str, ...]], Apply]:
    def make(context: FunctionContext, names: tuple[str, ...]) -> Apply:
        concept_of = coded(context, names)

        def made(cells: Cells, reading: MessageReading) -> Any:
            concept = concept_of(cells, reading)
            if not isinstance(concept, dict):
                return concept if not number else None
            codings = concept.get("coding") or ()
            return codings[number] if number < len(codings) else None

        return made

    return make


def _entity_system(context: FunctionContext, words: tuple[str, ...]) -> Apply:
    system = context.identifiers.resource_system

    def apply(cells: Cells, reading: MessageReading) -> str:
        authority = Authority(*(text_at(cells.first, index) for index in (1, 2, 3)))
        return system(authority, words[0], reading.facility)

    return apply


def _identifier_type(context: FunctionContext, names: tuple[str, ...]) -> Apply:
    named, type_of = concept(context, names), context.identifiers.type_of

    def apply(value: Cells, reading: MessageReading) -> dict[str, Any] | None:
        type_ = type_of(value, reading.place)
        return named(type_, reading) if type_ else None

    return apply


def _identifier_system(context: FunctionContext, _: tuple[str, ...]) -> Apply:
    system = context.identifiers.system
    return lambda value, reading: system(value, reading.place).uri


def _number_system(context: FunctionContext, words: tuple[str, ...]) -> Apply:
    system = context.identifiers.resource_system

    def apply(cells: Cells, reading: MessageReading) -> str:
        return system(_authority_at(cells, CX_AUTHORITY), words[0], reading.facility)

    return apply


def _assigned_system(authority: int, type_: int) -> Callable[[FunctionContext, tuple[str, ...]], Apply]:
    """Return the maker of a number's system by the components of its authority (HD) and its type; the word: none."""

    def make(context: FunctionContext, words: tuple[str, ...]) -> Apply:
        system = context.identifiers.resource_system

        def apply(cells: Cells, reading: MessageReading) -> str:
            kind = text_at(cells.first, type_ - 1) or words[0]
            return system(_authority_at(cells, authority), kind, reading.facility)

        return apply

    return make


def _authority_at(cells: Cells, component: int) -> Authority:
    """Return the authority in a component (HD)."""
    parts = [cells.leaf(component, part) for part in (1, 2, 3)]
    return Authority(*(part if isinstance(part, str) else "" for part in parts))


def _place_name(_: FunctionContext, words: tuple[str, ...]) -> Apply:
    levels = range(int(words[0]) if words[0].isdigit() else 1)
    return lambda cells, _: _line(cells.first, levels)


def _identifier_value(context: FunctionContext, _: tuple[str, ...]) -> Apply:
    placeholder = context.identifiers.placeholder

    def apply(value: str, reading: MessageReading) -> str | None:
        return reading.warn("placeholder-identifier") if placeholder(value) else value

    return apply


def _identifier_use(context: FunctionContext, _: tuple[str, ...]) -> Apply:
    expired = context.identifiers.expired
    return lambda value, reading: "old" if expired(value, reading.today) else None


def _own_system(context: FunctionContext, words: tuple[str, ...]) -> Apply:
    base = context.setting.base_uri + words[0]
    return lambda value, _: f"{base}:{quote(value, safe='')}"


def _phone_number(cells: Cells, _: MessageReading) -> str | Null | None:
    first = cells.first
    count = len(first)
    if count > 11 and (whole := first[11]):
        return whole
    if count <= 6 or not (local := first[6]):
        return first[0] or (NULL if first[0] is NULL else None)
    country, area, extension = first[4], first[5], first[7] if count > 7 else ""
    parts = [f"+{country.lstrip('+')}" if country else "", area, local, f"X{extension}" if extension else ""]
    return " ".join([part for part in parts if part])


def _person_name(cells: Cells, _: MessageReading) -> str | None:
    return _line(cells.first, (5, 2, 3, 1, 4))


def _plain(apply: Apply) -> Callable[[FunctionContext, tuple[str, ...]], Apply]:
    """Return the maker of a function without tables and words."""
    return lambda _, __: apply


TEXT, CELLS, ALL = Takes.TEXT, Takes.CELLS, Takes.ALL
CODES: Final = tuple(range(1, 14))
CX_AUTHORITY: Final = 4
XCN_PARTS: Final = (9, 13)
XON_PARTS: Final = (6, 7)
FUNCTIONS: Final[Mapping[str, Function]] = {
    **TEXT_FUNCTIONS,
    **DEIDENTIFYING_FUNCTIONS,
    "date": Function(TEXT, "date", _date, "the date of a timestamp, never shifted, as precise as it came"),
    "datetime": Function(TEXT, "dateTime", _datetime, "a timestamp with offset, as precise as it came"),
    "birth-time": Function(
        TEXT,
        "dateTime",
        _birth_time,
        "a timestamp that has a time of day; nothing for a date alone or midnight exactly",
    ),
    "instant": Function(TEXT, "instant", instant, "a timestamp that has a time of day; nothing for a date alone"),
    "minutes-after": Function(
        TEXT, "dateTime", minutes_after, "the time in the field named, plus this number of minutes", words=1, field=True
    ),
    "time": Function(TEXT, "time", _plain(time), "a time of day"),
    "boolean": Function(TEXT, "boolean", _boolean, "true or false by the table named", (1, 1)),
    "integer": Function(TEXT, "integer", _plain(_integer), "a whole number from 0"),
    "positive-integer": Function(TEXT, "positiveInt", _plain(partial(_integer, least=1)), "a whole number from 1"),
    "decimal": Function(TEXT, "decimal", _plain(_decimal), "a number of at most 15 significant digits"),
    "range-low": Function(TEXT, "decimal", _plain(range_low), "the lower of the two numbers of a range, 3.5-5.0"),
    "range-high": Function(TEXT, "decimal", _plain(range_high), "the higher of the two numbers of a range, 3.5-5.0"),
    "if-past": Function(
        TEXT, "code", _if_past, "the word named, where a date lies before the day of the event", words=1, asks="today"
    ),
    "code": Function(TEXT, "code", code, "the FHIR code by the table named", (1, 1)),
    "coding": Function(TEXT, "Coding", coding, "system, code and display by the table named", (1, 1)),
    "concept": Function(TEXT, "CodeableConcept", concept, "one coding by the table named, and its text", (1, 1)),
    "unmapped": Function(
        TEXT, "CodeableConcept", unmapped, "the code as it came, where no table named has a target for it", (1, 3)
    ),
    "cdc-race": Function(TEXT, "string", _plain(cdc_race), "a code of CDC's list that is a race, else nothing"),
    "cdc-ethnicity": Function(TEXT, "string", _plain(cdc_ethnicity), "a code of CDC's list that is an ethnicity"),
    "coded": Function(
        CELLS,
        "CodeableConcept",
        coded,
        "a CWE: first code by the table named, alternate codes and text kept",
        (0, 1),
        reads=CODES,
    ),
    "first-coding": Function(
        CELLS,
        "Coding",
        _one_coding(0),
        "the first code of a CWE, by the table named or as it was sent",
        (0, 1),
        reads=CODES,
    ),
    "other-coding": Function(CELLS, "Coding", _one_coding(1), "the alternate code of a CWE", (0, 1), reads=CODES),
    "third-coding": Function(CELLS, "Coding", _one_coding(2), "the second alternate code of a CWE", reads=CODES),
    "coding-system": Function(TEXT, "uri", coding_system, "the URI of a coding system's name (HL7 table 0396)"),
    "texts": Function(
        ALL, "string", texts, "the texts of all repetitions of a CWE, joined by commas", (0, 3), reads=(1, 2, 4, 5, 9)
    ),
    "phone-number": Function(
        CELLS,
        "string",
        _plain(_phone_number),
        "an XTN's number: XTN.12, else country, area, number, extension, else XTN.1",
        reads=(1, 5, 6, 7, 8, 12),
    ),
    "lines": Function(ALL, "string", _plain(lines), "the texts of all repetitions, a line each", reads=(1,)),
    "name-text": Function(
        CELLS,
        "string",
        _plain(_name_text),
        "an XPN as a line: prefix, given names, family, suffix",
        reads=(1, 2, 3, 4, 5),
    ),
    "person-name": Function(
        CELLS,
        "string",
        _plain(_person_name),
        "an XCN's name: prefix, given names, family, suffix",
        reads=(2, 3, 4, 5, 6),
    ),
    "identifier-system": Function(
        CELLS, "uri", _identifier_system, "a CX's FHIR system, by the channel's authorities", reads=(4, 5)
    ),
    "identifier-type": Function(
        CELLS,
        "CodeableConcept",
        _identifier_type,
        "a CX's type by the table named; `untyped` for an identity",
        (1, 1),
        reads=(5,),
    ),
    "identifier-value": Function(TEXT, "string", _identifier_value, "an identifier's value; nothing for a placeholder"),
    "identifier-use": Function(
        CELLS, "code", _identifier_use, "`old` for a CX that expired before the event", reads=(8,), asks="today"
    ),
    "number-system": Function(
        CELLS, "uri", _number_system, "a CX's FHIR system as a number of the type named (VN)", words=1, reads=(4,)
    ),
    "person-system": Function(
        CELLS,
        "uri",
        _assigned_system(*XCN_PARTS),
        "an XCN's FHIR system, by its authority and type (else the word), or by MSH-4",
        words=1,
        reads=XCN_PARTS,
    ),
    "organization-system": Function(
        CELLS,
        "uri",
        _assigned_system(*XON_PARTS),
        "an XON's FHIR system, by its authority and type (else the word), or by MSH-4",
        words=1,
        reads=XON_PARTS,
    ),
    "place-name": Function(
        CELLS,
        "string",
        _place_name,
        "the first components of a PL, as many as named, joined by blanks",
        words=1,
        reads=(1, 2, 3),
    ),
    "entity-system": Function(
        CELLS,
        "uri",
        _entity_system,
        "an EI's FHIR system: that of its authority, or of MSH-4, with #WORD",
        words=1,
        reads=(2, 3, 4),
    ),
    "universal-uri": Function(CELLS, "uri", _plain(uri_of_hd), "the URI of an HD's universal id", reads=(2, 3)),
    "address-text": Function(
        CELLS,
        "string",
        _plain(address_text),
        "an XAD as a line: street, city, state, code, country",
        reads=(1, 2, 3, 4, 5, 6),
    ),
    "joined": Function(ALL, "string", _plain(joined), "the components of all repetitions, a line each"),
    "media-type": Function(
        CELLS,
        "code",
        media_type,
        "the media type in the component of that number and the next",
        words=1,
        reads=(2, 3, 4),
    ),
    "left-out": Function(
        TEXT, "string", _plain(left_out), "nothing, and the warning `value-left-out`: nothing else had a use for it"
    ),
    "url": Function(TEXT, "url", _plain(url), "an address: a text without blanks"),
    "binary": Function(TEXT, "base64Binary", _plain(binary), "Base64 without blanks"),
    "sender-system": Function(
        TEXT,
        "uri",
        sender_system,
        "a system of this engine for the word, within the message's sender",
        words=1,
        asks="source",
    ),
    "own-system": Function(
        TEXT, "uri", _own_system, "a system of this engine: base URI, the word named, the text", words=1
    ),
}

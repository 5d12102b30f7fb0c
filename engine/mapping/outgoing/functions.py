"""The closed registry of functions that outgoing rules may use: FHIR values in, texts and composites of HL7 out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final

from engine.mapping.language.expression import unquoted
from engine.mapping.language.string_functions import TEXT_FUNCTIONS
from engine.mapping.outgoing.backward import BackwardAuthorities, BackwardTable, SystemName
from engine.mapping.outgoing.change import OutgoingSetting
from engine.mapping.outgoing.path import PRIMITIVES
from engine.mapping.outgoing.reading import ChangeReading

UNMAPPED: Final = "unmapped-code"
BAD_VALUE: Final = "bad-value"
TEXT: Final = "ST"
MOST_LEVELS: Final = 8
CODINGS_OF_CWE: Final = (0, 3, 9)
PHYSICAL: Final = "physicalType"

# A text, or the parts of a composite, each of which may have parts.
Hl7Value = Any
ApplyBack = Callable[[Any, ChangeReading], Hl7Value]


class CodedValue(list[Any]):
    """The components of a CWE; `implied` are those that a version without room for them need not miss."""

    implied: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class BackwardContext:
    """What functions are compiled with."""

    setting: OutgoingSetting
    tables: Mapping[str, BackwardTable]
    authorities: BackwardAuthorities
    systems: SystemName = field(default_factory=lambda: SystemName(None))


MakeBack = Callable[[BackwardContext, tuple[str, ...]], ApplyBack]


@dataclass(frozen=True, slots=True)
class OutgoingFunction:
    """One function: the FHIR types that it takes (empty: any primitive), what it gives, and its words and tables.

    `many`: it takes all values at once. `gives`: an HL7 data type, or `same`.
    """

    takes: frozenset[str]
    gives: str
    make: MakeBack
    text: str
    tables: tuple[int, int] = (0, 0)
    words: tuple[int, int] = (0, 0)
    many: bool = False


def as_text(value: Any) -> str | None:
    """Return a primitive value as text; None for any other."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None or isinstance(value, dict | list) else str(value)


def hl7_date(value: Any, reading: ChangeReading) -> str | None:
    """Return a FHIR date, or the day of a dateTime as it is written, as YYYY[MM[DD]]."""
    text = str(value)
    day = text[:10].replace("-", "")
    if not (day.isascii() and day.isdigit() and len(day) in {4, 6, 8}):
        reading.note(BAD_VALUE)
        return None
    return day


def _timestamp(context: BackwardContext, _: tuple[str, ...]) -> ApplyBack:
    zone = context.setting.zone

    def apply(value: Any, reading: ChangeReading) -> str | None:
        text = str(value)
        if "T" not in text:
            return hl7_date(text, reading)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            reading.note(BAD_VALUE)
            return None
        return hl7_timestamp(moment, zone, text.partition(".")[2])

    return apply


def hl7_timestamp(moment: datetime, zone: Any, fraction: str = "") -> str:
    """Return a moment in the zone, with an offset only where the hour is one of two: at the end of summer time."""
    local = moment.astimezone(zone) if moment.tzinfo else moment.replace(tzinfo=zone)
    digits = "".join(character for character in fraction if character.isdigit()) if fraction else ""
    shown = f"{local:%Y%m%d%H%M%S}".rjust(14, "0")
    if moment.microsecond and digits:
        shown += f".{fraction_of(fraction)}"
    if local.utcoffset() != local.replace(fold=1 - local.fold).utcoffset():
        shown += f"{local:%z}"[:5]
    return shown


def fraction_of(text: str) -> str:
    """Return the digits of a second's fraction, at most the four that HL7 has, before a zone."""
    end = next((at for at, character in enumerate(text) if not character.isdigit()), len(text))
    return text[:end][:4]


def _code(context: BackwardContext, names: tuple[str, ...]) -> ApplyBack:
    tables = [context.tables[name] for name in names]

    def apply(value: Any, reading: ChangeReading) -> str | None:
        codings = _codings(value) if isinstance(value, dict) else [{"code": as_text(value)}]
        for table in tables:
            for coding in codings:
                found = table.of_coding(coding) if coding.get("system") else table.of_code(str(coding.get("code")))
                if found is not None:
                    return found
        reading.note(UNMAPPED)
        return None

    return apply


def _known(context: BackwardContext, names: tuple[str, ...]) -> ApplyBack:
    tables = [context.tables[name] for name in names]
    return lambda value, _: as_text(value) if any(one.has(str(value)) for one in tables) else None


def _unknown(context: BackwardContext, names: tuple[str, ...]) -> ApplyBack:
    tables = [context.tables[name] for name in names]
    return lambda value, _: None if any(one.has(str(value)) for one in tables) else as_text(value)


def _codings(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the codings of a CodeableConcept, or a Coding itself."""
    found = value.get("coding")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else [value]


def _coded(context: BackwardContext, names: tuple[str, ...]) -> ApplyBack:
    table = context.tables[names[0]] if names else None
    others = [context.tables[name] for name in names[1:]]

    def apply(value: Any, _: ChangeReading) -> CodedValue | None:
        codings = [one for one in _codings(value) if one.get("code") or one.get("display")]
        text = str(value.get("text") or "")
        made = CodedValue([None] * 9)
        for at, coding in zip(CODINGS_OF_CWE, codings, strict=False):
            made += [None] * (at + 4 - len(made))
            made[at : at + 3], own = _coding_parts(coding, table, others, context.systems)
            if coding.get("version") and not own:
                made[{0: 6, 3: 7, 9: 12}[at]] = str(coding["version"])
            if at == 0 and own:
                made.implied = frozenset({2, 3})
        _add_text(made, text)
        return made if any(made) else None

    return apply


def _add_text(made: CodedValue, text: str) -> None:
    """Add the text of a concept: as the display of its first code, unless that has another, which the sender gave."""
    code, display = made[0], made[1]
    if not text or text in (display, code):
        return
    if display is None or 2 in made.implied:
        made[1] = text
    else:
        made[8] = text


def _coding_parts(
    coding: Mapping[str, Any], table: BackwardTable | None, others: list[BackwardTable], systems: SystemName
) -> tuple[list[str | None], bool]:
    """Return code, display and system of one coding, and whether its code is of a table of the rule."""
    display, system = coding.get("display"), str(coding.get("system") or "")
    for one in (table, *others):
        code = one.of_coding(coding) if one is not None else None
        if one is not None and code is not None:
            return [code, display, f"HL7{one.hl7}" if one.hl7 else systems.of(system) or None], True
    return [as_text(coding.get("code")), display, systems.of(system) or None], False


def _authority(context: BackwardContext, _: tuple[str, ...]) -> ApplyBack:
    of = context.authorities.of

    def apply(value: Any, _: ChangeReading) -> list[str | None] | None:
        found = of(str(value.get("system") or ""))
        assigner = (value.get("assigner") or {}).get("display") if isinstance(value.get("assigner"), dict) else None
        namespace = (found.namespace if found.configured else None) or assigner or found.namespace
        parts = [namespace or None, found.universal or None, found.kind or None]
        if found.kind == "URI" and namespace:
            parts = [namespace, None, None]
        return parts if any(parts) else None

    return apply


def _number_type(context: BackwardContext, names: tuple[str, ...]) -> ApplyBack:
    table = context.tables[names[0]]

    def apply(value: Any, _: ChangeReading) -> str | None:
        type_ = value.get("type") if isinstance(value.get("type"), dict) else {}
        for coding in _codings(type_):
            if (found := table.of_coding(coding)) is not None:
                return found
        codes = [as_text(one.get("code")) for one in _codings(type_)]
        said = next((code for code in codes if code), None) or type_.get("text")
        return said or context.authorities.of(str(value.get("system") or "")).type_ or None

    return apply


def _own_place(context: BackwardContext, _: tuple[str, ...]) -> ApplyBack:
    of = context.authorities.of
    return lambda value, _: of(str(value)).place or None


def _place(_: BackwardContext, words: tuple[str, ...]) -> ApplyBack:
    def apply(value: Any, reading: ChangeReading) -> str | None:
        level: Any = value
        for _step in range(MOST_LEVELS):
            if not isinstance(level, dict):
                return None
            if any(one.get("code") == words[0] for one in _codings(level.get(PHYSICAL) or {})):
                return _level_value(level, words[0])
            above = level.get("partOf")
            if not isinstance(above, dict):
                return None
            level = next(iter(reading.resolved([above])), None)
        return None

    return apply


def _level_value(level: Mapping[str, Any], kind: str) -> str | None:
    """Return the last part of a place's number (`3W/301/A`), or else its name."""
    for one in level.get("identifier") or ():
        value = one.get("value") if isinstance(one, dict) else None
        if isinstance(value, str) and value and str(one.get("system") or "").endswith(LEVEL_SYSTEMS.get(kind, "")):
            return unescaped_part(value.rpartition("/")[2] if kind in PARTED else value)
    name = level.get("name")
    return name if isinstance(name, str) else None


# The ends of the systems of a place's numbers, by its physical type; and those whose numbers have several parts.
LEVEL_SYSTEMS: Final = {
    "bd": "#bed", "ro": "#room", "wa": "#point-of-care", "lvl": "#floor", "bu": "#building", "si": "facility",
}  # fmt: skip
PARTED: Final = frozenset({"bd", "ro"})


def unescaped_part(text: str) -> str:
    """Return a part of a number of several parts, as its field has it."""
    return text.replace("%2F", "/").replace("%25", "%")


def _joined(_: BackwardContext, words: tuple[str, ...]) -> ApplyBack:
    between = unquoted(words[0])
    return lambda values, _: between.join(text for one in values if (text := as_text(one))) or None


def _name_part(_: BackwardContext, words: tuple[str, ...]) -> ApplyBack:
    return lambda value, _: name_parts(str(value)).get(words[0]) or None


def name_parts(line: str) -> dict[str, str]:
    """Return the parts of a person's name as a line: of what is left of titles and suffixes the last is the family."""
    words = line.split()
    prefix = [words.pop(0) for one in list(words) if len(words) > 1 and one.rstrip(".").upper() in NAME_PREFIXES]
    suffix: list[str] = []
    while len(words) > 1 and words[-1].rstrip(".").upper() in NAME_SUFFIXES:
        suffix.insert(0, words.pop())
    parts = {"family": words[-1:], "given": words[:-1][:1], "further": words[1:-1], "prefix": prefix, "suffix": suffix}
    return {name: " ".join(part) for name, part in parts.items()}


NAME_PREFIXES: Final = frozenset({"DR", "PROF", "MR", "MRS", "MS", "MISS"})
NAME_SUFFIXES: Final = frozenset({"JR", "SR", "II", "III", "IV", "V", "MD", "PHD"})


def _yes_no(_context: BackwardContext, _: tuple[str, ...]) -> ApplyBack:
    return lambda value, _: "Y" if value is True else "N" if value is False else None


def _text_function(
    make: Callable[[Any, tuple[str, ...]], Any], _: BackwardContext, words: tuple[str, ...]
) -> ApplyBack:
    apply = make(None, words)
    return lambda value, _: apply(str(value), None)


PRIMITIVE: Final = frozenset(PRIMITIVES)
CODES: Final = frozenset({"code", "string", "uri", "Coding", "CodeableConcept"})
DATES: Final = frozenset({"date", "dateTime", "instant"})
# Functions of the language whose result depends on the text alone.
TEXTS: Final = ("upper", "lower", "strip", "strip-start", "strip-end", "substring", "pad", "replace", "split")
OUTGOING_FUNCTIONS: Final[Mapping[str, OutgoingFunction]] = {
    "date": OutgoingFunction(DATES, TEXT, lambda _, __: hl7_date, "the day of a date or dateTime, as it is written"),
    "timestamp": OutgoingFunction(
        DATES, TEXT, _timestamp, "a dateTime in the destination's zone; with an offset where its hour comes twice"
    ),
    "code": OutgoingFunction(
        CODES,
        TEXT,
        _code,
        "the HL7 code of a FHIR code, by a table read backwards; the first table that has it",
        (1, 9),
    ),
    "coded": OutgoingFunction(
        frozenset({"CodeableConcept", "Coding"}),
        "CWE",
        _coded,
        "a CWE of a concept: codes by the tables read backwards, all others as they are, and its text",
        (0, 9),
    ),
    "known": OutgoingFunction(PRIMITIVE, "same", _known, "the texts that one of the tables has as HL7 codes", (1, 9)),
    "unknown": OutgoingFunction(PRIMITIVE, "same", _unknown, "the texts that none of the tables has", (1, 9)),
    "authority": OutgoingFunction(
        frozenset({"Identifier"}), "HD", _authority, "the assigning authority of an identifier, by its system backwards"
    ),
    "number-type": OutgoingFunction(
        frozenset({"Identifier"}), TEXT, _number_type, "the type of an identifier, by a table read backwards", (1, 1)
    ),
    "own-place": OutgoingFunction(
        frozenset({"uri"}), TEXT, _own_place, "the field whose numbers without an authority have this system: PID-2"
    ),
    "place": OutgoingFunction(
        frozenset({"Location"}),
        TEXT,
        _place,
        "the number or name of a level of a place, by its physical type: bd, ro, wa, lvl, bu, si",
        words=(1, 1),
    ),
    "name-part": OutgoingFunction(
        frozenset({"string"}),
        TEXT,
        _name_part,
        "of a person's name as a line: prefix, given (the first), further, family (the last) or suffix",
        words=(1, 1),
    ),
    "yes-no": OutgoingFunction(frozenset({"boolean"}), TEXT, _yes_no, "Y or N"),
    "joined": OutgoingFunction(
        PRIMITIVE, TEXT, _joined, "all texts as one, with this between them", words=(1, 1), many=True
    ),
    **{
        name: OutgoingFunction(
            PRIMITIVE,
            TEXT,
            partial(_text_function, TEXT_FUNCTIONS[name].make),
            TEXT_FUNCTIONS[name].text,
            words=(TEXT_FUNCTIONS[name].words, TEXT_FUNCTIONS[name].words + TEXT_FUNCTIONS[name].more),
        )
        for name in TEXTS
    },
}

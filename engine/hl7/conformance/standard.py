"""One version of the standard, compiled from hl7apy's tables: segments, fields, data types, tables; values checked.

Each version is read at its first use, each segment and data type of it compiled at its own; nothing is read before.
What those tables do not have: lengths of single fields (only those of primitive types), tables before 2.3.1, 2.9.

Written for the usual delimiters. What a shape does not match may conform all the same (escapes, nulls, a 29th of
February, codes of another coding system): that is then looked at part by part.
"""

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from engine.hl7.delimiters import STANDARD
from engine.hl7.events import VERSIONS

_MOMENT: Final = re.compile(
    r"([0-9]{4})(?:(0[1-9]|1[0-2])(?:(0[1-9]|[12][0-9]|3[01])(?:(?:[01][0-9]|2[0-3])(?:[0-5][0-9](?:[0-5][0-9]"
    r"(?:\.[0-9]{1,4})?)?)?)?)?)?(?:[+-](?:0[0-9]|1[0-4])[0-5][0-9])?"
)
_SHORTEST_MONTH: Final = "28"
_TIME: Final = r"([01][0-9]|2[0-3])([0-5][0-9]([0-5][0-9](\.[0-9]{1,4})?)?)?([+-][0-9]{4})?"


@dataclass(frozen=True, slots=True)
class Primitive:
    """One primitive type: its name, what a value of it is called, what fits, and the longest value (0: no bound)."""

    name: str
    kind: str
    fits: Callable[[str], bool] | None = None
    longest: int = 0


def _form(pattern: str) -> Callable[[str], bool]:
    match = re.compile(pattern).fullmatch
    return lambda text: match(text) is not None


def _date(text: str) -> bool:
    return len(text) <= len("YYYYMMDD") and text.isdigit() and _moment(text)


def _moment(text: str) -> bool:
    found = _MOMENT.fullmatch(text)
    if found is None or found[1] == "0000":
        return False
    day = found[3]
    return day is None or day <= _SHORTEST_MONTH or int(day) <= monthrange(int(found[1]), int(found[2]))[1]


KINDS: Final = {
    "NM": Primitive("NM", "a number", _form(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)")),
    "SI": Primitive("SI", "a sequence number", _form(r"[0-9]+")),
    "DT": Primitive("DT", "a date", _date),
    "TM": Primitive("TM", "a time of day", _form(_TIME)),
    "DTM": Primitive("DTM", "a timestamp", _moment),
    "ID": Primitive("ID", "a code"),
    "IS": Primitive("IS", "a code"),
}
"""The types that hold more than text."""


def primitive(name: str, longest: int = 0) -> Primitive:
    """Return a primitive type with a bound; a name that is not listed is text."""
    known = KINDS.get(name) or Primitive(name, "text")
    return Primitive(known.name, known.kind, known.fits, longest)


def kind_of(text: str) -> str:
    """Say of what kind a value is, and nothing of what it says."""
    if text.isascii() and text.isdigit():
        return f"{len(text)} digits"
    return f"{len(text)} characters"


CODED: Final = frozenset({"CE", "CWE", "CNE", "CF"})
CODING_SYSTEMS: Final = "0396"
SYSTEM_PATTERN: Final = r"HL7[0-9]{4}|99[A-Za-z0-9]{1,4}|L"
_SYSTEM: Final = re.compile(SYSTEM_PATTERN)


@dataclass(frozen=True, slots=True)
class CodeTable:
    """A code table: number and title, its codes, and whether it is the sites' to extend (user-defined)."""

    number: str
    title: str
    codes: frozenset[str]
    open: bool

    @property
    def system(self) -> str:
        """What CWE.3 calls it."""
        return f"HL7{self.number}"

    def has(self, code: str) -> bool:
        """Tell whether a code is of the table; coding systems are of a pattern too."""
        return code in self.codes or (self.number == CODING_SYSTEMS and _SYSTEM.fullmatch(code) is not None)

    def __str__(self) -> str:
        return f"a code of table {self.number} ({self.title})"


@dataclass(frozen=True, slots=True)
class MessagePart:
    """A field, component or subcomponent.

    `most` is how often it may repeat: 0 withdrawn, -1 without bound. A composite has `parts`, a primitive
    `primitive`; of a type that varies both are empty.
    """

    number: int
    name: str
    type: str
    required: bool
    most: int
    table: CodeTable | None
    parts: tuple["MessagePart", ...]
    primitive: Primitive | None

    @property
    def coded(self) -> bool:
        """Whether it is a coded element with a table: its first code is of that, or says of which other system."""
        return self.table is not None and self.type in CODED


@dataclass(frozen=True, slots=True)
class SegmentRule:
    """The fields of a segment, field n at index n, those that are required, and the shapes made so far, by number."""

    fields: tuple[MessagePart | None, ...]
    required: tuple[MessagePart, ...]
    shapes: dict[int, re.Pattern[str] | None] = field(default_factory=dict)


USUAL: Final = STANDARD._replace(truncation="")
SEPARATORS: Final = (r"\^", "&")
MOST_CODES: Final = 400

_TEXT: Final = r'[^|^~\\&"\r\n]'
_MONTH: Final = r"(?:0[1-9]|1[0-2])"
_DAY: Final = (
    r"(?:(?:0[13578]|1[02])(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)(?:0[1-9]|[12][0-9]|30)|02(?:0[1-9]|1[0-9]|2[0-8]))"
)
_HOURS: Final = r"(?:[01][0-9]|2[0-3])(?:[0-5][0-9](?:[0-5][0-9](?:\.[0-9]{1,4})?)?)?"
_OFFSET: Final = r"(?:[+-](?:0[0-9]|1[0-4])[0-5][0-9])?"
_FORMS: Final = {
    "NM": r"[+-]?[0-9]{1,8}(?:\.[0-9]{1,6})?",
    "SI": r"[0-9]{1,4}",
    "DT": rf"[1-9][0-9]{{3}}(?:{_DAY}|{_MONTH})?",
    "TM": rf"{_HOURS}{_OFFSET}",
    "DTM": rf"[1-9][0-9]{{3}}(?:{_DAY}(?:{_HOURS})?|{_MONTH})?{_OFFSET}",
}


def shape_of(field: MessagePart) -> re.Pattern[str] | None:
    """Return what surely is a value of a field, or a list of them; None where nothing surely is."""
    if field.most == 0 or (not field.parts and field.primitive is None):
        return None
    one = _value(field, 0)
    return re.compile(f"{one}(?:~{one})*" if field.most < 0 else one)


def _value(part: MessagePart, depth: int) -> str:
    """Return the shape of one value; below its components and their subcomponents nothing is parted further."""
    if not part.parts:
        return _leaf(part)
    if depth == len(SEPARATORS):
        return _value(part.parts[0], depth)
    values = [_value(below, depth + 1) for below in part.parts]
    if part.coded:
        values[0] = _leaf(part)
    return _chain(values, [below.required for below in part.parts], SEPARATORS[depth])


def _chain(values: Sequence[str], required: Sequence[bool], separator: str) -> str:
    """Return values with a separator between them: what is not required may be empty, and cut off at the end."""
    values = [_valued(value) if need else value for value, need in zip(values, required, strict=True)]
    tail, needed = "", False
    for value, need in zip(reversed(values[1:]), reversed(required[1:]), strict=True):
        here = f"{separator}{value if need else f'(?:{value})?'}{tail}"
        needed = needed or need
        tail = here if needed else f"(?:{here})?"
    return f"(?:{values[0]}){'' if required[0] else '?'}{tail}"


def _valued(value: str) -> str:
    """Return the shape of a value that must be there: of its parts, all of which may be empty, one is not."""
    return rf"(?=&*[^\^&~]){value}" if re.fullmatch(value, "") else value


def _leaf(part: MessagePart) -> str:
    table, kind = part.table, part.primitive
    if table is not None and len(table.codes) <= MOST_CODES:
        codes = _words(table.codes)
        return f"(?:{codes}|{SYSTEM_PATTERN})" if table.number == CODING_SYSTEMS else codes
    if kind is None or table is not None:
        return "(?!)"
    longest = kind.longest or ""
    return _FORMS.get(kind.name) or f"{_TEXT}{{1,{longest}}}"


def _words(words: Iterable[str]) -> str:
    """Return what matches one of many words, by their letters in turn: a long list costs no more than a short one."""
    tails: dict[str, list[str]] = {}
    for word in words:
        tails.setdefault(word[:1], []).append(word[1:])
    ends = "" in tails
    found = [f"{re.escape(first)}{_words(rest)}" for first, rest in sorted(tails.items()) if first]
    return f"(?:{'|'.join(found)}){'?' if ends else ''}" if found else ""


LAST: Final = "2.8.2"
MODULES: Final = {version: f"hl7apy.v{version.replace('.', '_')}" for version in VERSIONS if version <= LAST} | {
    "2.7.1": "hl7apy.v2_7",
    "2.9": "hl7apy.v2_8_2",
    "2.9.1": "hl7apy.v2_8_2",
}
"""Where each version is read; one without tables of its own is read as the nearest older one."""

NAME_LENGTH: Final = 3
DELIMITERS: Final = frozenset({"Field separator", "Encoding characters"})
GROWING: Final = frozenset({CODING_SYSTEMS})
"""Registers that grow between the versions: what they lack may be of today."""

SKETCH: Final = re.compile(r"\.\.|…|< ?(?:integer|spec|day)|^_$| _|_ |and higher")

STRUCTURES: Final = "HL70354"
"""The table of message structures lacks some; MSH-9.3 is held against the structure of its event instead."""
WITHDRAWN: Final = "WD"
WITHDRAWN_TEXT: Final = primitive(WITHDRAWN)
TEXTS: Final = frozenset({"ST", "TX", "FT", "GTS"})
TIMES: Final = ("TS_1", "DTM")
NORMATIVE_LENGTHS_END: Final = VERSIONS.index("2.7")
NOT_REQUIRED: Final = frozenset({"TS_2"})
"""Required by the tables, optional in the standard: the degree of precision of 2.1."""


class Standard:
    """One version; segments and data types are compiled when they are first asked for."""

    def __init__(self, version: str, module: ModuleType) -> None:
        self.version = version
        self._module = module
        self._tables: dict[str, tuple[Any, ...]] = getattr(module, "TABLES", None) or {}
        self._lengths = _lengths(version, module.get_base_datatypes())
        self._segments: dict[str, SegmentRule | None] = {}
        self._values: dict[str, MessagePart | None] = {}
        self._types: dict[tuple[str, int], tuple[MessagePart, ...]] = {}
        self._shapes: dict[tuple[str, str, int], re.Pattern[str] | None] = {}

    def segment(self, name: str) -> SegmentRule | None:
        """Return the fields of a segment, None for a segment that this version does not have."""
        if name not in self._segments:
            reference = self._module.SEGMENTS.get(name) if len(name) == NAME_LENGTH else None
            children = _children(reference[1]) if reference and len(reference) > 1 else ()
            self._segments[name] = self._segment(children) if children else None
        return self._segments[name]

    def value_type(self, name: str) -> MessagePart | None:
        """Return the type that a varying field says it has (OBX-2), None for an unknown one."""
        if name not in self._values:
            known = name in self._module.DATATYPES_STRUCTS or name in self._lengths
            reference = ("leaf", None, name, "OBSERVATION_VALUE", None)
            self._values[name] = self._part("OBX_5", reference, (0, -1), 0) if known else None
        return self._values[name]

    def shape(self, part: MessagePart) -> re.Pattern[str] | None:
        """Return a field's shape, made at the first call; fields of one type, table and repetition share it."""
        key = (part.type, part.table.number if part.table else "", part.most)
        if key not in self._shapes:
            self._shapes[key] = shape_of(part)
        return self._shapes[key]

    def _segment(self, children: tuple[tuple[Any, ...], ...]) -> SegmentRule:
        parts = [self._part(child[0], child[1] or self._module.FIELDS[child[0]], child[2], 0) for child in children]
        fields: list[MessagePart | None] = [None] * (max(part.number for part in parts) + 1)
        for part in parts:
            fields[part.number] = part
        required = tuple(part for part in parts if part.required and part.name not in DELIMITERS)
        return SegmentRule(tuple(fields), required)

    def _part(self, key: str, reference: Any, bounds: tuple[int, int], depth: int) -> MessagePart:
        type_, name, table = (reference[2] or "ST").upper(), reference[3] or "", reference[4]
        if key == TIMES[0]:
            type_ = TIMES[1]
        parts = self._composite(type_, depth + 1) if depth < 2 else ()
        listed = self._table(table, is_open=type_ not in {"ID", "CNE"})
        kind = None if parts or type_ == "VARIES" else primitive(type_, self._lengths.get(type_, 0))
        return MessagePart(
            int(key.rsplit("_", 1)[1]),
            name.replace("_", " ").capitalize(),
            type_,
            bounds[0] > 0 and key not in NOT_REQUIRED,
            0 if type_ == WITHDRAWN else bounds[1],
            listed,
            parts,
            kind,
        )

    def _composite(self, type_: str, depth: int) -> tuple[MessagePart, ...]:
        """Return the components of a data type, () for a primitive one."""
        known = self._types.get((type_, depth))
        if known is None:
            children = _children(self._module.DATATYPES_STRUCTS.get(type_) or ())
            parts = [self._part(child[0], child[1], child[2], depth) for child in children]
            listed = {part.number: part for part in parts}
            known = tuple(listed.get(number) or _withdrawn(number) for number in range(1, max(listed, default=0) + 1))
            self._types[type_, depth] = known
        return known

    def _table(self, key: str | None, *, is_open: bool) -> CodeTable | None:
        """Return a table that lists its codes, None for those that are empty or only sketch them (`10 ... 19`)."""
        found = self._tables.get(key or "")
        if not found or not found[1] or key == STRUCTURES:
            return None
        codes = (found[1],) if isinstance(found[1], str) else found[1]
        if any(SKETCH.search(code) for code in codes):
            return None
        listed = frozenset(part.strip() for code in codes for part in (code, *code.split(",")))
        number = str(key)[3:]
        return CodeTable(number, found[0].strip(), listed, is_open or number in GROWING)


@lru_cache(maxsize=len(MODULES))
def standard(version: str) -> Standard | None:
    """Return a version of the standard, read at the first call; None for a version that is none."""
    if version not in MODULES:
        return None
    return Standard(version, import_module(MODULES[version]))


def _withdrawn(number: int) -> MessagePart:
    """Return a component that a version's table does not list among others: XTN.1 of 2.6."""
    return MessagePart(
        number, "Withdrawn", WITHDRAWN, required=False, most=0, table=None, parts=(), primitive=WITHDRAWN_TEXT
    )


def _children(reference: Any) -> tuple[tuple[Any, ...], ...]:
    """Return the children of a reference; some of a single child stand without the tuple around it."""
    if reference and isinstance(reference[0], str):
        reference = (reference,)
    return tuple(child for child in reference if len(child) > 2)


def _lengths(version: str, types: dict[str, Any]) -> dict[str, int]:
    """Return the longest value of each primitive type; since 2.7 the standard bounds no text."""
    found = dict.fromkeys(types, 0)
    for name in types.keys() & {"SI", "NM"}:
        found[name] = types[name](None).max_length or 0
    if VERSIONS.index(version) < NORMATIVE_LENGTHS_END:
        for name in types.keys() & {*TEXTS, "IS"}:
            found[name] = types[name]("").max_length or 0
    return found

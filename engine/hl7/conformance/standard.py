"""One version of the standard: its segments, fields, data types and tables, compiled from hl7apy's reference tables.

Each version is read at its first use, each segment and data type of it compiled at its own; nothing is read before.
What those tables do not have: lengths of single fields (only those of primitive types), tables before 2.3.1, 2.9.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from engine.hl7.conformance.primitive import Primitive, primitive
from engine.hl7.events import VERSIONS

LAST: Final = "2.8.2"
MODULES: Final = {version: f"hl7apy.v{version.replace('.', '_')}" for version in VERSIONS if version <= LAST} | {
    "2.7.1": "hl7apy.v2_7",
    "2.9": "hl7apy.v2_8_2",
    "2.9.1": "hl7apy.v2_8_2",
}
"""Where each version is read; one without tables of its own is read as the nearest older one."""

NAME_LENGTH: Final = 3
DELIMITERS: Final = frozenset({"Field separator", "Encoding characters"})
CODING_SYSTEMS: Final = "0396"
SYSTEM_PATTERN: Final = re.compile(r"HL7[0-9]{4}|99[A-Za-z0-9]{1,4}|L")
GROWING: Final = frozenset({CODING_SYSTEMS})
"""Registers that grow between the versions: what they lack may be of today."""

STRUCTURES: Final = "HL70354"
"""The table of message structures lacks some; MSH-9.3 is held against the structure of its event instead."""
CODED: Final = frozenset({"CE", "CWE", "CNE", "CF"})
TEXTS: Final = frozenset({"ST", "TX", "FT", "GTS"})
TIMES: Final = ("TS_1", "DTM")
NORMATIVE_LENGTHS_END: Final = VERSIONS.index("2.7")
NOT_REQUIRED: Final = frozenset({"TS_2"})
"""Required by the tables, optional in the standard: the degree of precision of 2.1."""


@dataclass(frozen=True, slots=True)
class Table:
    """A code table: number and title, its codes, and whether it is the sites' to extend (user-defined)."""

    number: str
    title: str
    codes: frozenset[str]
    open: bool

    @property
    def system(self) -> str:
        """What CWE.3 calls it."""
        return f"HL7{self.number}"

    def other(self, code: str) -> bool:
        """Tell whether a code that is not listed is of the table all the same: the coding systems of a pattern."""
        return self.number == CODING_SYSTEMS and SYSTEM_PATTERN.fullmatch(code) is not None

    def __str__(self) -> str:
        return f"a code of table {self.number} ({self.title})"


@dataclass(frozen=True, slots=True)
class Part:
    """A field, component or subcomponent.

    `most` is how often it may repeat: 0 withdrawn, -1 without bound. A composite has `parts`, a primitive
    `primitive`; of a type that varies both are empty. `coded` marks a coded element with a table, of which its first
    component is unless it names another coding system; `needs` are the numbers of the components it requires, `fits`
    tells whether a value without parts has the form, the length and the code that it should.
    """

    number: int
    name: str
    type: str
    required: bool
    most: int
    table: Table | None
    parts: tuple["Part", ...]
    primitive: Primitive | None
    coded: bool
    needs: tuple[int, ...]
    fits: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class SegmentRule:
    """The fields of a segment, field n at index n, and those that are required."""

    fields: tuple[Part | None, ...]
    required: tuple[Part, ...]


class Standard:
    """One version; segments and data types are compiled when they are first asked for."""

    def __init__(self, version: str, module: ModuleType) -> None:
        self.version = version
        self._module = module
        self._tables: dict[str, tuple[Any, ...]] = getattr(module, "TABLES", None) or {}
        self._lengths = _lengths(version, module.get_base_datatypes())
        self._segments: dict[str, SegmentRule | None] = {}
        self._types: dict[tuple[str, int], tuple[Part, ...]] = {}

    def segment(self, name: str) -> SegmentRule | None:
        """Return the fields of a segment, None for a segment that this version does not have."""
        if name not in self._segments:
            reference = self._module.SEGMENTS.get(name) if len(name) == NAME_LENGTH else None
            children = _children(reference[1]) if reference and len(reference) > 1 else ()
            self._segments[name] = self._segment(children) if children else None
        return self._segments[name]

    def value_type(self, name: str) -> Part | None:
        """Return the type that a varying field says it has (OBX-2), None for an unknown one."""
        if name not in self._module.DATATYPES_STRUCTS and name not in self._lengths:
            return None
        return self._part("OBX_5", ("leaf", None, name, "OBSERVATION_VALUE", None), (0, -1), 0)

    def _segment(self, children: tuple[tuple[Any, ...], ...]) -> SegmentRule:
        parts = [self._part(child[0], child[1] or self._module.FIELDS[child[0]], child[2], 0) for child in children]
        fields: list[Part | None] = [None] * (max(part.number for part in parts) + 1)
        for part in parts:
            fields[part.number] = part
        required = tuple(part for part in parts if part.required and part.name not in DELIMITERS)
        return SegmentRule(tuple(fields), required)

    def _part(self, key: str, reference: Any, bounds: tuple[int, int], depth: int) -> Part:
        type_, name, table = (reference[2] or "ST").upper(), reference[3] or "", reference[4]
        if key == TIMES[0]:
            type_ = TIMES[1]
        parts = self._composite(type_, depth + 1) if depth < 2 else ()
        listed = self._table(table, is_open=type_ not in {"ID", "CNE"})
        kind = None if parts or type_ == "VARIES" else primitive(type_, self._lengths.get(type_, 0))
        return Part(
            int(key.rsplit("_", 1)[1]),
            name.replace("_", " ").capitalize(),
            type_,
            bounds[0] > 0 and key not in NOT_REQUIRED,
            0 if type_ == "WD" else bounds[1],
            listed,
            parts,
            kind,
            listed is not None and type_ in CODED,
            tuple(part.number for part in parts if part.required),
            parts[0].fits if parts else _test(kind, listed),
        )

    def _composite(self, type_: str, depth: int) -> tuple[Part, ...]:
        """Return the components of a data type, () for a primitive one."""
        known = self._types.get((type_, depth))
        if known is None:
            children = _children(self._module.DATATYPES_STRUCTS.get(type_) or ())
            known = tuple(self._part(child[0], child[1], child[2], depth) for child in children)
            self._types[type_, depth] = known
        return known

    def _table(self, key: str | None, *, is_open: bool) -> Table | None:
        """Return a table that has codes, None for all others."""
        found = self._tables.get(key or "")
        if not found or not found[1] or key == STRUCTURES:
            return None
        codes = (found[1],) if isinstance(found[1], str) else found[1]
        listed = frozenset(part.strip() for code in codes for part in (code, *code.split(",")))
        number = str(key)[3:]
        return Table(number, found[0].strip(), listed, is_open or number in GROWING)


@lru_cache(maxsize=len(MODULES))
def standard(version: str) -> Standard | None:
    """Return a version of the standard, read at the first call; None for a version that is none."""
    if version not in MODULES:
        return None
    return Standard(version, import_module(MODULES[version]))


def _test(kind: Primitive | None, table: Table | None) -> Callable[[str], bool]:
    """Return the one test of a primitive's value: few types need more than a look at form, length or code."""
    if kind is None:
        return _anything
    if table is not None:
        return lambda text: text in table.codes or table.other(text)
    if kind.longest and kind.fits is None:
        return lambda text: len(text) <= kind.longest
    if kind.longest and kind.fits is not None:
        fits = kind.fits
        return lambda text: len(text) <= kind.longest and bool(fits(text))
    return kind.fits or _anything


def _anything(_text: str) -> bool:
    return True


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

"""One version of the standard: its segments, fields, data types and tables, compiled from hl7apy's reference tables.

Each version is read at its first use, each segment and data type of it compiled at its own; nothing is read before.
What those tables do not have: lengths of single fields (only those of primitive types), tables before 2.3.1, 2.9.
"""

import re
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from engine.hl7.conformance.part import CODING_SYSTEMS, CodeTable, MessagePart, SegmentRule
from engine.hl7.conformance.primitive import primitive
from engine.hl7.conformance.shape import shape_of
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
GROWING: Final = frozenset({CODING_SYSTEMS})
"""Registers that grow between the versions: what they lack may be of today."""

SKETCH: Final = re.compile(r"\.\.|…|< ?(?:integer|spec|day)|^_$| _|_ |and higher")

STRUCTURES: Final = "HL70354"
"""The table of message structures lacks some; MSH-9.3 is held against the structure of its event instead."""
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
            0 if type_ == "WD" else bounds[1],
            listed,
            parts,
            kind,
        )

    def _composite(self, type_: str, depth: int) -> tuple[MessagePart, ...]:
        """Return the components of a data type, () for a primitive one."""
        known = self._types.get((type_, depth))
        if known is None:
            children = _children(self._module.DATATYPES_STRUCTS.get(type_) or ())
            known = tuple(self._part(child[0], child[1], child[2], depth) for child in children)
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

"""Codes of messages that no table of a mapping has, in every field that a rule looks up, also of what is not sent."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from engine.hl7.message import Message, Repetition, Segment
from engine.mapping.authoring.survey import Place
from engine.mapping.authoring.trace import Trace
from engine.mapping.compile import MappingSource
from engine.mapping.files.overlay import FIELD
from engine.mapping.files.reference import segments
from engine.mapping.files.table import MappingTable, UnmappedPolicy, make_table
from engine.mapping.language.coding import is_cdc_code
from engine.mapping.language.expression import Alternative, FunctionCall, RepetitionPath, SegmentPath
from engine.mapping.language.functions import FUNCTIONS
from engine.mapping.language.scope import Scope

# Functions that know the codes of CDC's list.
CODE_LISTS: Final = ("cdc-race", "cdc-ethnicity")
# The tests of observations, whose codes are LOINC's or a laboratory's.
TESTS: Final = ("OBX", 3)
# The component that names a code's system, and the names that mean a site's own, or one that tables are for.
SYSTEM: Final = 3
OF_TABLES: Final = re.compile(r"L$|99|HL7|CDCREC", re.IGNORECASE)
# Data types of codes.
CODED: Final = frozenset({"CWE", "CNE", "CE", "ID", "IS"})


class MissingCode(NamedTuple):
    """A code that its table does not have, and the field it came in."""

    table: str
    code: str
    field: str


@dataclass(slots=True)
class BoundField:
    """A field that rules look up: the tables, the components of codes, and whether it takes codes of CDC's list."""

    tables: dict[str, MappingTable] = field(default_factory=dict)
    components: set[int] = field(default_factory=set)
    cdc: bool = False


class LocalCodes:
    """The fields that the rules of a mapping look up in tables, and their codes that none of these has."""

    def __init__(self, trace: Trace, source: MappingSource) -> None:
        documents = source.documents
        self._tables = {name: make_table(name, one.value) for name, one in documents.tables.items()}
        self.fields: dict[Place, BoundField] = {}
        resources = {id(one) for one in documents.resources.values()}
        eaches = {(id(each.scope.document), each.scope.path): each.source for each in trace.eaches}
        for scope, rule in trace.rules:
            if id(scope.document) in resources:
                self._bind(scope, rule, eaches)
        self.fields = {place: one for place, one in self.fields.items() if one.tables and _is_coded(place)}

    def missing(self, message: Message) -> Iterator[MissingCode]:
        """Yield each code that none of its field's tables has, once for each repetition."""
        for segment in message.segments:
            for number in range(1, segment.fields() + 1):
                bound = self.fields.get((segment.name, number))
                if bound is not None and segment.field(number):
                    yield from _missing(segment, number, bound)

    def _bind(self, scope: Scope, rule: Alternative, eaches: dict[tuple[int, tuple[str | int, ...]], str]) -> None:
        place = _place(scope, rule, eaches)
        calls = [one for one in rule.stages if isinstance(one, FunctionCall) and one.name in FUNCTIONS]
        names = [word for one in calls if FUNCTIONS[one.name].tables[1] for word in one.arguments]
        if place is None or not isinstance(rule.head, SegmentPath | RepetitionPath):
            return
        bound = self.fields.setdefault(place, BoundField())
        bound.cdc |= any(one.name in CODE_LISTS for one in calls)
        tables = {name: self._tables[name] for name in names if name in self._tables}
        bound.tables.update(tables)
        if tables:
            bound.components.add(rule.head.component or 1)


def _is_coded(place: Place) -> bool:
    """True if a field holds codes: others, such as results, are looked up only in case they are one."""
    found = segments().get(place[0], {}).get(place[1])
    return found is not None and found.type_ in CODED and place != TESTS


def _place(scope: Scope, rule: Alternative, eaches: dict[tuple[int, tuple[str | int, ...]], str]) -> Place | None:
    """Return the field that a rule reads, of a repetition that of the nearest `each` around it; None for none."""
    if isinstance(rule.head, SegmentPath):
        return rule.head.segment, rule.head.field
    for end in range(len(scope.path), -1, -1):
        match = FIELD.fullmatch(eaches.get((id(scope.document), scope.path[:end]), ""))
        if match:
            return match[1], int(match[2])
    return None


def _missing(segment: Segment, number: int, bound: BoundField) -> Iterator[MissingCode]:
    # The table to extend: one that keeps or refuses what it has no row for, not one that leaves it to another.
    table = min(bound.tables.values(), key=lambda one: one.unmapped is UnmappedPolicy.IGNORE)
    for repetition in segment.repetitions(number):
        codes = list(_codes(repetition, bound))
        if codes and not any(_knows(bound, code) for code in codes):
            yield MissingCode(table.name, codes[0], f"{segment.name}-{number}")


def _codes(repetition: Repetition, bound: BoundField) -> Iterator[str]:
    system = str(repetition.leaf(SYSTEM) or "")
    if not repetition.is_null and (not system or OF_TABLES.match(system)):
        for component in sorted(bound.components):
            leaf = repetition.leaf(component)
            if isinstance(leaf, str) and leaf:
                yield leaf


def _knows(bound: BoundField, code: str) -> bool:
    return (bound.cdc and is_cdc_code(code)) or any(table.key(code) is not None for table in bound.tables.values())

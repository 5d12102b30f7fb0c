"""Names of HL7 fields and components, by the newest version's tables that have them."""

from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from engine.hl7.conformance.standard import LAST, WITHDRAWN, MessagePart, standard
from engine.hl7.events import VERSIONS
from engine.mapping.files.reference import data_types, segments
from engine.mapping.language.expression import RepetitionPath, SegmentPath

# The newest version with tables, then those that have what it withdrew.
TABLES: Final = (LAST, *(version for version in reversed(VERSIONS) if version != LAST))


class NamedPart(NamedTuple):
    """A field or component: its path, its name (empty if unknown) and its data type."""

    path: str
    name: str
    type_: str


def fields_of(segment: str) -> Iterator[NamedPart]:
    """Yield the fields of a segment; none of an unknown one."""
    for number, field in segments().get(segment, {}).items():
        yield NamedPart(f"{segment}-{number}", field.name, field.type_)


def components_of(type_: str, path: str) -> Iterator[NamedPart]:
    """Yield the components of a data type as parts of a path; none of a primitive or unknown one."""
    parts = _parts(type_)
    for number in range(1, max(len(parts), data_types().get(type_, 0)) + 1):
        part = parts[number - 1] if number <= len(parts) else None
        yield NamedPart(f"{path}.{number}", part.name if part else "", part.type if part else "")


def type_of_field(segment: str, field: int) -> str:
    """Return the data type of a field, of a withdrawn one that which it had last; empty if unknown."""
    known = segments().get(segment, {}).get(field)
    if known is None or known.type_ != WITHDRAWN:
        return known.type_ if known else ""
    for version in TABLES:
        rules = standard(version)
        rule = rules.segment(segment) if rules else None
        part = rule.fields[field] if rule and field < len(rule.fields) else None
        if part is not None and part.type != WITHDRAWN:
            return part.type
    return ""


def name_of(path: SegmentPath | RepetitionPath) -> str:
    """Return the name of what a path reads, `Patient Name, Family Name`; empty if unknown."""
    names = []
    if isinstance(path, SegmentPath):
        known = segments().get(path.segment, {}).get(path.field)
        if known is None:
            return ""
        names, type_ = [known.name], type_of_field(path.segment, path.field)
    else:
        type_ = path.type_
    for number in (path.component, path.subcomponent):
        parts = _parts(type_)
        if not 0 < number <= len(parts):
            break
        names.append(parts[number - 1].name)
        type_ = parts[number - 1].type
    return ", ".join(names)


@cache
def _parts(type_: str) -> tuple[MessagePart, ...]:
    """Return the components of a data type by the newest version that has them; none if no version does."""
    for version in TABLES:
        rules = standard(version)
        part = rules.value_type(type_) if rules else None
        if part is not None and part.parts:
            return part.parts
    return ()

"""Whether the Patient's file writes an identity as it is searched: under the number that the message gives, unchanged.

A patient is looked for by the numbers of `identity.from` as they came. A number that is written otherwise
(`CX.1 | strip-start(0)`) is found by no search: the next message is held, or makes a second chart.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from engine.mapping.files.document import Document, Problems
from engine.mapping.files.overlay import Key
from engine.mapping.files.reference import listed
from engine.mapping.language.expression import (
    Alternative,
    Call,
    Constant,
    ExpressionError,
    Field,
    Part,
    parse_expression,
)
from engine.mapping.language.identifier import MERGED, IdentityRules

IDENTIFIER: Final = "identifier"
VALUE: Final = "value"
# What leaves a number as it is, or makes nothing of it.
UNCHANGED: Final = "identifier-value"
SECTIONS: Final = ("elements", "merged")
Place = tuple[Document, tuple[Key, ...], str, Any]


def check_identity_values(
    patient: Document, datatypes: Mapping[str, Document], rules: IdentityRules, problems: Problems
) -> None:
    """Note each line that writes another value of an identity than the one that is searched."""
    fields = {*rules.fields, *rules.named, *(MERGED[one] for one in rules.fields if one in MERGED)}
    told: set[tuple[str, tuple[Key, ...]]] = set()
    for document, path, source, value in _values(patient, datatypes, fields):
        wrong = _changed(value)
        if wrong and (document.name, path) not in told:
            told.add((document.name, path))
            found = f"{wrong!r} as the value of {source}, by which patients are searched as it came"
            expected = f"write CX.1 | {UNCHANGED}; of {source} no other function can be used here"
            problems.add(document, path, found, expected)


def _values(patient: Document, datatypes: Mapping[str, Document], fields: set[str]) -> Iterator[Place]:
    """Yield what makes the values of identifiers from fields of identities: file, place, field, and what is written."""
    for section in SECTIONS:
        entries = (patient.value.get(section) or {}).get(IDENTIFIER)
        for number, entry in enumerate(entries if isinstance(entries, list) else [entries]):
            if not isinstance(entry, dict):
                continue
            path: tuple[Key, ...] = (
                (section, IDENTIFIER, number) if isinstance(entries, list) else (section, IDENTIFIER)
            )
            each = [one for one in listed(entry.get("each")) if one in fields]
            for source in each:
                yield from _entry(patient, path, source, entry, datatypes)
            if not each and VALUE in entry:
                for source in _fields(entry[VALUE]) & fields:
                    yield patient, (*path, VALUE), source, entry[VALUE]


def _entry(
    patient: Document, path: tuple[Key, ...], source: str, entry: Mapping[str, Any], datatypes: Mapping[str, Document]
) -> Iterator[Place]:
    if VALUE in entry:
        yield patient, (*path, VALUE), source, entry[VALUE]
    type_ = datatypes.get(str(entry.get("as") or ""))
    elements = type_.value.get("elements") if type_ is not None else None
    if type_ is not None and isinstance(elements, dict):
        yield type_, ("elements", VALUE), source, elements.get(VALUE)


def _fields(value: Any) -> set[str]:
    """Return the fields that a value is read from."""
    heads = [one.head for one in _alternatives(value)]
    return {f"{one.segment}-{one.field}" for one in heads if isinstance(one, Field)}


def _changed(value: Any) -> str:
    """Return the alternative that writes something else than the number itself; empty where none does."""
    return next((str(one) for one in _alternatives(value) if not _is_as_it_came(one)), "")


def _is_as_it_came(one: Alternative) -> bool:
    head = one.head
    if isinstance(head, Constant) or head.component > 1 or head.subcomponent > 1:
        return False
    if isinstance(head, Part) and head.type_ != "CX" and head.component == 0:
        return False
    return all(stage.name == UNCHANGED for stage in one.stages if isinstance(stage, Call))


def _alternatives(value: Any) -> list[Alternative]:
    """Return the alternatives of a value, one expression or a list of them; none where it is no expression."""
    if isinstance(value, dict):
        return _alternatives(value.get("first"))
    if isinstance(value, list):
        return [one for part in value for one in _alternatives(part)]
    try:
        return list(parse_expression(value)) if isinstance(value, str) else []
    except ExpressionError:
        return []  # told where it is compiled

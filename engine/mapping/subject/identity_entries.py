"""The templates of the identity fields in the Patient's file, and in the data types that it calls."""

from collections.abc import Iterator, Mapping, Set
from typing import Any, Final, NamedTuple

from engine.mapping.files.document import Document
from engine.mapping.files.overlay import Key
from engine.mapping.files.reference import listed
from engine.mapping.language.expression import Alternative, ExpressionError, SegmentPath, parse_expression

IDENTIFIER: Final = "identifier"
VALUE: Final = "value"
SECTIONS: Final = ("elements", "merged")
Place = tuple[Key, ...]


class IdentityTemplate(NamedTuple):
    """The template of an identifier: its file and place there, its field, and its parts.

    `calls`: the entry of the Patient's file that names the data type of this template; else the entry itself.
    """

    document: Document
    path: Place
    source: str
    parts: Mapping[str, Any]
    calls: Mapping[str, Any]


def identity_entries(
    patient: Document, datatypes: Mapping[str, Document], fields: Set[str]
) -> Iterator[IdentityTemplate]:
    """Yield the templates of identifiers of these fields: entries, and the data types that they name."""
    for section in SECTIONS:
        entries = (patient.value.get(section) or {}).get(IDENTIFIER)
        for number, entry in enumerate(entries if isinstance(entries, list) else [entries]):
            if not isinstance(entry, dict):
                continue
            path: Place = (section, IDENTIFIER, number) if isinstance(entries, list) else (section, IDENTIFIER)
            sources = [one for one in listed(entry.get("each")) if one in fields]
            for source in sources or sorted(_read(entry.get(VALUE)) & fields):
                yield IdentityTemplate(patient, path, source, entry, entry)
            type_ = datatypes.get(str(entry.get("as") or ""))
            elements = type_.value.get("elements") if type_ is not None else None
            if type_ is not None and isinstance(elements, dict):
                yield from [IdentityTemplate(type_, ("elements",), source, elements, entry) for source in sources]


def alternatives(value: Any) -> list[Alternative]:
    """Return the alternatives of a value, one expression or a list of them; none if it is invalid."""
    if isinstance(value, dict):
        return alternatives(value.get("first"))
    if isinstance(value, list):
        return [one for part in value for one in alternatives(part)]
    try:
        return list(parse_expression(value)) if isinstance(value, str) else []
    except ExpressionError:
        return []  # reported when it is compiled


def _read(value: Any) -> set[str]:
    """Return the fields that a value is read from."""
    heads = [one.head for one in alternatives(value)]
    return {f"{one.segment}-{one.field}" for one in heads if isinstance(one, SegmentPath)}

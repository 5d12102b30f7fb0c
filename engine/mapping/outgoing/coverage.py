"""The coverage of an outgoing mapping by cases: the rules that none of them uses."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from engine.mapping.files.document import Document
from engine.mapping.files.overlay import Key
from engine.mapping.outgoing.change import TracedField
from engine.mapping.outgoing.compile import OutgoingDocuments
from engine.mapping.outgoing.template import ENTRY_KEYS


class UnusedRule(NamedTuple):
    """A rule that made nothing: its place, its field or component, and its text."""

    file: str
    line: int
    place: str
    rule: str


def unused_rules(documents: OutgoingDocuments, traces: Iterable[Iterable[TracedField]]) -> list[UnusedRule]:
    """Return the rules of segments and data types that made nothing in any of the traces, in the order of places."""
    used = {(one.file, one.line, one.rule) for trace in traces for one in trace}
    return sorted(one for one in _rules(documents) if (one.file, one.line, one.rule) not in used)


def _rules(documents: OutgoingDocuments) -> Iterator[UnusedRule]:
    for document in documents.segments.values():
        for key, template in (document.value.get("fields") or {}).items():
            for path, text in _texts(template, ("fields", key)):
                yield _rule(document, path, key, text)
    for document in documents.datatypes.values():
        for key, text in (document.value.get("components") or {}).items():
            if text is not None:
                yield _rule(document, ("components", key), key, str(text))


def _rule(document: Document, path: tuple[Key, ...], place: str, text: str) -> UnusedRule:
    return UnusedRule(*document.place(path), place, text)


def _texts(template: Any, path: tuple[Key, ...]) -> Iterator[tuple[tuple[Key, ...], str]]:
    """Yield each expression of a field; what an `each` makes by a data type is that type's."""
    if isinstance(template, list):
        for number, one in enumerate(template):
            yield from _texts(one, (*path, number))
    elif isinstance(template, dict):
        for key, one in template.items():
            if key not in ENTRY_KEYS:
                yield from _texts(one, (*path, key))
    elif template is not None:
        yield path, str(template)

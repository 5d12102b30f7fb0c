"""The applied lines of files outside of elements: of the event table, of resources, lists, data types and tables.

The rules of elements are traced; settings (`reactivate: yes`, `within: sender`) are reported here, if their file, or
their part of it, was used.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

from engine.hl7.message import Message
from engine.mapping.authoring.traced import TracedStep
from engine.mapping.files.alike import LIKE, SEGMENTS
from engine.mapping.files.document import Document, Documents
from engine.mapping.files.field import FIELD
from engine.mapping.files.overlay import Key
from engine.mapping.files.reference import segments
from engine.mapping.language.expression import EVENT

Steps = tuple[Key, ...]
# Parts of files whose lines are elements, rules or rows, which are reported where they were used.
TRACED: Final = frozenset({"elements", "merged", "new", "also", "default", "fill", "number"})
# Keys among elements that make nothing by themselves.
KEYS: Final = frozenset({"each", "as", "when", "unless", "needs", "slice"})
CONDITIONS: Final = frozenset({"when", "unless", "arrives", "leaves"})
WORD: Final = re.compile(r"[\w-]+")
EVENTS: Final = "events"
# The key for events without a line.
OTHERS: Final = ("others",)
# Parts whose entries apply only if they were used.
PARTS: Final = frozenset({"segments", "kinds", "codes", EVENTS})
PATH: Final = re.compile(rf"(?<![\w.:/-]){FIELD.pattern}(?![\w-])")


class MappingLine(NamedTuple):
    """A line that applied: its place, keys (`events.A01.do`) and text, and the fields it names with their values."""

    file: str
    line: int
    key: str
    text: str
    read: tuple[tuple[str, Any], ...]


def lines_in_force(documents: Documents, message: Message, roots: Iterable[TracedStep]) -> Iterator[MappingLine]:
    """Yield the lines that applied to a message, file by file: first those of its event."""
    rule = (EVENTS, message.trigger)
    known = message.trigger in (documents.events.value.get(EVENTS) or ())
    yield from _lines(documents.events, message, {(EVENTS,), rule} if known else {(EVENTS,)})
    asked: dict[int, tuple[Document, set[Steps]]] = {}
    rows: set[Steps] = set()
    for root in roots:
        _note(root, asked, rows)
    for document, parts in asked.values():
        yield from _lines(document, message, parts)
    for name in sorted({str(one[0]) for one in rows}):
        yield from _lines(documents.tables[name], message, {one[1:] for one in rows if one[0] == name})


def _note(node: TracedStep, asked: dict[int, tuple[Document, set[Steps]]], rows: set[Steps]) -> None:
    document, path = node.scope.document, node.scope.path
    paths = asked.setdefault(id(document), (document, set()))[1]
    paths.update(path[:end] for end in range(len(path) + 1))
    rows.update((row.table, "codes", row.key or "") for row in node.rows)
    for child in node.children:
        _note(child, asked, rows)


def _lines(document: Document, message: Message, asked: set[Steps]) -> Iterator[MappingLine]:
    whole = chain(_leaves(document.value, ()), _alike(document.source.value))
    for path, text in whole:
        if _applies(path, asked):
            named = [one for one in PATH.finditer(text) if one[1] in segments() or one[1].startswith("Z")]
            found = tuple((one[0], _raw(message, one)) for one in named)
            if path[-1] in CONDITIONS and EVENT in WORD.findall(text):
                found = ((EVENT, message.trigger), *found)
            yield MappingLine(
                *document.place(path), ".".join(step for step in path if isinstance(step, str)), text, found
            )


def _leaves(value: Any, path: Steps) -> Iterator[tuple[Steps, str]]:
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(part, (*path, key))
    elif value is not None:
        yield path, str(value)


def _alike(value: Any) -> Iterator[tuple[Steps, str]]:
    """Yield the `like` parts of a file with their models: the document has them completed."""
    parts = value.get(SEGMENTS) if isinstance(value, dict) else None
    for name, part in parts.items() if isinstance(parts, dict) else ():
        if isinstance(part, dict) and LIKE in part:
            yield (SEGMENTS, name, LIKE), str(part[LIKE])


def _applies(path: Steps, asked: set[Steps]) -> bool:
    """True if a setting applied: not of an unused event, segment or row, nor of an element or rule."""
    if (path[0] in PARTS and path[:2] not in asked) or (path == OTHERS and len(asked) > 1):
        return False
    within = next((at for at, step in enumerate(path) if step in TRACED), None)
    if within is None or path[0] == "codes":
        return True
    key = next((at for at, step in enumerate(path) if at > within and step in KEYS), None)
    return key is not None and path[:key] in asked


def _raw(message: Message, match: re.Match[str]) -> Any:
    """Return the text at a path in the first segment of its name."""
    segment = message.firsts.get(match[1])
    return segment.leaf(int(match[2]), int(match[7] or 1), int(match[8] or 1), int(match[3] or 1)) if segment else None

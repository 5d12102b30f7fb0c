"""Explains each element of a plan (rule, values, functions), the lines in force elsewhere, and the reverse.

The rules of elements are traced; settings (`reactivate: yes`, `within: sender`) are reported here, if their file, or
their part of it, was used.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

from engine.config.channel import Channel
from engine.config.source import AuthoredFile
from engine.hl7.message import Message
from engine.mapping.authoring.evidence import CheckedCondition, Evidence, element_of
from engine.mapping.authoring.outcome import outcome
from engine.mapping.authoring.trace import Trace, TracingCompiler
from engine.mapping.authoring.traced import TracedStep
from engine.mapping.authoring.walk import TraceWalk, WalkPosition
from engine.mapping.compile import Mapping, MappingSource, compile_mapping
from engine.mapping.files.alike import LIKE, SEGMENTS
from engine.mapping.files.document import Document, Documents
from engine.mapping.files.overlay import FIELD, Key
from engine.mapping.files.reference import segments
from engine.mapping.language.expression import EVENT
from engine.mapping.subject.filters import decided

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
    for name in sorted({str(row[0]) for row in rows}):
        yield from _lines(documents.tables[name], message, {row[1:] for row in rows if row[0] == name})


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


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one message: the place of its event's rule, the outcome, the evidence, and the mapping.

    `conditions`: those outside of elements: of filters, of resources and lists, of status moves. `lines`: the other
    lines of files that applied to the message.
    """

    message: Message
    file: str
    line: int
    outcome: dict[str, Any]
    evidence: tuple[Evidence, ...]
    trace: Trace
    hash: str
    conditions: tuple[CheckedCondition, ...] = ()
    lines: tuple[MappingLine, ...] = ()

    def of_element(self, element: str) -> tuple[Evidence, ...]:
        """Return the evidence of an element and its parts: `Patient.name` (every name), `birthDate`."""
        wanted = _whole(element)
        return tuple(one for one in self.evidence if _within(one.element, wanted))

    def rules_for(self, element: str) -> tuple[tuple[str, int, str], ...]:
        """Return file, line and text of every rule that may make an element or its parts, used or not."""
        wanted = _whole(element)
        found = ((scope, one) for scope, one in self.trace.rules if _within(element_of(scope), wanted))
        return tuple(sorted({(*scope.document.place(scope.path), str(one)) for scope, one in found}))

    def elements(self) -> frozenset[str]:
        """Return every element that a rule may make."""
        return frozenset(element_of(scope) for scope, _ in self.trace.rules) - {""}

    def of_field(self, path: str) -> tuple[Evidence, ...]:
        """Return the evidence of all elements that a field (`PID-7`) or a part of it (`PID-5.1`) made or decided."""
        made = (one for one in self.evidence if one.made is not None)
        return tuple(one for one in made if any(_within(source, path) for source in one.sources))


@dataclass(frozen=True, slots=True)
class WatchedMapping:
    """A watched mapping, which explains one message after the other."""

    source: MappingSource
    mapping: Mapping
    trace: Trace


def watch(source: MappingSource, channel: Channel, file: AuthoredFile | None = None) -> WatchedMapping:
    """Compile a mapping for a channel of a file, to be watched; ConfigurationError holds every problem."""
    trace = Trace()
    mapping = compile_mapping(source, channel, partial(TracingCompiler, trace), file)
    return WatchedMapping(source, mapping, trace)


def explain(source: MappingSource, channel: Channel, message: Message, file: AuthoredFile | None = None) -> Explanation:
    """Return the explanation of a message by a mapping on a channel; a mapping error is part of it, never raised."""
    return explained_by(watch(source, channel, file), message)


def explained_by(watched: WatchedMapping, message: Message) -> Explanation:
    """Return the explanation of a message by a watched mapping."""
    source, mapping, trace = watched.source, watched.mapping, watched.trace
    trace.begin(message)
    made = outcome(mapping, message)
    file_, line = decided(source.documents.events, message, made.get("filter"))
    walk = TraceWalk(source)
    evidence = walk.placed(tuple(walk.evidence(trace.roots)), made, mapping.number_forms)
    conditions = tuple(
        dict.fromkeys(walk.condition(one, WalkPosition(element=element_of(one.scope))) for one in trace.conditions)
    )
    lines = tuple(lines_in_force(source.documents, message, trace.roots))
    return Explanation(message, file_, line, made, evidence, trace, mapping.hash, conditions, lines)


def _whole(element: str) -> str:
    """Return an element with its resource, by default the Patient."""
    return element if element[:1].isupper() else f"Patient.{element}"


def _within(path: str, wanted: str) -> bool:
    """True if a path is the wanted one or below it; without an index every item is wanted."""
    if "[" not in wanted and "(" not in wanted:
        path = "".join(part.split("]")[-1] for part in path.replace("(", "[").replace(")", "]").split("["))
    return path == wanted or path.startswith((f"{wanted}.", f"{wanted}[", f"{wanted}("))

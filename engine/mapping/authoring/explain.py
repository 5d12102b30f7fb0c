"""Why each element of a plan came out as it did: the rule, what it read, what was done with it; and the reverse."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from engine.config.channel import Channel
from engine.config.source import Source
from engine.hl7.leaf import NULL
from engine.hl7.message import Message
from engine.mapping.authoring.element import PARTS, element_names, element_of
from engine.mapping.authoring.outcome import outcome
from engine.mapping.authoring.trace import Applied, Kind, Node, Row, Trace, TracingCompiler
from engine.mapping.compile import Mapping, MappingSource, compile_mapping
from engine.mapping.files.document import Document
from engine.mapping.language.expression import Constant, Field, Part
from engine.mapping.subject.filters import decided

LAID_OVER: Final = frozenset({"default", "fill"})


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table that was used; `file` and `line` are empty and 0 where the table has no row for the code.

    `unmapped`: the code went on as it came, or as the table's default, with a warning.
    """

    table: str
    code: str
    file: str
    line: int
    unmapped: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """How one element was made, or that a rule for it made nothing (`made` None).

    `element`: `Patient.name[0].family`, of the second one in a plan `Patient(2).name[0].family`. `source`: where in the
    message, `PID-5(2).1`; empty for a constant. `segment` counts the segments of that name from 1, 0 where it is the
    patient's first. `raw` is what stood there.
    """

    element: str
    file: str
    line: int
    rule: str
    source: str
    segment: int
    raw: Any
    functions: tuple[Applied, ...]
    rows: tuple[TableRow, ...]
    made: Any
    asked: bool
    record: int

    @property
    def field(self) -> str:
        """The field that the source is of, `PID-5`; empty for a constant."""
        return self.source.split("(")[0].split("[")[0].split(".")[0]


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is told of one message: where its event's rule stands, what came out, and why; by which mapping."""

    message: Message
    file: str
    line: int
    outcome: dict[str, Any]
    evidence: tuple[Evidence, ...]
    trace: Trace
    hash: str

    def of_element(self, element: str) -> tuple[Evidence, ...]:
        """Return what stands behind an element and its parts: `Patient.name` (every name), `birthDate`."""
        wanted = _whole(element)
        return tuple(one for one in self.evidence if _within(one.element, wanted))

    def rules_for(self, element: str) -> tuple[tuple[str, int, str], ...]:
        """Return file, line and text of every rule that may make an element or its parts, asked or not."""
        wanted = _whole(element)
        found = ((scope, one) for scope, one in self.trace.rules if _within(element_of(scope), wanted))
        return tuple(sorted({(*scope.document.place(scope.path), str(one)) for scope, one in found}))

    def elements(self) -> frozenset[str]:
        """Return every element that a rule may make."""
        return frozenset(element_of(scope) for scope, _ in self.trace.rules) - {""}

    def of_field(self, path: str) -> tuple[Evidence, ...]:
        """Return what a field (`PID-7`) or a part of it (`PID-5.1`) went into."""
        return tuple(one for one in self.evidence if one.made is not None and _within(one.source, path))


@dataclass(frozen=True, slots=True)
class Watched:
    """A mapping that is watched: good for one message, as it keeps what it made before."""

    source: MappingSource
    mapping: Mapping
    trace: Trace


def watch(source: MappingSource, channel: Channel, file: Source | None = None) -> Watched:
    """Compile a mapping for a channel of a file, to be watched; ConfigurationError holds every problem."""
    trace = Trace()
    mapping = compile_mapping(source, channel, partial(TracingCompiler, trace), file)
    trace.roots.clear()
    return Watched(source, mapping, trace)


def explain(source: MappingSource, channel: Channel, message: Message, file: Source | None = None) -> Explanation:
    """Return how a mapping on a channel, of a file, reads a message; what cannot be mapped is said, never raised."""
    return explained_by(watch(source, channel, file), message)


def explained_by(watched: Watched, message: Message) -> Explanation:
    """Return how a mapping that is watched reads a message."""
    source, mapping, trace = watched.source, watched.mapping, watched.trace
    made = outcome(mapping, message)
    file_, line = decided(source.documents.events, message, made.get("filter"))
    walk = Walk(source)
    evidence = tuple(walk.evidence(trace.roots))
    return Explanation(message, file_, line, made, walk.placed(evidence, made), trace, mapping.hash)


@dataclass(slots=True)
class At:
    """Where a walk stands: in which file, under which of its names, at which element; and what is at hand there."""

    document: Document | None = None
    names: tuple[str, ...] = ()
    element: str = ""
    source: str = ""
    segment: int = 0
    name: str = ""


@dataclass(slots=True)
class Walk:
    """Goes through the nodes of a trace; items are counted as they were made."""

    mapping: MappingSource
    counts: dict[tuple[int, str], int] = field(default_factory=dict)
    items: dict[tuple[int, str], Any] = field(default_factory=dict)
    instances: dict[tuple[int, str, str, Any], int] = field(default_factory=dict)
    record: int = 1

    def evidence(self, roots: list[Node]) -> Iterator[Evidence]:
        """Yield the evidence of every root; where one comes again, the next resource of its file begins."""
        seen: dict[str, set[tuple[Any, int]]] = {}
        records: Counter[str] = Counter()
        for root in roots:
            file, key = root.scope.document.source.file, (root.scope.path, id(root.rule))
            if key in seen.setdefault(file, set()):
                seen[file].clear()
                records[file] += 1
            seen[file].add(key)
            self.record = records[file] + 1
            yield from self._node(root, At())

    def placed(self, evidence: tuple[Evidence, ...], outcome: dict[str, Any]) -> tuple[Evidence, ...]:
        """Number the items of lists as they came out; those that others stand for (the same identifier twice) go."""
        moved: dict[tuple[int, str], str] = {}
        taken: set[str] = set()
        for (record, element), value in self.items.items():
            resource, name = element.partition("[")[0].split(".")
            bodies = [made.get("patient") or made.get("resource") or {} for made in outcome.get("interactions", ())]
            lists = [body.get(name) for body in bodies if body.get("resourceType") == resource.partition("(")[0]]
            for number, items in enumerate(lists):
                places = [f"{number} {index}" for index, item in enumerate(items or ()) if _holds(item, value)]
                place = next((one for one in places if f"{resource}.{name} {one}" not in taken), "")
                moved[record, element] = f"{resource}.{name}[{place.split()[1]}]" if place else ""
                if place:
                    taken.add(f"{resource}.{name} {place}")
                    break
        return tuple(again for one in evidence if (again := _again(one, moved)) is not None)

    def _node(self, node: Node, at: At) -> Iterator[Evidence]:
        at = self._entered(node, at)
        if node.kind is Kind.RULE:
            yield from self._rule(node, at)
        elif node.kind is Kind.ITEMS:
            yield from self._items(node, at)
        elif node.kind is Kind.EACH:
            yield from self._each(node, at)
        else:
            for child in node.children:
                yield from self._node(child, at)

    def _items(self, node: Node, at: At) -> Iterator[Evidence]:
        for child in node.children:
            if child.kind is Kind.EACH:
                yield from self._node(child, at)
            elif _laid_over(child):
                yield from self._laid_over(child, at, self._last(at.element), node.value)
            else:
                yield from self._item(child, at)

    def _each(self, node: Node, at: At) -> Iterator[Evidence]:
        """Walk what was made of each repetition or segment; a default is laid over the item before it."""
        number, item = 0, None
        for child in node.children:
            if _laid_over(child):
                yield from self._laid_over(child, at, self._last(at.element), [item])
                continue
            number += child.kind is not Kind.ALSO
            segment = "-" not in node.source
            here = f"{node.source}({number})"
            within = replace(at, source=here)
            if segment:
                within = replace(at, source="", segment=number, name=node.source)
            item = child.value
            yield from self._item(child, within)

    def _item(self, node: Node, at: At) -> Iterator[Evidence]:
        element = at.element
        if node.value is not None and node.value is not NULL:
            count = self.counts.get((self.record, element), 0)
            self.counts[self.record, element] = count + 1
            element = f"{element}[{count}]"
            if element.count(".") == 1:
                self.items[self.record, element] = node.value
        yield from self._node(node, replace(at, element=element))

    def _last(self, element: str) -> str:
        return f"{element}[{max(self.counts.get((self.record, element), 1) - 1, 0)}]"

    def _laid_over(self, node: Node, at: At, element: str, items: Any) -> Iterator[Evidence]:
        """Walk a default or a filling: what the item had already, it kept."""
        for one in self._node(node, replace(at, element=element)):
            name = one.element.removeprefix(f"{element}.").split(".")[0].split("[")[0]
            found = [item for item in items or () if isinstance(item, dict) and item.get(name) == one.made]
            if node.scope.path[-1] == "fill":
                index = next((number for number, item in enumerate(items or ()) if item in found), None)
                if index is not None:
                    yield replace(one, element=f"{at.element}[{index}]" + one.element.removeprefix(element))
            elif all(name not in item for item in items or () if isinstance(item, dict)):
                yield one

    def _rule(self, node: Node, at: At) -> Iterator[Evidence]:
        if node.rule is None:
            return
        source, head = at.source, node.rule.head
        if isinstance(head, Field):
            source = str(head)
        elif isinstance(head, Part):
            source = at.source + str(head).removeprefix(head.type_)
        elif isinstance(head, Constant):
            source = ""
        file, line = node.scope.document.place(node.scope.path)
        segment = at.segment if source[:3] == at.name else 0
        yield Evidence(
            at.element,
            file,
            line,
            str(node.rule),
            source,
            segment,
            None if isinstance(head, Constant) else node.raw,
            tuple(node.applied),
            tuple(self._row(row) for row in node.rows),
            node.value,
            node.asked,
            self.record,
        )
        for child in node.children:
            yield from self._node(child, replace(at, source=source))

    def _row(self, row: Row) -> TableRow:
        if row.key is None:
            return TableRow(row.table, row.code, "", 0, row.unmapped)
        return TableRow(row.table, row.code, *self.mapping.documents.tables[row.table].place(("codes", row.key)))

    def _entered(self, node: Node, at: At) -> At:
        """Return where a node stands: further down in its file, or at the beginning of another."""
        document = node.scope.document
        names = element_names(document, node.scope.path)
        if document is at.document:
            more = names[len(at.names) :]
            return replace(at, names=names, element=".".join((at.element, *more)))
        element = at.element
        if resource := document.value.get("resource"):
            element = self._instance(str(resource), node, at) if at.document else _numbered(str(resource), self.record)
        return replace(at, document=document, names=names, element=".".join((element, *names)))

    def _instance(self, resource: str, node: Node, at: At) -> str:
        """Return the name of a resource that is referred to; the second one of its type is `Practitioner(2)`."""
        path = node.scope.path
        key = (self.record, resource, f"{at.source} {at.segment}", path[1] if path[0] in PARTS else 0)
        if node.value is not None and key not in self.instances:
            self.instances[key] = sum(one[1] == resource for one in self.instances) + 1
        return _numbered(resource, self.instances.get(key, 1))


def _whole(element: str) -> str:
    """Return an element with its resource, which is the Patient where it names none."""
    return element if element[:1].isupper() else f"Patient.{element}"


def _numbered(resource: str, number: int) -> str:
    return f"{resource}({number})" if number > 1 else resource


def _holds(item: Any, value: Any) -> bool:
    """Say whether an item is what was made, to which defaults may have been added; its references are named since."""
    if isinstance(item, dict) and isinstance(value, dict):
        return all(name == "reference" or _holds(item.get(name), part) for name, part in value.items())
    if isinstance(item, list) and isinstance(value, list) and len(item) == len(value):
        return all(_holds(one, other) for one, other in zip(item, value, strict=True))
    return bool(item == value)


def _again(one: Evidence, moved: dict[tuple[int, str], str]) -> Evidence | None:
    """Return evidence at the place where its item came out; None where it did not."""
    item, bracket, rest = one.element.partition("]")
    place = moved.get((one.record, item + bracket), item + bracket)
    return replace(one, element=place + rest) if place else None


def _laid_over(node: Node) -> bool:
    return bool(node.scope.path) and node.kind is Kind.OBJECT and node.scope.path[-1] in LAID_OVER


def _within(path: str, wanted: str) -> bool:
    """Say whether a path is the one wanted or below it; what is wanted without an index means every item."""
    if "[" not in wanted and "(" not in wanted:
        path = "".join(part.split("]")[-1] for part in path.replace("(", "[").replace(")", "]").split("["))
    return path == wanted or path.startswith((f"{wanted}.", f"{wanted}[", f"{wanted}("))

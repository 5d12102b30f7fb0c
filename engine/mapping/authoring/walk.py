"""Walks the nodes of a trace to collect the evidence of each element."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from engine.hl7.leaf import NULL
from engine.mapping.authoring.evidence import (
    PARTS,
    AdditionalRead,
    CallingLine,
    CheckedCondition,
    Evidence,
    TableRow,
    element_names,
)
from engine.mapping.authoring.traced import AppliedFunction, StepKind, TracedLookUp, TracedStep
from engine.mapping.compile import MappingSource
from engine.mapping.files.document import Document
from engine.mapping.language.expression import Constant, RepetitionPath, SegmentPath
from engine.mapping.language.number_form import NORMALISE, NumberForm
from engine.mapping.subject.events import SYSTEMS

IDENTIFIER: Final = "identifier"
LAID_OVER: Final = frozenset({"default", "fill"})


@dataclass(slots=True)
class WalkPosition:
    """The position of a walk: the file, the name in it, the element, and the part at hand.

    `conditions`: those of the enclosing objects; `through`: the calling lines.
    """

    document: Document | None = None
    names: tuple[str, ...] = ()
    element: str = ""
    source: str = ""
    segment: int = 0
    name: str = ""
    conditions: tuple[CheckedCondition, ...] = ()
    through: tuple[CallingLine, ...] = ()


@dataclass(slots=True)
class TraceWalk:
    """Walks the nodes of a trace; items are counted as they were made."""

    mapping: MappingSource
    counts: dict[tuple[int, str], int] = field(default_factory=dict)
    items: dict[tuple[int, str], Any] = field(default_factory=dict)
    instances: dict[tuple[int, str, str, Any], int] = field(default_factory=dict)
    record: int = 1

    def evidence(self, roots: list[TracedStep]) -> Iterator[Evidence]:
        """Yield the evidence of every root; a repeated root begins the next resource of its file."""
        seen: dict[str, set[tuple[Any, int]]] = {}
        records: Counter[str] = Counter()
        for root in roots:
            file, key = root.scope.document.source.file, (root.scope.path, id(root.rule))
            if key in seen.setdefault(file, set()):
                seen[file].clear()
                records[file] += 1
            seen[file].add(key)
            self.record = records[file] + 1
            yield from self._node(root, WalkPosition(source=root.source if root.kind is StepKind.OBJECT else ""))

    def placed(
        self, evidence: tuple[Evidence, ...], outcome: dict[str, Any], forms: Mapping[str, NumberForm]
    ) -> tuple[Evidence, ...]:
        """Number the items of lists as in the outcome; dropped duplicates (the same identifier twice) are removed.

        `forms`: those of numbers, by system (`normalise`).
        """
        moved: dict[tuple[int, str], str] = {}
        formed: dict[tuple[int, str], str] = {}
        taken: set[str] = set()
        for (record, element), made in self.items.items():
            resource, name = element.partition("[")[0].split(".")
            value, form = made, None
            if name == IDENTIFIER and isinstance(made, dict):
                form = forms.get(made.get("system", ""))
            if form is not None and (in_form := form.of(made["value"])) != made["value"]:
                value, formed[record, element] = {**made, "value": in_form}, in_form
            bodies = [made.get("patient") or made.get("resource") or {} for made in outcome.get("interactions", ())]
            lists = [body.get(name) for body in bodies if body.get("resourceType") == resource.partition("(")[0]]
            for number, items in enumerate(lists):
                places = [f"{number} {index}" for index, item in enumerate(items or ()) if _holds(item, value)]
                place = next((one for one in places if f"{resource}.{name} {one}" not in taken), "")
                moved[record, element] = f"{resource}.{name}[{place.split()[1]}]" if place else ""
                if place:
                    taken.add(f"{resource}.{name} {place}")
                    break
        return tuple(again for one in evidence if (again := _again(one, moved, formed)) is not None)

    def _node(self, node: TracedStep, at: WalkPosition) -> Iterator[Evidence]:
        at = self._entered(node, at)
        if node.kind is StepKind.RULE:
            yield from self._rule(node, at)
        elif node.kind is StepKind.ITEMS:
            yield from self._items(node, at)
        elif node.kind is StepKind.EACH:
            yield from self._each(node, at)
        else:
            yield from self._object(node, at)

    def _object(self, node: TracedStep, at: WalkPosition) -> Iterator[Evidence]:
        """Walk the parts of an object; they count as not made if the object lacks an element that it needs."""
        lacks = self._lacks(node, at)
        at = replace(at, conditions=(*at.conditions, *lacks))
        for child in node.children:
            if child.kind is StepKind.CONDITION:
                at = replace(at, conditions=(*at.conditions, self.condition(child, at)))
                yield from self._stopped(child, at)
            else:
                found = self._node(child, at)
                yield from (replace(one, made=None) for one in found) if lacks else found

    def _lacks(self, node: TracedStep, at: WalkPosition) -> tuple[CheckedCondition, ...]:
        """Return the missing elements of an object as a failed condition; empty if the object was made."""
        content = [one for one in node.children if one.kind is not StepKind.CONDITION and one.value not in (None, NULL)]
        if node.value not in (None, NULL) or not content:
            return ()
        path = node.scope.path
        above = path[:-1] if path == ("elements",) else path
        needs = _at(node.scope.document.value, (*above, "needs"))
        if not needs:
            return ()
        place = node.scope.document.place((*above, "needs"))
        return (CheckedCondition(at.element, *place, f"needs {' or '.join(map(str, needs))}", passed=False, read=()),)

    def condition(self, node: TracedStep, at: WalkPosition) -> CheckedCondition:
        """Return a checked condition at a position."""
        place = node.scope.document.place(node.scope.path)
        return CheckedCondition(at.element, *place, str(node.guard), bool(node.value), self._additional_reads(node, at))

    def _stopped(self, node: TracedStep, at: WalkPosition) -> Iterator[Evidence]:
        """Yield the evidence that nothing was made, if the last condition failed."""
        last = at.conditions[-1]
        if not last.passed:
            where = (at.element, last.file, last.line, last.text, at.source, at.segment)
            yield Evidence(
                *where, None, (), (), None, asked=False, record=self.record, conditions=at.conditions,
                key=_key(node), through=at.through,
            )  # fmt: skip

    def _additional_reads(self, node: TracedStep, at: WalkPosition) -> tuple[AdditionalRead, ...]:
        reads = []
        for one in node.read:
            path = str(one.path)
            if isinstance(one.path, RepetitionPath):
                path = at.source + path.removeprefix(one.path.type_)
            reads.append(AdditionalRead(path, at.segment if path[:3] == at.name else 0, one.raw))
        return tuple(dict.fromkeys(reads))

    def _items(self, node: TracedStep, at: WalkPosition) -> Iterator[Evidence]:
        for child in node.children:
            if child.kind is StepKind.EACH:
                yield from self._node(child, at)
            elif _laid_over(child):
                yield from self._laid_over(child, at, self._last(at.element), node.value)
            else:
                yield from self._item(child, at)

    def _each(self, node: TracedStep, at: WalkPosition) -> Iterator[Evidence]:
        """Walk the items of each repetition or segment; a default is laid over the item before it."""
        number, item = 0, None
        asked: tuple[CheckedCondition, ...] = ()
        for child in node.children:
            same = child.kind is StepKind.ALSO or _laid_over(child)
            here = number if same else _number(node, child, number)
            within = replace(at, source=f"{node.source}({here})", conditions=(*at.conditions, *asked))
            if "-" not in node.source:
                within = replace(within, source="", segment=here, name=node.source)
            if _laid_over(child):
                yield from self._laid_over(child, within, self._last(at.element), [item])
                continue
            if child.kind is StepKind.CONDITION:
                last = self.condition(child, within)
                asked = (*asked, last) if last.passed else ()
                yield from self._stopped(child, replace(within, conditions=(*within.conditions, last)))
                continue
            within = replace(within, through=(*at.through, _each_line(node, child)))
            number, item, asked = here, child.value, asked if child.kind is StepKind.ALSO else ()
            yield from self._item(child, within)

    def _item(self, node: TracedStep, at: WalkPosition) -> Iterator[Evidence]:
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

    def _laid_over(self, node: TracedStep, at: WalkPosition, element: str, items: Any) -> Iterator[Evidence]:
        """Walk a default or a filling: the item keeps the elements that it has."""
        for one in self._node(node, replace(at, element=element)):
            name = one.element.removeprefix(f"{element}.").split(".")[0].split("[")[0]
            found = [item for item in items or () if isinstance(item, dict) and item.get(name) == one.made]
            if node.scope.path[-1] == "fill":
                index = next((number for number, item in enumerate(items or ()) if item in found), None)
                if index is not None:
                    yield replace(one, element=f"{at.element}[{index}]" + one.element.removeprefix(element))
            elif all(name not in item for item in items or () if isinstance(item, dict)):
                yield one

    def _rule(self, node: TracedStep, at: WalkPosition) -> Iterator[Evidence]:
        if node.rule is None:
            return
        source, head = at.source, node.rule.head
        if isinstance(head, SegmentPath):
            source = str(head)
        elif isinstance(head, RepetitionPath):
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
            self._additional_reads(node, at),
            (*at.conditions, *(self.condition(one, at) for one in node.children if one.kind is StepKind.CONDITION)),
            tuple(node.warnings),
            _key(node),
            at.through,
        )
        within = replace(at, source=source, through=(*at.through, CallingLine(file, line, str(node.rule))))
        for child in node.children:
            if child.kind is not StepKind.CONDITION:
                yield from self._node(child, within)

    def _row(self, row: TracedLookUp) -> TableRow:
        documents = self.mapping.documents
        table = documents.tables[row.table]
        if row.key is None:
            policy = table.value.get("unmapped") or ""
            text = " ".join(map(str, *policy.items())) if isinstance(policy, dict) else str(policy)
            return TableRow(row.table, row.code, "", 0, row.unmapped, text, *table.place(("unmapped",)))
        meant = documents.events.value.get("assume") if row.table == SYSTEMS else None
        for name in meant or ():
            if name.casefold() == row.key.casefold():
                return TableRow(row.table, row.code, *documents.events.place(("assume", name)))
        return TableRow(row.table, row.code, *table.place(("codes", row.key)))

    def _entered(self, node: TracedStep, at: WalkPosition) -> WalkPosition:
        """Return the position of a node: deeper in its file, or at the beginning of another."""
        document = node.scope.document
        names = element_names(document, node.scope.path)
        if document is at.document:
            more = names[len(at.names) :]
            return replace(at, names=names, element=".".join((at.element, *more)))
        element = at.element
        if resource := document.value.get("resource"):
            element = self._instance(str(resource), node, at) if at.document else _numbered(str(resource), self.record)
        return replace(at, document=document, names=names, element=".".join((element, *names)))

    def _instance(self, resource: str, node: TracedStep, at: WalkPosition) -> str:
        """Return the name of a referred resource; the second one of its type is `Practitioner(2)`."""
        path = node.scope.path
        key = (self.record, resource, f"{at.source} {at.segment}", path[1] if path[0] in PARTS else 0)
        if node.value is not None and key not in self.instances:
            self.instances[key] = sum(instance[1] == resource for instance in self.instances) + 1
        return _numbered(resource, self.instances.get(key, 1))


def _key(node: TracedStep) -> str:
    path = node.scope.document.authored(node.scope.path)
    return ".".join(step for step in path if isinstance(step, str))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        else:
            value = value[step] if isinstance(value, list) and isinstance(step, int) else None
    return value


def _each_line(node: TracedStep, child: TracedStep) -> CallingLine:
    as_ = f" as {child.source}" if child.kind in {StepKind.ITEM, StepKind.ALSO} else ""
    return CallingLine(*node.scope.document.place(node.scope.path), f"each {node.source}{as_}")


def _number(node: TracedStep, child: TracedStep, last: int) -> int:
    """Return the number of the iterated item that a nested step read, counted from 1, after the last."""
    later = (at for at, one in enumerate(node.places, 1) if at > last and one is child.at_hand)
    return next(later, last + 1)


def _numbered(resource: str, number: int) -> str:
    return f"{resource}({number})" if number > 1 else resource


def _holds(item: Any, value: Any) -> bool:
    """True if an item is the made value, apart from added defaults and named references."""
    if isinstance(item, dict) and isinstance(value, dict):
        return all(name == "reference" or _holds(item.get(name), part) for name, part in value.items())
    if isinstance(item, list) and isinstance(value, list) and len(item) == len(value):
        return all(_holds(one, other) for one, other in zip(item, value, strict=True))
    return bool(item == value)


def _again(one: Evidence, moved: dict[tuple[int, str], str], formed: dict[tuple[int, str], str]) -> Evidence | None:
    """Return evidence at its item's place in the outcome, with a number in its form; None if the item is not there."""
    item, bracket, rest = one.element.partition("]")
    key = (one.record, item + bracket)
    if rest == ".value" and key in formed and one.made is not None:
        applied = AppliedFunction(f"identity.{NORMALISE}", one.made, formed[key])
        one = replace(one, made=formed[key], functions=(*one.functions, applied))
    place = moved.get(key, item + bracket)
    return replace(one, element=place + rest) if place else None


def _laid_over(node: TracedStep) -> bool:
    return bool(node.scope.path) and node.kind is StepKind.OBJECT and node.scope.path[-1] in LAID_OVER

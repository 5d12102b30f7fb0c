"""Authored templates compiled to nodes: objects and lists of FHIR types, and data types."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final

from engine.mapping.files.reference import (
    GUIDE,
    REFERENCE,
    ReferenceElement,
    elements,
    kind_of,
    nearest,
    page_of,
    segments,
    shown_type,
)
from engine.mapping.language.check import type_of
from engine.mapping.language.compiled import (
    NOTHING,
    Compiled,
    any_mask,
    first_of,
    forward,
    guarded,
    joined,
    mask_in,
    object_of,
)
from engine.mapping.language.composite import Defaulted, EachNode, EachSegment, Filled, ItemNode, Staged
from engine.mapping.language.expression import Alternative, ExpressionError, SegmentPath, parse_expression, parse_path
from engine.mapping.language.expression_compiler import ExpressionCompiler
from engine.mapping.language.node import Called, ValueNode
from engine.mapping.language.reading import EVERYTHING, MessageReading
from engine.mapping.language.references import SAME
from engine.mapping.language.scope import DataType, Scope

STAGE: Final = "|"
RESERVED: Final = frozenset({"each", "as", "when", "unless", "needs", "default", "fill", "slice"})
EXTENSION: Final = "Extension"
PERIOD: Final = "Period"
TYPE_KEYS: Final = frozenset({"datatype", "extends", "to", "needs", "elements", "value", "also"})


def _each_once(items: Any, _: MessageReading) -> Any:
    """Return extensions without duplicates: a race that is sent twice becomes one."""
    return list({repr(item): item for item in items}.values()) if isinstance(items, list) else items


class Compiler(ExpressionCompiler):
    """Compiles the templates of one mapping."""

    def _first(self, texts: Any, scope: Scope, want: ReferenceElement) -> Compiled:
        if not isinstance(texts, list) or not texts:
            return self.problem(scope, f"found {kind_of(texts)}", "expected a list of expressions")
        if any(isinstance(one, dict) for one in texts):
            compiled = tuple(self.value(one, scope.at(number), want) for number, one in enumerate(texts))
            return Compiled(first_of(compiled, held=scope.held), mask=any_mask(compiled))
        alternatives: list[tuple[Alternative, Scope]] = []
        for number, text in enumerate(texts):
            try:
                alternatives += [(one, scope.at(number)) for one in parse_expression(str(text))]
            except ExpressionError as error:
                self.problem(scope.at(number), error.found, error.expected)
        return self._alternatives(alternatives, want, held=scope.held) if alternatives else NOTHING

    # Objects and lists

    def value(self, value: Any, scope: Scope, want: ReferenceElement) -> Compiled:
        """Compile the template of one item of an element."""
        if isinstance(value, dict):
            if list(value) == ["first"]:
                return self._first(value["first"], scope.at("first"), want)
            if want.type_ == REFERENCE:
                self._checks.reference(value, want, scope)
            return self.object(value, scope, want.type_)
        return self.expression(value, scope, want)

    def object(self, value: Any, scope: Scope, type_: str, *, whole: bool = True) -> Compiled:
        """Compile a template of an object of a FHIR type; `whole`: it has all that its type requires."""
        known = elements().get(type_)
        if known is None or not isinstance(value, dict):
            return self.problem(scope, f"found {kind_of(value)} for {shown_type(type_)}", "give an expression instead")
        if type_ == EXTENSION and not {"default", "fill"}.intersection(scope.path[-1:]):
            self._checks.extension(value, scope)
        compiled: list[tuple[str, Compiled]] = []
        for key, part in value.items():
            if key in RESERVED or part is None:
                continue
            name, _, rest = key.partition(".")
            compiled.append((name, self._element(name, rest, part, scope.at(key), type_)))
        if whole:
            self._checks.required(type_, [name for name, _ in compiled], scope)
        warning = f"not-whole {scope.at_hand}" if scope.at_hand and scope.at_hand == str(value.get("each")) else ""
        node = object_of(compiled, self._needs(value, scope, known), warning, held=scope.held)
        content = [one for _, one in compiled if not one.fixed]
        names, always = frozenset(name for name, _ in compiled), not content or any(one.always for one in content)
        if type_ == PERIOD:
            node = forward(node)
        node = guarded(node, self.guards(value, scope))
        return Compiled(node, not content, any_mask(content), names=names, always=always)

    def _element(self, name: str, rest: str, part: Any, scope: Scope, type_: str) -> Compiled:
        known = elements()[type_]
        element = known.get(name)
        if element is None and name.startswith("_") and name[1:] in known:
            element = ReferenceElement("Element", many=False)
        if element is None:
            return self.problem(
                scope, f"{shown_type(type_)} has no element {name!r}", nearest(name, known, page_of(type_))
            )
        if rest:
            return self._part(rest, part, scope, element.type_)
        return self.many(part, scope, element) if element.many else self.value(part, scope, element)

    def _part(self, name: str, part: Any, scope: Scope, type_: str) -> Compiled:
        """Compile a part of an element that is written with it in one key, `period.start`."""
        if type_ not in elements():
            return self.problem(scope, f"{type_} has no parts", "give an expression for the whole of it")
        name, _, rest = name.partition(".")
        compiled = self._element(name, rest, part, scope, type_)
        node = object_of([(name, compiled)], frozenset(), "", held=scope.held)
        mask, always = any_mask([] if compiled.fixed else [compiled]), compiled.fixed or compiled.always
        if type_ == PERIOD:
            node = forward(node)
        return Compiled(node, compiled.fixed, mask, names=frozenset({name}), always=always)

    def many(self, part: Any, scope: Scope, element: ReferenceElement) -> Compiled:
        """Compile the template of a list: entries, each for one item or, with `each`, for several."""
        if isinstance(part, list):
            compiled = tuple(self.items(entry, scope.at(number), element) for number, entry in enumerate(part))
        else:
            compiled = (self.items(part, scope, element),)
        node, always = joined(compiled, held=scope.held), any(one.always for one in compiled)
        if element.type_ == EXTENSION and len(compiled) > 1:
            node = Staged(node, _each_once)
        return Compiled(node, all(one.fixed for one in compiled), any_mask(compiled), always=always)

    def items(self, entry: Any, scope: Scope, element: ReferenceElement) -> Compiled:
        """Compile one entry of a list; its step returns a list, NULL or None."""
        if not isinstance(entry, dict) or "each" not in entry:
            one = self.value(entry, scope, replace(element, many=False))
            return Compiled(ItemNode(one.node), one.fixed, one.mask, always=one.always)
        if element.type_ == REFERENCE:
            self._checks.reference(entry, element, scope)
        sources = entry["each"] if isinstance(entry["each"], list) else [entry["each"]]
        if not sources:
            return self.problem(scope.at("each"), "nothing to go through", "name a field or a segment: each: PID-5")
        lists = tuple(Compiled(self._each(str(source), entry, scope, element)) for source in sources)
        node = joined(lists, held=False)
        if "fill" in entry:
            node = Filled(node, self.object(entry["fill"], scope.at("fill"), element.type_, whole=False).node)
        head = parse_path(str(sources[0]))
        alone = isinstance(head, SegmentPath) and len(sources) == 1
        return Compiled(node, mask=mask_in(head, scope.at_hand) if alone and head else EVERYTHING, always=False)

    def _each(self, source: str, entry: dict[str, Any], scope: Scope, element: ReferenceElement) -> ValueNode:
        if source in segments() or (len(source) == 3 and source[0] == "Z"):
            inner = Scope(scope.document, scope.path, segment=source)
            return EachSegment(source, self.object(entry, inner, element.type_).node, SAME in repr(entry))
        head = self._field(source, scope.at("each"))
        if head is None:
            return NOTHING.node
        inner = Scope(scope.document, scope.path, scope.segment, type_of(head))
        also: tuple[ValueNode, ...] = ()
        if STAGE in str(entry.get("as")):
            # The template of one repetition as a single line: `as: CWE | coded(table)`.
            made_of = self.expression(entry["as"], inner.at("as"), replace(element, many=False))
            item = guarded(made_of.node, self.guards(entry, inner))
        elif "as" in entry:
            made = self._as(str(entry["as"]), scope.at("as"), element)
            item = guarded(Called(made.step), self.guards(entry, inner))
            also = tuple(Called(one) for one in made.also)
        else:
            self._checks.made_of(entry, element, scope)
            item = self.object(entry, inner, element.type_).node
        if "default" in entry:
            default = self.object(entry["default"], inner.at("default"), element.type_, whole=False)
            item = Defaulted(item, default.node, default.names)
        name = head.segment
        return EachNode(name, name == scope.at_hand, f"{name}-{head.field}", head.field, item, also)

    def _as(self, name: str, scope: Scope, element: ReferenceElement) -> DataType:
        compiled = self.datatype(name, scope, self._documents)
        if compiled is None:
            return DataType(element.type_, NOTHING.step)
        if compiled.to and compiled.to != element.type_:
            self.problem(scope, f"{name} makes {compiled.to}", f"expected {element.type_} here")
        return compiled

    # Data types

    def datatype(self, name: str, scope: Scope, known: Collection[str] = ()) -> DataType | None:
        """Return a compiled data type; None, and a problem, if it does not exist or refers to itself."""
        if name in self._compiled:
            if self._compiled[name] is None:
                circle = [*self._under_way[self._under_way.index(name) :], name]
                self.problem(scope, f"{name} refers to itself ({' -> '.join(circle)})", "break the cycle")
            return self._compiled[name]
        own = self._documents.get(name)
        if own is None:
            self.problem(scope, f"unknown data type {name!r}", nearest(name, set(known), GUIDE))
            return None
        self._compiled[name] = None
        self._under_way.append(name)
        self._compiled[name] = made = self._datatype(Scope(own, type_=name))
        self._under_way.pop()
        return made

    def _datatype(self, scope: Scope) -> DataType:
        value = scope.document.value
        self.keys(value, TYPE_KEYS, scope)
        to = value.get("to")
        if not isinstance(to, str):
            self.problem(scope, "no 'to'", "say which FHIR type it makes")
            return DataType("", NOTHING.step)
        if to not in elements():
            self.problem(
                scope.at("to"),
                f"unknown FHIR type {to!r}",
                nearest(to, {one for one in elements() if "_" not in one}, "hl7.org/fhir/R4/datatypes.html"),
            )
            return DataType("", NOTHING.step)
        if "value" in value:
            return DataType(
                to, self.expression(value["value"], scope.at("value"), ReferenceElement(to, many=False)).step
            )
        template = value.get("elements")
        if isinstance(template, dict) and "needs" in value:
            template = {**template, "needs": sorted(self._needs(value, scope, elements()[to]) & elements()[to].keys())}
        compiled = self.object(template, scope.at("elements"), to)
        parts = enumerate(self._list(value, "also", scope))
        also = tuple(self.object(part, scope.at("also", number), to).step for number, part in parts)
        return DataType(to, compiled.step, also)

    # Needs

    def _needs(self, value: dict[str, Any], scope: Scope, known: dict[str, ReferenceElement]) -> frozenset[str]:
        names = self._list(value, "needs", scope)
        for name in names:
            if not isinstance(name, str) or name not in known:
                self.problem(
                    scope.at("needs"), f"unknown element {name!r}", nearest(str(name), known, "hl7.org/fhir/R4")
                )
        return frozenset(map(str, names))

    def _list(self, value: dict[str, Any], key: str, scope: Scope) -> list[Any]:
        found = value.get(key) or []
        if isinstance(found, list):
            return found
        self.problem(scope.at(key), f"found {kind_of(found)}", f"expected a list: {key}: [...]")
        return []

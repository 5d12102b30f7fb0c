"""Authored templates compiled to steps: expressions, objects and lists of FHIR types, checked as they are compiled."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from engine.mapping.files.document import Document, Problems
from engine.mapping.files.reference import Element, elements, nearest, segments
from engine.mapping.language.check import Checks, kind_of, type_of
from engine.mapping.language.compiled import (
    NOTHING,
    Compiled,
    any_mask,
    applied,
    first_of,
    forward,
    guarded,
    joined,
    mask_in,
    masked,
    object_of,
)
from engine.mapping.language.composite import Check, Defaulted, Each, EachSegment, Filled, Item, Staged
from engine.mapping.language.dependence import Dependence, dependence_of
from engine.mapping.language.expression import (
    Alternative,
    Call,
    Constant,
    ExpressionError,
    Field,
    Guard,
    parse_condition,
    parse_expression,
    parse_path,
)
from engine.mapping.language.functions import FUNCTIONS
from engine.mapping.language.kit import Function, Kit, Takes
from engine.mapping.language.node import Apply, Called, Node, Word
from engine.mapping.language.path import check_of, field_node, part_node
from engine.mapping.language.reading import EVERYTHING
from engine.mapping.language.references import SAME
from engine.mapping.language.scope import DataType, Scope

RESERVED: Final = frozenset({"each", "as", "when", "unless", "needs", "default", "fill", "slice"})
EXTENSION: Final = "Extension"
PERIOD: Final = "Period"
TYPE_KEYS: Final = frozenset({"datatype", "extends", "to", "needs", "elements", "value", "also"})


class Compiler:
    """Compiles the templates of one mapping; what is wrong goes to `problems`, and compiling goes on.

    `makers`: by the name of a resource that a repetition stands for, what makes a Reference to it. `named`: what was
    authored of data types and of such resources, by the names that templates have for them.
    """

    def __init__(self, kit: Kit, datatypes: dict[str, Document], problems: Problems) -> None:
        self._kit = kit
        self._problems = problems
        self._checks = Checks(problems, kit, datatypes)
        self._documents = datatypes
        self._compiled: dict[str, DataType | None] = {}
        self._under_way: list[str] = []
        self.makers: dict[str, Apply] = {}
        self.named: dict[str, Any] = {name: one.value for name, one in datatypes.items()}

    def problem(self, scope: Scope, found: str, expected: str) -> Compiled:
        """Note a problem; what stands there makes nothing."""
        self._problems.add(scope.document, scope.path, found, expected)
        return NOTHING

    def keys(self, value: Iterable[str], known: Collection[str], scope: Scope) -> None:
        """Note keys that are none of those known."""
        self._problems.keys(scope.document, scope.path, known, value)

    def has(self, type_: str, name: str, scope: Scope, *, many: bool = False) -> bool:
        """Say whether a FHIR type has an element, or (`many`) a list, of a name; note where it has not."""
        known = elements().get(type_, {})
        if name in known and (known[name].many or not many):
            return True
        self.problem(scope, f"{type_} has no {'list' if many else 'element'} {name!r}", nearest(name, known))
        return False

    def dependence(self, authored: Any) -> Dependence:
        """Return what a template depends on, by which its value is kept."""
        return dependence_of(authored, self.named)

    # Expressions

    def expression(self, text: Any, scope: Scope, want: Element) -> Compiled:
        """Compile an expression for an element of the type wanted."""
        if not isinstance(text, str):
            return self.problem(scope, f"found {kind_of(text)}", "expected an expression such as PID-7 | date")
        try:
            return self._alternatives([(one, scope) for one in parse_expression(text)], want, held=scope.held)
        except ExpressionError as error:
            return self.problem(scope, error.found, error.expected)

    def _first(self, texts: Any, scope: Scope, want: Element) -> Compiled:
        if not isinstance(texts, list) or not texts:
            return self.problem(scope, f"found {kind_of(texts)}", "expected a list of expressions")
        if any(isinstance(one, dict) for one in texts):
            made = tuple(self.value(one, scope.at(number), want) for number, one in enumerate(texts))
            return Compiled(first_of(made, held=scope.held), mask=any_mask(made))
        alternatives: list[tuple[Alternative, Scope]] = []
        for number, text in enumerate(texts):
            try:
                alternatives += [(one, scope.at(number)) for one in parse_expression(str(text))]
            except ExpressionError as error:
                self.problem(scope.at(number), error.found, error.expected)
        return self._alternatives(alternatives, want, held=scope.held)

    def _alternatives(
        self, alternatives: Sequence[tuple[Alternative, Scope]], want: Element, *, held: bool
    ) -> Compiled:
        made = tuple(self._alternative(one, scope, want) for one, scope in alternatives)
        self._checks.reached(alternatives)
        if len(made) == 1:
            return made[0]
        fixed, always = any(one.fixed for one in made), any(one.always for one in made)
        return Compiled(first_of(made, held=held), fixed, any_mask(made), always=always)

    def _alternative(self, one: Alternative, scope: Scope, want: Element) -> Compiled:
        one = self._checks.typed(one, want, scope)
        calls = [stage for stage in one.stages if isinstance(stage, Call)]
        functions = [self._function(call, scope) for call in calls]
        if None in functions:
            self._checks.alternative(one, scope)
            return NOTHING
        known = [function for function in functions if function is not None]
        node = self._head(one, known[0].takes if known else Takes.TEXT, scope)
        for number, (call, function) in enumerate(zip(calls, known, strict=True)):
            if number and function.takes is not Takes.TEXT:
                self.problem(scope, f"{call.name} after another function", "it must stand first")
            apply = function.make(self._kit, call.arguments)
            node = Staged(node, apply) if number else applied(node, one.head, function.takes, apply)
        for stage in one.stages:
            if isinstance(stage, Guard):
                self._checks.condition(stage.condition, scope)
                node = guarded(node, [(check_of(stage.condition, scope.at_hand), stage.unless)])
        gives, arguments = (known[-1].gives, calls[-1].arguments) if known else ("string", ())
        self._checks.type_(one, arguments, gives, want, scope)
        fixed = isinstance(one.head, Constant)
        return Compiled(node, fixed, masked(one, scope.at_hand), always=fixed)

    def _function(self, call: Call, scope: Scope) -> Function | None:
        name, arguments = call.name, call.arguments
        if name in self.makers:
            maker = self.makers[name]
            return Function(Takes.CELLS, "Reference", lambda _, __: maker, "")
        if name[0].isupper():
            made = self.datatype(name, scope)
            return Function(Takes.CELLS, made.to, lambda _, __: made.step, "") if made else None
        function = FUNCTIONS.get(name)
        if function is None:
            self.problem(scope, f"unknown function {name!r}", nearest(name, FUNCTIONS))
            return None
        least, most = function.tables
        if not least + function.words <= len(arguments) <= most + function.words:
            expected = "one word" if function.words else f"{least} to {most} tables" if most else "none"
            self.problem(scope, f"{name} with {len(arguments)} argument(s)", f"it takes {expected}")
            return None
        if function.field:
            self._field(arguments[0], scope)
        unknown = [table for table in arguments if most and table not in self._kit.tables]
        for table in unknown:
            self.problem(scope, f"unknown table {table!r}", nearest(table, dict(self._kit.tables)))
        return None if unknown else function

    def _head(self, one: Alternative, takes: Takes, scope: Scope) -> Node:
        head = one.head
        if isinstance(head, Constant):
            return Word(head.value)
        self._checks.path(head, scope)
        return field_node(head, takes, scope.at_hand) if isinstance(head, Field) else part_node(head, takes)

    # Objects and lists

    def value(self, value: Any, scope: Scope, want: Element) -> Compiled:
        """Compile whatever stands for one item of an element."""
        if isinstance(value, dict):
            if list(value) == ["first"]:
                return self._first(value["first"], scope.at("first"), want)
            return self.object(value, scope, want.type_)
        return self.expression(value, scope, want)

    def object(self, value: Any, scope: Scope, type_: str) -> Compiled:
        """Compile a template of an object of a FHIR type."""
        known = elements().get(type_)
        if known is None or not isinstance(value, dict):
            return self.problem(scope, f"found {kind_of(value)} for {type_}", "give an expression instead")
        if type_ == EXTENSION and not {"default", "fill"}.intersection(scope.path[-1:]):
            self._checks.extension(value, scope)
        made: list[tuple[str, Compiled]] = []
        for key, part in value.items():
            if key in RESERVED or part is None:
                continue
            name, _, rest = key.partition(".")
            made.append((name, self._element(name, rest, part, scope.at(key), type_)))
        warning = f"not-whole {scope.at_hand}" if scope.at_hand and scope.at_hand == str(value.get("each")) else ""
        node = object_of(made, self._needs(value, scope, known), warning, held=scope.held)
        content = [one for _, one in made if not one.fixed]
        names, always = frozenset(name for name, _ in made), not content or any(one.always for one in content)
        if type_ == PERIOD:
            node = forward(node)
        node = guarded(node, self.guards(value, scope))
        return Compiled(node, not content, any_mask(content), names=names, always=always)

    def _element(self, name: str, rest: str, part: Any, scope: Scope, type_: str) -> Compiled:
        known = elements()[type_]
        element = known.get(name)
        if element is None and name.startswith("_") and name[1:] in known:
            element = Element("Element", many=False)
        if element is None:
            return self.problem(scope, f"{type_} has no element {name!r}", nearest(name, known))
        if rest:
            return self.object({rest: part}, scope, element.type_)
        return self.many(part, scope, element) if element.many else self.value(part, scope, element)

    def many(self, part: Any, scope: Scope, element: Element) -> Compiled:
        """Compile what stands for a list: entries, each of which makes one item or, with `each`, several."""
        if isinstance(part, list):
            made = tuple(self.items(entry, scope.at(number), element) for number, entry in enumerate(part))
        else:
            made = (self.items(part, scope, element),)
        node, always = joined(made, held=scope.held), any(one.always for one in made)
        return Compiled(node, all(one.fixed for one in made), any_mask(made), always=always)

    def items(self, entry: Any, scope: Scope, element: Element) -> Compiled:
        """Compile one entry of a list; its step returns a list, NULL or None."""
        if not isinstance(entry, dict) or "each" not in entry:
            one = self.value(entry, scope, Element(element.type_, many=False, codes=element.codes))
            return Compiled(Item(one.node), one.fixed, one.mask, always=one.always)
        sources = entry["each"] if isinstance(entry["each"], list) else [entry["each"]]
        lists = tuple(Compiled(self._each(str(source), entry, scope, element)) for source in sources)
        node = joined(lists, held=False)
        if "fill" in entry:
            node = Filled(node, self.object(entry["fill"], scope.at("fill"), element.type_).node)
        head = parse_path(str(sources[0]))
        alone = isinstance(head, Field) and len(sources) == 1
        return Compiled(node, mask=mask_in(head, scope.at_hand) if alone and head else EVERYTHING, always=False)

    def _each(self, source: str, entry: dict[str, Any], scope: Scope, element: Element) -> Node:
        if source in segments() or (len(source) == 3 and source[0] == "Z"):
            inner = Scope(scope.document, scope.path, segment=source)
            return EachSegment(source, self.object(entry, inner, element.type_).node, SAME in repr(entry))
        head = self._field(source, scope.at("each"))
        if head is None:
            return NOTHING.node
        inner = Scope(scope.document, scope.path, scope.segment, type_of(head))
        also: tuple[Node, ...] = ()
        if "as" in entry:
            made = self._as(str(entry["as"]), scope.at("as"), element)
            item = guarded(Called(made.step), self.guards(entry, inner))
            also = tuple(Called(one) for one in made.also)
        else:
            self._checks.made_of(entry, element, scope)
            item = self.object(entry, inner, element.type_).node
        if "default" in entry:
            default = self.object(entry["default"], inner.at("default"), element.type_)
            item = Defaulted(item, default.node, default.names)
        name = head.segment
        return Each(name, name == scope.at_hand, f"{name}-{head.field}", head.field, item, also)

    def _field(self, text: str, scope: Scope) -> Field | None:
        try:
            head = parse_expression(text)[0].head
        except ExpressionError:
            head = Constant(text)
        if not isinstance(head, Field) or head.component or head.repetition or head.where:
            self.problem(scope, f"found {text!r}", "expected a field such as PID-5, or a segment such as NK1")
            return None
        self._checks.path(head, scope)
        return head

    def _as(self, name: str, scope: Scope, element: Element) -> DataType:
        made = self.datatype(name, scope)
        if made is None:
            return DataType(element.type_, NOTHING.step)
        if made.to and made.to != element.type_:
            self.problem(scope, f"{name} makes {made.to}", f"expected {element.type_} here")
        return made

    # Data types

    def datatype(self, name: str, scope: Scope) -> DataType | None:
        """Return a compiled data type; None, and a problem, where there is none or it needs itself."""
        if name in self._compiled:
            if self._compiled[name] is None:
                circle = [*self._under_way[self._under_way.index(name) :], name]
                self.problem(scope, f"{name} needs itself ({' -> '.join(circle)})", "break the circle")
            return self._compiled[name]
        own = self._documents.get(name)
        if own is None:
            self.problem(scope, f"unknown data type {name!r}", nearest(name, {*self._documents, *FUNCTIONS}))
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
            self.problem(scope.at("to"), f"unknown FHIR type {to!r}", nearest(to, elements()))
            return DataType("", NOTHING.step)
        if "value" in value:
            return DataType(to, self.expression(value["value"], scope.at("value"), Element(to, many=False)).step)
        template = value.get("elements")
        if isinstance(template, dict) and "needs" in value:
            template = {**template, "needs": self._list(value, "needs", scope)}
        made = self.object(template, scope.at("elements"), to)
        parts = enumerate(self._list(value, "also", scope))
        also = tuple(self.object(part, scope.at("also", number), to).step for number, part in parts)
        return DataType(to, made.step, also)

    # Conditions and needs

    def guards(self, value: dict[str, Any], scope: Scope) -> list[tuple[Check, bool]]:
        """Compile `when` and `unless` of an entry."""
        checks: list[tuple[Check, bool]] = []
        for word in ("when", "unless"):
            if word in value:
                try:
                    condition = parse_condition(str(value[word] or ""))
                except ExpressionError as error:
                    self.problem(scope.at(word), error.found, error.expected)
                    continue
                self._checks.condition(condition, scope.at(word))
                checks.append((check_of(condition, scope.at_hand), word == "unless"))
        return checks

    def _needs(self, value: dict[str, Any], scope: Scope, known: dict[str, Element]) -> frozenset[str]:
        names = self._list(value, "needs", scope)
        for name in names:
            if name not in known:
                self.problem(scope.at("needs"), f"unknown element {name!r}", nearest(str(name), known))
        return frozenset(map(str, names))

    def _list(self, value: dict[str, Any], key: str, scope: Scope) -> list[Any]:
        found = value.get(key) or []
        if isinstance(found, list):
            return found
        self.problem(scope.at(key), f"found {kind_of(found)}", f"expected a list: {key}: [...]")
        return []

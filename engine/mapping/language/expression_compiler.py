"""Authored expressions compiled to nodes: alternatives, functions and conditions, checked as they are compiled."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from engine.mapping.files.document import Document, Problems
from engine.mapping.files.reference import GUIDE, ReferenceElement, elements, kind_of, nearest, page_of, shown_type
from engine.mapping.files.table_rows import JOINED_BY
from engine.mapping.language.check import Checks
from engine.mapping.language.compared import CompiledCondition
from engine.mapping.language.compiled import NOTHING, Compiled, any_mask, applied, first_of, guarded, masked
from engine.mapping.language.composite import Concatenated, Staged
from engine.mapping.language.dependence import Dependence, TemplateReferences, dependence_of, references_of
from engine.mapping.language.expression import (
    Alternative,
    Condition,
    Constant,
    ExpressionError,
    FunctionCall,
    Guard,
    SegmentPath,
    parse_condition,
    parse_expression,
    parse_path,
    unquoted,
)
from engine.mapping.language.function_context import Function, FunctionContext, Takes
from engine.mapping.language.functions import FUNCTIONS
from engine.mapping.language.node import Apply, ValueNode, Word
from engine.mapping.language.path import check_of, field_node, part_node
from engine.mapping.language.reading import MessageReading
from engine.mapping.language.scope import DataType, Scope

ONE_TABLE: Final = (1, 1)


class ExpressionCompiler(ABC):
    """Compiles the expressions of one mapping; faults go to `problems`, and compiling goes on.

    `makers`: the functions that make a Reference to a resource of a repetition, by its name; `makes`: their types.
    `named`: the references of data types and of such resources, by the names that templates use.
    """

    def __init__(self, context: FunctionContext, datatypes: dict[str, Document], problems: Problems) -> None:
        self._context = context
        self._problems = problems
        self._checks = Checks(problems, context, datatypes)
        self._documents = datatypes
        self._compiled: dict[str, DataType | None] = {}
        self._under_way: list[str] = []
        self.makers: dict[str, Apply] = {}
        self.makes: dict[str, str] = {}
        self.named: dict[str, TemplateReferences] = {name: references_of(one.value) for name, one in datatypes.items()}

    def problem(self, scope: Scope, found: str, expected: str) -> Compiled:
        """Note a problem; the value there makes nothing."""
        self._problems.add(scope.document, scope.path, found, expected)
        return NOTHING

    def keys(self, value: Iterable[str], known: Collection[str], scope: Scope) -> None:
        """Note unknown keys."""
        self._problems.keys(scope.document, scope.path, known, value)

    def has(self, type_: str, name: str, scope: Scope, *, many: bool = False) -> bool:
        """True if a FHIR type has an element, or (`many`) a list, of a name; note if it has not."""
        known = elements().get(type_, {})
        if name in known and (known[name].many or not many):
            return True
        what, names = ("list", {one for one in known if known[one].many}) if many else ("element", set(known))
        self.problem(scope, f"{shown_type(type_)} has no {what} {name!r}", nearest(name, names, page_of(type_)))
        return False

    def dependence(self, authored: Any) -> Dependence:
        """Return the dependence of a template, its cache key."""
        return dependence_of(authored, self.named)

    def referred(self, authored: Mapping[str, Any]) -> frozenset[str]:
        """Return the types of files, and those that they refer to, directly or through what they name."""
        waiting = [references_of(one).words for one in authored.values()]
        words: set[str] = set()
        while waiting:
            new = waiting.pop() - words
            words |= new
            waiting += [self.named[word].words for word in new & self.named.keys()]
        return frozenset({*authored, *(self.makes[word] for word in words & self.makes.keys())})

    def expression(self, text: Any, scope: Scope, want: ReferenceElement) -> Compiled:
        """Compile an expression for an element of the type wanted."""
        if not isinstance(text, str):
            return self.problem(scope, f"found {kind_of(text)}", "expected an expression such as PID-7 | date")
        try:
            return self._alternatives([(one, scope) for one in parse_expression(text)], want, held=scope.held)
        except ExpressionError as error:
            return self.problem(scope, error.found, error.expected)

    def _alternatives(
        self, alternatives: Sequence[tuple[Alternative, Scope]], want: ReferenceElement, *, held: bool
    ) -> Compiled:
        compiled = tuple(self._alternative(one, scope, want) for one, scope in alternatives)
        self._checks.reached(alternatives)
        if len(compiled) == 1:
            return compiled[0]
        fixed, always = any(one.fixed for one in compiled), any(one.always for one in compiled)
        return Compiled(first_of(compiled, held=held), fixed, any_mask(compiled), always=always)

    def _alternative(self, one: Alternative, scope: Scope, want: ReferenceElement) -> Compiled:
        one = self._checks.typed(one, want, scope)
        calls = [stage for stage in one.stages if isinstance(stage, FunctionCall)]
        functions = [self._function(call, scope) for call in calls]
        if None in functions:
            self._checks.alternative(one, scope)
            return NOTHING
        known = [function for function in functions if function is not None]
        node = self._head(one, known[0].takes if known else Takes.TEXT, scope)
        for number, (call, function) in enumerate(zip(calls, known, strict=True)):
            if number and function.takes is not Takes.TEXT:
                self.problem(scope, f"{call.name} after another function", "put it first")
            further = self._further_keys(function, call.arguments)
            apply = function.make(self._context, call.arguments[: len(call.arguments) - len(further)])
            if further:
                node = Concatenated(node, tuple(self.piece(word, scope) for word in further), _key_of)
                node = Staged(node, apply)
            elif function.pieces:
                node = Concatenated(node, tuple(self.piece(word, scope) for word in call.arguments), apply)
            else:
                node = Staged(node, apply) if number else applied(node, one.head, function.takes, apply)
        for stage in one.stages:
            if isinstance(stage, Guard):
                self._checks.condition(stage.condition, scope)
                node = guarded(node, [(self.check(stage, scope), stage.unless)])
        gives, arguments = (known[-1].gives, calls[-1].arguments) if known else ("string", ())
        self._checks.type_(one, arguments, gives, want, scope)
        if calls and calls[-1].name in self.makes:
            self._checks.target(self.makes[calls[-1].name], want, scope)
        fixed = isinstance(one.head, Constant)
        return Compiled(node, fixed, masked(one, scope.at_hand), always=fixed)

    def _function(self, call: FunctionCall, scope: Scope) -> Function | None:
        name, arguments = call.name, call.arguments
        if name in self.makers:
            maker = self.makers[name]
            return Function(Takes.CELLS, "Reference", lambda _, __: maker, "")
        if name[0].isupper():
            datatype = self.datatype(name, scope, {*self._documents, *self.makers, *FUNCTIONS})
            return Function(Takes.CELLS, datatype.to, lambda _, __: datatype.step, "") if datatype else None
        function = FUNCTIONS.get(name)
        if function is None:
            self.problem(scope, f"unknown function {name!r}", nearest(name, FUNCTIONS, GUIDE))
            return None
        if wrong := self._call_fault(function, call):
            self.problem(scope, *wrong)
            return None
        arguments = arguments[: len(arguments) - len(self._further_keys(function, arguments))]
        if function.field:
            self._field(arguments[0], scope)
        keyless = function.keyed and arguments[0] not in self._context.setting.keys
        if keyless:
            expected = f"add keys: {{{arguments[0]}: {{env: VARIABLE}}}} to the channel's file"
            self.problem(scope, f"the key {arguments[0]!r}, which the channel does not have", expected)
        unknown = [table for table in arguments if function.tables[1] and table not in self._context.tables]
        for table in unknown:
            self.problem(
                scope, f"unknown table {table!r}", nearest(table, dict(self._context.tables), "the files in tables/")
            )
        return None if unknown or keyless else function

    def _further_keys(self, function: Function, arguments: tuple[str, ...]) -> tuple[str, ...]:
        """Return the words of a call that are the keys of its table after the first, which is the value."""
        several = function.takes is Takes.TEXT and function.tables == ONE_TABLE and bool(arguments)
        table = self._context.tables.get(arguments[0]) if several else None
        return arguments[1:] if table is not None and len(table.keys) > 1 else ()

    def _call_fault(self, function: Function, call: FunctionCall) -> tuple[str, str] | None:
        """Return what is wrong with the words of a call, and what is expected; None for nothing."""
        name, arguments = call.name, call.arguments
        if fault := self._table_fault(function, arguments):
            return fault
        count, (least, most) = len(arguments) - len(self._further_keys(function, arguments)), function.tables
        if not least + function.words <= count <= most + function.words + function.more:
            return f"{name} with {count} argument(s)", f"it takes {_takes(function)}"
        if function.fault is not None and (found := function.fault(arguments)):
            return f"{call}: {found}", f"give another argument; {name}: {function.text}"
        return None

    def _table_fault(self, function: Function, arguments: tuple[str, ...]) -> tuple[str, str] | None:
        """Return the fault of a call by a table with several keys, and what is expected; None for none."""
        tables = [table for name in arguments if function.tables[1] and (table := self._context.tables.get(name))]
        table = next((one for one in tables if len(one.keys) > 1), None)
        if table is None:
            return None
        keys = ", ".join(table.keys)
        if function.tables != ONE_TABLE or function.takes is not Takes.TEXT:
            return f"the table {table.name!r}, whose keys are {keys}", "use code, coding, concept or boolean"
        if len(arguments) == len(table.keys):
            return None
        expected = f"write the path of {table.keys[0]} before it, and of each other key after the table's name"
        return f"{len(arguments)} of {len(table.keys)} keys ({keys})", expected

    def _head(self, one: Alternative, takes: Takes, scope: Scope) -> ValueNode:
        head = one.head
        if isinstance(head, Constant):
            return Word(head.value)
        self._checks.path(head, scope)
        return field_node(head, takes, scope.at_hand) if isinstance(head, SegmentPath) else part_node(head, takes)

    def piece(self, word: str, scope: Scope) -> ValueNode:
        """Compile a word of a function that takes texts in quotes and paths."""
        path = parse_path(word)
        if path is None:
            if word[0] != "'":
                self.problem(scope, f"found {word!r}", "expected a path such as PID-5.2, or 'text' in quotes")
            return Word(unquoted(word))
        self._checks.path(path, scope)
        if isinstance(path, SegmentPath):
            return field_node(path, Takes.TEXT, scope.at_hand)
        return part_node(path, Takes.TEXT)

    def _field(self, text: str, scope: Scope) -> SegmentPath | None:
        try:
            head = parse_expression(text)[0].head
        except ExpressionError:
            head = Constant(text)
        if not isinstance(head, SegmentPath) or head.component or head.repetition or head.where:
            self.problem(scope, f"found {text!r}", "expected a field such as PID-5, or a segment such as NK1")
            return None
        self._checks.path(head, scope)
        return head

    def guards(self, value: dict[str, Any], scope: Scope) -> list[tuple[CompiledCondition, bool]]:
        """Compile `when` and `unless` of an entry."""
        checks: list[tuple[CompiledCondition, bool]] = []
        for word in ("when", "unless"):
            condition = self.condition(value[word], scope.at(word)) if word in value else None
            if condition is not None:
                guard = Guard(condition, word == "unless")
                checks.append((self.check(guard, scope.at(word)), guard.unless))
        return checks

    def check(self, guard: Guard, scope: Scope) -> CompiledCondition:
        """Compile the checked condition of a guard."""
        return check_of(guard.condition, scope.at_hand)

    def condition(self, text: Any, scope: Scope) -> Condition | None:
        """Return a condition; None, and a problem, if the text is invalid or names something unknown."""
        try:
            condition = parse_condition(str(text or ""))
        except ExpressionError as error:
            self.problem(scope, error.found, error.expected)
            return None
        before = len(self._problems.found)
        self._checks.condition(condition, scope)
        return condition if len(self._problems.found) == before else None

    @abstractmethod
    def datatype(self, name: str, scope: Scope, known: Collection[str]) -> DataType | None:
        """Return a compiled data type; None, and a problem, if it does not exist; `known`: the names allowed there."""


def _key_of(values: tuple[Any, ...], _: MessageReading) -> str:
    """Return the code of several keys in a table; an absent one is empty."""
    return JOINED_BY.join([value if isinstance(value, str) else "" for value in values])


def _takes(function: Function) -> str:
    """Return how many arguments a function takes, in words."""
    least, most = (tables + function.words for tables in function.tables)
    most += function.more
    if not most:
        return "none"
    kind = "table" if function.tables[1] else "word"
    count = {1: "one", 2: "two"}.get(most, str(most)) if least == most else f"{least} to {most}"
    return f"{count} {kind}{'s' * (most > 1)}"

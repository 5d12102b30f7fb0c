"""Rules of outgoing files compiled to functions: expressions and conditions over FHIR paths."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from engine.mapping.files.document import Document, Problems
from engine.mapping.files.reference import GUIDE, kind_of, nearest, shown_type
from engine.mapping.language.comparison import comparison_of
from engine.mapping.language.expression import ExpressionError, FunctionCall
from engine.mapping.language.scope import Scope
from engine.mapping.outgoing.change import TracedField
from engine.mapping.outgoing.expression import (
    OutgoingAlternative,
    PathGuard,
    PathTerm,
    parse_outgoing,
    parse_path_condition,
)
from engine.mapping.outgoing.functions import OUTGOING_FUNCTIONS, TEXT, BackwardContext, Hl7Value, as_text
from engine.mapping.outgoing.path import PRIMITIVES, Read, compile_path
from engine.mapping.outgoing.reading import ChangeReading

# Types that must be said in the way of HL7, with the functions that do.
SAID_OTHERWISE: Final = {
    "boolean": "yes-no",
    "date": "date",
    "dateTime": "timestamp or date",
    "instant": "timestamp or date",
}

Test = Callable[[Any, ChangeReading], bool]
# What a rule makes of the item at hand.
MakeValues = Callable[[Any, ChangeReading], list[Hl7Value]]


class CompiledRule(NamedTuple):
    """A compiled expression: what it gives, an HL7 data type, and whether that may be several values."""

    make: MakeValues
    gives: str
    many: bool


class _Making(NamedTuple):
    """What the stages of an alternative make of the values that its path finds."""

    make: Callable[[list[Any], ChangeReading], list[Hl7Value]]
    gives: str
    many: bool


class OutgoingType(NamedTuple):
    """A compiled data type: the FHIR type that it reads, and what it makes of one item (None: nothing)."""

    of: str
    make: Callable[[Any, ChangeReading], Hl7Value]


class RuleCompiler(ABC):
    """Compiles the rules of one outgoing mapping."""

    def __init__(self, context: BackwardContext, datatypes: Mapping[str, Document], problems: Problems) -> None:
        self._context = context
        self._documents = datatypes
        self._problems = problems

    @abstractmethod
    def datatype(self, name: str) -> OutgoingType:
        """Return a compiled data type; ExpressionError if there is none, or it needs itself."""

    def rule(self, text: Any, scope: Scope) -> CompiledRule | None:
        """Compile an expression; None, and a problem, if it is invalid."""
        if isinstance(text, dict | list) or text is None:
            self._problem(scope, f"found {kind_of(text)}", "expected an expression, such as birthDate | date")
            return None
        try:
            alternatives = [self._alternative(one, scope) for one in parse_outgoing(str(text))]
        except ExpressionError as error:
            self._problem(scope, error.found, error.expected)
            return None
        whole = str(text)

        def make(item: Any, reading: ChangeReading) -> list[Hl7Value]:
            for find, one in alternatives:
                found = find(item, reading)
                values = one.make(found, reading)
                if values:
                    if reading.trace is not None:
                        reading.trace.append(_traced(reading.place, scope, whole, found, values))
                    return values
            return []

        gives = {one.gives for _, one in alternatives}
        many = any(one.many for _, one in alternatives)
        return CompiledRule(make, next(iter(gives - {TEXT}), TEXT), many)

    def _alternative(
        self, one: OutgoingAlternative, scope: Scope
    ) -> tuple[Callable[[Any, ChangeReading], list[Any]], "_Making"]:
        if isinstance(one.head, str):
            type_, many, read = "string", False, _constant(one.head)
        else:
            type_, many, read = compile_path(one.head, scope.type_, self._make_test)
        steps: list[Callable[[list[Any], ChangeReading], list[Any]]] = []
        tests: list[Test] = []
        gives = ""
        for stage in one.stages:
            if isinstance(stage, PathGuard):
                tests.append(self.condition_of(stage, scope.type_))
            else:
                step, type_, gives, many = self._call(stage, type_, gives, many)
                steps.append(step)
        if not gives:
            steps.append(self._plain(type_))

        def find(item: Any, reading: ChangeReading) -> list[Any]:
            return read([item], reading) if all(test(item, reading) for test in tests) else []

        def make(values: list[Any], reading: ChangeReading) -> list[Hl7Value]:
            for step in steps:
                values = step(values, reading)
            return values

        return find, _Making(make, gives or TEXT, many)

    def _plain(self, type_: str) -> Callable[[list[Any], ChangeReading], list[Any]]:
        """Return what makes texts of primitive values."""
        if type_ in SAID_OTHERWISE:
            raise ExpressionError(f"a {type_} as it is", f"say it as HL7 does: | {SAID_OTHERWISE[type_]}")
        if type_ not in PRIMITIVES:
            names = [name for name, one in OUTGOING_FUNCTIONS.items() if type_ in one.takes]
            own = [name for name, one in self._documents.items() if one.value.get("of") == type_]
            expected = f"use {' or '.join([*own, *names])}" if own or names else "name an element of it"
            raise ExpressionError(f"a whole {shown_type(type_)}", expected)
        return lambda values, _: [text for one in values if (text := as_text(one))]

    def _call(
        self, call: FunctionCall, type_: str, gives: str, many: bool
    ) -> tuple[Callable[[list[Any], ChangeReading], list[Any]], str, str, bool]:
        if call.name.isupper():
            made = self.datatype(call.name)
            if made.of != type_:
                raise ExpressionError(f"{call.name} of a {shown_type(type_)}", f"give a {shown_type(made.of)}")
            make = made.make
            return (lambda values, reading: _kept(make, values, reading)), type_, call.name, many
        function = OUTGOING_FUNCTIONS.get(call.name)
        if function is None:
            raise ExpressionError(f"unknown function {call.name!r}", nearest(call.name, OUTGOING_FUNCTIONS, GUIDE))
        if gives:
            type_ = "string"
        if type_ not in function.takes:
            takers = [name for name, one in OUTGOING_FUNCTIONS.items() if type_ in one.takes]
            expected = f"use {' or '.join(takers)}" if takers else "name an element of it"
            raise ExpressionError(f"{call.name} of a {shown_type(type_)}", expected)
        self._check_arguments(call)
        apply = function.make(self._context, call.arguments)
        given = (gives or "") if function.gives == "same" else function.gives
        if function.many:
            return (lambda values, reading: _joined(apply, values, reading)), type_, given, False
        return (lambda values, reading: _kept(apply, values, reading)), type_, given, many

    def _check_arguments(self, call: FunctionCall) -> None:
        function = OUTGOING_FUNCTIONS[call.name]
        least, most = function.tables if function.tables[1] else function.words
        if not least <= len(call.arguments) <= most:
            wanted = "no words" if not most else f"{least} to {most} words" if least != most else f"{least}"
            raise ExpressionError(f"{call.name} with {len(call.arguments)} words", f"expected {wanted}")
        if function.tables[1]:
            for name in call.arguments:
                if name not in self._context.tables:
                    raise ExpressionError(f"unknown table {name!r}", nearest(name, dict(self._context.tables)))

    # Conditions

    def test(self, value: Mapping[str, Any], scope: Scope, type_: str) -> Test:
        """Return the test of the keys `when` and `unless` of a map, of an item of a type."""
        tests: list[Test] = []
        for key in ("when", "unless"):
            if key in value:
                try:
                    guard = PathGuard(parse_path_condition(str(value[key])), key == "unless")
                    tests.append(self.condition_of(guard, type_))
                except ExpressionError as error:
                    self._problem(scope.at(key), error.found, error.expected)
        return lambda item, reading: all(one(item, reading) for one in tests)

    def condition_of(self, guard: PathGuard, type_: str) -> Test:
        """Return the test of a guard; ExpressionError for a path that is none."""
        groups = [[self._term(term, type_) for term in group] for group in guard.condition]
        unless = guard.unless
        return lambda item, reading: any(all(term(item, reading) for term in group) for group in groups) != unless

    def _make_test(self, text: str, type_: str) -> Test:
        return self.condition_of(PathGuard(parse_path_condition(text), unless=False), type_)

    def _term(self, term: PathTerm, type_: str) -> Test:
        path = compile_path(term.path, type_, self._make_test)
        read, steps, at, gives, many = path.read, [], path.type_, "", path.many
        for call in term.stages:
            step, at, gives, many = self._call(call, at, gives, many)
            steps.append(step)
        holds = _holds(term)
        negated = term.negated

        def test(item: Any, reading: ChangeReading) -> bool:
            values = read([item], reading)
            for step in steps:
                values = step(values, reading)
            return holds(values) != negated

        return test

    def _problem(self, scope: Scope, found: str, expected: str) -> None:
        self._problems.add(scope.document, scope.path, found, expected)


def _constant(value: str) -> Read:
    return lambda _, __: [value]


def _kept(apply: Callable[[Any, ChangeReading], Hl7Value], values: list[Any], reading: ChangeReading) -> list[Any]:
    return [made for one in values if (made := apply(one, reading)) is not None]


def _joined(apply: Callable[[Any, ChangeReading], Hl7Value], values: list[Any], reading: ChangeReading) -> list[Any]:
    made = apply(values, reading)
    return [] if made is None else [made]


def _holds(term: PathTerm) -> Callable[[list[Any]], bool]:
    if not term.values:
        return bool
    if term.test:
        compare = comparison_of(term.test, term.values[0])
        return lambda values: any(compare(as_text(one)) != term.unlike for one in values)
    wanted = frozenset(term.values)
    if term.unlike:
        return lambda values: bool(values) and not any(as_text(one) in wanted for one in values)
    return lambda values: any(as_text(one) in wanted for one in values)


def _traced(place: str, scope: Scope, rule: str, found: list[Any], made: list[Hl7Value]) -> TracedField:
    file, line = scope.document.place(scope.path)
    return TracedField(place, file, line, rule, tuple(found), made[0] if len(made) == 1 else tuple(made))

"""Tracing of a mapping: the same compiler, whose steps note their input and result.

The steps are the engine's own, wrapped, so that the outcome is the same. What they cache is not used: each message has
a dialect of its own.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.hl7.message import Message
from engine.hl7.segment import MessageEncoding
from engine.mapping.authoring.traced import (
    AppliedFunction,
    ReadValue,
    StepKind,
    TracedEach,
    TracedLookUp,
    TracedPath,
    TracedStep,
    additional_reads,
    gone_through,
    shown,
)
from engine.mapping.files.document import Document, Problems
from engine.mapping.files.reference import ReferenceElement
from engine.mapping.files.table import MappingTable
from engine.mapping.language.check import Checks
from engine.mapping.language.coding import UNMAPPED_CODE
from engine.mapping.language.compared import CompiledCondition, CompiledTerm
from engine.mapping.language.compiled import Compiled
from engine.mapping.language.expression import (
    Alternative,
    Condition,
    FunctionCall,
    Guard,
    RepetitionPath,
    SegmentPath,
    Source,
    parse_path,
)
from engine.mapping.language.function_context import Function, FunctionContext, Takes
from engine.mapping.language.node import Apply, Called, Step, function_of
from engine.mapping.language.node import ValueNode as TemplateNode
from engine.mapping.language.reading import Cells, MessageReading
from engine.mapping.language.scope import DataType, Scope
from engine.mapping.language.template import Compiler


@dataclass(slots=True)
class Trace:
    """The trace of a mapping: every rule and path in it, and, once it has run, the record of each step.

    `conditions`: the checked ones outside of elements, of filters, resources and status moves. `seen`: the look-ups of
    a function by what it was given, of all messages: it caches what it made.
    """

    roots: list[TracedStep] = field(default_factory=list)
    conditions: list[TracedStep] = field(default_factory=list)
    rules: list[tuple[Scope, Alternative]] = field(default_factory=list)
    reads: list[TracedPath] = field(default_factory=list)
    eaches: list[TracedEach] = field(default_factory=list)
    stack: list[TracedStep] = field(default_factory=list)
    seen: dict[Hashable, list[TracedLookUp]] = field(default_factory=dict)

    def begin(self, message: Message) -> None:
        """Forget the message before, and make the steps read this one anew instead of from their caches."""
        for noted in (self.roots, self.conditions, self.stack):
            noted.clear()
        own = MessageEncoding(message.delimiters, message.charset)
        # What is mapped is another one where it holds what no FHIR text may.
        message.dialect = message.legible().dialect = own

    def watch(
        self, step: Step, kind: StepKind, scope: Scope, source: str = "", rule: Alternative | None = None
    ) -> Step:
        """Return the step, wrapped to record a node at each call."""

        def watched(at_hand: Any, reading: MessageReading) -> Any:
            node = TracedStep(kind, scope, rule, source, at_hand=at_hand)
            if not self.stack and isinstance(at_hand, Cells):
                node.source = reading.place  # the field whose repetition is at hand
            elif kind is StepKind.EACH:
                node.places = gone_through(source, at_hand, reading)
            (self.stack[-1].children if self.stack else self.roots).append(node)
            self.stack.append(node)
            before = len(reading.warnings) if reading else 0  # a constant has no reading
            try:
                node.value = step(at_hand, reading)
            finally:
                self.stack.pop()
            if reading:
                node.warnings = list(map(str, reading.warnings[before:]))
            return node.value

        return watched

    def watch_check(self, check: CompiledCondition, guard: Guard, scope: Scope) -> CompiledCondition:
        """Return a condition that records a node at each check, with the values that its terms read."""
        test = check.test
        terms = [term for group in guard.condition for term in group]
        nodes = [term.source for group in check.groups for term in group]
        steps = [None if isinstance(node, str) else _when_asked(node) for node in nodes]

        def watched(at_hand: Any, reading: MessageReading) -> bool:
            node = TracedStep(StepKind.CONDITION, scope, at_hand=at_hand, guard=guard)
            (self.stack[-1].children if self.stack else self.conditions).append(node)
            holds = test(at_hand, reading)
            node.value, place = holds != guard.unless, reading.place
            for term, step in zip(terms, steps, strict=True):
                node.read.append(ReadValue(term.source, step(at_hand, reading) if step else reading.event))
            reading.place = place
            return holds

        return CompiledCondition(((CompiledTerm(Called(watched), frozenset(), negated=False, holds=bool),),))

    def watch_piece(self, step: Step, path: Source) -> Step:
        """Return the step of a function's additional path, wrapped to record the value for its rule."""

        def watched(at_hand: Any, reading: MessageReading) -> Any:
            value = step(at_hand, reading)
            if self.stack:
                self.stack[-1].read.append(ReadValue(path, shown(value)))
            return value

        return watched

    def watch_head(self, step: Step) -> Step:
        """Return a path's step, wrapped to record the value for its rule."""

        def watched(at_hand: Any, reading: MessageReading) -> Any:
            value = step(at_hand, reading)
            node = self.stack[-1]
            node.asked, node.raw = True, shown(value)
            return value

        return watched

    def watch_apply(self, call: FunctionCall, apply: Apply) -> Apply:
        """Return a function, wrapped to record its input and result for its rule; cached results are recorded, too."""
        name = str(call)

        def watched(value: Any, reading: MessageReading) -> Any:
            node = self.stack[-1]
            if not node.asked:
                node.asked, node.raw = True, shown(value)
            before, warned = len(node.rows), len(reading.warnings)
            made = apply(value, reading)
            if any(warning.startswith(UNMAPPED_CODE) for warning in reading.warnings[warned:]):
                node.rows[before:] = [replace(row, unmapped=row.key is None) for row in node.rows[before:]]
            key = (name, node.scope.document.source.file, node.scope.path, str(shown(value)))
            if len(node.rows) > before:
                self.seen[key] = node.rows[before:]
            else:
                node.rows += self.seen.get(key, ())
            node.applied.append(AppliedFunction(name, shown(value), shown(made)))
            node.read += additional_reads(call, reading)
            return made

        return watched

    def looked_up(self, table: str, code: str, key: str | None) -> None:
        """Note a look-up."""
        if self.stack:
            self.stack[-1].rows.append(TracedLookUp(table, code, key))


@dataclass(frozen=True, slots=True)
class WatchedTable(MappingTable):
    """A table that records every look-up."""

    note: Callable[[str, str, str | None], None] = lambda *_: None

    def key(self, code: str) -> str | None:
        """Return the table's own spelling of a code."""
        found = MappingTable.key(self, code)
        self.note(self.name, code, found)
        return found

    def answers(self, made: Callable[[str], Any]) -> dict[str, Any]:  # noqa: ARG002 - as Table has it
        """Return nothing precomputed, so that each look-up is recorded."""
        return {}


def watched_tables(tables: Mapping[str, MappingTable], trace: Trace) -> dict[str, MappingTable]:
    """Return the tables, each recording its look-ups in the trace."""
    return {name: _watched(table, trace) for name, table in tables.items()}


def _watched(one: MappingTable, trace: Trace) -> MappingTable:
    return WatchedTable(
        one.name, one.hl7, one.unmapped, one.default, one.codes, one.displays, one.folded, one.keys, trace.looked_up
    )


class WatchedChecks(Checks):
    """Checks that note the paths of conditions."""

    def __init__(
        self, trace: Trace, problems: Problems, context: FunctionContext, types: Mapping[str, Document]
    ) -> None:
        super().__init__(problems, context, types)
        self._trace = trace

    def condition(self, condition: Condition, scope: Scope) -> None:
        """Check every path of a condition, and note it."""
        for term in (term for group in condition for term in group):
            if not isinstance(term.source, str):
                self._trace.reads.append(TracedPath(scope, term.source, Takes.TEXT))
        super().condition(condition, scope)


class TracingCompiler(Compiler):
    """The compiler with every step watched."""

    def __init__(
        self, trace: Trace, context: FunctionContext, datatypes: dict[str, Document], problems: Problems
    ) -> None:
        super().__init__(replace(context, tables=watched_tables(context.tables, trace)), datatypes, problems)
        self._trace = trace
        self._checks = WatchedChecks(trace, problems, context, datatypes)

    def object(self, value: Any, scope: Scope, type_: str, *, whole: bool = True) -> Compiled:
        """Compile an object; each of its parts is a step of its own."""
        return self._traced(super().object(value, scope, type_, whole=whole), StepKind.OBJECT, scope)

    def items(self, entry: Any, scope: Scope, element: ReferenceElement) -> Compiled:
        """Compile one entry of a list."""
        return self._traced(super().items(entry, scope, element), StepKind.ITEMS, scope)

    def _traced(self, made: Compiled, kind: StepKind, scope: Scope, rule: Alternative | None = None) -> Compiled:
        step = self._trace.watch(_when_asked(made.node), kind, scope, rule=rule)
        return made._replace(node=Called(step))

    def _alternative(self, one: Alternative, scope: Scope, want: ReferenceElement) -> Compiled:
        self._trace.rules.append((scope, one))
        return self._traced(super()._alternative(one, scope, want), StepKind.RULE, scope, one)

    def _head(self, one: Alternative, takes: Takes, scope: Scope) -> TemplateNode:
        if isinstance(one.head, SegmentPath | RepetitionPath):
            function = next((stage.name for stage in one.stages if isinstance(stage, FunctionCall)), "")
            self._trace.reads.append(TracedPath(scope, one.head, takes, function))
        return Called(self._trace.watch_head(_when_asked(super()._head(one, takes, scope))))

    def check(self, guard: Guard, scope: Scope) -> CompiledCondition:
        """Compile a watched condition."""
        return self._trace.watch_check(super().check(guard, scope), guard, scope)

    def piece(self, word: str, scope: Scope) -> TemplateNode:
        """Compile a word of a function, and note its path."""
        node, path = super().piece(word, scope), parse_path(word)
        if path is None:
            return node
        self._trace.reads.append(TracedPath(scope, path, Takes.TEXT))
        return Called(self._trace.watch_piece(_when_asked(node), path))

    def _function(self, call: FunctionCall, scope: Scope) -> Function | None:
        function = super()._function(call, scope)
        if function is None:
            return None
        make = function.make
        return replace(function, make=lambda context, names: self._trace.watch_apply(call, make(context, names)))

    def _each(self, source: str, entry: dict[str, Any], scope: Scope, element: ReferenceElement) -> TemplateNode:
        self._trace.eaches.append(TracedEach(scope, source, str(entry.get("as") or "")))
        step = _when_asked(super()._each(source, entry, scope, element))
        return Called(self._trace.watch(step, StepKind.EACH, scope, source))

    def _as(self, name: str, scope: Scope, element: ReferenceElement) -> DataType:
        made = super()._as(name, scope, element)
        watch = self._trace.watch
        step = watch(made.step, StepKind.ITEM, scope, name)
        return DataType(made.to, step, tuple(watch(also, StepKind.ALSO, scope, name) for also in made.also))


def _when_asked(node: TemplateNode) -> Step:
    """Return the function of a node, which is made at the first call: one message calls few of them."""
    made: list[Step] = []

    def step(at_hand: Any, reading: MessageReading) -> Any:
        if not made:
            made.append(function_of(node))
        return made[0](at_hand, reading)

    return step

"""Checks of templates: HL7 paths against segments and data types, values against FHIR types."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Final

from engine.config.model import MOST_NAMED, folded
from engine.mapping.files.document import Document, Problems
from engine.mapping.files.reference import (
    CODES,
    GUIDE,
    RESOURCES,
    STANDARD,
    Hl7Field,
    ReferenceElement,
    data_types,
    elements,
    nearest,
    parts,
    resource_types,
    segments,
    shown_type,
)
from engine.mapping.files.table import MappingTable
from engine.mapping.language.comparison import comparison_fault
from engine.mapping.language.compiled import is_sure
from engine.mapping.language.expression import (
    Alternative,
    Condition,
    Constant,
    ExpressionError,
    FunctionCall,
    Guard,
    Head,
    RepetitionPath,
    SegmentPath,
    Term,
    parse_expression,
)
from engine.mapping.language.function_context import FunctionContext
from engine.mapping.language.functions import FUNCTIONS
from engine.mapping.language.references import SAME
from engine.mapping.language.scope import Scope

Fault = tuple[str, str]
CODED: Final = frozenset({"CWE", "CE", "CNE", "IS", "ID", "CF"})
OPEN: Final = frozenset({"-", "varies"})
EVENT: Final = re.compile(r"A(?:0[1-9]|[1-5]\d|6[0-2])|[B-Z]\d\d")
EVENTS: Final = frozenset(f"A{number:02}" for number in range(1, 63))


def path_fault(head: SegmentPath | RepetitionPath, scope: Scope) -> Fault | None:
    """Return what is wrong with a path and what is expected; None for a good one."""
    return _part_fault(head, scope.type_) if isinstance(head, RepetitionPath) else _field_fault(head, scope)


def event_fault(term: Term) -> Fault | None:
    """Return the fault of an event test whose value is not an ADT event."""
    wrong = next((value for value in term.values if not EVENT.fullmatch(value)), None)
    return (f"unknown event {wrong!r}", event_hint(wrong)) if wrong is not None else None


def event_hint(word: str) -> str:
    """Return a hint of the nearest ADT trigger event; empty if none is near."""
    near = get_close_matches(word, sorted(EVENTS), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else "expected a trigger event such as A01"


def never(one: Alternative) -> bool:
    """True if a condition requires that the alternative's own path is empty, so that it never has a value."""
    return any(isinstance(stage, Guard) and _forbids(stage.condition, one.head, stage.unless) for stage in one.stages)


def _forbids(condition: Condition, head: Head, unless: bool) -> bool:
    valued, empty = (Term(head, (), negated) for negated in (False, True))  # type: ignore[arg-type]  # a path that no term has equals none
    if unless:
        return any(group == (valued,) for group in condition)
    return all(empty in group for group in condition)


def _field_fault(head: SegmentPath, scope: Scope) -> Fault | None:
    if scope.type_ and head.segment == scope.segment:
        return f"a path into {head.segment} from within one of its repetitions", f"use {scope.type_}.1 or the like"
    if head.segment[0] == "Z":
        return None
    fields, name = segments().get(head.segment), f"{head.segment}-{head.field}"
    if fields is None:
        return f"unknown segment {head.segment!r}", nearest(head.segment, segments(), STANDARD)
    if head.field not in fields:
        return f"unknown field {name}", f"{head.segment} has the fields 1 to {max(fields)}"
    return _known_field_fault(head, fields[head.field], name)


def _known_field_fault(head: SegmentPath, field: Hl7Field, name: str) -> Fault | None:
    if field.type_ in OPEN:
        return None
    return _predicate_fault(head, field, name) or _component_fault(head, field, name)


def _predicate_fault(head: SegmentPath, field: Hl7Field, name: str) -> Fault | None:
    if not head.where:
        return None
    if head.type_ != field.type_ and not {head.type_, field.type_} <= CODED:
        return (
            f"a choice by {head.type_}.{head.where}",
            f"{name} is of type {field.type_}: choose by {field.type_}.1 or the like",
        )
    if head.where > max(field.most, 1):
        return (
            f"unknown component {head.type_}.{head.where}",
            f"{field.type_} has {field.most} components: name one of them",
        )
    return None


def _component_fault(head: SegmentPath, field: Hl7Field, name: str) -> Fault | None:
    if head.component > max(field.most, 1):
        has = (
            f"which has {field.most} components: name one of them"
            if field.most
            else "which has no components: leave it out"
        )
        return f"unknown component {head.component}", f"{name} is of type {field.type_}, {has}"
    return _small_fault(head.subcomponent, field.type_, head.component, f"{name}.{head.component}")


def _part_fault(head: RepetitionPath, type_at_hand: str) -> Fault | None:
    count = data_types().get(head.type_)
    if count is None and (head.type_ in segments() or (len(head.type_) == 3 and head.type_[0] == "Z")):
        parts_ = [str(number) for number in (head.component or 1, head.subcomponent) if number]
        return f"unknown data type {head.type_!r}", f"did you mean {head.type_}-{'.'.join(parts_)}?"
    if count is None:
        return f"unknown data type {head.type_!r}", nearest(head.type_, data_types(), STANDARD)
    if not type_at_hand:
        return f"{head.type_} has no repetition at hand", "use a field such as PID-3.1"
    if head.component > max(count, 1):
        return (
            f"unknown component {head.type_}.{head.component}",
            f"{head.type_} has {count} components: name one of them",
        )
    if type_at_hand not in {*OPEN, head.type_} and not {head.type_, type_at_hand} <= CODED:
        return f"a path into {head.type_}", f"here a {type_at_hand} is at hand: use {type_at_hand}.1 or the like"
    return _small_fault(head.subcomponent, head.type_, head.component, f"{head.type_}.{head.component}")


def _small_fault(number: int, type_: str, component: int, name: str) -> Fault | None:
    most = parts(type_, component)
    if number > max(most, 1):
        return (
            f"unknown subcomponent {number}",
            f"{name} has {most} subcomponents: name one of them"
            if most
            else f"{name} has no subcomponents: leave it out",
        )
    return None


# Another check reports an extension without a url.
URL: Final = ("Extension", "url")
# The names that a reference may use within a plan, in addition to resources that another file makes of the segment.
LOCAL: Final = {"#patient": "Patient", "#encounter": "Encounter"}
TEXTS: Final = frozenset({"string", "code", "uri"})
ACCEPTED: Final = {
    "string": TEXTS,
    "markdown": TEXTS,
    "code": frozenset({"code", "string"}),
    "uri": frozenset({"uri", "string"}),
    "dateTime": frozenset({"dateTime", "date"}),
    "integer": frozenset({"integer", "positiveInt"}),
    "decimal": frozenset({"decimal", "integer", "positiveInt"}),
}
# Keys of an entry that make nothing by themselves.
SAYS_NOTHING: Final = frozenset({"each", "when", "unless", "needs", "slice"})
_DATE: Final = r"\d{4}(-\d{2}(-\d{2}"
# For each type: the pattern of a constant, the function that makes its value, and an example.
CONSTANTS: Final[dict[str, tuple[re.Pattern[str], Callable[[str], Any], str]]] = {
    "boolean": (re.compile("true|false"), "true".__eq__, "true or false"),
    "integer": (re.compile(r"-?\d{1,9}"), int, "a whole number"),
    "positiveInt": (re.compile(r"[1-9]\d{0,8}"), int, "a whole number from 1"),
    "date": (re.compile(_DATE + ")?)?"), str, "a date such as 2026-03-01"),
    "dateTime": (re.compile(_DATE + r"(T\S+)?)?)?"), str, "a date such as 2026-03-01"),
}


class Checks:
    """Checks paths and types against the references; faults go to `problems`."""

    def __init__(self, problems: Problems, context: FunctionContext, types: Mapping[str, Document]) -> None:
        self._problems = problems
        self._tables = context.tables
        self._files = context.files
        self._types = types

    def condition(self, condition: Condition, scope: Scope) -> None:
        """Check every path of a condition."""
        for group in condition:
            for term in group:
                if term.test and (fault := comparison_fault(term)):
                    self._add(scope, *fault)
                if not isinstance(term.source, str):
                    self.path(term.source, scope)
                elif not term.test and (fault := event_fault(term)):
                    self._add(scope, *fault)

    def alternative(self, one: Alternative, scope: Scope) -> None:
        """Check the path and the conditions of an alternative with unknown functions."""
        if not isinstance(one.head, Constant):
            self.path(one.head, scope)
        for stage in one.stages:
            if isinstance(stage, Guard):
                self.condition(stage.condition, scope)

    def reached(self, alternatives: Sequence[tuple[Alternative, Scope]]) -> None:
        """Note alternatives that follow one that always has a value, or an equal one."""
        before: list[Alternative] = []
        for one, scope in alternatives:
            if any(is_sure(other) for other in before):
                self._add(scope, "an alternative after a constant", "it is unreachable; remove it")
                return
            if one in before:
                self._add(scope, "the same alternative twice", "it is unreachable; remove it")
            before.append(one)

    def path(self, head: SegmentPath | RepetitionPath, scope: Scope) -> None:
        """Note a path that HL7 does not define, or that cannot be read at this place."""
        if fault := path_fault(head, scope):
            self._add(scope, *fault)

    def extension(self, value: Mapping[str, Any], scope: Scope) -> None:
        """Note an extension without a url, and one with two values."""
        if "url" not in value:
            self._add(scope, "an extension without a url", "add the url that names it")
        values = [key for key in value if key.startswith("value")]
        for key in values[1:]:
            self._add(scope.at(key), f"{key} beside {values[0]}", "an extension has one value; give each its own url")

    def required(self, type_: str, names: Collection[str], scope: Scope) -> None:
        """Note the required elements of a type that an object does not fill."""
        given = {name.removeprefix("_") for name in names}
        for name, one in elements()[type_].items():
            if one.required and name not in given and (type_, name) != URL:
                self._add(scope, f"no {name!r}, which {shown_type(type_)} requires", f"add {name}: ...")

    def target(self, type_: str, want: ReferenceElement, scope: Scope) -> None:
        """Note a reference to a type that the element may not name."""
        if want.targets and type_ not in want.targets:
            expected = f"it may be of {folded(sorted(want.targets), type_, RESOURCES)}"
            self._add(scope, f"a reference to {type_}", expected)

    def reference(self, entry: Mapping[str, Any], want: ReferenceElement, scope: Scope) -> None:
        """Note a name within the plan (`'#patient'`) that the Reference may not use, or that does not exist."""
        authored = entry.get("reference")
        listed = authored.get("first") if isinstance(authored, dict) else [authored]
        for text in listed if isinstance(listed, list) else ():
            for name in _names(text):
                type_ = LOCAL.get(name, name.removeprefix(SAME) if name.startswith(SAME) else "")
                at = scope.at("reference")
                if not type_:
                    expected = nearest(name, LOCAL) if name != "#" else f"expected {' or '.join(sorted(LOCAL))}"
                    self._add(at, f"found {name!r}, which is nothing in a plan", expected)
                elif type_ not in resource_types():
                    self._add(at, f"unknown resource {type_!r}", nearest(type_, resource_types(), RESOURCES))
                else:
                    self.target(type_, want, at)

    def made_of(self, entry: Mapping[str, Any], element: ReferenceElement, scope: Scope) -> None:
        """Note an `each` without a template for its repetitions."""
        if not entry.keys() - SAYS_NOTHING:
            names = sorted(name for name, one in self._types.items() if one.value.get("to") == element.type_)
            expected = f"add as: {' or '.join(names)}" if names else "add the elements that it makes"
            self._add(scope, "nothing to make of each repetition", expected)

    def typed(self, one: Alternative, want: ReferenceElement, scope: Scope) -> Alternative:
        """Return an alternative with its constant converted to the element's type; note one of another type."""
        if not isinstance(one.head, Constant) or any(isinstance(stage, FunctionCall) for stage in one.stages):
            return one
        shape, make, example = CONSTANTS.get(want.type_, (None, str, ""))
        if shape is None:
            return one
        if not shape.fullmatch(str(one.head.value)):
            self._add(scope, f"found {one.head.value!r}", f"expected {example} for an element of type {want.type_}")
            return one
        return replace(one, head=Constant(make(one.head.value)))

    def type_(
        self, one: Alternative, arguments: tuple[str, ...], gives: str, want: ReferenceElement, scope: Scope
    ) -> None:
        """Note a value of the wrong type, one that never occurs, and codes outside of the element's binding."""
        if never(one):
            self._add(
                scope,
                "a condition that requires its own path to be empty",
                "it never has a value; remove one of the two",
            )
        if isinstance(one.head, Constant) and gives == "string":
            if want.codes and one.head.value not in want.codes:
                self._add(scope, f"the code {one.head.value!r}", nearest(one.head.value, want.codes, CODES))
            return
        if gives == "code" and want.codes and arguments and arguments[0] in self._tables:
            self._codes(self._tables[arguments[0]], want.codes, scope)
        if gives and (gives not in ACCEPTED.get(want.type_, {want.type_}) or (want.codes and gives == "string")):
            self._add(scope, f"a {gives} for an element of type {want.type_}", self._hint(want.type_, one.head))

    def _codes(self, table: MappingTable, allowed: frozenset[str], scope: Scope) -> None:
        """Note the rows whose code the element does not allow; if it allows none, the table is wrong."""
        given = {target.code for target in (*table.codes.values(), table.default) if target}
        wrong = given - allowed
        if wrong and wrong == given and (self._files[table.name].ships or not scope.document.ships):
            found = f"table {table.name} gives {min(wrong)!r}"
            self._add(scope, found, f"use a table that gives one of {folded(sorted(allowed), where=CODES)}")
        elif wrong:
            for path, code in _rows_of(table, wrong):
                expected = nearest(code, allowed, CODES)
                self._problems.add(self._files[table.name], path, f"the code {code!r}", expected)

    def _hint(self, wanted: str, head: Head) -> str:
        names = [name for name, function in FUNCTIONS.items() if function.gives == wanted]
        if names:
            return (
                f"use {' or '.join(names)}" if len(names) <= MOST_NAMED else f"use one of {folded(names, where=GUIDE)}"
            )
        type_ = (
            head.type_ if isinstance(head, RepetitionPath) else type_of(head) if isinstance(head, SegmentPath) else ""
        )
        own = self._types.get(type_)
        if own is not None and own.value.get("to") == wanted and isinstance(head, SegmentPath):
            return f"use {{each: {head.segment}-{head.field}, as: {type_}}} or {head.segment}-{head.field} | {type_}"
        return f"expected {wanted}"

    def _add(self, scope: Scope, found: str, expected: str) -> None:
        self._problems.add(scope.document, scope.path, found, expected)


def type_of(head: SegmentPath) -> str:
    """Return the data type of a field; `-` if unknown."""
    field = segments().get(head.segment, {}).get(head.field)
    return field.type_ if field else "-"


def _names(text: Any) -> list[str]:
    """Return the names within a plan that are constants of an expression."""
    try:
        heads = [one.head for one in parse_expression(text)] if isinstance(text, str) else []
    except ExpressionError:
        return []  # reported when it is compiled
    return [str(one.value) for one in heads if isinstance(one, Constant) and str(one.value).startswith("#")]


def _rows_of(table: MappingTable, codes: set[str]) -> Iterator[tuple[tuple[str, ...], str]]:
    for key, target in table.codes.items():
        if target and target.code in codes:
            yield ("codes", key), target.code
    if table.default and table.default.code in codes:
        yield ("unmapped", "default"), table.default.code

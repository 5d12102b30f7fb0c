"""Checks of what templates name: HL7 paths against the segments and data types, values against FHIR types."""

from typing import Any, Final

from engine.mapping.document import Problems
from engine.mapping.expression import Alternative, Condition, Constant, Field, Part
from engine.mapping.functions import FUNCTIONS
from engine.mapping.reference import Element, data_types, nearest, segments
from engine.mapping.scope import Scope
from engine.mapping.table import Table

TEXTS: Final = frozenset({"string", "code", "uri"})
ACCEPTED: Final = {
    "string": TEXTS,
    "markdown": TEXTS,
    "code": frozenset({"code", "string"}),
    "uri": frozenset({"uri", "string"}),
    "dateTime": frozenset({"dateTime", "date"}),
    "integer": frozenset({"integer", "positiveInt"}),
}
CODED: Final = frozenset({"CWE", "CE", "CNE", "IS", "ID", "CF"})


class Checks:
    """Holds paths and types against the references; what is wrong goes to `problems`.

    `by_event` becomes true once a condition asks for the event.
    """

    def __init__(self, problems: Problems, tables: dict[str, Table]) -> None:
        self._problems = problems
        self._tables = tables
        self.by_event = False

    def condition(self, condition: Condition, scope: Scope) -> None:
        """Check every path of a condition."""
        for group in condition:
            for term in group:
                if isinstance(term.source, str):
                    self.by_event = True
                else:
                    self.path(term.source, scope)

    def path(self, head: Field | Part, scope: Scope) -> None:
        """Note a path that HL7 does not know, or that has nothing at hand to be read from."""
        found = _part_fault(head, scope.type_) if isinstance(head, Part) else _field_fault(head, scope)
        if found:
            self._add(scope, *found)

    def type_(self, one: Alternative, arguments: tuple[str, ...], gives: str, want: Element, scope: Scope) -> None:
        """Note a value that is not of the element's type, and codes that its binding does not have."""
        if isinstance(one.head, Constant) and gives == "string":
            if want.codes and one.head.value not in want.codes:
                self._problems.add(
                    scope.document, scope.path, f"the code {one.head.value!r}", nearest(one.head.value, want.codes)
                )
            return
        if gives == "code" and want.codes and arguments:
            table = self._tables[arguments[0]]
            for code in sorted(_targets(table) - want.codes):
                found = f"table {table.name} gives {code!r}"
                self._problems.add(
                    scope.document, scope.path, found, "it is not one of " + ", ".join(sorted(want.codes))
                )
        if gives not in ACCEPTED.get(want.type_, {want.type_}) or (want.codes and gives == "string"):
            self._problems.add(
                scope.document, scope.path, f"a {gives} for an element of type {want.type_}", _hint(want.type_)
            )

    def _add(self, scope: Scope, found: str, expected: str) -> None:
        self._problems.add(scope.document, scope.path, found, expected)


def type_of(head: Field) -> str:
    """Return the data type of a field; `-` where it is not known."""
    field = segments().get(head.segment, {}).get(head.field)
    return field.type_ if field else "-"


def kind_of(value: Any) -> str:
    """Return words for an authored value of the wrong kind."""
    return {dict: "a map", list: "a list", type(None): "nothing"}.get(type(value), repr(value))


def _field_fault(head: Field, scope: Scope) -> tuple[str, str] | None:
    if scope.type_ and head.segment == scope.segment:
        return f"a path into {head.segment} from within one of its repetitions", f"use {scope.type_}.1 or the like"
    if head.segment[0] == "Z":
        return None
    fields = segments().get(head.segment)
    if fields is None:
        return f"unknown segment {head.segment!r}", nearest(head.segment, segments())
    if head.field not in fields:
        return f"unknown field {head.segment}-{head.field}", f"{head.segment} has the fields 1 to {max(fields)}"
    type_ = fields[head.field].type_
    count = data_types().get(type_, 0)
    if count and head.component > count:
        expected = f"{head.segment}-{head.field} is of type {type_}, which has {count} components"
        return f"unknown component {head.component}", expected
    return None


def _part_fault(head: Part, type_at_hand: str) -> tuple[str, str] | None:
    count = data_types().get(head.type_)
    if count is None:
        return f"unknown data type {head.type_!r}", nearest(head.type_, data_types())
    if not type_at_hand:
        return f"{head.type_} has no repetition at hand", "use a field such as PID-3.1"
    if head.component > max(count, 1):
        return f"unknown component {head.type_}.{head.component}", f"{head.type_} has {count} components"
    if type_at_hand not in {"-", head.type_} and not {head.type_, type_at_hand} <= CODED:
        return f"a path into {head.type_}", f"here a {type_at_hand} is at hand"
    return None


def _hint(wanted: str) -> str:
    names = [name for name, function in FUNCTIONS.items() if function.gives == wanted]
    return f"use {' or '.join(names)}" if names else f"expected {wanted}"


def _targets(table: Table) -> set[str]:
    return {target.code for target in (*table.codes.values(), table.default) if target}

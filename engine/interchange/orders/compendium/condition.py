"""One condition of `enableWhen`: what its operator says of the answers to the question that it names (FHIR R4).

Values of different kinds are never equal, and neither is before the other; nor are quantities of different units, where
both say theirs.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.orders.compendium.questionnaire_item import value_of
from engine.interchange.store.search.date import span

# A value as the range that it covers: a year covers its days.
Range = tuple[Any, Any]

EXISTS: Final = "exists"
OPERATORS: Final[Mapping[str, Callable[[Range, Range], bool]]] = {
    "=": lambda given, wanted: given == wanted,
    "!=": lambda given, wanted: given != wanted,
    ">": lambda given, wanted: given[0] > wanted[1],
    "<": lambda given, wanted: given[1] < wanted[0],
    ">=": lambda given, wanted: given[0] >= wanted[0],
    "<=": lambda given, wanted: given[1] <= wanted[1],
}
EQUALITY: Final = frozenset({"=", "!="})
KINDS: Final = {
    "Integer": "number",
    "Decimal": "number",
    "Date": "date",
    "DateTime": "date",
    "Instant": "date",
    "String": "text",
    "Uri": "text",
}
ORDERED: Final = frozenset({"number", "date", "text", "Time", "Quantity"})


def holds(condition: JsonObject, answers: list[JsonObject]) -> bool:
    """Say whether a condition holds: of several answers one that fulfils it is enough, of none only `exists` speaks."""
    operator, wanted = condition.get("operator", "="), _wanted(condition)
    if operator == EXISTS:
        return bool(answers) is (wanted[1] is not False)
    return any(_fulfils(operator, value_of(answer), wanted) for answer in answers)


def same_coding(one: JsonObject, other: JsonObject) -> bool:
    """Say whether two codings are the same; a system counts where both have one."""
    systems = {one.get("system"), other.get("system")} - {None, ""}
    return one.get("code") == other.get("code") and len(systems) < 2


def _wanted(condition: JsonObject) -> tuple[str, Any]:
    return next(((name, value) for name, value in condition.items() if name.startswith("answer")), ("", None))


def _fulfils(operator: str, given: tuple[str, Any], wanted: tuple[str, Any]) -> bool:
    (kind, value), (wanted_kind, wanted_value) = _kind(given, "value"), _kind(wanted, "answer")
    if kind == wanted_kind == "Coding":
        equal = same_coding(value, wanted_value)
        return equal if operator == "=" else operator == "!=" and not equal
    left, right = _range(kind, value), _range(wanted_kind, wanted_value)
    if kind != wanted_kind or left is None or right is None or len({_unit(value), _unit(wanted_value)} - {""}) > 1:
        return operator == "!="
    return (operator in EQUALITY or kind in ORDERED) and operator in OPERATORS and OPERATORS[operator](left, right)


def _kind(named: tuple[str, Any], prefix: str) -> tuple[str, Any]:
    name = named[0].removeprefix(prefix)
    return KINDS.get(name, name), named[1]


def _range(kind: str, value: Any) -> Range | None:
    if kind == "date":
        return span(value)
    if kind == "Quantity":
        number = value.get("value")
        return None if number is None else (number, number)
    if kind == "Reference":
        value = value.get("reference")
    return value, value


def _unit(value: Json) -> str:
    return str(value.get("code") or value.get("unit") or "") if isinstance(value, dict) else ""

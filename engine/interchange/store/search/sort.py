"""The order of a search's matches: `_sort`, by parameters whose values have one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from engine.interchange.kernel.outcome import Category, RefusedError, refuse
from engine.interchange.store.search.criterion import Parameter, ParameterKind

# Kinds whose values have an order that means something to people.
ORDERED: Final = frozenset(
    {ParameterKind.STRING, ParameterKind.DATE, ParameterKind.TOKEN, ParameterKind.UPDATED, ParameterKind.ID}
)
MOST_KEYS: Final = 5


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of the order: a parameter's least value first, or its greatest; what has none comes last."""

    parameter: Parameter
    descending: bool


def parse_sort(text: str, parameters: Mapping[str, Parameter]) -> tuple[SortKey, ...]:
    """Return the keys that `_sort` names; RefusedError for what has no order or is not there."""
    keys = tuple(_key(item, parameters) for item in text.split(","))
    if len(keys) > MOST_KEYS or len({key.parameter.name for key in keys}) < len(keys):
        raise _refuse(Category.BAD_VALUE, f"_sort names at most {MOST_KEYS} parameters, each once.")
    return keys


def _key(item: str, parameters: Mapping[str, Parameter]) -> SortKey:
    parameter = parameters.get(item.removeprefix("-"))
    if parameter is None or parameter.kind not in ORDERED:
        text = "_sort names search parameters of the type that are texts, dates or codes, _id or _lastUpdated."
        raise _refuse(Category.UNSUPPORTED, text)
    return SortKey(parameter, item.startswith("-"))


def _refuse(category: Category, text: str) -> RefusedError:
    return refuse(category, text, location="http._sort")

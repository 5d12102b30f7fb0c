"""A criterion of a search as a value (index, comparison, selectivity), and the order of the matches (`_sort`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from engine.interchange.kernel.outcome import Category, RefusedError, refuse


class ParameterKind(StrEnum):
    """The kinds of search parameters, each with its own index."""

    ID = "id"
    STRING = "string"
    TOKEN = "token"  # noqa: S105 - a FHIR token
    CONTACT = "contact"
    IDENTIFIER = "identifier"
    URI = "uri"
    CANONICAL = "canonical"
    DATE = "date"
    REFERENCE = "reference"
    UPDATED = "updated"


class Rank(IntEnum):
    """How many records a criterion leaves, as a guess: the lowest drives the query, the others only probe."""

    ONE = 0
    FEW = 1
    SOME = 2
    MANY = 3
    MOST = 4
    # One that cannot drive, because its index has no rows for the records that it leaves.
    PROBE = 5


@dataclass(frozen=True, slots=True)
class Parameter:
    """A search parameter of a type: its name in the address, its kind, and how its rows are named and made.

    `rows` names its rows in the index (`Patient.family`), `also` those of other parameters that it reads with them;
    `elements` are the paths that its own come from, none where they are another one's. `system` is that of a plain
    code, or of the only contacts that it finds (`phone`); `implied` the start of those that a code without a system
    may be asked for with; `default` is the code of a resource without the element. `aliases` maps folded values to
    codes (F to female), `prefixes` prefixes of dates to those that they count as. `codes` are all that may be asked
    for, any where empty. `targets` are the types that a bare id may be of. `merged`: whether it names merged-away
    patients themselves, not their survivors. `stu3` is its name in STU3 if another.
    """

    name: str
    kind: ParameterKind
    rows: str
    rank: Rank
    elements: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    system: str = ""
    implied: str = ""
    default: str = ""
    codes: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    prefixes: tuple[tuple[str, str], ...] = ()
    repeatable: bool = False
    merged: bool = False
    stu3: str = ""


@dataclass(frozen=True, slots=True)
class Linked:
    """What a criterion asks of other resources: to be found by any of `searches`, each of another type.

    They are those that it refers to; with `rows` those that refer to it by these rows of references.
    """

    searches: tuple["SearchQuery", ...]
    rows: str = ""


@dataclass(frozen=True, slots=True)
class Criterion:
    """One parameter with its values (any of them does): `tests` are conditions on the index with their arguments.

    `missing` (the modifier): whether records are wanted that have no value, or those that have any; then no tests. Nor
    are there any where others are asked for (`linked`): these are made once the tenant is known.
    """

    parameter: Parameter
    tests: tuple[tuple[str, tuple[str | int, ...]], ...]
    rank: Rank
    missing: bool | None = None
    linked: Linked | None = None


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """All criteria of a search of one type; every one must hold."""

    type: str
    criteria: tuple[Criterion, ...]

    @property
    def selective(self) -> bool:
        """Whether the search surely touches few records."""
        return any(criterion.rank <= Rank.FEW for criterion in self.criteria)


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

"""Criteria on linked resources, one link away: `patient.birthdate`, and `_has:Observation:patient:code`.

The token must be allowed to search the other type: the matches disclose it, even where it is not shown.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import r4_name
from engine.interchange.kernel.outcome import Category, RefusedError, refuse, repeatable
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.store.search.criterion import Criterion, Linked, Parameter, ParameterKind, Rank, SearchQuery
from engine.interchange.store.search.page import Pairs
from engine.interchange.store.search.parse import parse_search

HAS: Final = "_has:"
# A criterion on the ids of the resources themselves, for which what refers to them decides.
REFERRED: Final = Parameter("_has", ParameterKind.ID, "", Rank.MOST)

May = Callable[[str, str], bool]


def is_known(name: str, parameters: Mapping[str, Parameter]) -> bool:
    """Say whether a parameter of a query is one of a type's, or begins as a chain of one; `_has` is."""
    return name.startswith(HAS) or name.partition(".")[0].partition(":")[0] in parameters


def linked_criteria(
    pairs: Iterable[tuple[str, str]],
    parameters: Mapping[str, Parameter],
    base_url: str,
    version: FhirVersion,
    may: May,
) -> tuple[Criterion, ...]:
    """Return the criteria of chains and of `_has`; RefusedError for what is unknown, repeated, or not allowed."""
    chains: set[str] = set()
    criteria: list[Criterion] = []
    for name, value in pairs:
        if name.startswith(HAS):
            criteria.append(_has(name, value, base_url, version, may))
            continue
        if name in chains:
            raise _refuse(Category.BAD_VALUE, name, f"The search parameter {repeatable(name)} is given more than once.")
        chains.add(name)
        criteria.append(_chain(name, value, parameters, base_url, version, may))
    return tuple(criteria)


def names_a_patient(criterion: Criterion) -> bool:
    """Say whether a chain limits a search to patients: only by their identifiers."""
    linked = criterion.linked
    if linked is None or linked.rows:
        return False
    inner = [one for search in linked.searches for one in search.criteria]
    return all(one.parameter.name == "identifier" and one.missing is None for one in inner)


def _chain(
    name: str, value: str, parameters: Mapping[str, Parameter], base_url: str, version: FhirVersion, may: May
) -> Criterion:
    head, _, inner = name.partition(".")
    link, _, type_name = head.partition(":")
    parameter = parameters.get(link)
    if (
        parameter is None
        or parameter.kind is not ParameterKind.REFERENCE
        or (type_name and r4_name(type_name) not in KEPT)
    ):
        raise _refuse(Category.UNSUPPORTED, name, f"The chain {repeatable(name)} does not begin with a reference.")
    targets = (r4_name(type_name),) if type_name else tuple(one for one in parameter.targets if one in KEPT)
    wanted = inner.partition(":")[0]
    asked = [one for one in targets if wanted in KEPT[one].search_parameters(version)] or targets[:1]
    searches = tuple(_search(name, one, ((inner, value),), base_url, version, may) for one in asked)
    return Criterion(parameter, (), _rank(searches), linked=Linked(searches))


def _has(name: str, value: str, base_url: str, version: FhirVersion, may: May) -> Criterion:
    parts = name.split(":", 3)
    source = r4_name(parts[1])
    definition = KEPT.get(source)
    link = definition.search_parameters(version).get(parts[2]) if definition and len(parts) == 4 else None
    if link is None or link.kind is not ParameterKind.REFERENCE:
        text = "_has names a type, one of its search parameters that is a reference, and another one."
        raise _refuse(Category.UNSUPPORTED, name, text)
    searches = (_search(name, source, ((parts[3], value),), base_url, version, may),)
    return Criterion(REFERRED, (), _rank(searches), linked=Linked(searches, link.rows))


def _search(name: str, type_name: str, pairs: Pairs, base_url: str, version: FhirVersion, may: May) -> SearchQuery:
    found = parse_search(type_name, KEPT[type_name].search_parameters(version), pairs, base_url, version)
    if not may(type_name, "s"):
        text = f"The token does not allow to search {type_name}, as {repeatable(name)} asks."
        raise _refuse(Category.FORBIDDEN, name, text)
    return found


def _rank(searches: tuple[SearchQuery, ...]) -> Rank:
    return min(Rank.MOST, max(one.rank for search in searches for one in search.criteria))


def _refuse(category: Category, name: str, text: str) -> RefusedError:
    return refuse(category, text, location=f"http.{repeatable(name)}")

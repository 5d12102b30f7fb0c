"""The elements of all types of FHIR R4, and the types that a reference element may name in R4 and STU3."""

import csv
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final

from engine.fhir.extra_constraints import R4_CHOICES, R4_CODES, R4_PRIMITIVES
from engine.fhir.schema import ElementDefinition, FhirVersion, definitions

ANY: Final[frozenset[str]] = frozenset()
# Extensions nest, so the number of paths is unbounded.
PATHS_REMEMBERED: Final = 4_096


@lru_cache(maxsize=PATHS_REMEMBERED)
def target_types(version: FhirVersion, path: str) -> frozenset[str]:
    """Return the types that the element at a path may name (`Encounter.participant.individual`, without indices).

    Empty: any type, as for the value of an extension, or the path is not one of a stored type.
    """
    types = definitions(version)
    type_name, *names = path.split(".")
    place = ("", "")
    for name in names:
        place = (type_name, name)
        element = types.get(type_name, {}).get(name)
        type_name = element.type if element is not None else "Element" if name.startswith("_") else ""
    return _table(version).get(place, ANY)


@cache
def _table(version: FhirVersion) -> dict[tuple[str, str], frozenset[str]]:
    text = files("engine.fhir").joinpath("schemas", "references.csv").read_text(encoding="utf-8")
    rows = (row for row in csv.DictReader(text.splitlines()) if row["version"] == version)
    return {(row["type"], row["element"]): frozenset(row["targets"].split()) for row in rows}


RULES: Final = "rules.csv"
# Named like a choice but not one: both elements may be present.
BOTH: Final = frozenset({"Task.instantiates", "ClinicalImpression_Finding.item", "PaymentReconciliation.payment"})


@cache
def r4_elements() -> dict[str, dict[str, ElementDefinition]]:
    """Return the elements of every type of R4 that has any, with all that is required and all codes that bind."""
    required, codes = _rules("required"), _rules("codes")
    made = {}
    for type_, own in definitions(FhirVersion.R4).items():
        stated = {*required.get(type_, ()), *R4_PRIMITIVES.get(type_, ())}
        bound = {**R4_CODES.get(type_, {}), **codes.get(type_, {})}
        made[type_] = {
            name: one._replace(required=one.required or name in stated, codes=one.codes or bound.get(name))
            for name, one in own.items()
        }
    return {type_: own for type_, own in made.items() if own}


@cache
def choices(type_: str) -> dict[str, frozenset[str]]:
    """Return the choices of a type: by stem (`onset` for `onset[x]`) the elements that exclude each other."""
    found: dict[str, set[str]] = {}
    for name, element in r4_elements().get(type_, {}).items():
        suffix = element.type[0].upper() + element.type[1:]
        if name.endswith(suffix) and name != suffix and not element.many:
            found.setdefault(name.removesuffix(suffix), set()).add(name)
    return {stem: frozenset(names) for stem, names in found.items() if len(names) > 1 and f"{type_}.{stem}" not in BOTH}


def required_choices(type_: str) -> tuple[str, ...]:
    """Return the stems of the required choices."""
    return (*R4_CHOICES.get(type_, ()), *_rules("choice").get(type_, ()))


@cache
def _rules(rule: str) -> dict[str, dict[str, frozenset[str]]]:
    """Return the table's codes of a rule by type and element."""
    found: dict[str, dict[str, frozenset[str]]] = {}
    for row in _rows():
        if row["rule"] == rule:
            found.setdefault(row["type"], {})[row["element"]] = frozenset(row["codes"].split())
    return found


def _rows() -> Iterator[dict[str, str]]:
    text = files("engine.fhir").joinpath("schemas", RULES).read_text(encoding="utf-8")
    yield from csv.DictReader(text.splitlines())

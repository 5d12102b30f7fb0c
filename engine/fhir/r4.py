"""The elements of all types of FHIR R4: its schema, and the required elements that the schema omits."""

import csv
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final

from engine.fhir.bindings import R4_CODES
from engine.fhir.required import R4_CHOICES, R4_PRIMITIVES
from engine.fhir.schema import ElementDefinition, FhirVersion, definitions

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

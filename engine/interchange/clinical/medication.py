"""The medication of a request or statement: a concept, a Medication elsewhere, or one that is contained."""

from collections.abc import Callable
from typing import Final

from engine.fhir.json import Json, JsonObject

CONCEPT: Final = "medicationCodeableConcept"
REFERENCE: Final = "medicationReference"


def medication_of(resource: JsonObject, find: Callable[[JsonObject, JsonObject], JsonObject | None]) -> JsonObject:
    """Return the CodeableConcept of what is taken, or the text of what a reference shows.

    `find` returns the resource that a reference leads to from another one, contained ones too; None for none.
    """
    if resource.get(CONCEPT):
        concept: JsonObject = resource[CONCEPT]
        return concept
    reference = resource.get(REFERENCE) or {}
    return (find(reference, resource) or {}).get("code") or {"text": reference.get("display", "")}


def with_concept(resource: JsonObject, concept: Json) -> JsonObject:
    """Return the resource with the concept in the place of its reference to a Medication."""
    rest = {name: part for name, part in resource.items() if name != REFERENCE}
    return {**rest, CONCEPT: concept}

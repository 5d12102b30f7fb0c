"""The medication of a request or statement: a concept, a Medication elsewhere, or one that is contained."""

from collections.abc import Callable
from typing import Any, Final

Json = Any

CONCEPT: Final = "medicationCodeableConcept"
REFERENCE: Final = "medicationReference"


def medication_of(resource: Json, find: Callable[[Json, Json], Json]) -> Json:
    """Return the CodeableConcept of what is taken, or the text of what a reference shows.

    `find` returns the resource that a reference leads to from another one, contained ones too; None for none.
    """
    if resource.get(CONCEPT):
        return resource[CONCEPT]
    reference = resource.get(REFERENCE) or {}
    return (find(reference, resource) or {}).get("code") or {"text": reference.get("display", "")}


def with_concept(resource: dict[str, Json], concept: Json) -> dict[str, Json]:
    """Return the resource with the concept in the place of its reference to a Medication."""
    rest = {name: part for name, part in resource.items() if name != REFERENCE}
    return {**rest, CONCEPT: concept}

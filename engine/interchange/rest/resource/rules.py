"""What a resource must be to be kept: of its type, whole, with valid values, in the chart of a patient."""

from collections.abc import Iterable
from itertools import islice

from engine.fhir.extra_constraints import MOST, Defect, DefectKind
from engine.fhir.json import Json, JsonObject
from engine.fhir.narrative import narrative_defects
from engine.fhir.schema import FhirVersion, defects
from engine.fhir.versions.names import name_in
from engine.interchange.kernel.outcome import Category, Issue, RefusedError, refuse
from engine.interchange.rest.resource.definition import SUBSCRIPTION, WHOLE, Definition
from engine.interchange.rest.resource.draft import QUESTIONNAIRE, check_items, unnamed_items
from engine.interchange.rest.resource.elements import values


def check_shape(body: Json, name: str, version: FhirVersion) -> tuple[tuple[Defect, ...], RefusedError | None]:
    """Return the missing elements, and the refusal of values in the right shape that are wrong (422), None for none.

    `name` is the type in the version. RefusedError (400): no object, another type, elements of another shape.
    """
    if not isinstance(body, dict):
        raise refuse(Category.STRUCTURE, "The body must be a JSON object.", location=name)
    if body.get("resourceType") != name:
        raise refuse(
            Category.STRUCTURE, f"The body must be a resource of type {name}.", location=f"{name}.resourceType"
        )
    found = (*defects(body, version), *islice(narrative_defects(body, name), MOST))
    misshapen = [defect for defect in found if defect.kind is DefectKind.STRUCTURE]
    if misshapen:
        raise RefusedError(Category.STRUCTURE, issues(misshapen))
    wrong = issues(defect for defect in found if defect.kind is DefectKind.VALUE)
    missing = tuple(defect for defect in found if defect.kind is DefectKind.REQUIRED)
    return missing, RefusedError(Category.INVALID, wrong) if wrong else None


def check_resource(definition: Definition, body: JsonObject, version: FhirVersion) -> RefusedError | None:
    """Raise the RefusedError (400) of a malformed or incomplete body; return, not raise, that of a wrong one (422)."""
    name = name_in(version, definition.name)
    missing, wrong = check_shape(body, name, version)
    absent = [*issues(missing), *_absent(body, definition, name)]
    if absent:
        raise RefusedError(Category.REQUIRED, tuple(dict.fromkeys(absent)))
    if wrong is None and definition.name == QUESTIONNAIRE:
        return check_items(body)
    return wrong


def issues(found: Iterable[Defect]) -> tuple[Issue, ...]:
    """Return defects as issues."""
    return tuple(
        Issue(
            f"{defect.path}: {defect.text}.", defect.path, "missing-field" if defect.kind is DefectKind.REQUIRED else ""
        )
        for defect in found
    )


def _absent(body: JsonObject, definition: Definition, name: str) -> Iterable[Issue]:
    if definition.charted:
        holder = body.get(definition.patient)
        if not (isinstance(holder, dict) and holder.get("reference")):
            path = f"{name}.{definition.patient}"
            yield Issue(f"{path}: a reference to the patient is missing.", path, "missing-field")
    if definition.name == QUESTIONNAIRE:
        yield from unnamed_items(body)
    if definition.name == SUBSCRIPTION:
        # An extension cannot replace these.
        for path in (f"{name}.{one}" for one in WHOLE if not values(body, one)):
            yield Issue(f"{path}: a required element is missing.", path, "missing-field")
    if definition.statuses and "status" not in body:
        yield Issue(f"{name}.status: a required element is missing.", f"{name}.status", "missing-field")

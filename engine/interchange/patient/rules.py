"""What a Patient must be to be kept: required elements, identifiers, valid values, references that resolve."""

from collections.abc import Iterator
from typing import Any

from engine.fhir.schema import FhirVersion, Kind, defects
from engine.interchange.outcome import Category, Issue, RefusedError

Json = Any


def check_patient(patient: Json, version: FhirVersion) -> RefusedError | None:
    """Raise the RefusedError of a malformed or incomplete body; return, not raise, that of a well-formed wrong one.

    The wrong one's turn comes after conflicts (409, 412), which only the store knows.
    """
    if not isinstance(patient, dict):
        raise _refusal(Category.STRUCTURE, [Issue("The body is no JSON object.", "Patient")])
    if patient.get("resourceType") != "Patient":
        raise _refusal(Category.STRUCTURE, [Issue("The body is no Patient.", "Patient.resourceType")])
    found = defects(patient, version)
    misshapen = [defect for defect in found if defect.kind is Kind.STRUCTURE]
    if misshapen:
        raise _refusal(Category.STRUCTURE, _issues(misshapen))
    missing = [*_missing(patient), *(_issues(defect for defect in found if defect.kind is Kind.REQUIRED))]
    if missing:
        raise _refusal(Category.REQUIRED, missing)
    wrong = [defect for defect in found if defect.kind is Kind.VALUE]
    return _refusal(Category.INVALID, _issues(wrong)) if wrong else None


def _missing(patient: dict[str, Json]) -> Iterator[Issue]:
    names = patient.get("name", [])
    if not names:
        yield _required("Patient.name")
    else:
        if not names[0].get("family"):
            yield _required("Patient.name[0].family")
        if not any(names[0].get("given", [])):
            yield _required("Patient.name[0].given")
    for element in ("gender", "birthDate"):
        if not patient.get(element):
            yield _required(f"Patient.{element}")
    for index, identifier in enumerate(patient.get("identifier", [])):
        for part in ("system", "value"):
            if not identifier.get(part):
                yield Issue(
                    "An identifier needs a system and a value.", f"Patient.identifier[{index}].{part}", "missing-field"
                )


def _required(path: str) -> Issue:
    return Issue(f"{path} is required to register a patient.", path, "missing-field")


def _issues(found: Any) -> list[Issue]:
    return [Issue(f"{defect.path}: {defect.text}.", defect.path) for defect in found]


def _refusal(category: Category, issues: list[Issue]) -> RefusedError:
    return RefusedError(category, tuple(issues))

"""The categories of a chart: the address of each, what it lists, and the shape of its items."""

from dataclasses import dataclass
from typing import Final

from engine.interchange.web.chart import clinical_tests, coded, people, records
from engine.interchange.web.chart.field import ObjectShape
from engine.interchange.web.chart.items import Listing
from engine.interchange.web.chart.items import records as listing


@dataclass(frozen=True, slots=True)
class ChartCategory:
    """One category: `type` is the FHIR type that the access log names, `title` says what it holds."""

    path: str
    title: str
    type: str
    shape: ObjectShape
    listing: Listing


def _of(path: str, title: str, shape: ObjectShape, *types: str) -> ChartCategory:
    """Return a category whose items are the records of some types."""
    return ChartCategory(path, title, types[0], shape, listing(types, shape))


CATEGORIES: Final = (
    _of("clinical-tests", "Reports of laboratory and other tests", clinical_tests.TEST, "DiagnosticReport"),
    _of("encounters", "Visits and stays", records.ENCOUNTER, "Encounter"),
    _of("problems", "Problems and diagnoses", records.PROBLEM, "Condition"),
    _of("allergies", "Allergies and intolerances", records.ALLERGY, "AllergyIntolerance"),
    _of(
        "medications",
        "Medications as ordered, and as stated",
        records.MEDICATION,
        "MedicationRequest",
        "MedicationStatement",
    ),
    _of("immunizations", "Immunizations", records.IMMUNIZATION, "Immunization"),
    _of("documents", "Documents", records.DOCUMENT, "DocumentReference"),
    ChartCategory("care-teams/members", "Who cares for the patient", "Encounter", records.MEMBER, records.members),
)
# The shapes that those of the items are made of, for the OpenAPI document.
PARTS: Final = (*coded.SHAPES, *clinical_tests.SHAPES, *records.SHAPES, *people.SHAPES)

"""The data types that resources are made of: codings, quantities, references, times."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.clinical.synthetic.codes import LOINC, SNOMED, TERMINOLOGY, UCUM

CORE: Final = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-"


def coding(system: str, code: str, display: str = "") -> JsonObject:
    """Return a Coding."""
    return {"system": system, "code": code, **({"display": display} if display else {})}


def concept(system: str, code: str, display: str, *more: JsonObject) -> JsonObject:
    """Return a CodeableConcept with its text, and further codings of the same meaning."""
    return {"coding": [coding(system, code, display), *more], "text": display}


def snomed(code: str, display: str) -> JsonObject:
    """Return a concept of SNOMED CT."""
    return concept(SNOMED, code, display)


def loinc(code: str, display: str) -> JsonObject:
    """Return a concept of LOINC."""
    return concept(LOINC, code, display)


def term(system: str, code: str, display: str = "") -> JsonObject:
    """Return a concept of HL7's terminology."""
    return {"coding": [coding(TERMINOLOGY + system, code, display)]}


def quantity(value: float, unit: str) -> JsonObject:
    """Return a Quantity in a unit of UCUM."""
    return {"value": value, "unit": unit.strip("{}"), "system": UCUM, "code": unit}


def to(resource: Mapping[str, Json], display: str = "") -> JsonObject:
    """Return a reference to a resource."""
    shown = {"display": display} if display else {}
    return {"reference": f"{resource['resourceType']}/{resource['id']}", **shown}


def instant(at: datetime) -> str:
    """Return a moment as FHIR writes it."""
    return f"{at:%Y-%m-%dT%H:%M:%S}Z"

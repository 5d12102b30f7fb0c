"""Documents written by hand for the readers: a header around sections, each with its entries."""

from typing import Any

from engine.fhir.schema import FhirVersion, defects
from engine.interchange.clinical.ccda.reading.document import read_ccda
from engine.interchange.clinical.facts import PATIENT, DocumentFacts
from engine.interchange.rest.resource.catalogue import KEPT

Json = Any

NAMESPACES = (
    'xmlns="urn:hl7-org:v3" xmlns:sdtc="urn:hl7-org:sdtc" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
)
MARISOL = (
    '<recordTarget><patientRole><id root="2.16.840.1.113883.4.1" extension="900-00-0001"/>'
    '<id root="6D8F1D4E-27C4-4E3B-9C55-0C1A1E1B2F30"/><patient>'
    '<name use="L"><given>Marisol</given><given>Ana</given><family>Quintero</family></name>'
    '<administrativeGenderCode code="F"/><birthTime value="19840229"/></patient></patientRole></recordTarget>'
)
AUTHOR = (
    '<author><time value="20250701"/><assignedAuthor><representedOrganization><name>Pine Ridge Hospital</name>'
    "</representedOrganization></assignedAuthor></author>"
)
# Code systems by a short name.
SYSTEMS = {
    "loinc": "2.16.840.1.113883.6.1",
    "snomed": "2.16.840.1.113883.6.96",
    "rxnorm": "2.16.840.1.113883.6.88",
    "cvx": "2.16.840.1.113883.12.292",
    "act": "2.16.840.1.113883.5.4",
}


def document(*sections: str, people: str = MARISOL, at: str = "20250701101500-0500", author: str = AUTHOR) -> bytes:
    """Return a document of sections."""
    body = "".join(f"<component>{one}</component>" for one in sections)
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><ClinicalDocument {NAMESPACES}>'
        '<id root="1.2.3.4" extension="doc-1"/>'
        f'<code code="34133-9" codeSystem="{SYSTEMS["loinc"]}"/><title>Summary of care</title>'
        f'<effectiveTime value="{at}"/>{people}{author}'
        f"<component><structuredBody>{body}</structuredBody></component></ClinicalDocument>"
    ).encode()


def section(code: str, *entries: str, text: str = "") -> str:
    """Return a section by its LOINC code, with the markup of its narrative."""
    body = "".join(f"<entry>{entry}</entry>" for entry in entries)
    return f'<section><code code="{code}" codeSystem="{SYSTEMS["loinc"]}"/><text>{text}</text>{body}</section>'


def coded(tag: str, code: str, system: str, more: str = "", attributes: str = "") -> str:
    """Return a coded element; `more` stands in it."""
    return f'<{tag} code="{code}" codeSystem="{SYSTEMS[system]}" {attributes}>{more}</{tag}>'


def value(code: str, system: str = "snomed", more: str = "") -> str:
    """Return the coded value of an observation."""
    return coded("value", code, system, more, 'xsi:type="CD"')


def told(*sections: str) -> list[Json]:
    """Return the resources that are read of sections, each of which must be valid."""
    return valid(read_ccda(document(*sections)))


def valid(facts: DocumentFacts) -> list[Json]:
    """Return the resources of facts after a look that each is valid and all they refer to is there."""
    names = {f"urn:uuid:{resource['id']}" for resource in facts.resources} | {PATIENT}
    assert len(names) == len(facts.resources) + 1
    for resource in facts.resources:
        holder = KEPT[resource["resourceType"]].patient
        assert not holder or holder not in resource
        assert defects({**resource, **({holder: {"reference": PATIENT}} if holder else {})}, FhirVersion.R4) == ()
        assert {name for name in references(resource) if not name.startswith("#")} <= names
    return list(facts.resources)


def references(part: Json) -> list[str]:
    """Return all references in a value; the `reference` of an Expression, which has a language, is an address."""
    if isinstance(part, dict):
        own = [part["reference"]] if isinstance(part.get("reference"), str) and "language" not in part else []
        return own + [reference for inner in part.values() for reference in references(inner)]
    return [reference for inner in part for reference in references(inner)] if isinstance(part, list) else []


def the(resources: list[Json], name: str) -> Json:
    """Return the one resource of a type, without its id."""
    found = [resource for resource in resources if resource["resourceType"] == name]
    assert len(found) == 1
    return {element: part for element, part in found[0].items() if element not in {"id", "resourceType"}}

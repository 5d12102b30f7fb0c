"""A document of another source as a DocumentReference, and all documents of an answer as a Bundle."""

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha1
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion
from engine.fhir.versions.conversion import convert
from engine.fhir.versions.direction import Direction
from engine.interchange.clinical.patient360.facts import UnreadableDocumentError
from engine.interchange.network.patient360.connectors.connector import CCDA, RequestedPatient, RetrievedDocument
from engine.interchange.network.patient360.match import matches
from engine.interchange.network.patient360.reading_bundle import read_document
from engine.interchange.store.search.date import span

URIS: Final = "urn:ietf:rfc:3986"
IHE: Final = "urn:oid:1.3.6.1.4.1.19376.1.2.3"
CCD: Final = {
    "system": IHE,
    "code": "urn:hl7-org:sdwg:ccda-structuredBody:2.1",
    "display": "C-CDA R2.1 structured body",
}


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document of the patient at a source: its stable id, and its DocumentReference (R4)."""

    id: str
    resource: JsonObject


def as_source_document(document: RetrievedDocument, subject: RequestedPatient) -> SourceDocument | None:
    """Return the DocumentReference of a document; None for an unreadable one, or another patient's.

    Takes CPU time: call it off the event loop.
    """
    try:
        facts = read_document(document)
    except UnreadableDocumentError:
        return None
    if not matches(facts.identity, subject.patient):
        return None
    number = facts.document_id or document.id
    at = next((moment for moment in (facts.at, document.at) if "T" in moment and span(moment)), "")
    organization = facts.author or document.organization
    attachment = {
        "contentType": document.media_type,
        "size": len(document.body),
        "hash": b64encode(sha1(document.body, usedforsecurity=False).digest()).decode(),
        **({"title": facts.title} if facts.title else {}),
        **({"creation": at} if at else {}),
    }
    resource: JsonObject = {
        "resourceType": "DocumentReference",
        "masterIdentifier": _identifier(number),
        "status": "current",
        **({"type": facts.type} if facts.type else {}),
        "subject": {"reference": f"Patient/{subject.id}"},
        **({"date": at} if at else {}),
        **({"author": [{"display": organization}], "custodian": {"display": organization}} if organization else {}),
        "content": [{"attachment": attachment, **({"format": CCD} if document.media_type == CCDA else {})}],
    }
    return SourceDocument(number, resource)


def _identifier(number: str) -> JsonObject:
    """Return the id of a document, a URI or `system|value`, as an Identifier."""
    system, _, value = number.rpartition("|")
    system = system or (URIS if ":" in value else "")
    return {**({"system": system} if system else {}), "value": value}


def as_bundle(
    bundle_id: str,
    address: str,
    subject: RequestedPatient,
    documents: Iterable[SourceDocument],
    failed: Iterable[str],
    version: FhirVersion,
) -> JsonObject:
    """Return documents as a searchset, each once; the texts of `failed` sources are in an outcome at the end."""
    resources = {document.id: document.resource for document in documents}
    entries = [
        {
            "fullUrl": f"urn:uuid:{uuid5(NAMESPACE_URL, f'{subject.id}/{number}')}",
            "resource": convert(resource, Direction.TO_STU3) if version is FhirVersion.STU3 else resource,
            "search": {"mode": "match"},
        }
        for number, resource in resources.items()
    ]
    issues = [{"severity": "warning", "code": "incomplete", "diagnostics": text} for text in failed]
    if issues:
        outcome = {"resourceType": "OperationOutcome", "issue": issues}
        entries.append({"resource": outcome, "search": {"mode": "outcome"}})
    bundle = {"resourceType": "Bundle", "id": bundle_id, "type": "searchset", "total": len(resources)}
    return {**bundle, "link": [{"relation": "self", "url": f"{address}?patient={subject.id}"}], "entry": entries}

"""$cq-search: the documents that other sources have of a patient, as a searchset that is not stored."""

import asyncio
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
from engine.interchange.clinical.facts import UnreadableDocumentError
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, RequiredAccess
from engine.interchange.core.service import Service
from engine.interchange.jobs.asking import ask
from engine.interchange.jobs.job import JobFailedError, JobResult, Report
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import Category, Issue, RefusedError, refuse, unsupported
from engine.interchange.network.patient360.connectors.configured import connectors_of
from engine.interchange.network.patient360.connectors.connector import (
    CCDA,
    DocumentSource,
    RequestedPatient,
    RetrievedDocument,
    reason_of,
    subject_of,
)
from engine.interchange.network.patient360.match import matches
from engine.interchange.network.patient360.reading_bundle import read_document
from engine.interchange.rest.everything import SCOPES
from engine.interchange.rest.resource.context import outside_compartment
from engine.interchange.store.job import AsyncJob
from engine.interchange.store.references import local_target, relative
from engine.interchange.store.search.date import span
from engine.interchange.store.search.page import FORMAT
from engine.interchange.store.transaction import Transaction
from engine.interchange.tokens.role import RoleRule

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


KIND: Final = "cq-search"
NO_SOURCES: Final = "The tenant has no source to ask: name some in its connectors, or let a sandbox invent (mocked)."
# The limit for a source that exceeds its own limit.
LONGEST_SECONDS: Final = 3600.0


async def search(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer $cq-search: 200 with the Bundle if the sources were fast, else 202 with a handle.

    RefusedError: 400 without a patient, 404, 410, and 422 if all sources have failed meanwhile.
    """
    patient = requested_patient(service, request)
    wait = 0 if request.prefer.respond_async else service.configuration.cq.sync_wait_s
    answer = await ask(service, request, KIND, patient, {}, wait)
    return HttpAnswer(answer.status, answer.body, answer.headers, patients=(patient,))


async def work(service: Service, job: AsyncJob, report: Report) -> JobResult:
    """Search all sources of the tenant at once; JobFailedError if all of them fail."""

    def look(transaction: Transaction) -> JsonObject:
        stored = transaction.get("Patient", live_patient(transaction, job.patient))
        return stored.resource() if stored is not None else {}

    subject = subject_of(job.tenant, service.store.read(job.tenant, look))
    sources = connectors_of(service, job.tenant)
    if not sources:
        raise JobFailedError(Issue(NO_SOURCES, "http"))
    await report({"sourcesTotal": len(sources)})
    results = await asyncio.gather(*(_search(source, subject) for source in sources))
    failed = [text for _, text in results if text]
    if len(failed) == len(sources):
        raise JobFailedError(*(Issue(text, "http") for text in failed))
    documents = [document for found, _ in results for document in found]
    await report({"sourcesTotal": len(sources), "sourcesFailed": len(failed), "documentsFound": len(documents)})
    address = f"{service.base(job.version)}/DocumentReference/${KIND}"
    bundle = as_bundle(service.new_id(), address, subject, documents, failed, job.version)
    return JobResult(await asyncio.to_thread(write_json, bundle))


async def _search(source: DocumentSource, subject: RequestedPatient) -> tuple[list[SourceDocument], str]:
    """Return the patient's documents at a source, and the reason if it failed, else ''."""
    documents: list[SourceDocument] = []
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            async for document in source.retrieve(subject):
                converted = await asyncio.to_thread(as_source_document, document, subject)
                if converted is not None:
                    documents.append(converted)
    except Exception as error:  # noqa: BLE001 - any error fails this source only
        return [], reason_of(source, error)
    return documents, ""


def requested_patient(service: Service, request: FhirRequest) -> str:
    """Return the id of the live patient that a request names; RefusedError 400, 403, 404 or 410.

    An instance of Patient or DocumentReference names one itself; the query and the body must then name the same.
    """
    base_url = service.configuration.base_url
    named = {_id(value, base_url) for value in (*_in_query(request), *_in_body(request.body))}

    def look(transaction: Transaction) -> str:
        if request.id:
            named.add(request.id if request.type == "Patient" else _of_document(transaction, request))
        if len(named) != 1:
            category = Category.BAD_VALUE if named else Category.REQUIRED
            text = "Different patients are named." if named else "Name the patient by the parameter patient."
            raise refuse(category, text, location="http.patient")
        [patient] = named
        if request.within and patient not in request.within:
            raise outside_compartment()
        return live_patient(transaction, patient)

    return service.store.read(request.principal.tenant, look)


def live_patient(transaction: Transaction, patient: str) -> str:
    """Return the id of a live patient; RefusedError: 404 for an unknown one, 410 once deleted or merged away."""
    status = transaction.standing("Patient", patient)
    if status is None:
        raise refuse(Category.NOT_FOUND, f"Patient/{patient[:64]} does not exist.", location="http.patient")
    if status.survivor:
        text = f"Patient/{patient} was merged into Patient/{status.survivor}; ask for that one."
        raise refuse(Category.DELETED, text, location="http.patient", detail="already-merged")
    if status.survivor is not None:
        raise refuse(Category.DELETED, f"Patient/{patient} was deleted.", location="http.patient")
    return patient


def _in_query(request: FhirRequest) -> list[str]:
    unknown = next((name for name, _ in request.query if name != "patient" and name not in FORMAT), None)
    if unknown is not None:
        raise unsupported(unknown)
    return [value for name, value in request.query if name == "patient"]


def _in_body(body: JsonObject) -> list[str]:
    """Return the values of `patient` in a Parameters: a reference, or an id."""
    if body is None or body == {}:
        return []
    parameters = body.get("parameter", []) if isinstance(body, dict) else None
    if not isinstance(parameters, list) or body.get("resourceType") != "Parameters":
        raise _bad("Send a Parameters resource.")
    patients = []
    for part in parameters:
        if not isinstance(part, dict) or part.get("name") != "patient":
            raise _bad("The only parameter is patient.")
        reference = part.get("valueReference")
        value = reference.get("reference") if isinstance(reference, dict) else None
        value = value or part.get("valueString") or part.get("valueId") or part.get("valueUri")
        if not isinstance(value, str):
            raise _bad("patient is a valueReference, or an id as valueString.")
        patients.append(value)
    return patients


def _id(value: str, base_url: str) -> str:
    reference = relative(value, base_url) or ""
    type_name, slash, patient = local_target(reference).rpartition("/")
    if not patient or type_name not in {"", "Patient"} or (slash and not type_name):
        raise refuse(Category.BAD_VALUE, "patient is an id, or Patient/ and an id.", location="http.patient")
    return patient


def _of_document(transaction: Transaction, request: FhirRequest) -> str:
    stored = transaction.get(request.type, request.id)
    if stored is None:
        raise refuse(Category.NOT_FOUND, f"{request.type}/{request.id[:64]} does not exist.", location="http.id")
    if stored.deleted:
        raise refuse(Category.DELETED, f"{request.type}/{stored.id} was deleted.", location="http.id")
    return str(stored.resource()["subject"]["reference"]).removeprefix("Patient/")


def _bad(text: str) -> RefusedError:
    return refuse(Category.BAD_VALUE, text, location="Parameters.parameter")


# By GET with a query or by POST with Parameters, on the type or on an instance.
INTERACTIONS: Final = tuple(
    Interaction(
        type_name,
        KIND,
        level,
        method,
        RequiredAccess.READ,
        RoleRule.CHART,
        search,
        operation=f"${KIND}",
        versions=(FhirVersion.R4, FhirVersion.STU3),
        flags=flags,
    )
    for type_name, flags in (("DocumentReference", frozenset[str]()), ("Patient", SCOPES))
    for level in (InteractionLevel.TYPE, InteractionLevel.INSTANCE)
    for method in ("GET", "POST")
)

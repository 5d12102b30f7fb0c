"""$cq-search: the documents that other sources have of a patient, as a searchset of which nothing is kept."""

import asyncio
from typing import Final

from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, RequiredAccess
from engine.interchange.core.service import Service
from engine.interchange.jobs.asking import ask
from engine.interchange.jobs.job import JobFailedError, JobResult, Report
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import Issue
from engine.interchange.network.document.asked import live_patient, patient_asked
from engine.interchange.network.document.source_document import SourceDocument, as_bundle, found_in
from engine.interchange.network.patient360.connectors.configured import connectors_of
from engine.interchange.network.patient360.connectors.connector import (
    DocumentSource,
    RequestedPatient,
    reason_of,
    subject_of,
)
from engine.interchange.rest.everything.operation import SCOPES
from engine.interchange.store.job import AsyncJob
from engine.interchange.store.transaction import Transaction
from engine.interchange.tokens.oauth.role import RoleRule

KIND: Final = "cq-search"
NO_SOURCES: Final = "The tenant has no source to ask: name some in its connectors, or let a sandbox invent (mocked)."
# A source has a limit of its own; one that does not keep to it ends with this.
LONGEST_SECONDS: Final = 3600.0


async def search(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer $cq-search: 200 with the Bundle where the sources were fast, else 202 with a handle.

    RefusedError: 400 without a patient, 404, 410, and 422 where all sources have failed meanwhile.
    """
    patient = patient_asked(service, request)
    wait = 0 if request.prefer.respond_async else service.configuration.cq.sync_wait_s
    answer = await ask(service, request, KIND, patient, {}, wait)
    return HttpAnswer(answer.status, answer.body, answer.headers, patients=(patient,))


async def work(service: Service, job: AsyncJob, report: Report) -> JobResult:
    """Ask every source of the tenant, all at once, and return what they have; JobFailedError where none answers."""

    def look(transaction: Transaction) -> JsonObject:
        stored = transaction.get("Patient", live_patient(transaction, job.patient))
        return stored.resource() if stored is not None else {}

    subject = subject_of(job.tenant, service.store.read(job.tenant, look))
    sources = connectors_of(service, job.tenant)
    if not sources:
        raise JobFailedError(Issue(NO_SOURCES, "http"))
    await report({"sourcesTotal": len(sources)})
    asked = await asyncio.gather(*(_asked(one, subject) for one in sources))
    failed = [text for _, text in asked if text]
    if len(failed) == len(sources):
        raise JobFailedError(*(Issue(text, "http") for text in failed))
    documents = [one for own, _ in asked for one in own]
    await report({"sourcesTotal": len(sources), "sourcesFailed": len(failed), "documentsFound": len(documents)})
    address = f"{service.base(job.version)}/DocumentReference/${KIND}"
    bundle = as_bundle(service.new_id(), address, subject, documents, failed, job.version)
    return JobResult(await asyncio.to_thread(write_json, bundle))


async def _asked(source: DocumentSource, subject: RequestedPatient) -> tuple[list[SourceDocument], str]:
    """Return what one source has of the patient, and why it failed, '' where it did not."""
    found: list[SourceDocument] = []
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            async for document in source.retrieve(subject):
                known = await asyncio.to_thread(found_in, document, subject)
                if known is not None:
                    found.append(known)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this source's, and the others are shown
        return [], reason_of(source, error)
    return found, ""


# By GET and, with the same in a Parameters, by POST; of all documents, or of the patient whose one document is.
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

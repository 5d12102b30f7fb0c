"""Patient/{id}/$export-ccda: a patient's chart as a CCD, by a job with a temporary link, in R4 also at once."""

import asyncio
from dataclasses import replace
from datetime import datetime
from functools import lru_cache, partial
from hashlib import sha256
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion
from engine.interchange.clinical.ccda.apart import carry_out, order_of
from engine.interchange.clinical.ccda.record import Custodian
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, RequiredAccess
from engine.interchange.core.service import Service
from engine.interchange.jobs.asking import ask
from engine.interchange.jobs.job import JobResult, Report
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import Category, refuse, unsupported
from engine.interchange.rest.binary.content import Content, raw_answer
from engine.interchange.rest.binary.temporary import LIFE, new_temporary
from engine.interchange.rest.everything import SCOPES, ChartPart, chart_keys, find_patient, records
from engine.interchange.store import temporary
from engine.interchange.store.job import AsyncJob
from engine.interchange.store.parameters import as_query
from engine.interchange.store.search.page import FORMAT, Pairs
from engine.interchange.store.transaction import Transaction
from engine.interchange.tokens.role import RoleRule

ZONE: Final = "tz"
USUAL: Final = "UTC"


def read_zone(query: Pairs) -> str:
    """Return the name of the time zone that a query asks for, UTC by default; RefusedError (400) for anything else."""
    given = [value for name, value in query if name == ZONE]
    unknown = next((name for name, _ in query if name not in {ZONE, *FORMAT}), None)
    if unknown is not None:
        raise unsupported(unknown, f"; $export-ccda takes {ZONE} and _format")
    if len(given) > 1:
        raise refuse(Category.BAD_VALUE, f"{ZONE} is given more than once.", location=f"http.{ZONE}")
    name = given[0] if given else USUAL
    if find_zone(name) is None:
        text = f"{ZONE} is the name of a time zone, such as America/Los_Angeles."
        raise refuse(Category.BAD_VALUE, text, location=f"http.{ZONE}")
    return name


@lru_cache(maxsize=128)
def find_zone(name: str) -> ZoneInfo | None:
    """Return a time zone by its name in the IANA database; None for one that is not there."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # A name may also be that of a folder, or of a file that is no zone.
        return None


KIND: Final = "export-ccda"
MEDIA_TYPE: Final = "application/xml"
LINKED_TYPE: Final = "text/xml"
FORMAT_CODE: Final = {
    "system": "urn:oid:1.3.6.1.4.1.19376.1.2.3",
    "code": "urn:hl7-org:sdwg:ccda-structuredBody:2.1",
    "display": "C-CDA R2.1 structured body (CCD)",
}
ALL: Final = ChartPart()
# Number of resources that one statement reads.
PART: Final = 500


async def export(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer GET (STU3) or POST (R4) /Patient/{id}/$export-ccda: 202 with the handle of a job.

    Without `Prefer: respond-async` R4 has the document at once (200), and STU3 is refused (400).
    """
    zone = read_zone(request.query)
    if not request.prefer.respond_async and request.version is FhirVersion.STU3:
        text = "The export takes its time: ask for it with 'Prefer: respond-async'."
        raise refuse(Category.UNSUPPORTED, text, location="http.Prefer")
    tenant = request.principal.tenant
    patient = service.store.read(tenant, partial(find_patient, patient_id=request.id))
    if request.prefer.respond_async:
        return await ask(service, request, KIND, patient.id, {ZONE: zone})
    body = await _document(service, tenant, patient.id, zone, service.new_id())
    return raw_answer(Content(MEDIA_TYPE, body, (patient.id,)), ())


async def export_by_post(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer POST /Patient/{id}/$export-ccda: the parameters of address and body together; there need be no body."""
    parameters = as_query(request.body) if request.body is not None else ()
    return await export(service, replace(request, query=(*request.query, *parameters)))


async def work(service: Service, job: AsyncJob, report: Report) -> JobResult:
    """Make the document that a job asks for; its Binary is there once the job has ended, for an hour."""
    await report({"step": "reading the chart"})
    body = await _document(service, job.tenant, job.patient, str(job.asked[ZONE]), job.id)
    # In whole seconds, as in the answer.
    until = (service.clock() + LIFE).replace(microsecond=0)
    document = new_temporary(body, LINKED_TYPE, until, patient=job.patient)
    url = f"{service.base(job.version)}/Binary/{document.id}"
    answer = _document_parameters(url, len(body), sha256(body).hexdigest(), until)
    return JobResult(write_json(answer), lambda transaction: temporary.keep(transaction, document))


def _document_parameters(url: str, size: int, checksum: str, until: datetime) -> JsonObject:
    return {
        "resourceType": "Parameters",
        "parameter": [
            {"name": "url", "valueString": url},
            {"name": "contentType", "valueString": LINKED_TYPE},
            {"name": "format", "valueCoding": FORMAT_CODE},
            {"name": "size", "valuePositiveInt": size},
            {"name": "checksum", "valueString": checksum},
            {"name": "expiredAt", "valueDateTime": until.isoformat()},
        ],
    }


async def _document(service: Service, tenant: str, patient_id: str, zone: str, document_id: str) -> bytes:
    """Return the document of a patient's chart as it is now; neither is read nor written on the loop."""
    at, keeper = service.clock(), custodian(service, tenant)

    def make() -> bytes:
        bodies = service.store.read(tenant, partial(kept_chart, patient_id=patient_id))
        return carry_out(order_of(bodies, document_id=document_id, at=at, zone=zone, custodian=keeper))

    async with service.documents:
        return await asyncio.to_thread(make)


def kept_chart(transaction: Transaction, patient_id: str) -> list[bytes]:
    """Return the resources of a chart as they are kept, the patient first."""
    patient = find_patient(transaction, patient_id)
    keys = chart_keys(transaction, patient, ALL)
    parts = [keys[at : at + PART] for at in range(0, len(keys), PART)]
    return [record.body for part in parts for record in records(transaction, patient, part)]


def custodian(service: Service, tenant: str) -> Custodian:
    """Return who keeps the charts of a tenant, as it is configured; by default it has the tenant's name."""
    organization = service.tenant(tenant).organization
    identifiers = [{"system": system, "value": value} for system, value in organization.identifiers]
    telecom = [{"system": "phone", "use": "work", "value": organization.telephone}] if organization.telephone else []
    postal = {
        "line": [organization.street] if organization.street else [],
        "city": organization.city,
        "state": organization.state,
        "postalCode": organization.postal_code,
        "country": organization.country,
    }
    address = f"{service.configuration.base_url}/{tenant}"
    return Custodian(organization.name or tenant, address, identifiers, telecom, postal if organization.city else None)


INTERACTIONS: Final = tuple(
    Interaction(
        "Patient",
        KIND,
        InteractionLevel.INSTANCE,
        method,
        RequiredAccess.READ,
        RoleRule.CHART,
        run,
        operation=f"${KIND}",
        versions=(version,),
        flags=SCOPES,
        document=version is FhirVersion.R4,
        bodiless=version is FhirVersion.R4,
    )
    for version, method, run in ((FhirVersion.STU3, "GET", export), (FhirVersion.R4, "POST", export_by_post))
)

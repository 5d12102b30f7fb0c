"""Events of exchange networks (a query, a document of a patient), and the test hook that acts as a network.

They come from a connector to a network; in a sandbox from a test, by `/_test/network-query` and `/_test/document`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Final

from engine.config.service import Tenant
from engine.fhir.json import JsonObject
from engine.interchange.core.service import Service
from engine.interchange.events.alerts.event_patient import (
    CLINICAL_ALERT,
    LEADING_INDICATOR,
    alert,
    enrolled,
    find_visit,
    is_of,
    last_visit,
    living,
    with_visit,
)
from engine.interchange.store.transaction import StoredVersion, Transaction

TREATMENT: Final = "TREATMENT"


class NetworkProtocol(StrEnum):
    """The transaction of a query (ITI-55, ITI-38)."""

    PATIENT_DISCOVERY = "patient-discovery"
    DOCUMENT_QUERY = "document-query"


@dataclass(frozen=True, slots=True)
class NetworkQuery:
    """A query by another organization about a patient; `purpose` is its purpose of use."""

    patient: str
    exchange: NetworkProtocol
    purpose: str
    network: str
    organization: str
    at: datetime


@dataclass(frozen=True, slots=True)
class NetworkDocument:
    """A document of a patient at another organization; `encounter` is the id of the visit, '' for the latest one."""

    patient: str
    purpose: str
    network: str
    organization: str
    at: datetime
    encounter: str = ""


async def queried(service: Service, tenant: str, query: NetworkQuery) -> bool:
    """Raise an alert on a query if the tenant wants it and the patient is enrolled; True if it was raised."""
    settings = service.tenant(tenant)
    licensed = query.network.casefold() in {one.casefold() for one in settings.licensed_networks}
    if not (settings.leading_indicator and licensed and _concerns(settings, tenant, query)):
        return False
    return await service.store.write(tenant, partial(_alert_query, settings, query))


async def available(service: Service, tenant: str, document: NetworkDocument) -> bool:
    """Raise an alert on a document if the patient is enrolled; True if it was raised."""
    settings = service.tenant(tenant)
    if not (settings.clinical_alerts.enabled and _concerns(settings, tenant, document)):
        return False
    return await service.store.write(tenant, partial(_alert_document, settings, document))


def _concerns(settings: Tenant, tenant: str, seen: NetworkQuery | NetworkDocument) -> bool:
    """True if the purpose of use is treatment and the organization is another one."""
    own = {one.casefold() for one in (settings.organization.name, tenant) if one}
    return seen.purpose.upper() == TREATMENT and seen.organization.casefold() not in own


def _alert_query(settings: Tenant, query: NetworkQuery, transaction: Transaction) -> bool:
    patient = _enrolled(settings, transaction, query.patient)
    if patient is None:
        return False
    protocol = {"name": "transaction", "valueCode": str(query.exchange)}
    alert(transaction, LEADING_INDICATOR, patient.id, protocol, *_source(query))
    return True


def _alert_document(settings: Tenant, document: NetworkDocument, transaction: Transaction) -> bool:
    patient = _enrolled(settings, transaction, document.patient)
    if patient is None:
        return False
    visit = _visit(transaction, document.encounter, patient)
    alert(transaction, CLINICAL_ALERT, patient.id, *_source(document), *with_visit(visit))
    return True


def _source(seen: NetworkQuery | NetworkDocument) -> tuple[dict[str, str], ...]:
    return (
        {"name": "network", "valueString": seen.network},
        {"name": "purposeOfUse", "valueCode": seen.purpose.upper()},
        {"name": "organization", "valueString": seen.organization},
        {"name": "occurred", "valueDateTime": seen.at.isoformat(timespec="seconds")},
    )


def _enrolled(settings: Tenant, transaction: Transaction, patient_id: str) -> StoredVersion | None:
    """Return an enrolled patient, the survivor after a merge; None for any other."""
    patient = living(transaction, patient_id)
    if patient is None or not enrolled(transaction, settings.clinical_alerts.enrollment, patient.id):
        return None
    return patient


def _visit(transaction: Transaction, encounter_id: str, patient: StoredVersion) -> StoredVersion | None:
    """Return the visit of this id if it is the patient's, the patient's latest visit for ''."""
    if not encounter_id:
        return last_visit(transaction, patient)
    visit = find_visit(transaction, encounter_id)
    return visit if visit is not None and is_of(visit, patient) else None


TENANTS_OF: Final = (
    "SELECT tenant.name FROM resource JOIN tenant ON tenant.number=resource.tenant"
    " WHERE resource.type='Patient' AND resource.id=?"
)
SOURCE: Final = ("purpose", "network", "organization")


class NetworkHookError(ValueError):
    """The request of a test is malformed."""


async def network_query(service: Service, body: JsonObject) -> JsonObject:
    """Simulate a network query; `told` in the answer is whether an alert was raised.

    `{"patient": id, "transaction": "patient-discovery" or "document-query", "purpose": "treatment", "network": name,
    "organization": name}`, optionally `tenant` and `at`. NetworkHookError for a malformed request.
    """
    patient, source, at = _read(service, body)
    protocols = [protocol for protocol in NetworkProtocol if protocol == body.get("transaction")]
    if not protocols:
        raise NetworkHookError(f"transaction is one of {', '.join(NetworkProtocol)}")
    query = NetworkQuery(patient, protocols[0], *source, at)
    return {"status": "done", "told": await queried(service, _tenant(service, body, patient), query)}


async def network_document(service: Service, body: JsonObject) -> JsonObject:
    """Simulate a document that becomes available; `told` in the answer is whether an alert was raised.

    The request is that of a query without `transaction`; `encounter` is the id of the document's visit.
    """
    patient, source, at = _read(service, body)
    document = NetworkDocument(patient, *source, at, str(body.get("encounter", "")).removeprefix("Encounter/"))
    return {"status": "done", "told": await available(service, _tenant(service, body, patient), document)}


def _read(service: Service, body: JsonObject) -> tuple[str, tuple[str, str, str], datetime]:
    if not isinstance(body, dict) or not isinstance(body.get("patient"), str):
        raise NetworkHookError("name the patient: an id")
    missing = [name for name in SOURCE if not isinstance(body.get(name), str)]
    if missing:
        raise NetworkHookError(f"missing: {', '.join(missing)}")
    try:
        at = datetime.fromisoformat(body["at"]) if "at" in body else service.clock()
    except (TypeError, ValueError) as error:
        raise NetworkHookError("at is a moment: 2025-07-01T10:02:11+00:00") from error
    purpose, network, organization = (body[name] for name in SOURCE)
    return body["patient"].removeprefix("Patient/"), (purpose, network, organization), at


def _tenant(service: Service, body: JsonObject, patient: str) -> str:
    named = body.get("tenant")
    if named is None:
        tenants = [name for (name,) in service.store.reader().execute(TENANTS_OF, (patient,))]
        if len(tenants) != 1:
            raise NetworkHookError("no tenant has this patient, or several: name the tenant")
        named = tenants[0]
    if named not in service.configuration.tenants:
        raise NetworkHookError("there is no such tenant")
    return str(named)


HOOKS: Final[dict[str, Callable[[Service, JsonObject], Awaitable[JsonObject]]]] = {
    "network-query": network_query,
    "document": network_document,
}

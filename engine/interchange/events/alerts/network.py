"""Events of exchange networks: another organization queries a patient, or has a document of one.

They come from a connector to a network; in a sandbox from a test, by `/_test/network-query` and `/_test/document`.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Final

from engine.config.service import Tenant
from engine.interchange.core.service import Service
from engine.interchange.events.alerts.alert import CLINICAL_ALERT, LEADING_INDICATOR, alert, with_visit
from engine.interchange.events.alerts.event_patient import enrolled, find_visit, is_of, last_visit, living
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

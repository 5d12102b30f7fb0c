"""What exchange networks say of patients: another organization looks for one, or has a document of one.

A connector to a network hands these over; in a sandbox a test does, by `/_test/network-query` and `/_test/document`.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Final

from engine.config.service import Tenant
from engine.interchange.core.service import Service
from engine.interchange.events.alerts.alert import CLINICAL_ALERT, LEADING_INDICATOR, alert, with_visit
from engine.interchange.events.alerts.patient_compartment import find_visit, is_of, last_visit, living
from engine.interchange.events.alerts.roster import enrolled
from engine.interchange.store.transaction import StoredVersion, Transaction

TREATMENT: Final = "TREATMENT"


class NetworkProtocol(StrEnum):
    """How an organization asked (ITI-55, ITI-38)."""

    PATIENT_DISCOVERY = "patient-discovery"
    DOCUMENT_QUERY = "document-query"


@dataclass(frozen=True, slots=True)
class NetworkQuery:
    """Another organization asked for a patient; `purpose` is the purpose of use that it gave."""

    patient: str
    exchange: NetworkProtocol
    purpose: str
    network: str
    organization: str
    at: datetime


@dataclass(frozen=True, slots=True)
class NetworkDocument:
    """Another organization has a document of a patient; `encounter` is the id of the visit, '' for the latest one."""

    patient: str
    purpose: str
    network: str
    organization: str
    at: datetime
    encounter: str = ""


async def queried(service: Service, tenant: str, query: NetworkQuery) -> bool:
    """Tell of a query, where the tenant wants it and the patient is enrolled; say whether it is told of."""
    settings = service.tenant(tenant)
    licensed = query.network.casefold() in {one.casefold() for one in settings.licensed_networks}
    if not (settings.leading_indicator and licensed and _concerns(settings, tenant, query)):
        return False
    return await service.store.write(tenant, partial(_tell_query, settings, query))


async def available(service: Service, tenant: str, document: NetworkDocument) -> bool:
    """Tell of a document that others have, where the patient is enrolled; say whether it is told of."""
    settings = service.tenant(tenant)
    if not (settings.clinical_alerts.enabled and _concerns(settings, tenant, document)):
        return False
    return await service.store.write(tenant, partial(_tell_document, settings, document))


def _concerns(settings: Tenant, tenant: str, seen: NetworkQuery | NetworkDocument) -> bool:
    """Say whether something was asked for treatment, and by somebody else."""
    own = {one.casefold() for one in (settings.organization.name, tenant) if one}
    return seen.purpose.upper() == TREATMENT and seen.organization.casefold() not in own


def _tell_query(settings: Tenant, query: NetworkQuery, transaction: Transaction) -> bool:
    patient = _enrolled(settings, transaction, query.patient)
    if patient is None:
        return False
    asked = {"name": "transaction", "valueCode": str(query.exchange)}
    alert(transaction, LEADING_INDICATOR, patient.id, asked, *_source(query))
    return True


def _tell_document(settings: Tenant, document: NetworkDocument, transaction: Transaction) -> bool:
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
    """Return a patient, or the survivor, who is enrolled; None for anybody else."""
    found = living(transaction, patient_id)
    if found is None or not enrolled(transaction, settings.clinical_alerts.enrollment, found.id):
        return None
    return found


def _visit(transaction: Transaction, encounter_id: str, patient: StoredVersion) -> StoredVersion | None:
    """Return the visit of this id if it is the patient's, the patient's latest one where none is named."""
    if not encounter_id:
        return last_visit(transaction, patient)
    found = find_visit(transaction, encounter_id)
    return found if found is not None and is_of(found, patient) else None

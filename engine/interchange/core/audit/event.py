"""A row of the access log as AuditEvent (R4)."""

from datetime import timedelta
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.core.audit.entry import ENTRY
from engine.interchange.store.access import AccessRow, Logged
from engine.interchange.store.transaction import EPOCH

DICOM: Final = "http://dicom.nema.org/resources/ontology/DCM"
EVENT_TYPE: Final = {
    "system": "http://terminology.hl7.org/CodeSystem/audit-event-type",
    "code": "rest",
    "display": "RESTful Operation",
}
SUBTYPES: Final = "http://hl7.org/fhir/restful-interaction"
ENTITY_TYPES: Final = "http://terminology.hl7.org/CodeSystem/audit-entity-type"
ENTITY_ROLES: Final = "http://terminology.hl7.org/CodeSystem/object-role"
PERSON: Final = {"system": ENTITY_TYPES, "code": "1", "display": "Person"}
RECORD: Final = {"system": ENTITY_TYPES, "code": "2", "display": "System Object"}
PATIENT: Final = {"system": ENTITY_ROLES, "code": "1", "display": "Patient"}
OBJECT: Final = {"system": ENTITY_ROLES, "code": "3", "display": "Report"}
# Action by interaction; others are Execute.
ACTIONS: Final = {
    "read": "R",
    "read-temporary": "R",
    "vread": "R",
    "history-instance": "R",
    "history-type": "R",
    "search-type": "E",
    "create": "C",
    "update": "U",
    "patch": "U",
    "delete": "D",
}
# AuditEvent.outcome: success, minor failure (client), serious failure (service).
OUTCOMES: Final = {"done": "0", "refused": "4", "failed": "8"}
IP_ADDRESS: Final = "2"


def audit_event(row: Logged, observer: str) -> JsonObject:
    """Return a row as AuditEvent; `observer` is the address of the service."""
    access = row.access
    moment = (EPOCH + timedelta(milliseconds=access.at_ms)).isoformat(timespec="milliseconds")
    return {
        "resourceType": "AuditEvent",
        "id": str(row.seq),
        "meta": {"versionId": "1", "lastUpdated": moment},
        "type": EVENT_TYPE,
        "subtype": [{"system": SUBTYPES, "code": access.interaction}],
        "action": ACTIONS.get(access.interaction, "E"),
        "recorded": moment,
        "outcome": OUTCOMES[access.outcome],
        "agent": _agents(access),
        "source": {"observer": {"display": observer}},
        "entity": [_subject(access), *_patients(access)],
    }


def _agents(access: AccessRow) -> list[JsonObject]:
    network = {"network": {"address": access.address, "type": IP_ADDRESS}} if access.address else {}
    role = {"role": [{"text": access.role}]} if access.role else {}
    client = {"altId": access.client, "requestor": not access.login, **({} if access.login else role), **network}
    if not access.login:
        return [client]
    return [{"altId": access.login, "requestor": True, **role, **network}, client]


def _subject(access: AccessRow) -> JsonObject:
    """Return AuditEvent.entity of the request: resource or type, with base, request id, Bundle entry and status."""
    name = f"{access.type}/{access.id}" if access.id else access.type
    request, _, number = access.request.partition(ENTRY)
    details = {
        "base": access.base,
        "request": request,
        "entry": f"Bundle.entry[{number}]" if number else "",
        "status": str(access.status) if access.status else "",
    }
    detail = [{"type": key, "valueString": value} for key, value in details.items() if value]
    return {"name": name, "type": RECORD, "role": OBJECT, **({"detail": detail} if detail else {})}


def _patients(access: AccessRow) -> list[JsonObject]:
    return [
        {"what": {"reference": f"Patient/{one}"}, "type": PERSON, "role": PATIENT} for one in access.patients.split()
    ]

"""Patient create; and what update shares with it: the service's identifier, uniqueness, the duplicate limit."""

from collections.abc import Callable

from engine.fhir.json import JsonObject
from engine.interchange.core.exchange import FhirRequest, HttpAnswer
from engine.interchange.core.reply import written_answer
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.rest.patient.index import CONDITIONAL, DEMOGRAPHICS, IDENTIFIER, demographics, is_record_number
from engine.interchange.rest.patient.rules import check_patient
from engine.interchange.rest.resource.draft import DraftResource, read_draft
from engine.interchange.rest.resource.precondition import match_condition, parse_condition
from engine.interchange.store.transaction import StoredVersion, Transaction, VersionMethod
from engine.interchange.tokens.oauth.rights import may_see


async def create(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer POST /Patient: 201; with If-None-Exist 200 for one match and 412 for several.

    Look-up and insert are one transaction.
    """
    condition = parse_condition(request, CONDITIONAL, service.configuration.base_url)
    draft = await read_draft(service, request, check_patient)
    insert = creator(service, request, draft, service.new_id())

    def work(transaction: Transaction) -> tuple[int, StoredVersion]:
        match = match_condition(transaction, condition)
        return (200, match) if match else (201, insert(transaction, None))

    status, stored = await service.store.write(request.principal.tenant, work)
    # The match of a condition is shown only to those who may read it.
    seen = status == 201 or may_see(service.configuration, request.principal, request.type, own=bool(request.within))
    return written_answer(status, stored, request, location=True, seen=seen)


def with_global_id(patient: JsonObject, patient_id: str, system: str) -> JsonObject:
    """Return a Patient with the service's own identifier; a client's value for it does not count."""
    others = [one for one in patient.get("identifier", []) if one.get("system") != system]
    return {**patient, "identifier": [*others, {"system": system, "value": patient_id}]}


def check_record_numbers(transaction: Transaction, patient: JsonObject, own_key: int | None) -> None:
    """Refuse an external medical record number that another live patient carries, or that is reserved for one."""
    for index, identifier in enumerate(patient.get("identifier", [])):
        if not is_record_number(identifier):
            continue
        holders = transaction.record_number_holders(IDENTIFIER, identifier["system"], identifier["value"])
        if any(key != own_key for key in holders):
            raise refuse(
                Category.DUPLICATE,
                "The medical record number belongs to another patient.",
                location=f"Patient.identifier[{index}]",
                detail="duplicate-mrn",
            )


def check_duplicates(transaction: Transaction, patient: JsonObject, limit: int) -> None:
    """Refuse one more patient with the same demographics once there are `limit` of them."""
    if transaction.count_token(DEMOGRAPHICS, demographics(patient)) >= limit:
        raise refuse(
            Category.DUPLICATE,
            f"{limit} patients with the same demographics already exist;"
            " send 'Prefer: create-always' to create another.",
            location="Patient",
            detail="duplicate-patient-limit",
        )


def creator(
    service: Service,
    request: FhirRequest,
    draft: DraftResource,
    patient_id: str,
    change: VersionMethod = VersionMethod.POST,
) -> Callable[[Transaction, StoredVersion | None], StoredVersion]:
    """Return the work that creates a Patient, or brings back a deleted one: conflicts first, then what is wrong."""
    system = service.configuration.service_identifier_system
    limit = service.tenant(request.principal.tenant).duplicate_patient_limit
    patient = with_global_id(draft.resource, patient_id, system)

    def create(transaction: Transaction, deleted: StoredVersion | None = None) -> StoredVersion:
        check_record_numbers(transaction, patient, None)
        if not request.prefer.create_always:
            check_duplicates(transaction, patient, limit)
        draft.judge(transaction, deleted)
        if deleted is not None:
            return transaction.bring_back(deleted, patient)
        return transaction.create("Patient", patient_id, patient, change)

    return create

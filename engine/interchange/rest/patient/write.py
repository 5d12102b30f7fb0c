"""Patient create and update: required elements, the service's identifier, uniqueness, the duplicate limit."""

from collections.abc import Callable, Iterator

from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, written_answer
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, Issue, RefusedError, refuse
from engine.interchange.rest.patient.index import CONDITIONAL, DEMOGRAPHICS, IDENTIFIER, demographics, is_record_number
from engine.interchange.rest.resource.draft import DraftResource, make_draft, read_draft
from engine.interchange.rest.resource.precondition import (
    check_id,
    check_same_id,
    match_condition,
    parse_condition,
    parse_expected,
)
from engine.interchange.rest.resource.rules import check_shape, issues
from engine.interchange.rest.resource.update import Work
from engine.interchange.store.transaction import StoredVersion, Transaction, VersionMethod
from engine.interchange.tokens.role import may_see


def check_patient(patient: JsonObject, version: FhirVersion) -> RefusedError | None:
    """Raise the RefusedError of a malformed or incomplete body; return, not raise, that of a well-formed wrong one.

    The wrong one's turn comes after conflicts (409, 412), which only the store knows.
    """
    missing, wrong = check_shape(patient, "Patient", version)
    absent = (*_missing(patient), *issues(missing))
    if absent:
        raise RefusedError(Category.REQUIRED, absent)
    forged = tuple(_forged(patient))
    return wrong or (RefusedError(Category.RULE, forged) if forged else None)


def _forged(patient: JsonObject) -> Iterator[Issue]:
    """Yield the links by which a live record would say that another took its place: that only $merge says."""
    for index, link in enumerate(patient.get("link", [])):
        if link.get("type") == "replaced-by":
            text = "A patient is replaced by $merge only."
            yield Issue(text, f"Patient.link[{index}].type", "replaced-by")


def _missing(patient: JsonObject) -> Iterator[Issue]:
    names = patient.get("name", [])
    if not names:
        yield _required("Patient.name")
    else:
        if _blank(names[0].get("family")):
            yield _required("Patient.name[0].family")
        if all(map(_blank, names[0].get("given", []))):
            yield _required("Patient.name[0].given")
    for element in ("gender", "birthDate"):
        if not patient.get(element):
            yield _required(f"Patient.{element}")
    for index, identifier in enumerate(patient.get("identifier", [])):
        for part in ("system", "value"):
            if _blank(identifier.get(part)):
                yield Issue(
                    "An identifier needs a system and a value.", f"Patient.identifier[{index}].{part}", "missing-field"
                )


def _blank(text: str | None) -> bool:
    """Say whether there is nothing but blanks: by such a name or number nobody would be found."""
    return text is None or not text.strip()


def _required(path: str) -> Issue:
    return Issue(f"{path} is required to register a patient.", path, "missing-field")


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
    others = [identifier for identifier in patient.get("identifier", []) if identifier.get("system") != system]
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


def replacing(service: Service, request: FhirRequest, change: VersionMethod) -> Work:
    """Return the work that replaces a Patient, or creates it; RefusedError (400)."""
    expected = parse_expected(request)
    check_id(request.id)
    draft = make_draft(service, request, check_patient)
    check_same_id(request)
    insert = creator(service, request, draft, request.id, VersionMethod.NEW)

    def work(transaction: Transaction) -> tuple[int, StoredVersion]:
        stored = transaction.get("Patient", request.id)
        expected.check(stored, request.version)
        if stored is None or stored.deleted:
            return 201, insert(transaction, stored)
        return 200, _replace(service, transaction, stored, draft, change)

    return work


def _replace(
    service: Service, transaction: Transaction, stored: StoredVersion, draft: DraftResource, change: VersionMethod
) -> StoredVersion:
    # Before its record numbers are: those of a merged-away patient are kept for the survivor.
    if stored.survivor is not None:
        raise refuse(Category.RULE, f"The patient was merged into Patient/{stored.survivor}.", location="Patient.id")
    patient = with_global_id(draft.resource, stored.id, service.configuration.service_identifier_system)
    check_record_numbers(transaction, patient, stored.key)
    draft.judge(transaction, stored)
    return transaction.update(stored, patient, change)

"""Patient update: full replacement with optimistic locking; creates what is not there, or brings it back."""

from engine.interchange.core.exchange import FhirRequest
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.rest.patient.rules import check_patient
from engine.interchange.rest.patient.write import check_record_numbers, creator, with_global_id
from engine.interchange.rest.resource.draft import DraftResource, make_draft
from engine.interchange.rest.resource.precondition import check_id, check_same_id, parse_expected
from engine.interchange.rest.resource.update import Work
from engine.interchange.store.transaction import StoredVersion, Transaction, VersionMethod


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

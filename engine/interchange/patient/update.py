"""Patient update: full replacement with optimistic locking; creates what does not exist."""

import re
from typing import Final

from engine.fhir.schema import FhirVersion
from engine.interchange.exchange import Access, Answer, Interaction, Level, Request
from engine.interchange.oauth.role import Action
from engine.interchange.outcome import Category, refuse
from engine.interchange.patient.write import Draft, check_record_numbers, creator, read_draft, with_global_id
from engine.interchange.reply import written_answer
from engine.interchange.service import Service
from engine.interchange.store.transaction import Stored, Transaction

ID: Final = re.compile(r"[A-Za-z0-9\-.]{1,64}")
IF_MATCH: Final = re.compile(r'(?:W/)?"([^"]*)"')


async def update(service: Service, request: Request) -> Answer:
    """Answer PUT /Patient/{id}: 200, 201 where it did not exist, 412 (STU3: 409) for a stale If-Match."""
    expected = parse_if_match(request.headers.get("if-match"))
    if ID.fullmatch(request.id) is None:
        raise refuse(
            Category.BAD_VALUE, "The id in the address is not one that a resource may have.", location="http.id"
        )
    draft = read_draft(service, request)
    if request.body.get("id") != request.id:
        raise refuse(Category.BAD_VALUE, "The body's id must be the id in the address.", location="Patient.id")
    insert = creator(service, request, draft, request.id)

    def work(transaction: Transaction) -> tuple[int, Stored]:
        stored = transaction.get("Patient", request.id)
        _check_version(stored, expected, request.version)
        if stored is None:
            return 201, insert(transaction)
        return 200, _replace(service, transaction, stored, draft)

    status, stored = await service.store.write(request.principal.tenant, work)
    return written_answer(status, stored, request, location=status == 201)


def parse_if_match(header: str | None) -> str | None:
    """Return the version that an If-Match header names, None where there is none; RefusedError for a malformed one."""
    if header is None:
        return None
    match = IF_MATCH.fullmatch(header.strip())
    if match is None:
        raise refuse(Category.BAD_VALUE, 'If-Match must be of the form W/"3".', location="http.If-Match")
    return match[1]


def _check_version(stored: Stored | None, expected: str | None, version: FhirVersion) -> None:
    if expected is None or (stored is not None and str(stored.version) == expected):
        return
    category = Category.PRECONDITION if version is FhirVersion.R4 else Category.CONFLICT
    now = f"version {stored.version}" if stored else "absent"
    raise refuse(category, f"The patient is {now}, not version {expected[:20]}.", location="http.If-Match")


def _replace(service: Service, transaction: Transaction, stored: Stored, draft: Draft) -> Stored:
    patient = with_global_id(draft.patient, stored.id, service.configuration.service_identifier_system)
    check_record_numbers(transaction, patient, stored.key)
    if stored.survivor is not None:
        raise refuse(Category.RULE, f"The patient was merged into Patient/{stored.survivor}.", location="Patient.id")
    draft.judge(transaction)
    return transaction.update(stored, patient)


INTERACTION = Interaction("Patient", "update", Level.INSTANCE, "PUT", Access.WRITE, Action.PATIENT, update)

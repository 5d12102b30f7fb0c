"""DocumentReference/$merge (STU3): creates or updates a document of the patient that an identifier names.

The match is made in the transaction that writes: two requests at once make one document.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import (
    FhirRequest,
    HttpAnswer,
    Interaction,
    InteractionLevel,
    RequiredAccess,
    written_answer,
)
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, Issue, RefusedError, refuse
from engine.interchange.rest.patient.index import IDENTIFIER
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.draft import check_chart, read_draft
from engine.interchange.rest.resource.elements import values
from engine.interchange.rest.resource.rules import check_shape, issues
from engine.interchange.store.transaction import StoredVersion, Transaction, VersionMethod
from engine.interchange.tokens.role import RoleRule, may_see

NAME: Final = "DocumentReference"
SUBJECT: Final = f"{NAME}.subject"
# Required by STU3, but not by the operation.
SPARED: Final = frozenset({f"{NAME}.type", f"{NAME}.indexed"})
ROWS: Final = "DocumentReference.identifier"
Number = tuple[str, str]


async def merge(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer POST /DocumentReference/$merge: 200 for a new version of the matching document, else 201."""
    draft = await read_draft(service, request, _check)
    new_id = service.new_id()

    def work(transaction: Transaction) -> tuple[int, StoredVersion]:
        document = draft.resource
        document["subject"]["reference"] = _patient(transaction, document["subject"])
        stored = find_document(transaction, document)
        draft.judge(transaction, stored)
        check_chart(KEPT[NAME], document, request.version)
        former = stored.resource() if stored is not None else {}
        document.setdefault("date", former.get("date", transaction.at.isoformat(timespec="milliseconds")))
        if stored is not None:
            return 200, transaction.update(stored, document, VersionMethod.POST)
        return 201, transaction.create(NAME, new_id, document)

    status, stored = await service.store.write(request.principal.tenant, work)
    seen = status == 201 or may_see(service.configuration, request.principal, NAME)
    return written_answer(status, stored, request, location=status == 201, seen=seen)


def _check(body: JsonObject, version: FhirVersion) -> RefusedError | None:
    """Raise RefusedError (400) for a malformed or incomplete body; return the one for a wrong body (422)."""
    missing, wrong = check_shape(body, NAME, version)
    absent = [*issues(one for one in missing if one.path not in SPARED), *_unnamed(body.get("subject", {}))]
    if absent:
        raise RefusedError(Category.REQUIRED, tuple(absent))
    return wrong


def _unnamed(subject: JsonObject) -> Iterable[Issue]:
    if subject.get("reference") and "identifier" not in subject:
        return
    for element in ("system", "value"):
        if not subject.get("identifier", {}).get(element):
            path = f"{SUBJECT}.identifier.{element}"
            yield Issue(f"{path}: the identifier of the patient is missing.", path, "missing-field")


def _patient(transaction: Transaction, subject: JsonObject) -> str:
    """Return the reference to the one patient of a subject's identifier; RefusedError (422)."""
    named: JsonObject | None = subject.get("identifier")
    given = str(subject.get("reference", ""))
    if named is None:
        return given
    holders = transaction.holders(IDENTIFIER, named["system"], named["value"])
    if len(holders) != 1:
        category = Category.AMBIGUOUS if holders else Category.UNRESOLVED
        text = "The identifier names several patients." if holders else "The identifier names no patient."
        raise refuse(category, text, location=f"{SUBJECT}.identifier")
    reference = f"Patient/{transaction.by_key(holders[0]).id}"
    if given not in {"", reference}:
        text = "Reference and identifier name different patients."
        raise refuse(Category.RULE, text, location=f"{SUBJECT}.reference")
    return reference


def find_document(transaction: Transaction, document: JsonObject) -> StoredVersion | None:
    """Return the stored document of the same patient that matches, None for none; RefusedError (422) for several.

    A match is by masterIdentifier, else by any identifier, else by the address of an attachment.
    """
    master = list(_numbers(document, "masterIdentifier"))
    every = [*master, *_numbers(document, "identifier")]
    patient = document["subject"]["reference"]
    for matching in (
        (one for one in _numbered(transaction, patient, master) if _shares(one, master, ("masterIdentifier",))),
        _numbered(transaction, patient, every),
        _attached(transaction, patient, document),
    ):
        known = {one.key: one for one in matching}
        if len(known) > 1:
            text = "Several documents of the patient match; give each its own masterIdentifier."
            raise refuse(Category.AMBIGUOUS, text, location="DocumentReference")
        if known:
            return next(iter(known.values()))
    return None


def _numbered(transaction: Transaction, patient: str, numbers: Iterable[Number]) -> Iterator[StoredVersion]:
    for system, value in numbers:
        yield from _of(patient, map(transaction.by_key, transaction.holders(ROWS, system, value)))


def _attached(transaction: Transaction, patient: str, document: JsonObject) -> Iterator[StoredVersion]:
    for url in sorted(set(_urls(document))):
        same = (referrer for referrer in transaction.referrers(url) if referrer.type == "DocumentReference")
        yield from (one for one in _of(patient, same) if url in set(_urls(one.resource())))


def _of(patient: str, documents: Iterable[StoredVersion]) -> Iterator[StoredVersion]:
    return (document for document in documents if document.resource().get("subject", {}).get("reference") == patient)


def _shares(stored: StoredVersion, numbers: list[Number], elements: tuple[str, ...]) -> bool:
    return any(number in numbers for number in _numbers(stored.resource(), *elements))


def _numbers(document: JsonObject, *elements: str) -> Iterator[Number]:
    for element in elements:
        for value in values(document, element):
            if value.get("value"):
                yield value.get("system", ""), value["value"]


def _urls(document: JsonObject) -> list[str]:
    return values(document, "content.attachment.url")


INTERACTION: Final = Interaction(
    NAME,
    "merge-document",
    InteractionLevel.TYPE,
    "POST",
    RequiredAccess.WRITE,
    RoleRule.CLINICAL,
    merge,
    operation="$merge",
    versions=(FhirVersion.STU3,),
)

"""DocumentReference/$merge (STU3): a document for the patient whom an identifier names, new or in place of its former.

Which one that is, is decided in the transaction that writes: two at once make one document.
"""

from collections.abc import Iterable
from typing import Final

from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, RequiredAccess
from engine.interchange.core.reply import written_answer
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, Issue, RefusedError, refuse
from engine.interchange.network.document.match import find_document
from engine.interchange.rest.patient.index import IDENTIFIER
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.draft import check_chart, read_draft
from engine.interchange.rest.resource.rules import check_shape, issues
from engine.interchange.store.transaction import StoredVersion, Transaction, VersionMethod
from engine.interchange.tokens.oauth.rights import may_see
from engine.interchange.tokens.oauth.role import RoleRule

NAME: Final = "DocumentReference"
SUBJECT: Final = f"{NAME}.subject"
# What STU3 requires, and the operation does not: a type, and when the document was made known here.
SPARED: Final = frozenset({f"{NAME}.type", f"{NAME}.indexed"})


async def merge(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer POST /DocumentReference/$merge: 200 for a new version of what matches, else 201."""
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
    """Raise the RefusedError (400) of a malformed or incomplete body; return that of a wrong one (422)."""
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
    """Return the reference to the one patient whom a subject's identifier names; RefusedError (422)."""
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

"""Delete of any type: a last version without a body; refused while others refer to it, or for a patient with them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from engine.fhir.versions.names import name_in
from engine.interchange.core.exchange import FhirRequest, HttpAnswer
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, refuse, unsupported
from engine.interchange.rest.binary.content import owners
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.precondition import match_condition, parse_criteria, parse_expected
from engine.interchange.rest.resource.update import conditional
from engine.interchange.store.references import attachments_in
from engine.interchange.store.search.page import FORMAT
from engine.interchange.store.transaction import StoredVersion, Transaction
from engine.interchange.tokens.scope import allows

# Refuses to delete a resource of its type; the text is the service's identifier system.
DeletionRule = Callable[[StoredVersion, str], None]

CASCADE: Final = "_cascade"
# Every body with attached content that is kept here contains this.
ATTACHED: Final = b'"Binary/'
# Types that stay when a patient is deleted, although they refer to deleted records: audit, other patients, rosters.
STAYING: Final = frozenset({"AuditEvent", "Group", "Patient", "Provenance"})
# The index rows of a resource's patient.
OWN: Final = frozenset(one.patient_rows for one in KEPT.values() if one.patient)
OF_PATIENT: Final = "SELECT key, parameter FROM reference_index WHERE tenant=? AND target=? ORDER BY key"


async def delete(service: Service, request: FhirRequest, rules: Mapping[str, DeletionRule]) -> HttpAnswer:
    """Answer DELETE /{type}/{id}: 204, also where there is nothing; 409 where others refer to it; 412 (STU3: 409).

    `rules` are asked by the type of each resource that goes.
    """
    expected = parse_expected(request)
    _check_query(request)
    cascading = _cascading(request)
    strict = service.tenant(request.principal.tenant).scope_enforcement == "strict"
    sis = service.configuration.service_identifier_system

    def work(transaction: Transaction) -> StoredVersion | None:
        stored = transaction.get(request.type, request.id)
        expected.check(stored, request.version)
        if stored is None or stored.deleted:
            return stored
        return delete_one(transaction, request, stored, sis, rules, cascading=cascading, strict=strict)

    stored = await service.store.write(request.principal.tenant, work)
    return HttpAnswer(204, b"", (("etag", f'W/"{stored.version}"'),) if stored is not None else ())


def delete_one(
    transaction: Transaction,
    request: FhirRequest,
    stored: StoredVersion,
    sis: str,
    rules: Mapping[str, DeletionRule],
    *,
    cascading: bool = False,
    strict: bool = True,
) -> StoredVersion:
    """Delete a live resource, `cascading` with all that is the patient's; `strict`: as the token's scopes allow it.

    `sis` is the service's identifier system; `rules` may refuse a resource by its type.
    """
    if stored.survivor:
        _check_survivor(transaction, stored)
    taken = {stored.key: stored}
    if cascading:
        rows = transaction.connection.execute(OF_PATIENT, (transaction.tenant, f"Patient/{stored.id}")).fetchall()
        taken |= {key: transaction.by_key(key) for key, rows_of in rows if rows_of in OWN}
        taken |= {one.key: one for one in _attached(transaction, stored, taken.values())}
        if strict:
            _check_rights(request, {one.type for one in taken.values()})
    _check_referrers(transaction, request, taken, frozenset(STAYING if cascading else ()), strict=strict)
    for one in taken.values():
        if one.type in rules:
            rules[one.type](one, sis)
    for key, one in taken.items():
        if key != stored.key:
            transaction.delete(one)
    return transaction.delete(stored)


async def delete_matching(service: Service, request: FhirRequest, rules: Mapping[str, DeletionRule]) -> HttpAnswer:
    """Answer DELETE /{type}?{criteria}: as DELETE of the one that matches; 204 for none, 412 for several."""
    wanted = parse_criteria(request, conditional(request), service.configuration.base_url, but=CASCADE)
    expected = parse_expected(request)
    cascading = _cascading(request)
    strict = service.tenant(request.principal.tenant).scope_enforcement == "strict"
    sis = service.configuration.service_identifier_system

    def work(transaction: Transaction) -> None:
        stored = match_condition(transaction, wanted, "http.query")
        expected.check(stored, request.version)
        if stored is not None:
            delete_one(transaction, request, stored, sis, rules, cascading=cascading, strict=strict)

    await service.store.write(request.principal.tenant, work)
    return HttpAnswer(204)


def _check_query(request: FhirRequest) -> None:
    unknown = next((name for name, _ in request.query if name not in {CASCADE, *FORMAT}), None)
    if unknown is not None:
        raise unsupported(unknown)


def _cascading(request: FhirRequest) -> bool:
    """Say whether a patient's chart is to go along; RefusedError (400) for other cascades and for other types."""
    asked = [value for name, value in request.query if name == CASCADE]
    if asked and (asked != ["delete"] or request.type != "Patient"):
        text = "The only cascade is _cascade=delete of a Patient."
        raise refuse(Category.BAD_VALUE, text, location=f"http.{CASCADE}")
    return bool(asked)


def _attached(
    transaction: Transaction, patient: StoredVersion, taken: Iterable[StoredVersion]
) -> Iterator[StoredVersion]:
    """Yield the content that is attached to what a patient takes along, where it is nobody else's."""
    for one in taken:
        for url in attachments_in(one.resource()) if ATTACHED in one.body else ():
            binary = transaction.get("Binary", url.removeprefix("Binary/"))
            if binary is None or binary.deleted:
                continue
            if owners(transaction, binary.id, binary.resource()) == {patient.id}:
                yield binary


def _check_survivor(transaction: Transaction, stored: StoredVersion) -> None:
    """Refuse to delete a merged-away record while its survivor lives, who answers to its numbers (422)."""
    standing = transaction.standing(stored.type, str(stored.survivor))
    if standing is not None and standing.survivor is None:
        text = f"{stored.type}/{stored.id} was merged into {stored.type}/{stored.survivor}; delete that one first."
        raise refuse(Category.RULE, text, location="http.id", detail="already-merged")


def _check_rights(request: FhirRequest, types: set[str]) -> None:
    """Refuse (403) a cascade over types that the token may not delete."""
    denied = sorted(name for name in types if not allows(request.principal.scopes, name, "d"))
    if denied:
        names = ", ".join(name_in(request.version, name) for name in denied)
        text = f"The token has no scope for write access to {names}, which belong to the patient."
        raise refuse(Category.FORBIDDEN, text, location="http.Authorization")


def _check_referrers(
    transaction: Transaction,
    request: FhirRequest,
    taken: dict[int, StoredVersion],
    staying: frozenset[str],
    *,
    strict: bool,
) -> None:
    """Refuse (409) to delete resources that remaining ones refer to.

    The refusal counts the referring resources by type; `strict`: only types that the token's scopes let it read.
    """
    left: dict[int, str] = {}
    for one in taken.values():
        left |= transaction.referring(f"{one.type}/{one.id}")
    types = [name for key, name in left.items() if key not in taken and name not in staying]
    if types:
        seen = {name for name in types if not strict or allows(request.principal.scopes, name, "r")}
        counted = [f"{types.count(name)} {name_in(request.version, name)}" for name in sorted(seen)]
        # A token gets no counts of types that it may not read.
        unseen = ["some of types that the token may not read"] if seen != {*types} else []
        text = f"Other resources refer to it: {', '.join(counted + unseen)}."
        raise refuse(Category.CONFLICT, text, location="http.id", detail="referred-to")

"""Results linked to orders: both are of one patient (specification, Errors; REST API version 2025-06-01 onward)."""

from collections.abc import Iterator
from typing import Final

from engine.fhir.json import JsonObject
from engine.fhir.versions.names import name_in
from engine.interchange.core.exchange import FhirRequest
from engine.interchange.kernel.outcome import Category, Issue, RefusedError, refuse
from engine.interchange.store.references import local_target
from engine.interchange.store.transaction import StoredVersion, Transaction

SINCE: Final = "2025-06-01"
RESULTS: Final = frozenset({"DiagnosticReport", "Observation"})
# The kept types that `basedOn` of a result may name.
ORDERS: Final = frozenset({"CarePlan", "MedicationRequest", "RequestGroup", "ServiceRequest"})
DETAIL: Final = "cross-patient-link"


def check_links(
    transaction: Transaction, request: FhirRequest, resource: JsonObject, stored: StoredVersion | None = None
) -> None:
    """Refuse to link a result to another patient's order, and to part the patients of two that are linked (422).

    Only what this write changes of `stored` is judged: what an older API version linked can be corrected and unlinked.
    """
    if request.principal.api_version < SINCE:
        return
    if request.type in RESULTS and "basedOn" in resource:
        _check_result(transaction, request.type, resource, stored.resource() if stored is not None else {})
    if request.type in ORDERS and stored is not None and _patient(stored.resource()) != _patient(resource):
        _check_order(transaction, request, stored, _patient(resource))


def _check_result(transaction: Transaction, type_name: str, result: JsonObject, before: JsonObject) -> None:
    patient = _patient(result)
    known = {target for _, target in _targets(before)} if _patient(before) == patient else set()
    wrong = tuple(
        Issue("The order belongs to another patient.", f"{type_name}.basedOn[{index}].reference", DETAIL)
        for index, target in _targets(result)
        if target not in known or target.startswith("#")
        if _patient(_order(transaction, result, target)) not in {"", patient}
    )
    if wrong:
        raise RefusedError(Category.RULE, wrong)


def _check_order(transaction: Transaction, request: FhirRequest, order: StoredVersion, patient: str) -> None:
    name = f"{order.type}/{order.id}"
    for referrer in transaction.referrers(name):
        result = referrer.resource() if referrer.type in RESULTS else {}
        if any(target == name for _, target in _targets(result)) and _patient(result) != patient:
            text = f"{referrer.type}/{referrer.id} is linked to it and belongs to another patient."
            location = f"{name_in(request.version, request.type)}.subject.reference"
            raise refuse(Category.RULE, text, location=location, detail=DETAIL)


def _targets(result: JsonObject) -> Iterator[tuple[int, str]]:
    """Yield the orders that a result names, with their places: `Type/id`, or `#id` within it."""
    for index, one in enumerate(result.get("basedOn", ())):
        reference = one.get("reference", "")
        yield index, reference if reference.startswith("#") else local_target(reference)


def _order(transaction: Transaction, result: JsonObject, target: str) -> JsonObject:
    """Return the order that a result names, empty where there is none."""
    if target.startswith("#"):
        return next((contained for contained in result.get("contained", ()) if contained.get("id") == target[1:]), {})
    type_name, _, order_id = target.partition("/")
    stored = transaction.get(type_name, order_id)
    return stored.resource() if stored is not None and not stored.deleted else {}


def _patient(resource: JsonObject) -> str:
    """Return `Patient/id` of a resource's patient, '' for none."""
    holder = resource.get("subject") or resource.get("patient") or {}
    return local_target(holder.get("reference", ""))

"""RequestGroup/{id}/$submit: an order that is a draft, or has failed, goes on its way to the laboratory."""

from typing import Final

from engine.fhir.json import Json
from engine.interchange.core.exchange import (
    FhirRequest,
    HttpAnswer,
    Interaction,
    InteractionLevel,
    RequiredAccess,
    written_answer,
)
from engine.interchange.core.service import Service
from engine.interchange.jobs.asking import ask
from engine.interchange.jobs.job import JobResult, Report
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.kernel.view import to_version
from engine.interchange.orders.order import NAME, OPEN, OrderEvent, OrderStatus, move, of_patient, status_of
from engine.interchange.orders.validation import check_complete
from engine.interchange.orders.writing import OrderPolicy, notify, order_policy, place
from engine.interchange.rest.resource.precondition import Precondition, parse_expected
from engine.interchange.rest.resource.read import absent, deleted
from engine.interchange.store.job import AsyncJob
from engine.interchange.store.transaction import StoredVersion, Transaction
from engine.interchange.tokens.role import RoleRule, may_see
from engine.interchange.tokens.scope import PLACE_ORDERS

KIND: Final = f"{NAME}.submit"


async def submit(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer POST /RequestGroup/{id}/$submit: 200 with the order, pending; 202 with `Prefer: respond-async`.

    404, 410; 409 where it is pending or later; 422 with an issue for each fault, and then it stays what it was.
    """
    _check_body(request.body)
    expected = parse_expected(request)
    tenant, policy = request.principal.tenant, order_policy(service, request.principal.tenant)
    seen = may_see(service.configuration, request.principal, NAME, own=bool(request.within))

    def look(transaction: Transaction) -> StoredVersion:
        stored = transaction.get(NAME, request.id)
        if stored is None:
            raise absent(request)
        if stored.deleted:
            raise deleted(request, stored)
        expected.check(stored, request.version)
        _check_open(stored, policy.sis)
        return stored

    if request.prefer.respond_async:
        stored = service.store.read(tenant, look)
        asked = {"id": stored.id, "versions": _versions(expected), "seen": seen}
        patient = of_patient(stored.resource()).removeprefix("Patient/")
        return await ask(service, request, KIND, patient, asked, apart=True)
    stored = await service.store.write(tenant, lambda transaction: _submit(transaction, policy, look(transaction)))
    notify(service)
    return written_answer(200, stored, request, location=False, seen=seen)


async def work(service: Service, job: AsyncJob, _report: Report) -> JobResult:
    """Submit an order in the commit that ends the job, so that what is done again finds it as it was."""
    policy, order_id = order_policy(service, job.tenant), str(job.asked["id"])
    versions = job.asked["versions"]
    expected = Precondition(frozenset(versions) if versions is not None else None, None)

    def keep(transaction: Transaction) -> bytes:
        stored = transaction.get(NAME, order_id)
        if stored is None or stored.deleted:
            text = f"{NAME}/{order_id} was deleted before this was done."
            raise refuse(Category.NOT_FOUND, text, location="http.id")
        expected.check(stored, job.version)
        _check_open(stored, policy.sis)
        after = _submit(transaction, policy, stored)
        return to_version(after.body, NAME, job.version) if job.asked["seen"] else b""

    return JobResult(b"", keep, service.laboratory_wakeup.set)


def _submit(transaction: Transaction, policy: OrderPolicy, stored: StoredVersion) -> StoredVersion:
    order = stored.resource()
    check_complete(transaction, policy.rules, stored.id, order)
    after = move(transaction, policy.sis, stored, OrderEvent.SUBMIT)
    place(transaction, policy.sis, stored.id, order)
    return after


def _check_open(stored: StoredVersion, sis: str) -> None:
    """Refuse (409) an order that was submitted, or cancelled."""
    status = status_of(stored.resource(), sis)
    if status not in OPEN:
        hint = "make another order" if status is OrderStatus.CANCELLED else "it is submitted once"
        text = f"{NAME}/{stored.id} is {status}: {hint}."
        raise refuse(Category.CONFLICT, text, location="http.id", detail=f"order-{status}")


def _check_body(body: Json) -> None:
    """Refuse (400) a body that says anything: the operation has no parameters."""
    if body in (None, {}):
        return
    if not isinstance(body, dict) or body.get("resourceType") != "Parameters":
        raise refuse(Category.STRUCTURE, "Send no body, or an empty Parameters resource.", location="Parameters")
    if body.get("parameter"):
        text = "The operation has no parameters."
        raise refuse(Category.UNSUPPORTED, text, location="Parameters.parameter")


def _versions(expected: Precondition) -> list[str] | None:
    return sorted(expected.match) if expected.match is not None else None


INTERACTION: Final = Interaction(
    NAME,
    "submit",
    InteractionLevel.INSTANCE,
    "POST",
    RequiredAccess.WRITE,
    RoleRule.CLINICAL,
    submit,
    operation="$submit",
    also=frozenset({PLACE_ORDERS}),
    bodiless=True,
)

"""Create of orders: at once and then to the laboratory, or as a draft that waits for $submit; their structure."""

from collections.abc import Iterator
from typing import Final

from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, written_answer
from engine.interchange.core.service import Service
from engine.interchange.jobs.asking import ask
from engine.interchange.jobs.job import JobResult, Report
from engine.interchange.kernel.outcome import Category, Issue, RefusedError
from engine.interchange.kernel.view import to_version
from engine.interchange.orders.order import FHIR, NAME, OrderStatus, of_patient
from engine.interchange.orders.validation import check_kept
from engine.interchange.orders.writing import judge, keep_change, keep_order, notify, order_policy
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.draft import DraftResource, check_chart, check_status, make_draft, read_draft
from engine.interchange.rest.resource.links import check_links
from engine.interchange.rest.resource.precondition import (
    check_id,
    check_same_id,
    condition_pairs,
    condition_search,
    match_condition,
    parse_expected,
)
from engine.interchange.rest.resource.rules import check_shape, issues
from engine.interchange.rest.resource.update import Work
from engine.interchange.store.job import AsyncJob
from engine.interchange.store.references import check_references, placed_references
from engine.interchange.store.search.criterion import SearchQuery
from engine.interchange.store.search.page import Pairs
from engine.interchange.store.transaction import StoredVersion, Transaction, VersionMethod
from engine.interchange.tokens.role import demand, may_see

REQUIRED: Final = ("status", "intent", "author", "action")


def check_order(body: JsonObject, version: FhirVersion) -> RefusedError | None:
    """Raise the RefusedError (400) of a malformed or incomplete order; return, not raise, that of a wrong one (422)."""
    missing, wrong = check_shape(body, NAME, version)
    absent = {issue.location: issue for issue in (*issues(missing), *_absent(body))}
    if absent:
        raise RefusedError(Category.REQUIRED, tuple(absent.values()))
    return wrong


def _absent(body: JsonObject) -> Iterator[Issue]:
    for element in REQUIRED:
        if not body.get(element):
            path = f"{NAME}.{element}"
            yield Issue(f"{path}: an order needs it.", path, "missing-field")
    if not body.get("subject", {}).get("reference"):
        path = f"{NAME}.subject"
        yield Issue(f"{path}: a reference to the patient is missing.", path, "missing-field")


KIND: Final = f"{NAME}.create"


async def create(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer POST /RequestGroup: 201, pending, or a draft if it says so; `Prefer: respond-async`: 202, then a draft.

    With If-None-Exist 200 for one match and 412 for several.
    """
    tenant = request.principal.tenant
    pairs = condition_pairs(request)
    condition = _condition(service, request.version, pairs)
    draft = await read_draft(service, request, check_order)
    seen = may_see(service.configuration, request.principal, NAME, own=bool(request.within))
    policy, new_id = order_policy(service, tenant), service.new_id()

    def look(transaction: Transaction) -> StoredVersion | None:
        match = match_condition(transaction, condition)
        if match is None:
            _judge_new(transaction, request, draft)
            check_kept(transaction, policy.rules, new_id, draft.resource)
        return match

    def work(transaction: Transaction) -> tuple[int, StoredVersion]:
        match = match_condition(transaction, condition)
        if match is not None:
            return 200, match
        _judge_new(transaction, request, draft)
        return 201, keep_order(transaction, policy, new_id, draft.resource, _first(draft.resource))

    if request.prefer.respond_async:
        match = service.store.read(tenant, look)
        if match is None:
            asked: JsonObject = {
                "id": new_id,
                "order": draft.resource,
                "condition": [list(pair) for pair in pairs],
                "seen": seen,
            }
            patient = of_patient(draft.resource).removeprefix("Patient/")
            return await ask(service, request, KIND, patient, asked, apart=True)
        return written_answer(200, match, request, location=True, seen=seen)
    status, stored = await service.store.write(tenant, work)
    notify(service)
    return written_answer(status, stored, request, location=True, seen=status == 201 or seen)


async def work(service: Service, job: AsyncJob, _report: Report) -> JobResult:
    """Make the draft that was asked for, in the commit that ends the job: it is there once, under the id given then."""
    order_id, order = str(job.asked["id"]), job.asked["order"]
    condition = _condition(service, job.version, tuple((name, value) for name, value in job.asked["condition"]))
    policy = order_policy(service, job.tenant)
    references = placed_references(order)

    def keep(transaction: Transaction) -> bytes:
        stored = match_condition(transaction, condition)
        if stored is None:
            check_references(transaction, references)
            stored = keep_order(transaction, policy, order_id, order, OrderStatus.DRAFT)
        elif not job.asked["seen"]:
            return b""
        return to_version(stored.body, NAME, job.version)

    return JobResult(b"", keep)


def replacing(service: Service, request: FhirRequest, change: VersionMethod) -> Work:
    """Return the work that replaces an order, or creates it as POST does without Prefer; RefusedError (400)."""
    expected = parse_expected(request)
    check_id(request.id)
    draft = make_draft(service, request, check_order)
    check_same_id(request)
    policy = order_policy(service, request.principal.tenant)

    def work(transaction: Transaction) -> tuple[int, StoredVersion]:
        stored = transaction.get(NAME, request.id)
        expected.check(stored, request.version)
        if stored is None or stored.deleted:
            demand(request.principal.role, KEPT[NAME].creating)
            _judge_new(transaction, request, draft, stored)
            status = _first(draft.resource)
            order = keep_order(transaction, policy, request.id, draft.resource, status, stored, VersionMethod.NEW)
            return 201, order
        judged = judge(transaction, policy, stored, draft.resource, request.version)
        _judge(transaction, request, draft, stored)
        return 200, keep_change(transaction, policy, stored, *judged, change)

    return work


def _first(order: JsonObject) -> OrderStatus:
    """Return what a new order is at once: on its way, unless it says itself that it is a draft."""
    return OrderStatus.DRAFT if order["status"] == FHIR[OrderStatus.DRAFT] else OrderStatus.PENDING


def _judge_new(
    transaction: Transaction, request: FhirRequest, draft: DraftResource, deleted: StoredVersion | None = None
) -> None:
    _judge(transaction, request, draft, deleted)
    check_status(KEPT[NAME], draft.resource, request.version)


def _judge(
    transaction: Transaction, request: FhirRequest, draft: DraftResource, stored: StoredVersion | None = None
) -> None:
    """Refuse (422) what makes any resource unprocessable."""
    draft.judge(transaction, stored)
    check_chart(KEPT[NAME], draft.resource, request.version)
    live = None if stored is None or stored.deleted else stored
    check_links(transaction, request, draft.resource, live)


def _condition(service: Service, version: FhirVersion, pairs: Pairs) -> SearchQuery | None:
    parameters = KEPT[NAME].search_parameters(version)
    base_url = service.configuration.base_url
    return condition_search(NAME, version, pairs, parameters, base_url) if pairs else None

"""Results complete orders: each write of a report, by whichever way, says anew which tests have a final one."""

from collections.abc import Iterator, Mapping
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.orders.belonging import order_id_of
from engine.interchange.orders.order import (
    FHIR,
    NAME,
    TEST,
    TRANSITIONS,
    OrderEvent,
    OrderStatus,
    find_order,
    follow,
    move,
    of_patient,
    status_of,
    tests_of,
)
from engine.interchange.store.references import local_target
from engine.interchange.store.transaction import Follower, StoredVersion, Transaction

REPORT: Final = "DiagnosticReport"
FINAL: Final = frozenset({"final", "amended", "corrected", "appended"})
# States in which results count for the tests: of a draft nobody has taken a specimen, a cancelled order is none.
COUNTING: Final = frozenset({OrderStatus.PENDING, OrderStatus.SENT, OrderStatus.COMPLETED, OrderStatus.FAILED})
DONE: Final = FHIR[OrderStatus.COMPLETED]
REPORTS: Final = (
    "SELECT DISTINCT key FROM reference_index WHERE tenant=? AND target=? AND parameter='DiagnosticReport.based-on'"
)


def followers(sis: str) -> Mapping[str, Follower]:
    """Return the followers of writes of reports and tests; `sis` is the service's identifier system."""

    def report(transaction: Transaction, before: JsonObject | None, after: JsonObject | None) -> None:
        named = {*_orders(before), *_orders(after)}
        if not named or (before is not None and after is not None and _counts(before) == _counts(after)):
            return
        for order_id in sorted(_order_ids(transaction, sis, named)):
            review(transaction, sis, order_id)

    def test(transaction: Transaction, before: JsonObject | None, after: JsonObject | None) -> None:
        # Only a merge of patients moves a test of an order to another one.
        if before is None and after is not None and order_id_of(after, sis):
            review(transaction, sis, order_id_of(after, sis))

    return {REPORT: report, TEST: test}


def review(transaction: Transaction, sis: str, order_id: str) -> None:
    """Let the tests of an order, and the order, be as their results say."""
    order = find_order(transaction, order_id)
    if order is None:
        return
    resource = order.resource()
    status = status_of(resource, sis)
    if status not in COUNTING:
        return
    whole = list(_reports(transaction, f"{NAME}/{order_id}"))
    waiting = FHIR[OrderStatus.SENT if status is OrderStatus.COMPLETED else status]
    done: list[bool] = []
    for test_id in tests_of(resource):
        stored = transaction.get(TEST, test_id)
        if stored is None or stored.deleted:
            continue
        done.append(_resulted(transaction, stored, whole))
        follow(transaction, test_id, DONE if done[-1] else waiting, reopened=True)
    event = OrderEvent.RESULTED if done and all(done) else OrderEvent.UNRESULTED
    if (status, event) in TRANSITIONS:
        move(transaction, sis, order, event)


def _resulted(transaction: Transaction, test: StoredVersion, whole: list[JsonObject]) -> bool:
    """Say whether a test has a final result, of its own patient: one of another, by mistake, completes nothing."""
    patient = of_patient(test.resource())
    reports = (*_reports(transaction, f"{TEST}/{test.id}"), *whole)
    return any(report.get("status") in FINAL and of_patient(report) == patient for report in reports)


def _reports(transaction: Transaction, target: str) -> Iterator[JsonObject]:
    for (key,) in transaction.connection.execute(REPORTS, (transaction.tenant, target)).fetchall():
        yield transaction.by_key(key).resource()


def _order_ids(transaction: Transaction, sis: str, named: set[str]) -> set[str]:
    """Return the orders that references to orders and tests lead to."""
    found: set[str] = set()
    for type_name, _, resource_id in (one.partition("/") for one in named):
        if type_name == NAME:
            found.add(resource_id)
        elif type_name == TEST:
            stored = transaction.get(TEST, resource_id)
            found.add(order_id_of(stored.resource(), sis) if stored is not None and not stored.deleted else "")
    return found - {""}


def _orders(report: JsonObject | None) -> set[str]:
    named = report.get("basedOn", ()) if report is not None else ()
    return {local_target(str(one.get("reference", ""))) for one in named} - {""}


def _counts(report: JsonObject) -> tuple[bool, str, set[str]]:
    """Return what of a report decides about orders."""
    return report.get("status") in FINAL, of_patient(report), _orders(report)

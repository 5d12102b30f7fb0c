"""An order: its resource, laboratory and tests; its states and their FHIR names; its transitions in one commit."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from engine.errors import ServiceError
from engine.fhir.json import JsonObject
from engine.interchange.kernel.extension import url, value, with_value
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.store.references import local_target
from engine.interchange.store.transaction import StoredVersion, Transaction


class OrderStatus(StrEnum):
    """The status of an order; only the service writes it."""

    DRAFT = "draft"
    PENDING = "pending"
    SENT = "sent"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class OrderEvent(StrEnum):
    """What happens to an order.

    TRANSMITTED and REFUSED come from the laboratory, RESULTED and UNRESULTED from the results that are linked to its
    tests: all of them have a final one, or no longer.
    """

    SUBMIT = "submit"
    TRANSMITTED = "transmitted"
    REFUSED = "refused"
    RESULTED = "resulted"
    UNRESULTED = "unresulted"
    CANCEL = "cancel"


TRANSITIONS: Final[Mapping[tuple[OrderStatus, OrderEvent], OrderStatus]] = {
    (OrderStatus.DRAFT, OrderEvent.SUBMIT): OrderStatus.PENDING,
    (OrderStatus.DRAFT, OrderEvent.CANCEL): OrderStatus.CANCELLED,
    (OrderStatus.PENDING, OrderEvent.TRANSMITTED): OrderStatus.SENT,
    (OrderStatus.PENDING, OrderEvent.REFUSED): OrderStatus.FAILED,
    (OrderStatus.PENDING, OrderEvent.RESULTED): OrderStatus.COMPLETED,
    (OrderStatus.PENDING, OrderEvent.CANCEL): OrderStatus.CANCELLED,
    (OrderStatus.SENT, OrderEvent.RESULTED): OrderStatus.COMPLETED,
    # A laboratory may reject later what it took at first.
    (OrderStatus.SENT, OrderEvent.REFUSED): OrderStatus.FAILED,
    (OrderStatus.COMPLETED, OrderEvent.UNRESULTED): OrderStatus.SENT,
    (OrderStatus.FAILED, OrderEvent.SUBMIT): OrderStatus.PENDING,
    (OrderStatus.FAILED, OrderEvent.CANCEL): OrderStatus.CANCELLED,
}
# RequestGroup.status, and the status of each of its tests that has no result yet.
FHIR: Final[Mapping[OrderStatus, str]] = {
    OrderStatus.DRAFT: "draft",
    OrderStatus.PENDING: "active",
    OrderStatus.SENT: "active",
    OrderStatus.COMPLETED: "completed",
    OrderStatus.FAILED: "on-hold",
    OrderStatus.CANCELLED: "revoked",
}
# Those in which the content of an order may change.
OPEN: Final = frozenset({OrderStatus.DRAFT, OrderStatus.FAILED})


class WrongStateError(ServiceError):
    """An order is in a state in which this cannot happen to it."""

    def __init__(self, order_id: str, status: OrderStatus, event: OrderEvent) -> None:
        super().__init__(f"the order {order_id} is {status}: {event} cannot happen to it")
        self.status = status
        self.event = event


NAME: Final = "RequestGroup"
TEST: Final = "ServiceRequest"
STATUS: Final = "requestgroup-orderStatus"
PERFORMER: Final = "requestgroup-performer"
KNOWN: Final = frozenset(OrderStatus)


class OrderAction(NamedTuple):
    """One action of an order: its path, and the reference to its test, '' for none."""

    path: str
    element: JsonObject
    reference: str


def status_of(resource: JsonObject, sis: str) -> OrderStatus:
    """Return the status of an order; `sis` is the service's identifier system."""
    coding = value(resource, sis, STATUS)
    code = coding.get("code") if isinstance(coding, dict) else None
    return OrderStatus(code) if code in KNOWN else OrderStatus.DRAFT


def with_status(resource: JsonObject, sis: str, status: OrderStatus) -> JsonObject:
    """Return an order that has a status, in the service's words and in FHIR's."""
    coding = {"system": f"{sis}/order-status", "code": str(status), "display": status.capitalize()}
    made = {**with_value(resource, url(sis, STATUS), {"valueCoding": coding}), "status": FHIR[status]}
    # What a client of STU3 said in words of R4 (kernel/view.py); the service says it itself.
    made.pop("_status", None)
    return made


def performer_of(resource: JsonObject, sis: str) -> str:
    """Return the id of the Organization that is to do the tests, '' where none is named by a reference to one."""
    reference = value(resource, sis, PERFORMER)
    target = local_target(str(reference.get("reference", ""))) if isinstance(reference, dict) else ""
    type_name, _, organization_id = target.partition("/")
    return organization_id if type_name == "Organization" else ""


def tests_of(resource: JsonObject) -> tuple[str, ...]:
    """Return the ids of the ServiceRequests of an order, each once, in its order."""
    targets = (local_target(action.reference).partition("/") for action in actions_of(resource))
    return tuple(dict.fromkeys(test_id for type_name, _, test_id in targets if type_name == TEST))


def actions_of(resource: JsonObject, path: str = NAME) -> Iterator[OrderAction]:
    """Yield the actions of an order, those within others too."""
    for index, one in enumerate(resource.get("action", ())):
        place = f"{path}.action[{index}]"
        reference = one.get("resource", {}).get("reference", "")
        yield OrderAction(place, one, reference)
        yield from actions_of(one, place)


def of_patient(resource: JsonObject) -> str:
    """Return `Patient/id` of an order, a test or a result; '' for none."""
    holder = resource.get("subject")
    return local_target(str(holder.get("reference", ""))) if isinstance(holder, dict) else ""


# Results determine each test by itself: a result that comes or goes writes it.
OF_RESULTS: Final = frozenset({OrderEvent.RESULTED, OrderEvent.UNRESULTED})
# A laboratory may act on these.
UNDER_WAY: Final = frozenset({OrderStatus.PENDING, OrderStatus.SENT})
DONE: Final = FHIR[OrderStatus.COMPLETED]


def next_status(order: StoredVersion, sis: str, event: OrderEvent) -> OrderStatus:
    """Return the status that an event brings an order to; WrongStateError where it cannot happen to it."""
    status = status_of(order.resource(), sis)
    after = TRANSITIONS.get((status, event))
    if after is None:
        raise WrongStateError(order.id, status, event)
    return after


def move(transaction: Transaction, sis: str, order: StoredVersion, event: OrderEvent, note: str = "") -> StoredVersion:
    """Return the next version of an order that something happens to, kept with those of its tests.

    `order` is its present version, `note` what is to be read at it: nothing of a patient. WrongStateError: it cannot
    happen to an order in this state.
    """
    after = next_status(order, sis, event)
    resource = with_status(order.resource(), sis, after)
    if note:
        annotation = {"time": transaction.at.isoformat(timespec="milliseconds"), "text": note}
        resource["note"] = [*resource.get("note", ()), annotation]
    if event not in OF_RESULTS:
        for test_id in tests_of(resource):
            follow(transaction, test_id, FHIR[after])
    return transaction.restate(order, resource, ("status", "extension"))


def follow(transaction: Transaction, test_id: str, status: str, *, reopened: bool = False) -> None:
    """Keep the next version of a test that has another status; one with a result keeps it unless `reopened`."""
    stored = transaction.get(TEST, test_id)
    if stored is None or stored.deleted:
        return
    test = stored.resource()
    if test.get("status") == status or (test.get("status") == DONE and not reopened):
        return
    transaction.restate(stored, {**test, "status": status}, ("status",))


def find_order(transaction: Transaction, order_id: str) -> StoredVersion | None:
    """Return an order; None where there is none, or it is deleted."""
    stored = transaction.get(NAME, order_id)
    return None if stored is None or stored.deleted else stored


def check_deletion(stored: StoredVersion, sis: str) -> None:
    """Refuse (409) to delete an order that waits to be sent, or for its results."""
    status = status_of(stored.resource(), sis)
    if status in UNDER_WAY:
        hint = "cancel it first" if status is OrderStatus.PENDING else "the laboratory has it"
        text = f"{NAME}/{stored.id} is {status}: {hint}."
        raise refuse(Category.CONFLICT, text, location="http.id", detail=f"order-{status}")

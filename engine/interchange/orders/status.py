"""The states of an order, what moves it from one to the next, and what FHIR calls them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from engine.errors import ServiceError


class OrderStatus(StrEnum):
    """Where an order is; the service writes it, nobody else."""

    DRAFT = "draft"
    PENDING = "pending"
    SENT = "sent"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Event(StrEnum):
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


TRANSITIONS: Final[Mapping[tuple[OrderStatus, Event], OrderStatus]] = {
    (OrderStatus.DRAFT, Event.SUBMIT): OrderStatus.PENDING,
    (OrderStatus.DRAFT, Event.CANCEL): OrderStatus.CANCELLED,
    (OrderStatus.PENDING, Event.TRANSMITTED): OrderStatus.SENT,
    (OrderStatus.PENDING, Event.REFUSED): OrderStatus.FAILED,
    (OrderStatus.PENDING, Event.RESULTED): OrderStatus.COMPLETED,
    (OrderStatus.PENDING, Event.CANCEL): OrderStatus.CANCELLED,
    (OrderStatus.SENT, Event.RESULTED): OrderStatus.COMPLETED,
    # A laboratory may reject later what it took at first.
    (OrderStatus.SENT, Event.REFUSED): OrderStatus.FAILED,
    (OrderStatus.COMPLETED, Event.UNRESULTED): OrderStatus.SENT,
    (OrderStatus.FAILED, Event.SUBMIT): OrderStatus.PENDING,
    (OrderStatus.FAILED, Event.CANCEL): OrderStatus.CANCELLED,
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

    def __init__(self, order_id: str, status: OrderStatus, event: Event) -> None:
        super().__init__(f"the order {order_id} is {status}: {event} cannot happen to it")
        self.status = status
        self.event = event

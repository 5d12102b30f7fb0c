"""The states of an order, its transitions, and FHIR's names of the states."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from engine.errors import ServiceError


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

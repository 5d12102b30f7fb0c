"""Orders are not deleted while a laboratory may act on them."""

from typing import Final

from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.orders.order import NAME, status_of
from engine.interchange.orders.status import OrderStatus
from engine.interchange.store.transaction import StoredVersion

UNDER_WAY: Final = frozenset({OrderStatus.PENDING, OrderStatus.SENT})


def check_deletion(stored: StoredVersion, sis: str) -> None:
    """Refuse (409) to delete an order that waits to be sent, or for its results."""
    status = status_of(stored.resource(), sis)
    if status in UNDER_WAY:
        hint = "cancel it first" if status is OrderStatus.PENDING else "the laboratory has it"
        text = f"{NAME}/{stored.id} is {status}: {hint}."
        raise refuse(Category.CONFLICT, text, location="http.id", detail=f"order-{status}")

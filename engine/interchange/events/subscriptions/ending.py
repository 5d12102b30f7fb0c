"""Subscriptions that the service switches off: past their end, or with a receiver that rejects their events."""

from functools import partial
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.core.service import Service
from engine.interchange.events.subscriptions.settling import END_PASSED, OFF
from engine.interchange.rest.resource.subscription import SUBSCRIPTION
from engine.interchange.store.notification import NotificationOutcome, end_waiting
from engine.interchange.store.subscription import drop_subscription, find_subscription, over, switch_off
from engine.interchange.store.transaction import Follower, Transaction, milliseconds

# Subscriptions that one call ends.
MOST: Final = 100


def end_subscription(transaction: Transaction, subscription_id: str, reason: str) -> bool:
    """Switch an active subscription off, with the reason in its `error`; False if it is not active.

    Its waiting events are not sent.
    """
    row = find_subscription(transaction.connection, transaction.tenant, subscription_id)
    stored = transaction.get(SUBSCRIPTION, subscription_id)
    if row is None or not row.active or stored is None or stored.deleted:
        return False
    switch_off(transaction, subscription_id)
    end_waiting(
        transaction.connection,
        transaction.tenant,
        subscription_id,
        milliseconds(transaction.at),
        NotificationOutcome.OFF,
    )
    transaction.update(stored, {**stored.resource(), "status": OFF, "error": reason})
    return True


async def end_those_over(service: Service) -> int:
    """Switch off the subscriptions whose end has passed; return their number."""
    rows = over(service.store.reader(), milliseconds(service.clock()), MOST)
    ended = [(tenant, row_id) for tenant, row_id in rows if tenant in service.configuration.tenants]
    for tenant, row_id in ended:
        await service.store.write(tenant, partial(end_subscription, subscription_id=row_id, reason=END_PASSED))
    return len(ended)


def follower(transaction: Transaction, before: JsonObject | None, after: JsonObject | None) -> None:
    """Delete the row of a deleted subscription, and end its waiting events."""
    if before is not None and after is None:
        drop_subscription(transaction, before["id"])
        end_waiting(
            transaction.connection,
            transaction.tenant,
            before["id"],
            milliseconds(transaction.at),
            NotificationOutcome.DELETED,
        )


FOLLOWERS: Final[dict[str, Follower]] = {SUBSCRIPTION: follower}

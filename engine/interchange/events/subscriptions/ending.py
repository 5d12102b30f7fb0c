"""What switches a subscription off without its client: its end, and a receiver that does not take its events."""

from functools import partial
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.core.service import Service
from engine.interchange.events.subscriptions.settling import END_PASSED, OFF
from engine.interchange.rest.resource.subscription import SUBSCRIPTION
from engine.interchange.store.notification import NotificationOutcome, end_waiting
from engine.interchange.store.subscription import drop_subscription, find_subscription, over, switch_off
from engine.interchange.store.transaction import Follower, Transaction, milliseconds

# Subscriptions that one look ends.
MOST: Final = 100


def end_subscription(transaction: Transaction, subscription_id: str, reason: str) -> bool:
    """Switch an active subscription off, and say why in its `error`; False where it is not active (any more).

    What it is still owed is not sent.
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
    """Switch off the subscriptions whose end has passed; return how many these were."""
    found = over(service.store.reader(), milliseconds(service.clock()), MOST)
    known = [(tenant, one) for tenant, one in found if tenant in service.configuration.tenants]
    for tenant, one in known:
        await service.store.write(tenant, partial(end_subscription, subscription_id=one, reason=END_PASSED))
    return len(known)


def follower(transaction: Transaction, before: JsonObject | None, after: JsonObject | None) -> None:
    """Forget a subscription that was deleted, and what it was owed."""
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

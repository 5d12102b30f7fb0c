"""The request of a delivery and its outcome: delivered, due again, dropped; a failing subscription is suspended."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final, NamedTuple

from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in
from engine.interchange.core.service import Service
from engine.interchange.events.subscriptions.header import Lines, sent_headers
from engine.interchange.events.subscriptions.settling import end_subscription
from engine.interchange.kernel.exact import read_resource
from engine.interchange.kernel.view import to_version
from engine.interchange.store import notification
from engine.interchange.store import notification as rows
from engine.interchange.store.notification import (
    NotificationOutcome,
    QueuedNotification,
    SendAttempt,
    Subscribed,
    Subscriber,
)
from engine.interchange.store.transaction import Transaction, milliseconds

# From the first lookup to the status of the answer.
TIMEOUT_SECONDS: Final = 10.0
TAKEN: Final = frozenset({200, 202})
AGENT: Final = "ClinicalDataService-FHIR-Webhook/1.0"


def version_of(queued: QueuedNotification) -> FhirVersion:
    """Return the version of an event's body: that of the base on which its subscription was made."""
    return FhirVersion.STU3 if queued.version == "STU3" else FhirVersion.R4


def shown_body(queued: QueuedNotification) -> bytes:
    """Return the body of a delivery; the event must have one."""
    body = queued.body or b""
    type_name = queued.type or str(read_resource(body)["resourceType"])
    return to_version(body, type_name, version_of(queued))


def headers_of(queued: QueuedNotification, lines: Lines) -> dict[str, str]:
    """Return the headers of a delivery: the subscription's own lines, and those that these cannot override."""
    type_name, slash, rest = queued.event.partition("/")
    event = f"{name_in(version_of(queued), type_name)}/{rest}" if slash else queued.event
    return {
        "accept": "*/*",
        "accept-encoding": "identity",
        **sent_headers(lines),
        "content-type": "application/fhir+json",
        "user-agent": AGENT,
        "x-service-eventid": event,
    }


MINUTE_MS: Final = 60_000
# The first attempt and five more, each RETRY_MS after the one before.
MOST_TRIES: Final = 6
RETRY_MS: Final = 15 * MINUTE_MS
# When an event is dropped, its subscription is suspended after more than MOST_FAILURES without any success, or more
# than MOST_FAILURES_SINCE since a success that is LONG_AGO_MS ago.
MOST_FAILURES: Final = 20
MOST_FAILURES_SINCE: Final = 10
LONG_AGO_MS: Final = timedelta(days=3) // timedelta(milliseconds=1)
# How long events are kept after their end.
KEPT: Final = timedelta(days=7)
# Events that one write deletes.
MOST: Final = 500


class Settled(NamedTuple):
    """The outcomes of some events, how many failed and were dropped, and the reason of the last failure."""

    outcomes: tuple[str, ...]
    failed: int = 0
    dropped: int = 0
    reason: str = ""
    suspended: bool = False


def settle(
    transaction: Transaction,
    subscriber: Subscriber,
    batch: Sequence[QueuedNotification],
    attempts: Sequence[SendAttempt],
) -> Settled:
    """Store the outcomes of some events of a subscription, in the order of their attempts."""
    connection, tenant = transaction.connection, transaction.tenant
    outcomes: list[str] = []
    failed = dropped = 0
    reason = ""
    for queued, attempt in zip(batch, attempts, strict=True):
        if attempt.status in TAKEN:
            notification.end(connection, attempt, NotificationOutcome.DELIVERED)
            rows.succeeded(connection, tenant, subscriber.id, attempt.ended_ms)
            outcomes.append("delivered")
        elif queued.body is None:
            notification.end(connection, attempt, NotificationOutcome.GONE)
            outcomes.append("gone")
        else:
            failed += 1
            reason = attempt.reason or f"answered {attempt.status}"
            rows.failed(connection, tenant, subscriber.id)
            last = queued.tries + 1 >= MOST_TRIES
            dropped += last
            if last:
                notification.end(connection, attempt, NotificationOutcome.DROPPED)
            else:
                notification.again(connection, attempt, attempt.began_ms + RETRY_MS)
            outcomes.append("dropped" if last else "failed")
    suspended = bool(dropped) and _suspend(transaction, subscriber, reason)
    return Settled(tuple(outcomes), failed, dropped, reason, suspended)


def _suspend(transaction: Transaction, subscriber: Subscriber, reason: str) -> bool:
    row = rows.find_subscription(transaction.connection, transaction.tenant, subscriber.id)
    if row is None or not is_hopeless(row, milliseconds(transaction.at)):
        return False
    text = f"Suspended: the endpoint took no event, {row.failures} attempts failed, the last one: {reason}."
    return end_subscription(transaction, subscriber.id, text + " Make it active again once the endpoint is well.")


async def delete_expired_events(service: Service) -> int:
    """Delete the events that ended more than KEPT ago; return their number."""
    deleted = 0
    while numbers := notification.ended_before(service.store.reader(), milliseconds(service.clock() - KEPT), MOST):
        await service.store.write_raw(partial(notification.forget, numbers=numbers))
        deleted += len(numbers)
    return deleted


def is_hopeless(row: Subscribed, now_ms: int) -> bool:
    """True if a subscription is to be suspended, now that one of its events was dropped."""
    if row.success_ms is None:
        return row.failures > MOST_FAILURES
    return row.failures > MOST_FAILURES_SINCE and now_ms - row.success_ms >= LONG_AGO_MS

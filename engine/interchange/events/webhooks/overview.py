"""The queue of webhooks, for operators: events are listed, shown with each attempt, and sent again.

Works with and without a service that runs on the database; a running one notices a change within a second.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from engine.database.connection import Connection
from engine.errors import UsageError
from engine.interchange.rest.resource.definition import SUBSCRIPTION
from engine.interchange.store import notification
from engine.interchange.store.access import append, by_command
from engine.interchange.store.notification import LISTED, NotificationOutcome, PendingNotification, find_subscription
from engine.interchange.store.place import Place, open_known
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction, iso, milliseconds

# The last events are listed, up to this number.
MOST: Final = 1000
NUMBERED: Final = LISTED + " WHERE n.number=?"
FOUND: Final = (
    LISTED + " WHERE (?='' OR tenant.name=?) AND (?='' OR n.subscription=?) AND {state} ORDER BY n.number DESC LIMIT ?"
)
WAITS: Final = "n.ended_ms IS NULL"
ENDED_AS: Final = "n.outcome=?"
WAITING: Final = "waiting"
# Listed by default: events that wait, and dropped ones.
TO_SEE: Final = "(n.ended_ms IS NULL OR n.outcome='dropped')"
# Events with these outcomes can be sent again.
AGAIN: Final = frozenset({NotificationOutcome.DROPPED, NotificationOutcome.OFF})


@dataclass(frozen=True, slots=True)
class EventAttempt:
    """One attempt to send an event; `status` is 0 without an answer. Moments are ISO texts."""

    attempt: int
    began_at: str
    ended_at: str
    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class EventOverview:
    """An event as operators see it: X-Service-EventId, moments and statuses, without its content.

    `server` is the host of the endpoint, '' once the subscription is deleted. `due_at` is '' once the event has ended.
    """

    number: int
    tenant: str
    subscription: str
    event: str
    version: str
    state: str
    made_at: str
    due_at: str
    ended_at: str
    tries: int
    server: str = ""
    attempts: tuple[EventAttempt, ...] = ()


def list_events(
    database: Place, tenant: str = "", subscription: str = "", state: str = ""
) -> tuple[EventOverview, ...]:
    """Return the last MOST events in a state, oldest first; '' is waiting or dropped.

    '' is any tenant, any subscription. StartError for no database.
    """
    connection = open_known(database)
    test, values = (WAITS, ()) if state == WAITING else (ENDED_AS, (state,)) if state else (TO_SEE, ())
    arguments = (tenant, tenant, subscription, subscription, *values, MOST)
    try:
        rows = connection.execute(FOUND.format(state=test), arguments).fetchall()
        return tuple(_overview(PendingNotification(*row)) for row in reversed(rows))
    finally:
        connection.close()


def show_event(database: Place, number: int) -> EventOverview:
    """Return an event with its attempts; UsageError for none."""
    connection = open_known(database)
    try:
        return _with_attempts(connection, _pending(connection, number))
    finally:
        connection.close()


def retry_events(
    database: Place, clock: Callable[[], datetime], number: int = 0, subscription: str = ""
) -> tuple[EventOverview, ...]:
    """Send a given-up event again, or all such events of a subscription, and record that in the access log.

    An event that waits is sent at once. UsageError: there is none, or its subscription is not active.
    """
    connection = open_known(database)
    try:
        events = [_pending(connection, number)] if number else _given_up(connection, subscription)
    finally:
        connection.close()
    store = Store(database, (), clock, {}, alone=False)

    async def write() -> tuple[EventOverview, ...]:
        return tuple([await store.write(event.tenant, partial(_again, pending=event)) for event in events])

    try:
        return asyncio.run(write())
    finally:
        store.close()


def _again(transaction: Transaction, pending: PendingNotification) -> EventOverview:
    present = _pending(transaction.connection, pending.number)
    if present.outcome and present.outcome not in AGAIN:
        raise UsageError(
            f"event {pending.number} is {present.outcome}: only one that waits or was given up is sent again"
        )
    row = find_subscription(transaction.connection, transaction.tenant, pending.subscription)
    if row is None or not row.active:
        problem = "was deleted" if row is None else "is off: its client must make it active first"
        raise UsageError(f"the subscription {pending.subscription} of event {pending.number} {problem}")
    notification.revive(transaction, pending.number)
    at_ms = milliseconds(transaction.at)
    target = (SUBSCRIPTION, pending.subscription)
    append(transaction.connection, (by_command(at_ms, pending.tenant, "R4", "update", target, ""),))
    return _with_attempts(transaction.connection, _pending(transaction.connection, pending.number))


def _given_up(connection: Connection, subscription: str) -> list[PendingNotification]:
    query = FOUND.format(state=ENDED_AS)
    events = [
        PendingNotification(*row)
        for state in sorted(AGAIN)
        for row in connection.execute(query, ("", "", subscription, subscription, str(state), MOST))
    ]
    if not events:
        raise UsageError(f"no event of the subscription {subscription} was given up")
    return sorted(events)


def _pending(connection: Connection, number: int) -> PendingNotification:
    row = connection.execute(NUMBERED, (number,)).fetchone()
    if row is None:
        raise UsageError(f"there is no event {number}: adt-engine interchange webhooks list shows those there are")
    return PendingNotification(*row)


def _with_attempts(connection: Connection, pending: PendingNotification) -> EventOverview:
    tenant = int(connection.execute("SELECT number FROM tenant WHERE name=?", (pending.tenant,)).fetchone()[0])
    row = find_subscription(connection, tenant, pending.subscription)
    attempts = tuple(
        EventAttempt(one.attempt, iso(one.began_ms), iso(one.ended_ms), one.status, one.reason)
        for one in notification.tries(connection, pending.number)
    )
    return replace(
        _overview(pending), server=urlsplit(row.endpoint).netloc if row is not None else "", attempts=attempts
    )


def _overview(pending: PendingNotification) -> EventOverview:
    return EventOverview(
        number=pending.number,
        tenant=pending.tenant,
        subscription=pending.subscription,
        event=pending.event,
        version=str(pending.edition or ""),
        state=pending.outcome or WAITING,
        made_at=iso(pending.made_ms),
        due_at=iso(pending.due_ms) if pending.ended_ms is None else "",
        ended_at=iso(pending.ended_ms),
        tries=pending.tries,
    )

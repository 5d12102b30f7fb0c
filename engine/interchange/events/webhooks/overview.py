"""Events on their way to subscribers, for operators: listed, shown with each attempt, and sent again.

With a service that runs on the database or without one; what a running one is to do it notices within a second.
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
from engine.interchange.rest.resource.subscription import SUBSCRIPTION
from engine.interchange.store import notification
from engine.interchange.store.access import append, by_command
from engine.interchange.store.notification import LISTED, NotificationOutcome, PendingNotification
from engine.interchange.store.place import Place, open_known
from engine.interchange.store.store import Store
from engine.interchange.store.subscription import find_subscription
from engine.interchange.store.transaction import Transaction, iso, milliseconds

# Events that are listed at most, the last ones.
MOST: Final = 1000
NUMBERED: Final = LISTED + " WHERE n.number=?"
FOUND: Final = (
    LISTED + " WHERE (?='' OR tenant.name=?) AND (?='' OR n.subscription=?) AND {state} ORDER BY n.number DESC LIMIT ?"
)
WAITS: Final = "n.ended_ms IS NULL"
ENDED_AS: Final = "n.outcome=?"
WAITING: Final = "waiting"
# What is listed where nothing else is asked for: what waits, and what was given up.
TO_SEE: Final = "(n.ended_ms IS NULL OR n.outcome='dropped')"
# Deliveries of these can be asked for again.
AGAIN: Final = frozenset({NotificationOutcome.DROPPED, NotificationOutcome.OFF})


@dataclass(frozen=True, slots=True)
class EventAttempt:
    """One time that an event was sent: HTTP's status, 0 where there was no answer. Moments are ISO texts."""

    attempt: int
    began_at: str
    ended_at: str
    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class EventOverview:
    """An event as operators see it: X-Service-EventId, moments and statuses, nothing of what it tells.

    `server` is where it goes, without the path; '' for a subscription that was deleted. `due_at` is '' once it ended.
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
    """Return events in the order of their making, the last MOST of them: of a state, else those that need a look.

    '' is any tenant, any subscription. StartError for no database.
    """
    connection = open_known(database)
    test, values = (WAITS, ()) if state == WAITING else (ENDED_AS, (state,)) if state else (TO_SEE, ())
    arguments = (tenant, tenant, subscription, subscription, *values, MOST)
    try:
        rows = connection.execute(FOUND.format(state=test), arguments).fetchall()
        return tuple(_seen(PendingNotification(*row)) for row in reversed(rows))
    finally:
        connection.close()


def show_event(database: Place, number: int) -> EventOverview:
    """Return an event with each time that it was sent; UsageError for none."""
    connection = open_known(database)
    try:
        return _whole(connection, _one(connection, number))
    finally:
        connection.close()


def retry_events(
    database: Place, clock: Callable[[], datetime], number: int = 0, subscription: str = ""
) -> tuple[EventOverview, ...]:
    """Let an event be sent again that was given up, or all such of a subscription, and record that.

    One that waits is sent at once. UsageError: there is none, or its subscription is not active.
    """
    connection = open_known(database)
    try:
        found = [_one(connection, number)] if number else _given_up(connection, subscription)
    finally:
        connection.close()
    store = Store(database, (), clock, {}, alone=False)

    async def write() -> tuple[EventOverview, ...]:
        return tuple([await store.write(one.tenant, partial(_again, owed=one)) for one in found])

    try:
        return asyncio.run(write())
    finally:
        store.close()


def _again(transaction: Transaction, owed: PendingNotification) -> EventOverview:
    present = _one(transaction.connection, owed.number)
    if present.outcome and present.outcome not in AGAIN:
        raise UsageError(f"event {owed.number} is {present.outcome}: only one that waits or was given up is sent again")
    row = find_subscription(transaction.connection, transaction.tenant, owed.subscription)
    if row is None or not row.active:
        told = "was deleted" if row is None else "is off: its client must make it active first"
        raise UsageError(f"the subscription {owed.subscription} of event {owed.number} {told}")
    notification.revive(transaction, owed.number)
    at_ms = milliseconds(transaction.at)
    what = (SUBSCRIPTION, owed.subscription)
    append(transaction.connection, (by_command(at_ms, owed.tenant, "R4", "update", what, ""),))
    return _whole(transaction.connection, _one(transaction.connection, owed.number))


def _given_up(connection: Connection, subscription: str) -> list[PendingNotification]:
    query = FOUND.format(state=ENDED_AS)
    found = [
        PendingNotification(*row)
        for state in sorted(AGAIN)
        for row in connection.execute(query, ("", "", subscription, subscription, str(state), MOST))
    ]
    if not found:
        raise UsageError(f"no event of the subscription {subscription} was given up")
    return sorted(found)


def _one(connection: Connection, number: int) -> PendingNotification:
    row = connection.execute(NUMBERED, (number,)).fetchone()
    if row is None:
        raise UsageError(f"there is no event {number}: adt-engine interchange webhooks list tells which there are")
    return PendingNotification(*row)


def _whole(connection: Connection, owed: PendingNotification) -> EventOverview:
    tenant = int(connection.execute("SELECT number FROM tenant WHERE name=?", (owed.tenant,)).fetchone()[0])
    row = find_subscription(connection, tenant, owed.subscription)
    told = notification.tries(connection, owed.number)
    attempts = tuple(
        EventAttempt(one.attempt, iso(one.began_ms), iso(one.ended_ms), one.status, one.reason) for one in told
    )
    return replace(_seen(owed), server=urlsplit(row.endpoint).netloc if row is not None else "", attempts=attempts)


def _seen(owed: PendingNotification) -> EventOverview:
    return EventOverview(
        number=owed.number,
        tenant=owed.tenant,
        subscription=owed.subscription,
        event=owed.event,
        version=str(owed.edition or ""),
        state=owed.outcome or WAITING,
        made_at=iso(owed.made_ms),
        due_at=iso(owed.due_ms) if owed.ended_ms is None else "",
        ended_at=iso(owed.ended_ms),
        tries=owed.tries,
    )

"""Rows of subscriptions as writes match them, and one row for each notification that is queued for one of them.

A row is made in the transaction of its write: every committed write is notified, and no other.

A change of any of them, and of whom a criterion means, gives the tenant another token: what was compiled of its
criteria holds as long as the token is the same, also after a transaction that was undone.
"""

import secrets
from enum import StrEnum
from typing import Final, NamedTuple

from engine.database.connection import Connection
from engine.interchange.store.transaction import StoredVersion, Transaction, milliseconds

# The order of columns is that of Subscribed.
READ: Final = (
    "SELECT tenant, id, version, type, criteria, endpoint, headers, active, end_ms, success_ms, failures"
    " FROM subscription WHERE tenant=?"
)
FIND: Final = READ + " AND id=?"
ACTIVE: Final = READ + " AND active=1 ORDER BY id"
COUNT_OTHERS: Final = "SELECT count(*) FROM subscription WHERE tenant=? AND active=1 AND id<>?"
# A subscription that starts again drops the earlier delivery counts.
PUT: Final = (
    "INSERT INTO subscription (tenant, id, version, type, criteria, endpoint, headers, active, end_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (tenant, id) DO UPDATE SET version=excluded.version, type=excluded.type, criteria=excluded.criteria,"
    " endpoint=excluded.endpoint, headers=excluded.headers, active=excluded.active, end_ms=excluded.end_ms,"
    " success_ms=CASE WHEN ? THEN NULL ELSE subscription.success_ms END,"
    " failures=CASE WHEN ? THEN 0 ELSE subscription.failures END"
)
DROP: Final = "DELETE FROM subscription WHERE tenant=? AND id=?"
OFF: Final = "UPDATE subscription SET active=0 WHERE tenant=? AND id=?"
OVER: Final = (
    "SELECT tenant.name, subscription.id FROM subscription JOIN tenant ON tenant.number=subscription.tenant"
    " WHERE active=1 AND end_ms IS NOT NULL AND end_ms<=? ORDER BY end_ms LIMIT ?"
)
SUCCEEDED: Final = "UPDATE subscription SET success_ms=?, failures=0 WHERE tenant=? AND id=?"
FAILED: Final = "UPDATE subscription SET failures=failures+1 WHERE tenant=? AND id=?"
TOKEN: Final = "SELECT token FROM subscription_state WHERE tenant=?"  # noqa: S105 - SQL
BEGIN: Final = (
    "INSERT INTO subscription_state (tenant, token) VALUES (?, ?)"
    " ON CONFLICT (tenant) DO UPDATE SET token=excluded.token"
)
CHANGE: Final = "UPDATE subscription_state SET token=? WHERE tenant=?"


class Subscribed(NamedTuple):
    """A subscription as writes are matched with it: `tenant` by its number, `version` the base that it was made on.

    `type` is R4's name of the subscribed type, '' for synthetic events. `headers` are its header lines, sealed.
    `success_ms` is its last delivery, `failures` how often one failed since then; None and 0 once it starts again.
    """

    tenant: int
    id: str
    version: str
    type: str
    criteria: str
    endpoint: str
    headers: bytes
    active: int
    end_ms: int | None
    success_ms: int | None = None
    failures: int = 0


def find_subscription(connection: Connection, tenant: int, subscription_id: str) -> Subscribed | None:
    """Return a subscription, None where it does not exist."""
    row = connection.execute(FIND, (tenant, subscription_id)).fetchone()
    return Subscribed(*row) if row else None


def active_subscriptions(transaction: Transaction) -> tuple[Subscribed, ...]:
    """Return the active subscriptions of a tenant."""
    return tuple(Subscribed(*row) for row in transaction.connection.execute(ACTIVE, (transaction.tenant,)))


def other_active(transaction: Transaction, subscription_id: str) -> int:
    """Count the active subscriptions of a tenant except one."""
    return int(transaction.connection.execute(COUNT_OTHERS, (transaction.tenant, subscription_id)).fetchone()[0])


def put_subscription(transaction: Transaction, row: Subscribed, *, anew: bool) -> None:
    """Keep a subscription; `anew` resets its delivery counts."""
    transaction.connection.execute(PUT, (*row[:9], anew, anew))
    transaction.connection.execute(BEGIN, (transaction.tenant, secrets.token_hex(8)))


def drop_subscription(transaction: Transaction, subscription_id: str) -> None:
    """Remove a deleted subscription from matching."""
    transaction.connection.execute(DROP, (transaction.tenant, subscription_id))
    changed(transaction)


def switch_off(transaction: Transaction, subscription_id: str) -> None:
    """Deactivate a subscription: no write is matched with it."""
    transaction.connection.execute(OFF, (transaction.tenant, subscription_id))
    changed(transaction)


def changed(transaction: Transaction) -> None:
    """Have a tenant's criteria compiled again."""
    transaction.connection.execute(CHANGE, (secrets.token_hex(8), transaction.tenant))


def token(transaction: Transaction) -> str | None:
    """Return the token of the tenant's present subscriptions, None where it never had any."""
    row = transaction.connection.execute(TOKEN, (transaction.tenant,)).fetchone()
    return str(row[0]) if row else None


def over(connection: Connection, at_ms: int, most: int) -> list[tuple[str, str]]:
    """Return tenant and id of active subscriptions whose end has passed, some of them."""
    return connection.execute(OVER, (at_ms, most)).fetchall()


def succeeded(connection: Connection, tenant: int, subscription_id: str, at_ms: int) -> None:
    """Record a successful delivery."""
    connection.execute(SUCCEEDED, (at_ms, tenant, subscription_id))


def failed(connection: Connection, tenant: int, subscription_id: str) -> None:
    """Count a failed delivery."""
    connection.execute(FAILED, (tenant, subscription_id))


# `subscription` has what writes are matched with: `type` and `criteria` as requested, '' for the type of synthetic
# ones; `version` is the base that it was made on, `headers` its header lines, sealed. A change of any
# subscription of a tenant makes the `token` of its `subscription_state` another one. A `notification` is of an
# `edition` of the resource `key`, or has a `body`; it waits while `ended_ms` is null, and ended as `outcome` says.
SUBSCRIPTIONS: Final = """
CREATE TABLE subscription (
    tenant INTEGER NOT NULL,
    id TEXT NOT NULL,
    version TEXT NOT NULL,
    type TEXT NOT NULL,
    criteria TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    headers BLOB NOT NULL,
    active INTEGER NOT NULL,
    end_ms INTEGER,
    success_ms INTEGER,
    failures INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX subscription_active ON subscription (tenant, type, criteria) WHERE active=1;
CREATE INDEX subscription_by_end ON subscription (end_ms) WHERE active=1 AND end_ms IS NOT NULL;
CREATE TABLE subscription_state (tenant INTEGER PRIMARY KEY, token TEXT NOT NULL) STRICT;

CREATE TABLE notification (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant INTEGER NOT NULL,
    subscription TEXT NOT NULL,
    version TEXT NOT NULL,
    event TEXT NOT NULL,
    key INTEGER,
    edition INTEGER,
    body BLOB NOT NULL,
    made_ms INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    ended_ms INTEGER,
    outcome TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX notification_due ON notification (tenant, subscription, due_ms, number) WHERE ended_ms IS NULL;
CREATE INDEX notification_ended ON notification (ended_ms) WHERE ended_ms IS NOT NULL;

CREATE TABLE notification_try (
    number INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    began_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    status INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (number, attempt)
) STRICT, WITHOUT ROWID;
"""

ADD: Final = (
    "INSERT INTO notification (tenant, subscription, version, event, key, edition, body, made_ms, due_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
END_WAITING: Final = (
    "UPDATE notification SET ended_ms=?, outcome=? WHERE tenant=? AND subscription=? AND ended_ms IS NULL"
)
SYNTHETIC: Final = "SELECT id, version FROM subscription WHERE tenant=? AND type=? AND criteria=? AND active=1"

# Active subscriptions with notifications that are due.
READY: Final = (
    "SELECT tenant.name, s.tenant, s.id, s.version, s.endpoint, s.headers, s.failures"
    " FROM subscription AS s JOIN tenant ON tenant.number=s.tenant WHERE s.active=1 AND EXISTS"
    " (SELECT 1 FROM notification AS n WHERE n.ended_ms IS NULL AND n.tenant=s.tenant AND n.subscription=s.id"
    " AND n.due_ms<=?)"
)
# The present version's body is in the row of the resource, that of a former one in `version`.
DUE: Final = (
    "SELECT n.number, n.version, n.event, n.tries, resource.type, CASE WHEN n.key IS NULL THEN n.body"
    " WHEN resource.version=n.edition THEN resource.body ELSE"
    " (SELECT body FROM version WHERE version.key=n.key AND version.version=n.edition) END"
    " FROM notification AS n LEFT JOIN resource ON resource.key=n.key"
    " WHERE n.ended_ms IS NULL AND n.tenant=? AND n.subscription=? AND n.due_ms<=? ORDER BY n.due_ms, n.number LIMIT ?"
)
TRIED: Final = (
    "INSERT INTO notification_try (number, attempt, began_ms, ended_ms, status, reason)"
    " SELECT ?, coalesce(max(attempt), 0) + 1, ?, ?, ?, ? FROM notification_try WHERE number=?"
)
END: Final = "UPDATE notification SET tries=tries+1, ended_ms=?, outcome=? WHERE number=? AND ended_ms IS NULL"
AGAIN: Final = "UPDATE notification SET tries=tries+1, due_ms=? WHERE number=? AND ended_ms IS NULL"
LISTED: Final = (
    "SELECT n.number, tenant.name, n.subscription, n.event, n.edition, n.made_ms, n.due_ms, n.tries, n.ended_ms,"
    " n.outcome FROM notification AS n JOIN tenant ON tenant.number=n.tenant"
)
TRIES: Final = (
    "SELECT attempt, began_ms, ended_ms, status, reason FROM notification_try WHERE number=? ORDER BY attempt"
)
# All attempts are available again.
REVIVE: Final = "UPDATE notification SET ended_ms=NULL, outcome='', tries=0, due_ms=? WHERE number=?"
WAITING: Final = "SELECT count(*), min(made_ms) FROM notification WHERE ended_ms IS NULL"
OLD: Final = "SELECT number FROM notification WHERE ended_ms<? ORDER BY ended_ms LIMIT ?"
FORGET: Final = ("DELETE FROM notification_try WHERE number=?", "DELETE FROM notification WHERE number=?")


class NotificationOutcome(StrEnum):
    """How an event ended: NONE while it waits, OFF and DELETED for the subscription's own end."""

    NONE = ""
    DELIVERED = "delivered"
    DROPPED = "dropped"
    OFF = "off"
    DELETED = "deleted"
    # A version that is no longer kept (the tenant's `history`) cannot be sent any more.
    GONE = "gone"


class Subscriber(NamedTuple):
    """An active subscription with queued events: its tenant's name and number, its id, and its endpoint.

    `failures`: failed attempts since the last event that it accepted.
    """

    tenant: str
    number: int
    id: str
    version: str
    endpoint: str
    headers: bytes
    failures: int


class QueuedNotification(NamedTuple):
    """An event to be sent now; `type` is that of a stored resource, and `body` None once that version is gone."""

    number: int
    version: str
    event: str
    tries: int
    type: str | None
    body: bytes | None


class SendAttempt(NamedTuple):
    """One attempt to send an event: the HTTP `status`, 0 without an answer; `reason` is for operators."""

    number: int
    began_ms: int
    ended_ms: int
    status: int
    reason: str


class PendingNotification(NamedTuple):
    """An event as operators see it: moments in milliseconds, `edition` the version of a stored resource."""

    number: int
    tenant: str
    subscription: str
    event: str
    edition: int | None
    made_ms: int
    due_ms: int
    tries: int
    ended_ms: int | None
    outcome: str


class AttemptSummary(NamedTuple):
    """One attempt as operators see it."""

    attempt: int
    began_ms: int
    ended_ms: int
    status: int
    reason: str


class NotificationEvent(NamedTuple):
    """An event: its name (X-Service-EventId) and its resource in R4, as bytes of JSON.

    For a stored resource `stored` names its version, and `body` is empty.
    """

    name: str
    body: bytes = b""
    stored: StoredVersion | None = None


def end_waiting(
    connection: Connection, tenant: int, subscription: str, at_ms: int, outcome: "NotificationOutcome"
) -> None:
    """End the waiting events of a subscription that was switched off or deleted (`outcome`)."""
    connection.execute(END_WAITING, (at_ms, str(outcome), tenant, subscription))


def enqueue(transaction: Transaction, subscription: str, version: str, event: NotificationEvent) -> None:
    """Queue an event for a subscription (its id, and the FHIR version to send: 'R4' or 'STU3')."""
    at_ms = milliseconds(transaction.at)
    kept = (event.stored.key, event.stored.version) if event.stored is not None else (None, None)
    row = (transaction.tenant, subscription, version, event.name, *kept, event.body, at_ms, at_ms)
    transaction.connection.execute(ADD, row)
    transaction.queued = True


def announce(transaction: Transaction, criteria: str, event: NotificationEvent) -> int:
    """Queue an event for each active subscription with these synthetic criteria (`Patient.P360`); return how many."""
    found = transaction.connection.execute(SYNTHETIC, (transaction.tenant, "", criteria)).fetchall()
    for subscription, version in found:
        enqueue(transaction, subscription, version, event)
    return len(found)


def ready(connection: Connection, at_ms: int) -> tuple[Subscriber, ...]:
    """Return the active subscriptions with due events."""
    return tuple(Subscriber(*row) for row in connection.execute(READY, (at_ms,)))


def due(connection: Connection, subscriber: Subscriber, at_ms: int, most: int) -> tuple[QueuedNotification, ...]:
    """Return the due events of a subscription, at most `most`, earliest first."""
    return tuple(
        QueuedNotification(*row) for row in connection.execute(DUE, (subscriber.number, subscriber.id, at_ms, most))
    )


def end(connection: Connection, attempt: SendAttempt, outcome: NotificationOutcome) -> None:
    """Record the last attempt of an event, and end it."""
    _tried(connection, attempt)
    connection.execute(END, (attempt.ended_ms, str(outcome), attempt.number))


def again(connection: Connection, attempt: SendAttempt, due_ms: int) -> None:
    """Record a failed attempt, and when the next one is due."""
    _tried(connection, attempt)
    connection.execute(AGAIN, (due_ms, attempt.number))


def _tried(connection: Connection, attempt: SendAttempt) -> None:
    connection.execute(TRIED, (*attempt, attempt.number))


def tries(connection: Connection, number: int) -> tuple[AttemptSummary, ...]:
    """Return the attempts to send an event."""
    return tuple(AttemptSummary(*row) for row in connection.execute(TRIES, (number,)))


def revive(transaction: Transaction, number: int) -> None:
    """Queue an ended event again, due at once and with all attempts."""
    transaction.connection.execute(REVIVE, (milliseconds(transaction.at), number))


def waiting(connection: Connection) -> tuple[int, int | None]:
    """Return the number of waiting events, and since when the oldest waits."""
    count, since_ms = connection.execute(WAITING).fetchone()
    return count, since_ms


def ended_before(connection: Connection, at_ms: int, most: int) -> list[int]:
    """Return at most `most` events that ended before a moment."""
    return [number for (number,) in connection.execute(OLD, (at_ms, most))]


def forget(connection: Connection, numbers: list[int]) -> None:
    """Delete events with their attempts."""
    for statement in FORGET:
        connection.executemany(statement, [(number,) for number in numbers])

"""What webhooks are told: subscriptions as the writes match them, and one row for each event that one of them is owed.

A row is made in the transaction of what it tells, so that nothing is told of a write that was not committed, and
nothing that was is left out.
"""

from typing import Final, NamedTuple

from engine.interchange.store.transaction import Stored, Transaction, milliseconds
from engine.sqlite import Connection

# `subscription` has those that writes are matched with: `type` and `criteria` as asked for, '' for the type of
# synthetic ones; `version` is the base that it was made on, `headers` its header lines, sealed. A change of any
# subscription of a tenant makes the `token` of its `subscription_state` another one. A `notification` tells an
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
CREATE INDEX notification_due ON notification (due_ms, number) WHERE ended_ms IS NULL;
CREATE INDEX notification_by_subscription ON notification (tenant, subscription, number);
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


class Event(NamedTuple):
    """What happened: its name (X-Service-EventId) and the resource that tells it, in R4, as bytes of JSON.

    For a resource that is kept `stored` says which version of which, and `body` is empty.
    """

    name: str
    body: bytes = b""
    stored: Stored | None = None


def end_waiting(connection: Connection, tenant: int, subscription: str, at_ms: int, outcome: str) -> None:
    """Let a subscription be owed nothing any more, as it was switched off or deleted (`outcome`)."""
    connection.execute(END_WAITING, (at_ms, outcome, tenant, subscription))


def enqueue(transaction: Transaction, subscription: str, version: str, event: Event) -> None:
    """Owe an event to a subscription (its id, and the FHIR version that it is told in: 'R4' or 'STU3')."""
    at_ms = milliseconds(transaction.at)
    kept = (event.stored.key, event.stored.version) if event.stored is not None else (None, None)
    row = (transaction.tenant, subscription, version, event.name, *kept, event.body, at_ms, at_ms)
    transaction.connection.execute(ADD, row)
    transaction.owed = True


def announce(transaction: Transaction, criteria: str, event: Event) -> int:
    """Owe an event to each active subscription with these synthetic criteria (`Patient.P360`); return how many."""
    found = transaction.connection.execute(SYNTHETIC, (transaction.tenant, "", criteria)).fetchall()
    for subscription, version in found:
        enqueue(transaction, subscription, version, event)
    return len(found)

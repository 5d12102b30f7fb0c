"""Rows of subscriptions: the criteria, the endpoint, and the deliveries so far.

A change of any of them, and of whom a criterion means, gives the tenant another token: what was compiled of its
criteria holds as long as the token is the same, also after a transaction that was undone.
"""

import secrets
from typing import Final, NamedTuple

from engine.database.connection import Connection
from engine.interchange.store.transaction import Transaction

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

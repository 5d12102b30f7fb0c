"""Index rows of an existing database, rebuilt when the search parameters have changed.

It goes on where it was interrupted, and keeps few resources in memory at a time. Searches come only after it: until
then they would miss who is there.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

from engine.database.connection import Connection
from engine.interchange.store.index import index_rows, write_index
from engine.interchange.store.transaction import Indexer, StoredVersion
from engine.telemetry import logger

# What one commit takes at most; one resource at least.
BATCH: Final = 500
BATCH_BYTES: Final = 16_777_216

STATE: Final = "SELECT edition, reached, done FROM indexing"
BEGIN: Final = (
    "INSERT INTO indexing (one, edition, reached, done) VALUES (1, ?, 0, 0)"
    " ON CONFLICT (one) DO UPDATE SET edition = excluded.edition, reached = 0, done = 0"
)
REACH: Final = "UPDATE indexing SET reached = ?, done = ?"
NEXT: Final = (
    "SELECT tenant, key, type, id, version, updated_ms, survivor, body FROM resource"
    " WHERE key > ? AND survivor IS NULL ORDER BY key LIMIT ?"
)


def digest(texts: Iterable[str]) -> str:
    """Return a short digest of some texts."""
    return sha256("\n".join(texts).encode()).hexdigest()[:16]


def bring_up_to(edition: str, connection: Connection, indexers: Mapping[str, Indexer], begin: str) -> None:
    """Rebuild the rows of every live resource by an edition, unless they are of that edition.

    `begin` is how a transaction that writes begins.
    """
    known = connection.execute(STATE).fetchone()
    if known is not None and (known[0], known[2]) == (edition, 1):
        return
    if known is None or known[0] != edition:
        connection.execute(BEGIN, (edition,))
        known = (edition, 0, 0)
    reached, count = known[1], 0
    connection.execute(begin)
    while batch := _batch(connection, reached):
        if not count:
            logger().info("indexing")
        for tenant, stored in batch:
            _index(connection, tenant, stored, indexers)
        reached = batch[-1][1].key
        connection.execute(REACH, (reached, 0))
        connection.execute("COMMIT")
        count += len(batch)
        connection.execute(begin)
    connection.execute(REACH, (reached, 1))
    connection.execute("COMMIT")
    if count:
        logger().info("indexed", count=count)


def _batch(connection: Connection, reached: int) -> list[tuple[int, StoredVersion]]:
    batch: list[tuple[int, StoredVersion]] = []
    size = 0
    cursor = connection.execute(NEXT, (reached, BATCH))
    for tenant, *columns in cursor:
        batch.append((tenant, StoredVersion(*columns)))
        size += len(batch[-1][1].body)
        if size > BATCH_BYTES:
            break
    cursor.close()
    return batch


def _index(connection: Connection, tenant: int, stored: StoredVersion, indexers: Mapping[str, Indexer]) -> None:
    try:
        after = indexers[stored.type](stored.resource())
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        # An unreadable body: `interchange verify` reports it, and all others are served.
        return
    write_index(connection, tenant, stored.key, index_rows(connection, stored.key), after)

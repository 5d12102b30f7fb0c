"""The snapshot behind the pages of a chart: its keys, kept until its links expire.

The same list of keys is kept once, however often it is asked for. A search by POST keeps what it asks for likewise.
"""

import zlib
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple

import orjson

from engine.interchange.store.transaction import Transaction

# Snapshots that a tenant may have at a time; beyond them those that end first go.
MOST: Final = 10_000
DIGEST_BYTES: Final = 16

GET: Final = "SELECT keys FROM continuation WHERE digest = ? AND tenant = ?"
EXPIRY: Final = "SELECT expires_ms FROM continuation WHERE digest = ?"
KEEP: Final = (
    "INSERT INTO continuation (digest, tenant, keys, expires_ms) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (digest) DO UPDATE SET expires_ms = excluded.expires_ms"
    " WHERE excluded.expires_ms > continuation.expires_ms"
)
FORGET: Final = "DELETE FROM continuation WHERE expires_ms < ?"
COUNT: Final = "SELECT count(*) FROM continuation WHERE tenant = ?"
MAKE_ROOM: Final = (
    "DELETE FROM continuation WHERE digest IN"
    " (SELECT digest FROM continuation WHERE tenant = ? ORDER BY expires_ms LIMIT ?)"
)


class Snapshot(NamedTuple):
    """The keys of an answer, packed, with their digest as id."""

    digest: bytes
    packed: bytes

    @classmethod
    def of(cls, tenant: int, patient: int, keys: Sequence[int]) -> "Snapshot":
        """Return the snapshot of some keys of a patient's chart."""
        listed = orjson.dumps(keys)
        digest = sha256(b"%d %d %b" % (tenant, patient, listed)).digest()[:DIGEST_BYTES]
        return cls(digest, zlib.compress(listed, 1))

    @property
    def keys(self) -> tuple[int, ...]:
        """The keys, in the order of the answer."""
        return tuple(orjson.loads(zlib.decompress(self.packed)))


def find_snapshot(transaction: Transaction, digest: bytes) -> Snapshot | None:
    """Return a snapshot; None for one that is no longer kept."""
    row = transaction.connection.execute(GET, (digest, transaction.tenant)).fetchone()
    return Snapshot(digest, bytes(row[0])) if row else None


def kept_until(transaction: Transaction, snapshot: Snapshot) -> int:
    """Return until when a snapshot is kept, in milliseconds since 1970; 0 for an unknown one."""
    row = transaction.connection.execute(EXPIRY, (snapshot.digest,)).fetchone()
    return int(row[0]) if row else 0


def keep_snapshot(snapshot: Snapshot, now_ms: int, until_ms: int, transaction: Transaction) -> None:
    """Keep a snapshot, new or known, until a moment at least; delete the expired ones and those beyond the limit."""
    execute = transaction.connection.execute
    execute(FORGET, (now_ms,))
    execute(KEEP, (snapshot.digest, transaction.tenant, snapshot.packed, until_ms))
    surplus = int(execute(COUNT, (transaction.tenant,)).fetchone()[0]) - MOST
    if surplus > 0:
        execute(MAKE_ROOM, (transaction.tenant, surplus))

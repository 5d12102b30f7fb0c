"""The way back: what each relay was last sent of a resource, and the versions that the engine has written itself.

Each function works on any connection of the journal; hand `forget` to `Journal.write`.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from engine.database.connection import Connection
from engine.journal.entry import SENT as METHOD
from engine.journal.entry import OwnWrite, SentResource, Settlement
from engine.journal.file.sealing import Sealing, request_at
from engine.journal.moment import from_micros, optional_micros, to_micros

# An event that comes later than this is taken for somebody else's change.
KEPT: Final = timedelta(days=30)
MOST_FORGOTTEN: Final = 5000

# Remember what a relay was sent of a resource.
SEND: Final = """
INSERT INTO sent_resource (destination, resource, version, state, seq) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (destination, resource) DO UPDATE
SET version = excluded.version, state = excluded.state, seq = excluded.seq
"""
# What a relay was last sent of a resource.
SENT: Final = "SELECT version, state FROM sent_resource WHERE destination = ? AND resource = ?"
# Remember a version that the engine has written.
WRITE: Final = """
INSERT INTO own_write (server, resource, version, channel, moment, at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (server, resource, version) DO UPDATE
SET channel = excluded.channel, moment = excluded.moment, at = excluded.at
"""
# For which channel the engine has written a version, and when.
WRITTEN: Final = "SELECT channel, moment FROM own_write WHERE server = ? AND resource = ? AND version = ?"
# When the first event of a channel took place, of those that are still known.
FIRST: Final = """
SELECT COALESCE(event_at, received_at) FROM entry WHERE seq = (SELECT MIN(seq) FROM entry WHERE channel = ?)
"""
# What is under way at a destination, at any node.
CLAIMED: Final = "SELECT seq FROM delivery WHERE destination = ? AND state = 'claimed'"
# The newest message that was made for a relay of an entry, and the number of its attempt; none of before somebody let
# the entry go on.
MADE: Final = """
SELECT number, body FROM attempt WHERE seq = ? AND destination = ? AND method = ? AND length(body) > 0
AND at >= COALESCE((SELECT MAX(r.at) FROM replayed AS r WHERE r.seq = ? AND r.destination = ?), 0)
ORDER BY number DESC LIMIT 1
"""
# Forget versions that were written long ago, some at a time.
FORGET: Final = """
DELETE FROM own_write WHERE (server, resource, version) IN
(SELECT server, resource, version FROM own_write WHERE at < ? ORDER BY at LIMIT ?)
"""


def remember(connection: Connection, settlements: Sequence[Settlement]) -> None:
    """Keep what settlements tell of resources that were sent, and of versions that were written."""
    sent = [
        (one.destination, one.sent.resource, one.sent.version, one.sent.state, one.seq)
        for one in settlements
        if one.sent is not None
    ]
    written = [
        (each.server, each.resource, each.version, each.channel, optional_micros(each.moment), to_micros(one.at))
        for one in settlements
        for each in one.own_writes
    ]
    for statement, rows in ((SEND, sent), (WRITE, written)):
        if rows:
            connection.executemany(statement, rows)


def sent(connection: Connection, destination: str, resource: str) -> SentResource | None:
    """Return what a relay was last sent of a resource; None where it was sent nothing."""
    row = connection.execute(SENT, (destination, resource)).fetchone()
    return SentResource(resource, *row) if row is not None else None


def written(connection: Connection, server: str, resource: str, version: str) -> OwnWrite | None:
    """Return what the engine has written as a version; None where it has not."""
    row = connection.execute(WRITTEN, (server, resource, version)).fetchone()
    if row is None:
        return None
    return OwnWrite(server, resource, version, row[0], from_micros(row[1]) if row[1] is not None else None)


def first_event(connection: Connection, channel: str) -> datetime | None:
    """Return when the first event of a channel took place; None where none is known."""
    row = connection.execute(FIRST, (channel,)).fetchone()
    return from_micros(row[0]) if row is not None else None


def claimed(connection: Connection, destinations: Sequence[str]) -> set[tuple[str, int]]:
    """Return what any node has claimed for some destinations, by destination and entry."""
    return {(name, seq) for name in destinations for (seq,) in connection.execute(CLAIMED, (name,)).fetchall()}


def last_message(connection: Connection, sealing: Sealing | None, seq: int, destination: str) -> bytes:
    """Return the message that was last made for a relay of an entry; empty where none was."""
    row = connection.execute(MADE, (seq, destination, METHOD, seq, destination)).fetchone()
    if row is None:
        return b""
    number, body = row
    return bytes(body) if sealing is None else sealing.unseal(body, request_at(seq, destination, number))


def forget(connection: Connection, now: datetime) -> int:
    """Forget some of the versions that were written longer ago than they are of use; return how many."""
    return connection.execute(FORGET, (to_micros(now - KEPT), MOST_FORGOTTEN)).rowcount

"""What a wrong clock must not do: keep retries waiting after it was set back, or take bodies while it is far ahead.

Each function works on the writing connection: hand it to `Journal.write` or `Journal.read`.
"""

from datetime import datetime, timedelta
from typing import Final

from engine.database.connection import Connection
from engine.journal.claim.claiming import DESTINATIONS
from engine.journal.moment import from_micros, to_micros

# An engine that was off for longer than a weekend asks, too; so does a clock that was wrong when it started.
FAR: Final = timedelta(days=3)

# What was settled in the future was settled before the clock went back: the wait it was given begins anew.
HURRY: Final = """
UPDATE delivery SET due_at = ?2 + CASE WHEN due_at > settled_at THEN due_at - settled_at ELSE 0 END
WHERE destination = ?1 AND due_at > ?2 AND settled_at > ?2
"""
# When the newest entry came in.
NEWEST: Final = "SELECT received_at FROM entry WHERE seq = (SELECT MAX(seq) FROM entry)"
# The last moment that was taken for true.
KNOWN: Final = "SELECT at FROM clock WHERE id = 1"
# Take a moment for true.
TRUST: Final = "INSERT INTO clock (id, at) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET at = excluded.at"


def hurry(connection: Connection, now: datetime) -> None:
    """Let no retry wait longer than it was meant to, though the clock was set back since."""
    for (destination,) in connection.execute(DESTINATIONS).fetchall():
        connection.execute(HURRY, (destination, to_micros(now)))


def newest(connection: Connection) -> datetime | None:
    """Return when the newest entry came in, by the clock of then; None where there is none."""
    row = connection.execute(NEWEST).fetchone()
    return from_micros(row[0]) if row else None


def ahead(connection: Connection, now: datetime) -> timedelta:
    """Return how far the clock is beyond what was last taken for true; zero where that is not far."""
    row = connection.execute(KNOWN).fetchone()
    known = from_micros(row[0]) if row else newest(connection)
    beyond = now - known if known else timedelta()
    return beyond if beyond > FAR else timedelta()


def trust(connection: Connection, now: datetime) -> None:
    """Take a moment for true."""
    connection.execute(TRUST, (to_micros(now),))


def believe(connection: Connection, now: datetime) -> timedelta:
    """Take a moment for true unless it is far ahead; return how far, zero where it is not."""
    beyond = ahead(connection, now)
    if not beyond:
        trust(connection, now)
    return beyond

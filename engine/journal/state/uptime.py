"""When the engine ran: each minute it notes that it does; where it has not for two minutes, a new row begins.

A shared journal has one set of rows: the engine runs while any node does. Each function works on the writing
connection, but for `runs`, which takes any.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

from engine.database.connection import Connection
from engine.journal.moment import from_micros, to_micros
from engine.journal.state.alerting import Outage

# What is shorter is no outage: a kill leaves the engine seen up to a minute before it ended.
LEAST: Final = timedelta(minutes=2)
KEPT: Final = timedelta(days=80)

# The newest row.
NEWEST: Final = "SELECT began_at, seen_at FROM uptime ORDER BY began_at DESC LIMIT 1"
# The engine runs again.
BEGIN: Final = "INSERT INTO uptime (began_at, seen_at) VALUES (?, ?)"
# It still does.
SEEN: Final = "UPDATE uptime SET seen_at = ? WHERE began_at = ? AND seen_at < ?"
# All rows: one for each outage.
RUNS: Final = "SELECT began_at, seen_at FROM uptime ORDER BY began_at"
# Drop what ended long ago.
FORGET: Final = "DELETE FROM uptime WHERE seen_at < ?"


# What an outage of the engine is called, next to the alerts of destinations.
STOPPED: Final = "stopped"
ENGINE: Final = "engine"


class UptimePeriod(NamedTuple):
    """From when on the engine ran, and when it was last seen to."""

    began_at: datetime
    seen_at: datetime


def seen(connection: Connection, now: datetime) -> datetime:
    """Note that the engine runs; return since when it has, without an outage in between."""
    newest, moment = connection.execute(NEWEST).fetchone(), to_micros(now)
    if newest is not None and now - from_micros(newest[1]) < LEAST:
        connection.execute(SEEN, (moment, newest[0], moment))
        return from_micros(newest[0])
    connection.execute(BEGIN, (moment, moment))
    connection.execute(FORGET, (to_micros(now - KEPT),))
    return now


def runs(connection: Connection) -> tuple[UptimePeriod, ...]:
    """Return when the engine ran, oldest first; nothing is known of what was before the first."""
    return tuple(
        UptimePeriod(from_micros(began), from_micros(last)) for began, last in connection.execute(RUNS).fetchall()
    )


def stopped(found: Sequence[UptimePeriod], since: datetime, until: datetime) -> Iterator[Outage]:
    """Yield when the engine did not run in a time that ends now or earlier; the last one may last."""
    for before, after in pairwise(found):
        if after.began_at > since and before.seen_at < until:
            yield Outage(STOPPED, ENGINE, before.seen_at, after.began_at)
    if found and until - found[-1].seen_at >= LEAST:
        yield Outage(STOPPED, ENGINE, found[-1].seen_at, None)

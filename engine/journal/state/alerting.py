"""Alerts as the journal keeps them, over restarts; who was seen on which channel; and how much came in which hour.

Each function works on the writing connection: hand it to `Journal.write` or `Journal.read`.
"""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from engine.database.connection import Connection, Row, by_name
from engine.journal.moment import from_micros, optional_from_micros, to_micros
from engine.journal.opening import open_reader

# Open an alert, or say of an open one what it is now.
OPEN: Final = """
INSERT INTO alert (kind, subject, detail, opened_at) VALUES (?, ?, ?, ?)
ON CONFLICT (kind, subject) WHERE cleared_at IS NULL DO UPDATE SET detail = excluded.detail
"""
# End an open alert.
CLEAR: Final = "UPDATE alert SET cleared_at = ? WHERE kind = ? AND subject = ? AND cleared_at IS NULL"
# The alerts that are open, oldest first.
OPEN_NOW: Final = """
SELECT id, kind, subject, detail, opened_at, cleared_at, acknowledged_at, acknowledged_by FROM alert
WHERE cleared_at IS NULL ORDER BY id
"""
# The newest alerts, open or not.
LATEST: Final = """
SELECT id, kind, subject, detail, opened_at, cleared_at, acknowledged_at, acknowledged_by FROM alert
ORDER BY id DESC LIMIT ?
"""
# The alerts that were open in a time: those that are, and those that were cleared since.
OPEN_SINCE: Final = """
SELECT kind, subject, opened_at, cleared_at FROM alert WHERE cleared_at IS NULL AND opened_at < ?
UNION ALL SELECT kind, subject, opened_at, cleared_at FROM alert WHERE cleared_at >= ? AND opened_at < ?
"""
# Somebody has seen an alert; the first one counts.
ACKNOWLEDGE: Final = """
UPDATE alert SET acknowledged_at = ?, acknowledged_by = ? WHERE id = ? AND acknowledged_at IS NULL
"""
# Drop alerts that ended long ago.
FORGET: Final = "DELETE FROM alert WHERE cleared_at IS NOT NULL AND cleared_at < ?"
# Note a name that a channel has shown; known ones stay as they are.
SEE: Final = "INSERT INTO seen (channel, kind, name, first_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
# All names that channels have shown.
SEEN: Final = "SELECT channel, kind, name FROM seen"
# Hours since 1970, of the minutes that the journal counts.
TRAFFIC: Final = """
SELECT channel, at / 3600000000 AS hour, SUM(count) FROM arrived WHERE unit = 'minute' AND at >= ?
GROUP BY channel, hour
"""

KEPT: Final = timedelta(days=90)
WEEKS: Final = timedelta(weeks=5)


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert: `kind` is a code of the table of reasons, `subject` what it is about, `detail` holds no patient."""

    id: int
    kind: str
    subject: str
    detail: str
    opened_at: datetime
    cleared_at: datetime | None = None
    acknowledged_at: datetime | None = None
    acknowledged_by: str = ""


# While one of these is open, a destination takes nothing.
BLOCKING: Final = ("destination-down", "destination-failure", "destination-paused", "hold-storm")


class Outage(NamedTuple):
    """A time in which a destination took nothing, or the engine did not run; `ended_at` is None while it lasts."""

    kind: str
    subject: str
    began_at: datetime
    ended_at: datetime | None


def outages(connection: Connection, since: datetime, until: datetime) -> tuple[Outage, ...]:
    """Return when destinations took nothing in a time, by their alerts; from any connection of the journal."""
    end = to_micros(until)
    rows = by_name(connection, OPEN_SINCE, (end, to_micros(since), end)).fetchall()
    found = (
        Outage(row["kind"], row["subject"], from_micros(row["opened_at"]), optional_from_micros(row["cleared_at"]))
        for row in rows
        if row["kind"] in BLOCKING
    )
    return tuple(sorted(found, key=lambda one: (one.began_at, one.subject, one.kind)))


def open_alert(connection: Connection, kind: str, subject: str, detail: str, now: datetime) -> Alert:
    """Open an alert, or change the detail of the one that is open, and return it."""
    connection.execute(OPEN, (kind, subject, detail, to_micros(now)))
    return next(one for one in open_alerts(connection) if (one.kind, one.subject) == (kind, subject))


def clear_alert(connection: Connection, kind: str, subject: str, now: datetime) -> None:
    """Clear the alert that is open, if one is; forget what was cleared long ago."""
    connection.execute(CLEAR, (to_micros(now), kind, subject))
    connection.execute(FORGET, (to_micros(now - KEPT),))


def open_alerts(connection: Connection) -> tuple[Alert, ...]:
    """Return the alerts that are open, oldest first."""
    return tuple(map(_alert, by_name(connection, OPEN_NOW)))


def latest_alerts(connection: Connection, limit: int) -> tuple[Alert, ...]:
    """Return the newest alerts, cleared ones among them, newest first."""
    return tuple(map(_alert, by_name(connection, LATEST, (limit,))))


def acknowledge(connection: Connection, number: int, now: datetime, by: str) -> bool:
    """Note who has taken care of an alert; False where somebody has before, or there is none."""
    return bool(connection.execute(ACKNOWLEDGE, (to_micros(now), by, number)).rowcount)


def see(connection: Connection, sights: Iterable[tuple[str, str, str]], now: datetime) -> None:
    """Remember what was seen: channel, kind and name."""
    connection.executemany(SEE, [(*sight, to_micros(now)) for sight in sights])


def seen(connection: Connection) -> dict[str, set[tuple[str, str]]]:
    """Return what was ever seen, by channel: kinds and names."""
    found: dict[str, set[tuple[str, str]]] = {}
    for channel, kind, name in connection.execute(SEEN).fetchall():
        found.setdefault(channel, set()).add((kind, name))
    return found


def traffic(folder: Path, now: datetime) -> dict[str, dict[int, int]]:
    """Return how many messages came in the last weeks, by channel and hour since 1970; read from the file."""
    found: dict[str, dict[int, int]] = {}
    with closing(open_reader(folder)) as connection:
        for channel, hour, messages in connection.execute(TRAFFIC, (to_micros(now - WEEKS),)).fetchall():
            found.setdefault(channel, {})[hour] = messages
    return found


def hour_of(moment: datetime) -> int:
    """Return the hour of a moment, counted since 1970 in UTC."""
    return int(moment.astimezone(UTC).timestamp() // 3600)


def _alert(row: Row) -> Alert:
    return Alert(
        row["id"], row["kind"], row["subject"], row["detail"], from_micros(row["opened_at"]),
        optional_from_micros(row["cleared_at"]), optional_from_micros(row["acknowledged_at"]), row["acknowledged_by"],
    )  # fmt: skip

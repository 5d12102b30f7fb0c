"""In which form the numbers of each FHIR system are searched, and which numbers are known at destinations."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from engine.database.connection import Connection
from engine.journal.entry import KnownIdentity
from engine.journal.moment import to_micros

# The forms in force.
FORMS: Final = "SELECT system, form FROM number_form"
# Put a form in force.
PUT: Final = """
INSERT INTO number_form (system, form, since) VALUES (?, ?, ?)
ON CONFLICT (system) DO UPDATE SET form = excluded.form, since = excluded.since WHERE number_form.form <> excluded.form
"""
# The numbers of a system that are known at a destination.
OF_SYSTEM: Final = """
SELECT value, logical_id, status FROM known WHERE destination = ? AND system = ? AND value > ? ORDER BY value LIMIT ?
"""


def forms(connection: Connection) -> dict[str, str]:
    """Return the form in force of each system that has, or had, one; empty where its numbers are searched as sent."""
    return dict(connection.execute(FORMS).fetchall())


def put_forms(connection: Connection, now_in_force: Mapping[str, str], now: datetime) -> None:
    """Note the forms that are in force from now on."""
    gone = dict.fromkeys(forms(connection), "")
    rows = [(system, form, to_micros(now)) for system, form in (gone | dict(now_in_force)).items()]
    connection.executemany(PUT, rows)


def numbers_of(connection: Connection, destination: str, system: str, after: str, most: int) -> list[KnownIdentity]:
    """Return at most `most` numbers of a system that are known at a destination, in order, from the one after `after`.

    A sealed journal has names in place of the values. The survivors are left out.
    """
    rows = connection.execute(OF_SYSTEM, (destination, system, after, most)).fetchall()
    return [KnownIdentity(destination, system, row[0], row[1], row[2], "") for row in rows]

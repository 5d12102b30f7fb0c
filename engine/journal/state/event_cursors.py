"""How far a channel has taken the events of a FHIR server, type by type, and the Subscriptions that it has made there.

A Subscription is kept under `Subscription/Patient`, with the id that the server gave it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from engine.database.connection import Connection, json_list
from engine.journal.write.duplicates import SEEN

# How far a channel has come, by type.
CURSORS: Final = "SELECT type, at FROM event_cursor WHERE channel = ?"
# Move a channel on.
MOVE: Final = """
INSERT INTO event_cursor (channel, type, at) VALUES (?, ?, ?)
ON CONFLICT (channel, type) DO UPDATE SET at = excluded.at
"""


def read(connection: Connection, channel: str) -> dict[str, str]:
    """Return how far a channel has come, by type."""
    return dict(connection.execute(CURSORS, (channel,)).fetchall())


def move(connection: Connection, channel: str, places: Mapping[str, str]) -> None:
    """Note how far a channel has come, of some types."""
    connection.executemany(MOVE, [(channel, type_, at) for type_, at in places.items()])


def known(connection: Connection, channel: str, source: str, names: Sequence[str]) -> frozenset[str]:
    """Return the events that came in already, by name and whatever their bytes."""
    wanted = json_list([(name, source, channel) for name in names])
    return frozenset(names[position] for (position,) in connection.execute(SEEN, (wanted,)).fetchall())

"""What people did with an entry: every replay and release of it with how it stood before, and the edit that made it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson

from engine.journal.file.database import open_reader
from engine.journal.file.sealing import configured, edit_at, opened
from engine.journal.moment import optional_from_micros

MOST: Final = 200

REPLAYED: Final = """
SELECT destination, act, by, at, run, forced, state, reason, mapping FROM replayed
WHERE seq = ? ORDER BY id DESC LIMIT ?
"""
EDITED: Final = "SELECT by, at, changes FROM edit WHERE seq = ?"


@dataclass(frozen=True, slots=True)
class Replayed:
    """One time that somebody let a delivery run again, with its state, reason and mapping before.

    `act`: replay, release, given (to a new destination) or judged-anew. `run`: the bulk run, 0 for none.
    """

    destination: str
    act: str
    by: str
    at: datetime | None
    run: int
    forced: bool
    state: str
    reason: str
    mapping: str


@dataclass(frozen=True, slots=True, repr=False)
class Edit:
    """Who made an entry by editing its parent, when, and what differs: `{path, before, after}` each."""

    by: str
    at: datetime | None
    changes: tuple[Mapping[str, Any], ...]


def lineage(folder: Path, seq: int) -> tuple[tuple[Replayed, ...], Edit | None]:
    """Return the newest replays of an entry, the newest first, and the edit that made it; None where none did."""
    connection = open_reader(folder)
    try:
        sealing = opened(connection, configured())
        rows = connection.execute(REPLAYED, (seq, MOST)).fetchall()
        edit = connection.execute(EDITED, (seq,)).fetchone()
    finally:
        connection.close()
    replays = tuple(
        Replayed(destination, act, by, optional_from_micros(at), run, bool(forced), state, reason, mapping)
        for destination, act, by, at, run, forced, state, reason, mapping in rows
    )
    if edit is None:
        return replays, None
    by, at, changes = edit
    if sealing is not None and isinstance(changes, bytes):
        changes = sealing.legible(changes, edit_at(seq)) or "[]"
    return replays, Edit(by, optional_from_micros(at), tuple(orjson.loads(changes)))

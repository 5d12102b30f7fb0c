"""What people did with an entry: every replay and release of it with how it stood before, and the edit that made it."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson

from engine.database.connection import by_name
from engine.journal.file.sealing import configured, edit_at, opened
from engine.journal.moment import optional_from_micros
from engine.journal.opening import open_reader

MOST: Final = 200

# What people did with an entry, the newest first.
REPLAYED: Final = """
SELECT destination, act, by, at, run, forced, state, reason, mapping FROM replayed
WHERE seq = ? ORDER BY id DESC LIMIT ?
"""
# Who made an entry by an edit, and what differs.
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
    with closing(open_reader(folder)) as connection:
        sealing = opened(connection, configured())
        replays = tuple(
            Replayed(**dict(row) | {"at": optional_from_micros(row["at"]), "forced": bool(row["forced"])})
            for row in by_name(connection, REPLAYED, (seq, MOST))
        )
        edit = by_name(connection, EDITED, (seq,)).fetchone()
        if edit is None:
            return replays, None
        changes = edit["changes"]
        if sealing is not None:
            changes = sealing.legible_text(changes, edit_at(seq)) or "[]"
        return replays, Edit(edit["by"], optional_from_micros(edit["at"]), tuple(orjson.loads(changes)))

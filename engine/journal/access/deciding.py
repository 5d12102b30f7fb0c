"""What people decided about entries, as the audit trail has it: the newest decision of each, by whom and when."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import orjson

from engine.database.connection import by_name, json_list
from engine.journal.moment import from_micros
from engine.journal.opening import open_reader

# The rows of an act about entries (a JSON list), the oldest first; not those whose act was refused or failed.
DECIDED: Final = """
SELECT a.entry, a.actor, a.at, a.detail FROM json_each(?) AS i CROSS JOIN audit AS a ON a.entry = i.value
WHERE a.act = ? AND a.outcome = 'asked'
AND NOT EXISTS (SELECT 1 FROM audit AS f WHERE f.act = a.act AND f.follows = a.seq) ORDER BY a.seq
"""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided of an entry, by whom and when."""

    what: str
    by: str
    at: datetime


def decisions(folder: Path, act: str, entries: Sequence[int]) -> dict[int, Decision]:
    """Return the newest decision of each entry that has one; an act's field `decision` says what it is."""
    with closing(open_reader(folder)) as connection:
        rows = by_name(connection, DECIDED, (json_list(entries), act)).fetchall()
    return {
        row["entry"]: Decision(
            str(orjson.loads(row["detail"]).get("decision", "")), row["actor"], from_micros(row["at"])
        )
        for row in rows
    }

"""Dry runs of entries in shadow, read for people from the newest on."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson

from engine.database.connection import by_name
from engine.journal.claim.claiming import with_unfinished
from engine.journal.file.sealing import configured, opened, plan_at
from engine.journal.moment import to_micros
from engine.journal.opening import open_reader

PAGE: Final = 200

# Entries of channels in shadow, newest first, with what their dry runs found.
SHADOWED: Final = with_unfinished("""
SELECT d.seq, d.destination, e.event, p.content
FROM name CROSS JOIN delivery AS d ON d.destination = name.destination AND d.state = 'filtered'
  AND d.state <> 'delivered' AND d.seq <= ?1
CROSS JOIN entry AS e ON e.seq = d.seq CROSS JOIN plan AS p ON p.seq = d.seq AND p.destination = d.destination
WHERE d.reason = 'shadow' AND (d.seq < ?1 OR d.destination > ?7)
AND (?2 = '' OR d.destination = ?2) AND (?3 = '' OR e.channel = ?3)
AND (?4 = '' OR e.event = ?4) AND e.received_at >= ?5 ORDER BY d.seq DESC, d.destination LIMIT ?6
""")


@dataclass(frozen=True, slots=True, repr=False)
class Shadowed:
    """One entry in shadow at one destination; `dry_run` as JSON."""

    seq: int
    destination: str
    event: str
    dry_run: dict[str, Any]


def shadowed(
    folder: Path,
    *,
    destination: str = "",
    channel: str = "",
    event: str = "",
    since: datetime | None = None,
    limit: int = 1_000,
) -> Iterator[Shadowed]:
    """Yield the dry runs, newest first, at most `limit` entries; empty filters filter nothing."""
    with closing(open_reader(folder)) as connection:
        sealing = opened(connection, configured())
        before, after, left, begin = 1 << 62, "", limit, to_micros(since) if since else 0
        while left > 0:
            values = (before, destination, channel, event, begin, min(left, PAGE), after)
            rows = by_name(connection, SHADOWED, values).fetchall()
            for row in rows:
                seq, name, plan = row["seq"], row["destination"], row["content"]
                plan = plan if sealing is None else sealing.legible(plan, plan_at(seq, name))
                yield Shadowed(seq, name, row["event"], orjson.loads(plan or b"{}").get("rehearsal") or {})
            if len(rows) < min(left, PAGE):
                return
            before, after, left = seq, name, left - len(rows)

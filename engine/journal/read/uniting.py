"""Possible duplicates that a merge has settled: the records of a pair lead to one record, as the journal knows it."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import orjson

from engine.database.connection import Connection, by_name, json_list
from engine.journal.file.sealing import NAMED as SEALED
from engine.journal.opening import open_reader

POSSIBLE: Final = "possible-duplicate"
BESIDE: Final = "created-beside "
MOST_HOPS: Final = 64

# The notes of entries (a JSON list) by destination.
NOTES: Final = """
SELECT d.seq, d.destination, d.notes FROM json_each(?) AS i CROSS JOIN delivery AS d ON d.seq = i.value
WHERE d.notes <> '[]'
"""
# Into which record one was merged, and the numbers by which that is known; read by its index.
GONE: Final = """
SELECT survivor, system, value FROM known
WHERE destination = ? AND logical_id = ? AND status = 'merged-away' AND survivor <> logical_id LIMIT 100
"""
# The entry that merged a number last.
MERGED: Final = "SELECT MAX(seq) FROM merged WHERE destination = ? AND source_key = ?"


def merged_by(folder: Path, entries: Sequence[int]) -> dict[int, int]:
    """Return the entry of the merge for each entry whose possible duplicates are one record with its patient.

    An entry is left out while one of its records is a record of its own, was merged by another program, or where the
    note of its possible duplicate names no records.
    """
    with closing(open_reader(folder)) as connection:
        found: dict[int, list[int]] = {}
        for row in by_name(connection, NOTES, (json_list(entries),)).fetchall():
            notes = orjson.loads(row["notes"])
            if POSSIBLE in notes:
                found.setdefault(row["seq"], []).append(_merge_of(connection, row["destination"], notes))
    return {entry: max(merges) for entry, merges in found.items() if all(merges)}


def _merge_of(connection: Connection, destination: str, notes: Sequence[str]) -> int:
    """Return the last merge that made one record of all pairs; 0 where one is open or none is named."""
    pairs = [note.removeprefix(BESIDE).split(" ") for note in notes if note.startswith(BESIDE)]
    merges = [_united(connection, destination, *(one.removeprefix("Patient/") for one in pair)) for pair in pairs]
    return max(merges) if merges and all(merges) else 0


def _united(connection: Connection, destination: str, one: str, other: str) -> int:
    there = dict(_trail(connection, destination, one))
    latest = 0
    for logical_id, seq in _trail(connection, destination, other):
        latest = max(latest, seq)
        if logical_id in there:
            return max(latest, there[logical_id])
    return 0


def _trail(connection: Connection, destination: str, logical_id: str) -> Iterator[tuple[str, int]]:
    """Yield a record and those into which it was merged, one after another, each with the last merge up to there."""
    latest, seen = 0, {logical_id}
    yield logical_id, latest
    while len(seen) < MOST_HOPS:
        rows = by_name(connection, GONE, (destination, logical_id)).fetchall()
        logical_id = rows[0]["survivor"] if rows else ""
        if not logical_id or logical_id in seen:
            return
        keys = [row["value"] if row["value"].startswith(SEALED) else f"{row['system']}|{row['value']}" for row in rows]
        merges = [connection.execute(MERGED, (destination, key)).fetchone()[0] or 0 for key in keys]
        latest = max(latest, *merges)
        seen.add(logical_id)
        yield logical_id, latest

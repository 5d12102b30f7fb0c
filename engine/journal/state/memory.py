"""What destinations were seen to hold (identities, ownership, merges), and which servers honour If-Match.

These tables outlive the entries they came from; retention leaves them alone.

Each function works on any connection of the journal; hand `keep` to `Journal.write`.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Final

import orjson

from engine.database.connection import Connection, Row, by_name, json_list
from engine.errors import JournalUnusableError, SealError
from engine.journal.entry import FEED, KnownIdentity, Settlement, State
from engine.journal.file.sealing import Sealing, message_at, owned_at
from engine.journal.moment import from_micros, optional_micros, to_micros
from engine.journal.opening import exists, open_reader
from engine.journal.row_digest import of_known, of_owned

# Remember whether a version of a server honours If-Match.
KEEP: Final = """
INSERT INTO proof (destination, server, if_match, at) VALUES (?, ?, ?, ?)
ON CONFLICT (destination, server) DO UPDATE SET if_match = excluded.if_match, at = excluded.at
"""
# What is known of a destination's servers.
PROOFS: Final = "SELECT server, if_match FROM proof WHERE destination = ?"


def keep(connection: Connection, destination: str, server: str, honoured: bool, now: datetime) -> None:
    """Note whether a server honours If-Match."""
    connection.execute(KEEP, (destination, server, int(honoured), to_micros(now)))


def proofs(connection: Connection, destination: str) -> dict[str, bool]:
    """Return whether If-Match is honoured, by each server that was tried at a destination."""
    return {server: bool(honoured) for server, honoured in connection.execute(PROOFS, (destination,)).fetchall()}


def proofs_in(folder: Path, destination: str) -> dict[str, bool]:
    """Return the same from the file of a journal; nothing where there is none that can be read."""
    if not exists(folder):
        return {}
    try:
        with closing(open_reader(folder)) as connection:
            return proofs(connection, destination)
    except JournalUnusableError:
        return {}


# Remember the record of an identifier; a person's choice stays one, confirmed once the record bears the number.
KNOW: Final = """
INSERT INTO known (destination, system, value, logical_id, status, survivor, crc) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (destination, system, value) DO UPDATE
SET logical_id = excluded.logical_id, survivor = excluded.survivor, crc = excluded.crc,
  status = CASE WHEN known.status IN ('chosen', 'confirmed') AND excluded.status = 'current'
    AND known.logical_id = excluded.logical_id THEN 'confirmed' ELSE excluded.status END
"""
CHOSEN: Final = "chosen"
# The record of an identifier; read by position, as every delivery asks it.
KNOWN: Final = "SELECT logical_id, status, survivor FROM known WHERE destination = ? AND system = ? AND value = ?"
# The status as the index has it, which holds merged-away ones only.
SURVIVOR: Final = """
SELECT survivor FROM known
WHERE destination = ? AND logical_id = ? AND status = 'merged-away' AND survivor <> logical_id LIMIT 1
"""
# Remember what a source owns of a resource.
OWN: Final = """
INSERT INTO owned (destination, resource, source, slices, crc) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (destination, resource, source) DO UPDATE SET slices = excluded.slices, crc = excluded.crc
"""
# What a source owns of a resource.
OWNED: Final = "SELECT slices FROM owned WHERE destination = ? AND resource = ? AND source = ?"
# What was listed within one record, by any source: `Patient/1 Condition DG1`.
LISTED: Final = "SELECT resource, source, slices FROM owned WHERE destination = ? AND resource > ? AND resource < ?"
# Forget what was owned within a resource that was merged away.
DISOWN: Final = "DELETE FROM owned WHERE destination = ? AND resource > ? AND resource < ?"
# What other sources own of a resource.
CLAIMED: Final = "SELECT source, slices FROM owned WHERE destination = ? AND resource = ? AND source <> ?"
# What waits behind an entry in its lanes, oldest first.
BEHIND: Final = """
SELECT DISTINCT q.seq, e.channel, e.event, p.raw FROM json_each(?) AS mine CROSS JOIN queue AS q
JOIN entry AS e ON e.seq = q.seq JOIN payload AS p ON p.seq = q.seq
WHERE q.destination = ? AND q.lane = mine.value AND q.seq > ? ORDER BY q.seq LIMIT ?
"""
# Remember a merge that was carried out.
MERGE: Final = """
INSERT INTO merged (destination, source_key, survivor_key, seq) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
# Whether a merge was carried out.
MERGED: Final = "SELECT 1 FROM merged WHERE destination = ? AND source_key = ? AND survivor_key = ?"
# All numbers that one was merged into, one after another; bounded, as each is read.
LEADS: Final = """
WITH RECURSIVE reached (number) AS (
  SELECT survivor_key FROM merged WHERE destination = ? AND source_key = ?
  UNION SELECT m.survivor_key FROM reached JOIN merged AS m ON m.destination = ? AND m.source_key = reached.number
) SELECT number FROM reached LIMIT 1000
"""
# Of what was applied in a lane the newest event time counts, and the newest entry.
NEWEST_APPLIED: Final = """
ON CONFLICT (destination, lane, source) DO UPDATE SET
  event_at = CASE WHEN applied.event_at IS NULL OR excluded.event_at > applied.event_at
             THEN COALESCE(excluded.event_at, applied.event_at) ELSE applied.event_at END,
  seq = CASE WHEN excluded.seq > applied.seq THEN excluded.seq ELSE applied.seq END
"""
# Remember the newest event time that was applied in a lane, and the newest entry.
APPLY: Final = f"""
INSERT INTO applied (destination, lane, source, event_at, seq) VALUES (?, ?, ?, ?, ?)
{NEWEST_APPLIED}
"""  # noqa: S608 - constants
# The newest event time of a source in a lane.
LAST_APPLIED: Final = "SELECT event_at FROM applied WHERE destination = ? AND lane = ? AND source = ?"


def remember(
    connection: Connection,
    sealing: Sealing | None,
    settlements: Sequence[Settlement],
    lanes: Sequence[tuple[int, ...]],
) -> None:
    """Keep what settlements tell of their destinations; `lanes` are those of each."""
    applied = [
        (one.destination, lane, one.source, optional_micros(one.applied_at), one.seq)
        for one, mine in zip(settlements, lanes, strict=True)
        if one.applied_at is not None or one.state is State.DELIVERED
        for lane in mine
        if lane != FEED
    ]
    if applied:
        connection.executemany(APPLY, applied)
    batch: list[Settlement] = []
    for one in settlements:
        batch.append(one)
        if one.inherited:
            _remember(connection, sealing, batch)
            batch = []
        for gone, survivor in one.inherited:
            _inherit(connection, sealing, one.destination, gone, survivor)
    _remember(connection, sealing, batch)


def _remember(connection: Connection, sealing: Sealing | None, settlements: Sequence[Settlement]) -> None:
    known = [
        _known_row(sealing, k.destination, k.system, k.value, k.logical_id, k.status, k.survivor)
        for settlement in settlements
        for k in settlement.known
    ]
    owned = [
        _owned_row(sealing, (o.destination, o.resource, o.source), o.slices) for one in settlements for o in one.owned
    ]
    merges = [
        (m.destination, *_keys(sealing, m.source_key, m.survivor_key), m.seq) for one in settlements for m in one.merges
    ]
    for statement, rows in ((KNOW, known), (OWN, owned), (MERGE, merges)):
        if rows:
            connection.executemany(statement, rows)


def _known_row(
    sealing: Sealing | None, destination: str, system: str, value: str, logical_id: str, status: str, survivor: str
) -> tuple[str | int, ...]:
    kept = _value(sealing, system, value)
    crc = of_known((destination, system, kept, logical_id, survivor))
    return (destination, system, kept, logical_id, status, survivor, crc)


def _value(sealing: Sealing | None, system: str, value: str) -> str:
    return value if sealing is None else sealing.name(f"{system}|{value}")


def _keys(sealing: Sealing | None, *keys: str) -> tuple[str, ...]:
    return keys if sealing is None else tuple(sealing.name(key) for key in keys)


def choose(
    connection: Connection,
    destination: str,
    identities: Sequence[tuple[str, str]],
    logical_id: str,
    sealing: Sealing | None = None,
) -> None:
    """Keep that somebody chose whom identifiers (system, value) stand for at a destination."""
    rows = [_known_row(sealing, destination, system, value, logical_id, CHOSEN, "") for system, value in identities]
    connection.executemany(KNOW, rows)


def _owned_row(
    sealing: Sealing | None, key: tuple[str, str, str], slices: Mapping[str, Sequence[str]]
) -> tuple[str | int, ...]:
    text = orjson.dumps(dict(slices))
    kept = text.decode() if sealing is None else sealing.seal_lasting(text, owned_at(*key))
    return (*key, kept, of_owned((*key, kept)))


def _slices(sealing: Sealing | None, key: tuple[str, str, str], kept: str | bytes) -> dict[str, tuple[str, ...]]:
    """Return what is kept as owned; older sealed journals hold digests as text."""
    text = kept if sealing is None else sealing.unseal_text(kept, owned_at(*key))
    return {name: tuple(digests) for name, digests in orjson.loads(text).items()}


def _inherit(connection: Connection, sealing: Sealing | None, destination: str, gone: str, survivor: str) -> None:
    """Let what was listed within a record that was merged away be listed within its survivor, by the same sources."""
    places = (destination, f"{gone} ", f"{gone}!")
    for place, source, kept in connection.execute(LISTED, places).fetchall():
        there = f"{survivor} {place.partition(' ')[2]}"
        try:
            listed = _slices(sealing, (destination, place, source), kept)
            both = {**listed, **owned(connection, sealing, destination, there, source)}
        except (SealError, ValueError):
            continue  # what the disk changed is not known any more: nothing is taken back for it
        connection.execute(OWN, _owned_row(sealing, (destination, there, source), both))
    connection.execute(DISOWN, places)


def known(
    connection: Connection, sealing: Sealing | None, destination: str, identities: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], KnownIdentity]:
    """Return what is known of identifiers (system, value) at a destination; those never seen are left out."""
    found = {}
    for system, value in identities:
        row = connection.execute(KNOWN, (destination, system, _value(sealing, system, value))).fetchone()
        if row is not None:
            found[system, value] = KnownIdentity(destination, system, value, *row)
    return found


def owned(
    connection: Connection, sealing: Sealing | None, destination: str, resource: str, source: str
) -> dict[str, tuple[str, ...]]:
    """Return the digests a source owns of a resource, by slice; empty where there is no record."""
    key = destination, resource, source
    row = connection.execute(OWNED, key).fetchone()
    return {} if row is None else _slices(sealing, key, row[0])


def claimed(
    connection: Connection, sealing: Sealing | None, destination: str, resource: str, source: str
) -> frozenset[str]:
    """Return the digests that all other sources own of a resource."""
    rows = connection.execute(CLAIMED, (destination, resource, source)).fetchall()
    slices = [_slices(sealing, (destination, resource, other), kept) for other, kept in rows]
    return frozenset(mark for one in slices for marks in one.values() for mark in marks)


def behind(
    connection: Connection, sealing: Sealing | None, destination: str, lanes: Sequence[int], seq: int, most: int
) -> list[tuple[str, bytes, str]]:
    """Return channel, bytes and event of the first entries that wait behind one in its lanes, oldest first."""
    rows = by_name(connection, BEHIND, (json_list(lanes), destination, seq, most))
    return [(row["channel"], _legible(sealing, row), row["event"]) for row in rows]


def _legible(sealing: Sealing | None, row: Row) -> bytes:
    raw: bytes = row["raw"]
    return raw if sealing is None else sealing.legible(raw, message_at(row["seq"]))


def merged(
    connection: Connection, sealing: Sealing | None, destination: str, source_key: str, survivor_key: str
) -> bool:
    """Say whether a destination has carried out this merge."""
    keys = _keys(sealing, source_key, survivor_key)
    return connection.execute(MERGED, (destination, *keys)).fetchone() is not None


def leads(
    connection: Connection, sealing: Sealing | None, destination: str, source_key: str, survivor_keys: Sequence[str]
) -> bool:
    """Say whether a number was merged into one of others at a destination, directly or through others."""
    (source,) = _keys(sealing, source_key)
    reached = {row[0] for row in connection.execute(LEADS, (destination, source, destination)).fetchall()}
    return bool(reached) and not reached.isdisjoint(_keys(sealing, *survivor_keys))


def survivor(connection: Connection, destination: str, logical_id: str) -> str:
    """Return the id of the record that one was merged into; empty where that is not known."""
    row = connection.execute(SURVIVOR, (destination, logical_id)).fetchone()
    return "" if row is None else row[0]


def last_applied(connection: Connection, destination: str, lanes: Sequence[int], source: str) -> datetime | None:
    """Return the newest event time applied in any of the lanes from that source; None where there is none."""
    rows = [connection.execute(LAST_APPLIED, (destination, lane, source)).fetchone() for lane in lanes]
    times = [row[0] for row in rows if row is not None and row[0] is not None]
    return from_micros(max(times)) if times else None

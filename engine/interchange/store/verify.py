"""Whether a database is whole: its pages, its bodies, and the index rows that its bodies should have.

A merged-away resource has no rows but its identifiers, which name the survivor.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.interchange.store.connection import open_known
from engine.interchange.store.dialect import SQLITE
from engine.interchange.store.index import Index
from engine.interchange.store.transaction import Indexer, Stored
from engine.sqlite import Connection, SqliteError

EVERY: Final = "SELECT tenant, key, type, id, version, updated_ms, survivor, body FROM resource ORDER BY key"
SURVIVOR: Final = "SELECT key FROM resource WHERE tenant=? AND type=? AND id=? AND survivor IS NULL"
STRINGS: Final = "SELECT tenant, parameter, folded, exact FROM string_index WHERE key=?"
TOKENS: Final = "SELECT tenant, parameter, code, system FROM token_index WHERE key=?"
DATES: Final = "SELECT tenant, parameter, low, high FROM date_index WHERE key=?"
REFERENCES: Final = "SELECT tenant, parameter, target FROM reference_index WHERE key=?"
IDENTIFIERS: Final = "SELECT tenant, key, parameter, value, system, record_number FROM identifier_index WHERE origin=?"
ROWS: Final = {"strings": STRINGS, "tokens": TOKENS, "dates": DATES, "references": REFERENCES}
STRAY_STRINGS: Final = "SELECT count(*) FROM string_index WHERE key NOT IN (SELECT key FROM resource)"
STRAY_TOKENS: Final = "SELECT count(*) FROM token_index WHERE key NOT IN (SELECT key FROM resource)"
STRAY_DATES: Final = "SELECT count(*) FROM date_index WHERE key NOT IN (SELECT key FROM resource)"
STRAY_REFERENCES: Final = "SELECT count(*) FROM reference_index WHERE key NOT IN (SELECT key FROM resource)"
STRAY_IDENTIFIERS: Final = "SELECT count(*) FROM identifier_index WHERE origin NOT IN (SELECT key FROM resource)"
STAMPS: Final = ("versionId", "lastUpdated")
STRAYS: Final = (STRAY_STRINGS, STRAY_TOKENS, STRAY_DATES, STRAY_REFERENCES, STRAY_IDENTIFIERS)


@dataclass(frozen=True, slots=True)
class Findings:
    """How many resources were looked at, and how many faults of each kind were found."""

    resources: int
    faults: Mapping[str, int]


def verify(path: Path, indexers: Mapping[str, Indexer]) -> Findings:
    """Compare a database with itself, on one snapshot; StartError where there is none that this program knows.

    Kinds of faults: `pages` (what SQLite finds), `bodies` (not readable, or not of their row), `survivors` (none),
    `strings`, `tokens`, `dates`, `references`, `identifiers` (resources whose rows are wrong), `strays` (rows of none).
    """
    connection = open_known(path)
    faults: Counter[str] = Counter()
    resources = 0
    try:
        connection.execute(SQLITE.reading)
        found = [text for (text,) in connection.execute("PRAGMA integrity_check")]
        faults["pages"] = len(found) if found != ["ok"] else 0
        for tenant, *columns in connection.execute(EVERY):
            resources += 1
            faults.update(_faults(connection, tenant, Stored(*columns), indexers))
        faults["strays"] = sum(connection.execute(sql).fetchone()[0] for sql in STRAYS)
    except SqliteError:
        faults["pages"] += 1
    finally:
        connection.close()
    return Findings(resources, {kind: number for kind, number in sorted(faults.items()) if number})


def _faults(connection: Connection, tenant: int, stored: Stored, indexers: Mapping[str, Indexer]) -> Iterator[str]:
    try:
        resource = stored.resource()
        expected = indexers[stored.type](resource)
        said = (resource["resourceType"], resource["id"], *(resource["meta"][name] for name in STAMPS))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        yield "bodies"
        return
    moment = stored.updated_at.isoformat(timespec="milliseconds")
    if said != (stored.type, stored.id, str(stored.version), moment):
        yield "bodies"
    holder: int | None = stored.key
    if stored.survivor is not None:
        expected = Index(identifiers=expected.identifiers)
        row = connection.execute(SURVIVOR, (tenant, stored.type, stored.survivor)).fetchone()
        holder = row[0] if row else None
        if holder is None:
            yield "survivors"
    for kind, sql in ROWS.items():
        if set(connection.execute(sql, (stored.key,))) != {(tenant, *row) for row in getattr(expected, kind)}:
            yield kind
    identifiers = {(tenant, holder, *row) for row in expected.identifiers}
    if set(connection.execute(IDENTIFIERS, (stored.key,))) != identifiers:
        yield "identifiers"

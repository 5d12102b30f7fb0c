"""Verification of a database: its pages, its bodies, and the index rows of its bodies.

A merged-away resource has no rows but its identifiers, which name the survivor and go when that is deleted, for good; a
deleted one has none. Former versions have no rows.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from engine.database.connection import Connection
from engine.database.dialect import POSTGRESQL, SQLITE
from engine.database.sqlite import SqliteError
from engine.fhir.schema import FhirVersion
from engine.interchange.store.index import COUNTED, NOTHING, Index, TokenIndexRow, counted
from engine.interchange.store.job import JobState
from engine.interchange.store.place import Place, open_known
from engine.interchange.store.search.date import EVER, NEVER
from engine.interchange.store.transaction import DELETED, Indexer, StoredVersion, VersionMethod

EVERY: Final = (
    "SELECT tenant, key, type, id, version, updated_ms, survivor, body FROM resource WHERE key>? ORDER BY key LIMIT ?"
)
SURVIVOR: Final = "SELECT key, survivor FROM resource WHERE tenant=? AND type=? AND id=?"
FORMER: Final = (
    "SELECT v.number, v.key, v.type, resource.id, v.version, v.updated_ms, NULL, v.body, v.change, resource.version"
    " FROM version AS v LEFT JOIN resource ON resource.key=v.key AND resource.tenant=v.tenant WHERE v.number>?"
    " ORDER BY v.number LIMIT ?"
)
# When those who are one by merges were last deleted; who took whose place is known by the last survivor's id.
FREED: Final = (
    "SELECT r.tenant, r.type, coalesce(nullif(r.survivor, ''), r.id), max(v.updated_ms)"
    " FROM version AS v JOIN resource AS r ON r.key=v.key WHERE v.change='DELETE' GROUP BY 1, 2, 3"
)
# Resources whose former versions are no longer kept: a deletion may be among these.
FORGOTTEN: Final = (
    "SELECT DISTINCT r.tenant, r.type, coalesce(nullif(r.survivor, ''), r.id) FROM resource AS r"
    " WHERE r.type IN (SELECT type FROM resource WHERE survivor<>'')"
    " AND r.version-1>(SELECT count(*) FROM version AS v WHERE v.key=r.key)"
)
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
# A count of zero has no row.
COUNTS: Final = "SELECT tenant, parameter, code, system, records FROM token_count WHERE records<>0"
CODES: Final = "SELECT tenant, key, parameter, code, system FROM token_index WHERE parameter=?"
JOBS: Final = (
    "SELECT number, tenant, state, ended_ms, attempts, crashes, version, asked, progress, body FROM job WHERE number>?"
    " ORDER BY number LIMIT ?"
)
# Rows that are looked at together: bodies may be megabytes each.
PART: Final = 100
TENANTS: Final = "SELECT number FROM tenant"
STAMPS: Final = ("versionId", "lastUpdated")
STRAYS: Final = (STRAY_STRINGS, STRAY_TOKENS, STRAY_DATES, STRAY_REFERENCES, STRAY_IDENTIFIERS)


@dataclass(frozen=True, slots=True)
class Findings:
    """How many resources were looked at, and how many faults of each kind were found."""

    resources: int
    faults: Mapping[str, int]


def verify(place: Place, indexers: Mapping[str, Indexer]) -> Findings:
    """Compare a database with itself, on one snapshot; StartError where there is none that this program knows.

    Kinds of faults: `pages` (what SQLite finds; PostgreSQL looks after its own), `bodies` (not readable, or not of
    their row), `survivors` (none), `strings`, `tokens`, `dates`, `references`, `identifiers` (resources whose rows are
    wrong), `strays` (rows of none), `counts` (codes of another number of records), `versions` (former ones whose bodies
    are not theirs), `jobs` (in no state, or not as their state says).
    """
    connection = open_known(place)
    dialect = SQLITE if isinstance(place, Path) else POSTGRESQL
    faults: Counter[str] = Counter()
    resources = 0
    try:
        connection.execute(dialect.reading)
        freed = _freed(connection)
        if dialect is SQLITE:
            found = [text for (text,) in connection.execute("PRAGMA integrity_check")]
            faults["pages"] = len(found) if found != ["ok"] else 0
        for tenant, *columns in _parts(connection, EVERY, 1):
            resources += 1
            stored = StoredVersion(*columns)
            since_ms = freed.get((tenant, stored.type, stored.survivor or stored.id), NEVER)
            faults.update(_faults(connection, tenant, stored, indexers, since_ms))
        for _, *columns, present in _parts(connection, FORMER):
            faults["versions"] += present is None or not _is_version(StoredVersion(*columns), present)
        faults["jobs"] = _wrong_jobs(connection)
        faults["counts"] = len({row[:4] for row in _counted(connection) ^ set(connection.execute(COUNTS))})
        faults["strays"] = sum(connection.execute(sql).fetchone()[0] for sql in STRAYS)
    except SqliteError:
        faults["pages"] += 1
    finally:
        connection.close()
    return Findings(resources, {kind: number for kind, number in sorted(faults.items()) if number})


def _parts(connection: Connection, query: str, place: int = 0) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query, some at a time, each part after the last row's number, which is column `place`."""
    last = 0
    while part := connection.execute(query, (last, PART)).fetchall():
        yield from part
        last = part[-1][place]


def _counted(connection: Connection) -> set[tuple[int, str, str, str, int]]:
    """Return how many records have each code that is counted, by the index."""
    records: dict[tuple[int, str, str, str], set[int]] = {}
    for parameter in COUNTED:
        for tenant, key, *code in connection.execute(CODES, (parameter,)):
            for one in counted(frozenset({TokenIndexRow(*code)})):
                records.setdefault((tenant, *one), set()).add(key)
    return {(*one, len(keys)) for one, keys in records.items()}


def _wrong_jobs(connection: Connection) -> int:
    """Return how many jobs contradict their state: in their end, their start, or a result that is not JSON."""
    tenants = {number for (number,) in connection.execute(TENANTS)}
    wrong = 0
    for _, tenant, state, ended_ms, attempts, crashes, version, *texts, body in _parts(connection, JOBS):
        unfinished = state in {JobState.WAITING, JobState.RUNNING}
        fits = tenant in tenants and version in list(FhirVersion) and state in list(JobState)
        fits = fits and unfinished == (ended_ms is None) and 0 <= crashes <= attempts
        fits = fits and (attempts > 0 or state in {JobState.WAITING, JobState.CANCELLED})
        fits = fits and bool(body) == (state in {JobState.DONE, JobState.FAILED})
        wrong += not (fits and all(_reads(text) for text in (*texts, body) if text))
    return wrong


def _reads(text: str | bytes) -> bool:
    """Return whether a text is JSON."""
    try:
        orjson.loads(text)
    except ValueError:
        return False
    return True


def _freed(connection: Connection) -> dict[tuple[int, str, str], int]:
    """Return when identifiers of merged-away records may last have become free, by the surviving record."""
    found = {(tenant, kind, one): at_ms for tenant, kind, one, at_ms in connection.execute(FREED)}
    return found | dict.fromkeys(connection.execute(FORGOTTEN), EVER)


def _is_version(former: StoredVersion, present: int) -> bool:
    """Return whether the body of a former version agrees with its row."""
    return former.version < present and (_agrees(former) or (former.change == VersionMethod.DELETE and not former.body))


def _agrees(stored: StoredVersion) -> bool:
    """Return whether type, id, version and moment of a body agree with its row."""
    try:
        resource = stored.resource()
        said = (resource["resourceType"], resource["id"], *(resource["meta"][name] for name in STAMPS))
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    moment = stored.updated_at.isoformat(timespec="milliseconds")
    return said == (stored.type, stored.id, str(stored.version), moment)


def _faults(
    connection: Connection, tenant: int, stored: StoredVersion, indexers: Mapping[str, Indexer], freed_ms: int
) -> Iterator[str]:
    try:
        expected = NOTHING if stored.deleted else indexers[stored.type](stored.resource())
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        yield "bodies"
        return
    if bool(stored.body) if stored.deleted else not _agrees(stored):
        yield "bodies"
    for kind, sql in ROWS.items():
        found = set(connection.execute(sql, (stored.key,)))
        wanted = getattr(expected, kind) if stored.survivor is None else ()
        if found != {(tenant, *row) for row in wanted}:
            yield kind
    yield from _identifier_faults(connection, tenant, stored, expected, freed_ms)


def _identifier_faults(
    connection: Connection, tenant: int, stored: StoredVersion, expected: Index, freed_ms: int
) -> Iterator[str]:
    holder: int | None = stored.key
    found = set(connection.execute(IDENTIFIERS, (stored.key,)))
    if stored.survivor:
        holder, gone = connection.execute(SURVIVOR, (tenant, stored.type, stored.survivor)).fetchone() or (None, None)
        if holder is None or gone:
            yield "survivors"
        # Once a survivor is deleted, the numbers of those merged into it are free, also when it is brought back.
        if not found and holder is not None and (gone == DELETED or freed_ms >= stored.updated_ms):
            return
    if found != {(tenant, holder, *row) for row in expected.identifiers}:
        yield "identifiers"

"""Former versions of a resource and of a type, newest first, and their retention."""

from contextlib import closing
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

from engine.interchange.store.query import fitting
from engine.interchange.store.transaction import StoredVersion, Transaction

# The order of columns is that of Stored.
VERSION: Final = (
    "SELECT key, type, '', version, updated_ms, NULL, body, change FROM version"
    " WHERE key=? AND version=? AND ended_ms>=?"
)
OF_ONE: Final = (
    "SELECT key, type, '', version, updated_ms, NULL, body, change FROM version"
    " WHERE key=? AND version<? AND updated_ms>=? AND ended_ms>=? ORDER BY version DESC LIMIT ?"
)
# Numbers follow each other, and moments do too: the first of a span says how many there are.
FIRST_OF_ONE: Final = (
    "SELECT version FROM version WHERE key=? AND updated_ms>=? AND ended_ms>=? ORDER BY version LIMIT 1"
)
UNKNOWN: Final = "SELECT version FROM unknown_version WHERE key=?"
FIRST: Final = "SELECT version FROM version WHERE key=? AND ended_ms>=? ORDER BY version LIMIT 1"
# Three walks along an index each, merged: live resources, those that are gone, and former versions.
OF_TYPE: Final = (
    "SELECT key, type, id, version, updated_ms, survivor, body, change FROM resource"
    " WHERE tenant=? AND type=? AND survivor IS NULL AND updated_ms>=? AND (updated_ms, key, version)<(?, ?, ?)"
    " UNION ALL"
    " SELECT key, type, id, version, updated_ms, survivor, body, change FROM resource"
    " WHERE tenant=? AND type=? AND survivor IS NOT NULL AND updated_ms>=? AND (updated_ms, key, version)<(?, ?, ?)"
    " UNION ALL"
    " SELECT v.key, v.type, resource.id, v.version, v.updated_ms, NULL, v.body, v.change"
    " FROM version AS v JOIN resource ON resource.key=v.key"
    " WHERE v.tenant=? AND v.type=? AND v.updated_ms>=? AND (v.updated_ms, v.key, v.version)<(?, ?, ?)"
    " AND v.ended_ms>=?"
    " ORDER BY 5 DESC, 1 DESC, 4 DESC LIMIT ?"
)
COUNT_TYPE: Final = (
    "SELECT (SELECT count(*) FROM resource WHERE tenant=? AND type=? AND survivor IS NULL AND updated_ms>=?)"
    " + (SELECT count(*) FROM resource WHERE tenant=? AND type=? AND survivor IS NOT NULL AND updated_ms>=?)"
    " + (SELECT count(*) FROM version WHERE tenant=? AND type=? AND updated_ms>=? AND ended_ms>=?)"
)
# What has ended had begun before: so that the index of moments serves.
ENDED: Final = "SELECT number FROM version WHERE tenant=? AND type=? AND updated_ms<? AND ended_ms<? LIMIT ?"
TAKE: Final = "DELETE FROM version WHERE number=?"


class HistoryPosition(NamedTuple):
    """The position after which a page of history starts, in the order of moment, resource and number."""

    updated_ms: int
    key: int
    version: int


class HistorySpan(NamedTuple):
    """The span of a history: versions made since a moment, and not ended before `kept_ms` (retention)."""

    since_ms: int
    kept_ms: int


class Versions(NamedTuple):
    """One page of versions, their total number, and whether more follow."""

    page: tuple[StoredVersion, ...]
    total: int
    more: bool


def former_version(
    transaction: Transaction, present: StoredVersion, version: int, kept_ms: int
) -> StoredVersion | None:
    """Return a former version of a resource; None where it is not kept."""
    row = transaction.connection.execute(VERSION, (present.key, version, kept_ms)).fetchone()
    return _former(present, StoredVersion(*row)) if row else None


def last_unknown(transaction: Transaction, present: StoredVersion) -> int:
    """Return the number of the last version before versions were kept, 0 for none."""
    row = transaction.connection.execute(UNKNOWN, (present.key,)).fetchone()
    return int(row[0]) if row else 0


def first_kept(transaction: Transaction, present: StoredVersion, kept_ms: int) -> int:
    """Return the number of the first version of a resource that is kept."""
    row = transaction.connection.execute(FIRST, (present.key, kept_ms)).fetchone()
    return int(row[0]) if row else present.version


def versions_of_one(
    transaction: Transaction, present: StoredVersion, span: HistorySpan, count: int, after: HistoryPosition | None
) -> Versions:
    """Return versions of a resource, the present one among them."""
    execute = transaction.connection.execute
    lead = [present] if after is None and present.updated_ms >= span.since_ms else []
    before = after.version if after is not None else present.version
    with closing(execute(OF_ONE, (present.key, before, *span, count + 1))) as rows:
        page, more = fitting(chain(lead, (_former(present, StoredVersion(*row)) for row in rows)), count)
    first = execute(FIRST_OF_ONE, (present.key, *span)).fetchone()
    total = present.version - first[0] if first else 0
    return Versions(page, total + (present.updated_ms >= span.since_ms), more and bool(page))


def versions_of_type(
    transaction: Transaction, type_name: str, span: HistorySpan, count: int, after: HistoryPosition
) -> Versions:
    """Return versions of all resources of a type."""
    execute = transaction.connection.execute
    of = (transaction.tenant, type_name)
    walk = (*of, span.since_ms, *after)
    with closing(execute(OF_TYPE, (*walk, *walk, *walk, span.kept_ms, count + 1))) as rows:
        page, more = fitting((StoredVersion(*row) for row in rows), count)
    counted = (*of, span.since_ms)
    total = int(execute(COUNT_TYPE, (*counted, *counted, *counted, span.kept_ms)).fetchone()[0])
    return Versions(page, total, more and bool(page))


def ended_versions(transaction: Transaction, type_name: str, before_ms: int, most: int) -> list[tuple[int]]:
    """Return the numbers of versions of a type that ended before a moment, at most `most`."""
    of = (transaction.tenant, type_name, before_ms, before_ms, most)
    return transaction.connection.execute(ENDED, of).fetchall()


def take_versions(transaction: Transaction, numbers: list[tuple[int]]) -> None:
    """Delete versions."""
    transaction.connection.executemany(TAKE, numbers)


def _former(present: StoredVersion, version: StoredVersion) -> StoredVersion:
    return replace(version, id=present.id)

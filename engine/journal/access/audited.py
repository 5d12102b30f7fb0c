"""Reading the audit trail, with or without a running engine: lists, decisions, and proof that nothing was changed."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson

from engine.database.chain import START, Break, ChainLink, break_between
from engine.database.connection import Connection, Row, by_name, json_list
from engine.database.dialect import with_nul
from engine.database.sqlite import SqliteConnection
from engine.errors import JournalUnusableError
from engine.journal.access.audit import COLUMNS, text
from engine.journal.file.sealing import configured, opened, stored_patient
from engine.journal.moment import from_micros, to_micros
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


def decisions(folder: Path, act: str, entries: Sequence[int]) -> dict[tuple[int, int], Decision]:
    """Return the newest decision of each entry and part of it that has one; 0 is the entry as a whole.

    An act's field `decision` says what it is, its field `number` of which part.
    """
    with closing(open_reader(folder)) as connection:
        rows = by_name(connection, DECIDED, (json_list(entries), act)).fetchall()
    found: dict[tuple[int, int], Decision] = {}
    for row in rows:
        detail = orjson.loads(row["detail"])
        decision = Decision(str(detail.get("decision", "")), row["actor"], from_micros(row["at"]))
        found[row["entry"], int(detail.get("number", 0))] = decision
    return found


# Rows of the trail, whole.
_ROWS: Final = f"SELECT {', '.join(COLUMNS)}, hash FROM audit"  # noqa: S608 - constants
# Whether the journal is of a version that has a trail.
_THERE: Final = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'audit'"
# The number of the last row.
_LAST: Final = "SELECT COALESCE(MAX(seq), 0) FROM audit"
MOST_FAULTS: Final = 100
AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True, repr=False)
class AuditFilter:
    """Which rows; what is None or empty filters nothing.

    `act`: one act, or all below it where it ends in a dot (`users.`). `marks`: any of these marks of a patient.
    `until`: excluded.
    """

    actor: str = ""
    act: str = ""
    outcome: str = ""
    entry: int | None = None
    marks: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, repr=False)
class StoredAuditRow:
    """One row of the file; `detail` and `patients` are JSON."""

    seq: int
    at: datetime
    actor: str
    role: str
    via: str
    address: str
    act: str
    entry: int | None
    outcome: str
    reason: str
    detail: str
    patients: str
    follows: int | None
    hash: str


@dataclass(frozen=True, slots=True)
class Witness:
    """What somebody else saw of the trail: the hash of a row, in hexadecimal."""

    seq: int
    hash: str


@dataclass(frozen=True, slots=True)
class AuditFault:
    """A place where the trail is not as it was written; `seq` is the row's number."""

    seq: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Verified:
    """What the proof found: how many rows, the last one and its hash, faults (the first 100), witnesses that agree."""

    rows: int
    last: int
    hash: str
    faults: tuple[AuditFault, ...]
    agreed: int


class AuditReader:
    """Reads the audit trail of a data folder; a context manager that can never write."""

    def __init__(self, folder: Path) -> None:
        """Open for reading; JournalUnusableError where there is no journal, or one without a trail."""
        self._connection: Connection = open_reader(folder)
        if isinstance(self._connection, SqliteConnection) and self._connection.execute(_THERE).fetchone() is None:
            self._connection.close()
            raise JournalUnusableError(f"the journal in {folder} is of an older adt-engine: start this one on it once")

    def __enter__(self) -> "AuditReader":
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()

    def rows(self, wanted: AuditFilter, limit: int, before: int | None = None) -> tuple[StoredAuditRow, ...]:
        """Return up to `limit` rows, newest first; the next page begins `before` the last number of this one."""
        where, values = _conditions(wanted)
        if before is not None:
            where.append("seq < ?")
            values.append(before)
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        sql = f"{_ROWS}{condition} ORDER BY seq DESC LIMIT ?"
        return tuple(map(_row, by_name(self._connection, sql, (*values, limit))))

    def oldest_first(self, wanted: AuditFilter, after: int, upto: int, limit: int) -> tuple[StoredAuditRow, ...]:
        """Return up to `limit` rows with numbers above `after` up to `upto`, oldest first."""
        where, values = _conditions(wanted)
        sql = f"{_ROWS} WHERE {' AND '.join([*where, 'seq > ? AND seq <= ?'])} ORDER BY seq LIMIT ?"
        return tuple(map(_row, by_name(self._connection, sql, (*values, after, upto, limit))))

    def stored(self, patient: str) -> str:
        """Return a patient (`system|value`, or a value) as entries of this journal name it.

        UsageError for a bare value where the journal is sealed: there it can only be found with its system.
        """
        return stored_patient(opened(self._connection, configured()), patient)

    def last(self) -> int:
        """Return the number of the last row, 0 where there is none."""
        return int(self._connection.execute(_LAST).fetchone()[0])

    def verify(self, witnesses: Sequence[Witness] = ()) -> Verified:
        """Follow the chain from its beginning, and hold it against what witnesses saw."""
        return verified(self._connection, witnesses)


def verified(connection: Connection, witnesses: Sequence[Witness] = ()) -> Verified:
    """Follow the chain of a journal from its beginning, as `AuditReader.verify` does."""
    seen = {witness.seq: "" for witness in witnesses}
    faults: list[AuditFault] = []
    count, last = 0, START
    for row in _oldest_first(connection):
        link = ChainLink(row["seq"], bytes(row["hash"]))
        faults += _faults(row, last, link)
        count, last = count + 1, link
        if link.seq in seen:
            seen[link.seq] = link.hash.hex()
    disagreeing = _disagreeing(witnesses, seen, last.seq)
    return Verified(
        count, last.seq, last.hash.hex(), (*faults[:MOST_FAULTS], *disagreeing[:MOST_FAULTS]),
        len(witnesses) - len(disagreeing),
    )  # fmt: skip


def _oldest_first(connection: Connection) -> Iterator[Row]:
    """Yield all rows, of which few are in memory at a time."""
    last = -(1 << 63)
    while rows := by_name(connection, f"{_ROWS} WHERE seq > ? ORDER BY seq LIMIT ?", (last, AT_ONCE)).fetchall():
        yield from rows
        last = rows[-1]["seq"]


def _faults(row: Row, before: ChainLink, link: ChainLink) -> list[AuditFault]:
    stored = [row[name] for name in COLUMNS]
    found = break_between(before, link, (text(stored), text(list(map(_as_written, stored)))))
    if found is None:
        return []
    last, seq = before.seq, link.seq
    if found is Break.CHANGED:
        said = f"row {seq} does not continue row {last}: it was changed, moved, or put in place of another"
    else:
        gap = f"row {last + 1} is" if seq == last + 2 else f"rows {last + 1} to {seq - 1} are"
        said = f"{gap} missing before row {seq}"
    return [AuditFault(seq, found.value, said)]


def _as_written(value: Any) -> Any:
    """Return a value as it was when its row was hashed, though PostgreSQL keeps no NUL."""
    return with_nul(value) if isinstance(value, str) else value


def _disagreeing(witnesses: Sequence[Witness], seen: dict[int, str], last: int) -> list[AuditFault]:
    faults = []
    for witness in witnesses:
        if witness.seq > last:
            said = f"the trail ends at row {last}, but row {witness.seq} was anchored: its end was cut off"
            faults.append(AuditFault(witness.seq, "truncated", said))
        elif seen[witness.seq] != witness.hash:
            said = f"row {witness.seq} is not the one that was anchored: the trail was written anew up to there"
            faults.append(AuditFault(witness.seq, "rewritten", said))
    return faults


def _conditions(wanted: AuditFilter) -> tuple[list[str], list[Any]]:
    where: list[str] = []
    values: list[Any] = []
    for column in ("actor", "outcome", "entry"):
        value = getattr(wanted, column)
        if value:
            where.append(f"{column} = ?")
            values.append(value)
    if wanted.act.endswith("."):
        where.append("act >= ? AND act < ?")
        values += [wanted.act, f"{wanted.act[:-1]}/"]
    elif wanted.act:
        where.append("act = ?")
        values.append(wanted.act)
    for column, moment in ((">=", wanted.since), ("<", wanted.until)):
        if moment is not None:
            where.append(f"at {column} ?")
            values.append(to_micros(moment))
    if wanted.marks:
        where.append(f"({' OR '.join(['instr(patients, ?) > 0'] * len(wanted.marks))})")
        values += wanted.marks
    return where, values


def _row(row: Row) -> StoredAuditRow:
    return StoredAuditRow(**dict(row) | {"at": from_micros(row["at"]), "hash": bytes(row["hash"]).hex()})

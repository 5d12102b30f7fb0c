"""Copying a journal whole: table by table in the order of keys, then both sides compared, then opened to engines.

The target marks how far it came, so that a copy which was cut off at any moment goes on from there; before all is
compared and proven no engine starts on it. The source is only read.
"""

import importlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Final, cast

from engine import fault
from engine.database.connection import transaction
from engine.errors import CopyError
from engine.journal.access.audit import head
from engine.journal.access.audited import verified
from engine.journal.copying.ends import KEEP, UNMARK, CopySource, CopyTarget, Row, TableShape, give_back, marked, shape
from engine.journal.copying.file_end import FileSource, FileTarget
from engine.journal.file.sealing import OF_NAMES, configured, opened
from engine.journal.maintenance.backup import Progress
from engine.journal.maintenance.verify import altered_bodies, altered_rows, broken_rules

# Rows of one transaction, and bytes of bodies in it.
MOST_ROWS: Final = 10_000
MOST_BYTES: Final = 16 * 1024 * 1024
# Rows between two words on how far it has come.
STEP: Final = 5_000

# What identifies the progress: the newest entry, and how far requests have come.
NEWEST: Final = """
SELECT (SELECT sha256 FROM entry ORDER BY seq DESC LIMIT 1), (SELECT MAX(seq) FROM entry), (SELECT MAX(id) FROM attempt)
"""
# How many entries are not at their end.
UNFINISHED: Final = "SELECT COUNT(DISTINCT seq) FROM delivery WHERE state IN ('received', 'waiting', 'claimed', 'held')"

JournalLocation = Path | str
"""A data folder, or the address of a database."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What was copied, and proven the same on both sides.

    `rows` and `digests` (hex) by table. `resumed`: rows that an earlier try had left. `bodies`: how many were held
    against their digests; None where the journal is sealed and no key is given. `given_back`: deliveries that were
    claimed at the source. `audit_faults`: places at which the source's audit trail was broken already.
    """

    entries: int
    unfinished: int
    rows: dict[str, int]
    digests: dict[str, str]
    resumed: int
    bodies: int | None
    given_back: int
    audit_rows: int
    audit_faults: int


def copy_journal(source: JournalLocation, target: JournalLocation, watch: Progress) -> Copied:
    """Copy a journal that nobody uses into an empty folder or database; go on where an earlier try was cut off.

    `watch` hears of three steps: rows copied, rows compared, messages proven. CopyError: one of them is in use, the
    target is not empty, a side failed, or the two are not the same. JournalUnusableError: one cannot be opened.
    """
    with ExitStack() as stack:
        giving = stack.enter_context(closing(_source(source)))
        with _errors_named(giving):
            tables = shape()
            counts = {table: _number(giving, table.count) for table in tables}
            fingerprint = _fingerprint(giving, counts.values())
        taking = stack.enter_context(closing(_target(target)))
        with _errors_named(giving, taking):
            done = marked(taking, tables, fingerprint)
            _copy(giving, taking, counts, done, watch)
            taking.settle_down()
            digests = _compared(giving, taking, counts, watch)
            bodies = _proven(taking, counts, watch)
            trail = verified(taking.connection)
            given_back = _finish(giving, taking, tables)
            unfinished = _number(taking, UNFINISHED)
            taking.keep()
    rows = {table.name: count for table, count in counts.items()}
    return Copied(
        rows["entry"], unfinished, rows, digests, sum(done.values()), bodies, given_back, trail.rows, len(trail.faults)
    )


def _source(place: JournalLocation) -> CopySource:
    return FileSource(place) if isinstance(place, Path) else cast(CopySource, _nodes().NodeSource(place))


def _target(place: JournalLocation) -> CopyTarget:
    return FileTarget(place) if isinstance(place, Path) else cast(CopyTarget, _nodes().NodeTarget(place))


def _nodes() -> ModuleType:
    """Return what knows PostgreSQL; its library is loaded only where it is used."""
    return importlib.import_module("engine.journal.copying.node_end")


@contextmanager
def _errors_named(*ends: CopySource) -> Iterator[None]:
    """Say which end failed, and what is next."""
    try:
        yield
    except Exception as error:
        for end in ends:
            if (said := end.said(error)) is not None:
                raise CopyError(
                    f"{end.name} cannot be read or written ({said}): mend that, then repeat the command; it goes on "
                    "where it stopped"
                ) from error
        raise


def _number(end: CopySource, query: str) -> int:
    return int(end.connection.execute(query).fetchone()[0])


def _fingerprint(source: CopySource, counts: Iterable[int]) -> str:
    """Return what tells a journal from others, and from itself once an engine has worked on it."""
    newest = source.connection.execute(NEWEST).fetchone()
    return sha256(repr((*counts, *newest, *head(source.connection))).encode()).hexdigest()


def _copy(
    source: CopySource, target: CopyTarget, counts: dict[TableShape, int], done: dict[str, int], watch: Progress
) -> None:
    total = sum(counts.values())
    copied = sum(done.values())
    watch("rows copied", copied, total)
    for table, count in counts.items():
        here = done[table.name]
        if here >= count:
            continue
        for batch in _batches(source.rows_after(table, here)):
            here += len(batch)
            copied += len(batch)
            with transaction(target.connection):
                target.add(table, batch)
                target.connection.execute(KEEP, (here, table.name))
                fault.point("F49")
            watch("rows copied", copied, total)


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Yield rows in lists that are not too large for the memory."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += sum(len(value) for value in row if value.__class__ is bytes)
        if len(batch) >= MOST_ROWS or size >= MOST_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _compared(source: CopySource, target: CopyTarget, counts: dict[TableShape, int], watch: Progress) -> dict[str, str]:
    """Return the digest of each table, the same on both sides; CopyError names the first table that differs."""
    digests, seen, total = {}, 0, 2 * sum(counts.values())

    def heard(count: int) -> None:
        nonlocal seen
        seen += count
        watch("rows compared", seen, total)

    for table in counts:
        here, there = (digest_of(end.rows(table), heard) for end in (source, target))
        if here != there:
            raise CopyError(
                f"table {table.name} is not the same in {target.name} as in {source.name} ({there[0]} rows of "
                f"{here[0]}): the copy is not kept; empty {target.name}, and begin again"
            )
        digests[table.name] = here[1]
    return digests


def digest_of(rows: Iterator[Row], heard: Callable[[int], None] = lambda _count: None) -> tuple[int, str]:
    """Return how many rows there are and a digest of them all (hex), whatever their order.

    It is the sum of the SHA-256 of each, as the two databases may order texts otherwise.
    """
    total, count = 0, 0
    for row in rows:
        total += int.from_bytes(sha256(repr(row).encode()).digest())
        count += 1
        if not count % STEP:
            heard(STEP)
    heard(count % STEP)
    return count, f"{total % (1 << 256):064x}"


def _proven(target: CopyTarget, counts: dict[TableShape, int], watch: Progress) -> int | None:
    """Hold every body against its digest; return how many, or None where the key is missing.

    CopyError: one was changed, or a rule is broken; that is so at the source, too.
    """
    connection, key, read = target.connection, configured(), 0
    found = next(chain(broken_rules(connection), altered_rows(connection)), None)
    sealed = connection.execute(OF_NAMES).fetchone() is not None
    of = next(count for table, count in counts.items() if table.name == "payload")

    def heard(count: int) -> None:
        nonlocal read
        read += count
        watch("messages proven", read, of)

    if found is None and (key is not None or not sealed):
        found = next(altered_bodies(connection, heard, opened(connection, key)), None)
    if found is not None:
        raise CopyError(
            f"the journal itself is not sound: {found.sentence}; the copy is the same and not kept. "
            "See `adt-engine journal verify`, and restore the last good backup first"
        )
    return None if sealed and key is None else read


def _finish(source: CopySource, target: CopyTarget, tables: Iterable[TableShape]) -> int:
    """Open the target to engines; return how many deliveries were given back."""
    numbers = {table: source.highest(table) for table in tables if table.number}
    with transaction(target.connection):
        given_back = give_back(target.connection)
        target.count_on(numbers)
        target.connection.execute(UNMARK)
    return given_back

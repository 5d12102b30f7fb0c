"""Records accesses before their answers are sent, in shared commits; exports and verifies the access log."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import NamedTuple

from engine import fault
from engine.database.connection import Connection
from engine.errors import UsageError
from engine.interchange.store.access import AccessLogFault, AccessRow, Logged, append, by_command, faults, last, logged
from engine.interchange.store.place import Place, open_known
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import milliseconds
from engine.interchange.store.writer import StoreFailedError

Rows = tuple[AccessRow, ...]
Waiting = list[tuple[Rows, "asyncio.Future[None]"]]


class Recorder:
    """Writes the access log's rows of reads and refusals; the row of a write is in the commit of the write."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: Waiting = []
        self._writing = False

    async def record(self, rows: Rows) -> None:
        """Return once the rows are on disk; StoreFailedError if they cannot be written: then nothing is answered."""
        await self._begin(rows)

    def note(self, rows: Rows) -> None:
        """Record without waiting: for answers that show no data, and for timeouts of the store."""
        # Writers report the store's failure; asyncio logs exceptions that are never retrieved.
        self._begin(rows).add_done_callback(lambda done: done.cancelled() or done.exception())

    def _begin(self, rows: Rows) -> "asyncio.Future[None]":
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting.append((rows, future))
        if not self._writing:
            self._writing = True
            # Deferred, so that requests of the same turn of the loop share one commit.
            loop.call_soon(self._write)
        return future

    def _write(self) -> None:
        taken, self._waiting = self._waiting, []
        try:
            written = self._store.hand_over(partial(_add, rows=[row for rows, _ in taken for row in rows]))
        except Exception as error:  # noqa: BLE001 - every waiting request gets the error
            self._end(taken, error)
        else:
            written.add_done_callback(partial(self._written, taken))

    def _written(self, taken: Waiting, written: "asyncio.Future[None]") -> None:
        try:
            written.result()
            fault.point("F31")
        except asyncio.CancelledError:
            self._end(taken, StoreFailedError())
        except Exception as error:  # noqa: BLE001 - as above
            self._end(taken, error)
        else:
            self._end(taken, None)

    def _end(self, taken: Waiting, error: Exception | None) -> None:
        """Resolve the waiting requests, and write the rows that arrived meanwhile."""
        for _, future in taken:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
        self._writing = bool(self._waiting)
        if self._writing:
            asyncio.get_running_loop().call_soon(self._write)


def _add(connection: Connection, rows: list[AccessRow]) -> None:
    append(connection, rows)
    fault.point("F30")


class AccessLogProof(NamedTuple):
    """The number of rows, the last one as `number:hash`, and the problems."""

    rows: int
    anchor: str
    faults: tuple[AccessLogFault, ...]


def verify_log(database: Place, anchor: str = "") -> AccessLogProof:
    """Verify the hash chain of the log; StartError if there is no log.

    `anchor` is the last row of an earlier proof, stored elsewhere: it must be unchanged. Without an anchor, truncation
    and replacement of the whole log are not detected.
    """
    connection = open_known(database)
    try:
        found = list(faults(connection))
        seq, digest = last(connection)
        if anchor:
            number, _, expected = anchor.partition(":")
            if not number.isdigit():
                raise UsageError(f"--anchor {anchor}: expected NUMBER:HASH, as audit verify prints it")
            row = next(logged(connection, int(number) - 1), None)
            if row is None or row.seq != int(number) or row.hash.hex() != expected:
                found.append(AccessLogFault(int(number), "the anchored row is gone, or another one"))
    finally:
        connection.close()
    return AccessLogProof(seq, f"{seq}:{digest.hex()}" if seq else "", tuple(found))


def export_log(
    database: Place, since: datetime | None, until: datetime | None, clock: Callable[[], datetime]
) -> Iterator[Logged]:
    """Yield the rows of a period, `until` excluded, oldest first; before that the export is recorded as a row.

    StartError if there is no service's database.
    """
    open_known(database).close()
    _record_export(database, clock)
    low = milliseconds(since) if since is not None else None
    high = milliseconds(until) if until is not None else None
    connection = open_known(database)
    try:
        for row in logged(connection):
            at_ms = row.access.at_ms
            if (low is None or at_ms >= low) and (high is None or at_ms < high):
                yield row
    finally:
        connection.close()


def _record_export(database: Place, clock: Callable[[], datetime]) -> None:
    row = by_command(milliseconds(clock()), "", "", "export", ("AuditEvent", ""), "")
    store = Store(database, (), clock, {}, alone=False)
    try:
        asyncio.run(Recorder(store).record((row,)))
    finally:
        store.close()

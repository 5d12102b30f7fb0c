"""Records accesses before their answers are sent; rows that wait together share one commit."""

import asyncio
from functools import partial

from engine import fault
from engine.database.connection import Connection
from engine.interchange.store.access import AccessRow, append
from engine.interchange.store.store import Store
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

"""Records accesses before their answers leave: those that wait for the disk together share one commit."""

import asyncio
from functools import partial

from engine.interchange.store.access import Access, append
from engine.interchange.store.store import Store


class Recorder:
    """The way of reads and refusals into the access log; writes have their row in their own commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[tuple[Access, asyncio.Future[None]]] = []
        self._flushing: asyncio.Task[None] | None = None

    async def record(self, access: Access) -> None:
        """Return once the row is on disk; StoreFailedError where it cannot be, and then nothing may be answered."""
        await self._begin(access)

    def note(self, access: Access) -> None:
        """Record without waiting: of what shows nothing, and of what ends because the store does not answer."""
        # Whoever is told of the store's failure is who writes; an exception that nobody asks for is reported as lost.
        self._begin(access).add_done_callback(lambda done: done.cancelled() or done.exception())

    def _begin(self, access: Access) -> "asyncio.Future[None]":
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((access, future))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())
        return future

    async def _flush(self) -> None:
        """Write what waits, and what comes meanwhile, until nothing does."""
        try:
            while self._waiting:
                taken, self._waiting = self._waiting, []
                await self._write(taken)
        finally:
            self._flushing = None

    async def _write(self, taken: list[tuple[Access, "asyncio.Future[None]"]]) -> None:
        error: Exception | None = None
        try:
            await self._store.write_raw(partial(append, rows=[access for access, _ in taken]))
        except Exception as failure:  # noqa: BLE001 - whatever it is, each request that waits is told of it
            error = failure
        for _, future in taken:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

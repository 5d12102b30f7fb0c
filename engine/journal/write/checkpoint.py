"""The checkpointer: moves the write-ahead log into the file in a thread of its own, so that no commit waits for it.

A thread with a connection of its own does it while the writer goes on (SQLite's PASSIVE mode). What is committed in the
meantime keeps the log from beginning anew: that little the writer moves itself, between two commits.
"""

import threading
from contextlib import closing
from pathlib import Path
from typing import Final

from engine.database.sqlite import SqliteConnection, is_full
from engine.journal.file.database import log_length, move_log, open_beside, page_bytes

LOOK_SECONDS: Final = 0.1


class Checkpointer:
    """Moves the log once a limit of bytes is not in the file yet; a failure stops the writer."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._rest = False
        self._error: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._live, name="checkpoint", daemon=True)

    def start(self) -> None:
        """Begin to look after the log."""
        self._thread.start()

    def stop(self) -> None:
        """End after the step under way, and wait for it."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def leaves_a_rest(self) -> bool:
        """Say whether the writer is to move what it has added since; once for each time. Raises what went wrong."""
        if self._error is not None:
            raise self._error
        rest, self._rest = self._rest, False
        return rest

    def _live(self) -> None:
        try:
            with closing(open_beside(self._path)) as connection:
                while not self._stop.wait(LOOK_SECONDS):
                    self._look(connection)
        except BaseException as error:  # noqa: BLE001 - handed to the writer, which stops
            self._error = error

    def _look(self, connection: SqliteConnection) -> None:
        pages, moved = log_length(connection)
        if (pages - moved) * page_bytes(connection) < self._most_bytes:
            return
        try:
            move_log(connection)
            self._rest = True
        except Exception as error:
            if not is_full(error):
                raise

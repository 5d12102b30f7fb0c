"""A shorter thread switch interval while imports run in threads."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# How long a working thread keeps the interpreter from the loop, which needs it several times a request. With Python's
# own 5 ms a read during an import takes 20 to 30 ms; without imports longer turns make writes cheaper.
SECONDS: Final = 0.0005


class PollingTurns:
    """Sets the shorter interval while at least one block is open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asking = 0
        self._usual = 0.0

    @contextmanager
    def shorter(self) -> Iterator[None]:
        """Use the shorter interval until the last such block ends."""
        with self._lock:
            if not self._asking:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(SECONDS)
            self._asking += 1
        try:
            yield
        finally:
            with self._lock:
                self._asking -= 1
                if not self._asking:
                    sys.setswitchinterval(self._usual)


TURNS: Final = PollingTurns()

"""The interpreter shared in shorter turns while work goes on in threads, and as before when none does."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# How long a thread at work keeps the interpreter from the loop, which asks for it several times a request. With
# Python's own 5 ms a read beside an import takes 20 to 30 ms; without work longer turns make writes cheaper.
SECONDS: Final = 0.0005


class PollingTurns:
    """Shorter turns for as long as anybody asks for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asking = 0
        self._usual = 0.0

    @contextmanager
    def shorter(self) -> Iterator[None]:
        """Let threads take shorter turns until the block ends, and those of others do."""
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

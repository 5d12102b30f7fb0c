"""The interpreter of a process that runs for long: when it looks for cycles, and how long a thread keeps it."""

import contextlib
import gc
import sys
import threading
from collections.abc import Iterator
from typing import Final

# What a message or a request leaves behind is freed by counting references; cycles are few, and looking for them walks
# all caches while everybody waits.
COLLECT_AFTER: Final = (50_000, 20, 50)
# How long a thread keeps the interpreter from an event loop, which wants it several times a request: with Python's own
# 5 ms a request would take 20 to 30 ms while a thread computes. Turns that are always short make writes dearer.
TURN_SECONDS: Final = 0.0005


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Look for no cycles meanwhile: what is loaded stays, and every look would walk all of it once more."""
    looking = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looking:
            gc.enable()


def settle() -> None:
    """Take all that is there for permanent, and look for cycles seldom from now on; call it once all is loaded."""
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


class ShortTurns:
    """Makes the turns of all threads short while at least one block is open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._usual = 0.0

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Take short turns until the last such block ends."""
        with self._lock:
            if not self._open:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(TURN_SECONDS)
            self._open += 1
        try:
            yield
        finally:
            with self._lock:
                self._open -= 1
                if not self._open:
                    sys.setswitchinterval(self._usual)


SHORT_TURNS: Final = ShortTurns()

"""The garbage collection of a process that runs for long."""

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

# What a message or a request leaves behind is freed by counting references; cycles are few, and looking for them walks
# all caches while everybody waits.
COLLECT_AFTER: Final = (50_000, 20, 50)


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

"""Looking again and again for what there is to do, beside the requests that are answered."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress


async def rounds(
    look: Callable[[], Awaitable[None]], bell: asyncio.Event, seconds: float, over: Callable[[], bool]
) -> None:
    """Look at each ring of a bell, and after so many seconds without one, until cancelled or `over`.

    A look is not broken off, also not by the cancellation, which waits for its end: what it has taken up would be left
    behind as after a crash.
    """
    looking: asyncio.Future[None] | None = None
    try:
        while not over():
            bell.clear()
            looking = asyncio.ensure_future(look())
            await asyncio.shield(looking)
            # Not `wait_for`: before Python 3.12 that may lose a cancellation when the bell rings.
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await bell.wait()
    finally:
        if looking is not None:
            await asyncio.wait([looking])

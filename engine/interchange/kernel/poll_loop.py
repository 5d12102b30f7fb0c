"""A loop that polls for work, beside the requests that are answered."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress


async def poll_loop(
    look: Callable[[], Awaitable[None]], wakeup: asyncio.Event, seconds: float, over: Callable[[], bool]
) -> None:
    """Call `look` at each wakeup, and after `seconds` without one, until cancelled or `over`.

    A call is never interrupted: a cancellation waits for its end, as its unfinished work would be left behind as after
    a crash.
    """
    looking: asyncio.Future[None] | None = None
    try:
        while not over():
            wakeup.clear()
            looking = asyncio.ensure_future(look())
            await asyncio.shield(looking)
            # Not `wait_for`: before Python 3.12 that may lose a cancellation when the event is set.
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await wakeup.wait()
    finally:
        if looking is not None:
            await asyncio.wait([looking])

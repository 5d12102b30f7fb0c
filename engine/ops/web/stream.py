"""Server-sent events: parts of a page, each rendered anew every few seconds and sent when it has changed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

from starlette.responses import Response, StreamingResponse

from engine import telemetry
from engine.errors import AdtEngineError, place_of
from engine.ops.web.call import WebCall
from engine.ops.web.refusal import RefusedRequestError

EVERY_SECONDS: Final = 2.0
# A line now and then, so that a connection that is gone is noticed.
SIGN_AFTER: Final = 10
MOST_OF_ONE: Final = 8

Render = Callable[[], Awaitable[str]]

_log = telemetry.logger()


def streamed(
    call: WebCall, now: Render, seldom: Render | None = None, seldom_every: int = 15, **others: Render
) -> Response:
    """Answer with a stream: `now` and `others` in events named so, and at every 15th turn `seldom`.

    RefusedRequestError 429 where the account has too many streams. An actor who has signed out, or has another role
    by now, sees that said, and the stream ends.
    """
    if call.context.streams[call.owner] >= MOST_OF_ONE:
        raise RefusedRequestError(429, "too many pages of yours are live at once: close some")
    return StreamingResponse(
        _events(call, {"now": now, **others}, seldom, seldom_every), media_type="text/event-stream"
    )


async def _events(
    call: WebCall, renders: Mapping[str, Render], seldom: Render | None, seldom_every: int
) -> AsyncIterator[bytes]:
    context, owner = call.context, call.owner
    context.streams[owner] += 1
    sent: dict[str, str] = {}
    turn = 0
    try:
        while not context.stopping.is_set():
            actor = await context.access.session_of(call.cookie, call.address, touch=False)
            if actor is None or actor.role is not call.by.role:
                yield event(
                    "now", await call.part("parts/ended.html", back=call.request.url.path.removeprefix("/live"))
                ) + event("end", "")
                return
            parts = {name: await render() for name, render in renders.items()}
            if seldom is not None and turn % seldom_every == 0:
                parts["seldom"] = await seldom()
            changed = [event(name, part) for name, part in parts.items() if sent.get(name) != part]
            sent |= parts
            if changed or turn % SIGN_AFTER == 0:
                yield b"".join(changed) or b": here\n\n"
            turn += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(context.stopping.wait(), EVERY_SECONDS)
    except AdtEngineError as error:
        _log.warning("stream ended", error=type(error).__name__, point=place_of(error))
    finally:
        context.streams[owner] -= 1


def event(name: str, text: str) -> bytes:
    """Return one event; its text may have lines."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines()) or "data:\n"
    return f"event: {name}\n{lines}\n".encode()

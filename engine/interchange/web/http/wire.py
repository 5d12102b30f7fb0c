"""ASGI: headers as a mapping, bodies within a limit, answers in two messages."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from engine.interchange.core.exchange import HttpAnswer
from engine.interchange.web.http.gzip import SHORTEST_BYTES, compress

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

# Statuses without a body and without Content-Length (RFC 9110 section 8.6).
NO_LENGTH: Final = frozenset({204, 304})
VARY: Final = (b"vary", b"accept-encoding")
# Larger bodies are compressed, read and checked in a thread.
LARGE_BYTES: Final = 262_144
# On every answer: no caching, no guessing of media types.
SAFE: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class RequestBody:
    """The body of a request; `whole` once it is complete."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.whole = False

    async def read(self, content_length: str | None, limit: int) -> bytes | None:
        """Return the body; None as soon as it is known to exceed `limit` bytes.

        ConnectionError: the client disconnected before its end.
        """
        if content_length is not None and content_length.isdigit() and int(content_length) > limit:
            return None
        parts: list[bytes] = []
        size = 0
        while not self.whole:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError
            part = message.get("body", b"")
            size += len(part)
            if size > limit:
                return None
            parts.append(part)
            self.whole = not message.get("more_body", False)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def read_headers(scope: Scope) -> dict[str, str]:
    """Return the headers by lower-case name; repeated ones are joined by commas."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        headers[key] = f"{headers[key]},{text}" if key in headers else text
    return headers


async def send_answer(send: Send, answer: HttpAnswer, media_type: str, request_id: str, *, gzip: bool = False) -> None:
    """Send an answer with its length, media type and request id; the server omits the body for HEAD.

    `gzip`: the client accepts gzip; bodies of more than 1 kB are compressed.
    """
    body = answer.body
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    headers.append((b"x-request-id", request_id.encode("latin-1")))
    headers += SAFE
    if len(body) > SHORTEST_BYTES:
        headers.append(VARY)
        if gzip:
            body = compress(body) if len(body) <= LARGE_BYTES else await asyncio.to_thread(compress, body)
            headers.append((b"content-encoding", b"gzip"))
    if answer.status not in NO_LENGTH:
        headers.append((b"content-length", str(len(body)).encode()))
    if body:
        headers.append((b"content-type", media_type.encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

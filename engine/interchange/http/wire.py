"""ASGI in and out: headers as a mapping, bodies within a limit, answers sent in two messages."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from engine.interchange.exchange import Answer

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def read_headers(scope: Scope) -> dict[str, str]:
    """Return the headers by lower-case name; several of one name are joined by commas."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        headers[key] = f"{headers[key]},{text}" if key in headers else text
    return headers


async def read_body(receive: Receive, content_length: str | None, limit: int) -> bytes | None:
    """Return the body of a request, None where it is larger than `limit` bytes."""
    if content_length is not None and content_length.isdigit() and int(content_length) > limit:
        return None
    parts: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            return None
        parts.append(part)
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def send_answer(send: Send, answer: Answer, media_type: str, request_id: str) -> None:
    """Send an answer with its length, media type and request id."""
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    headers.append((b"x-request-id", request_id.encode("latin-1")))
    if answer.status != 304:
        headers.append((b"content-length", str(len(answer.body)).encode()))
    if answer.body:
        headers.append((b"content-type", media_type.encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})

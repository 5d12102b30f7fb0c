"""ASGI: headers as a mapping, bodies within a limit, gzip, answers in two messages; refusals of malformed requests."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final

from engine.fhir.schema import FhirVersion
from engine.http.connection import MAX_ADDRESS_BYTES, MAX_HEADER_BYTES, ConnectionRefusal
from engine.interchange.core.exchange import HttpAnswer
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import Category, outcome, refuse

# Smaller answers are not worth compressing.
SHORTEST_BYTES: Final = 1024
# The fastest level: JSON shrinks to a sixth, with the default level to a seventh.
LEVEL: Final = 1
GZIP: Final = 16 + zlib.MAX_WBITS
NAMES: Final = frozenset({"gzip", "x-gzip"})
ANY: Final = "*"


class BombError(Exception):
    """The decompressed body exceeds the limit."""


@lru_cache(maxsize=256)
def takes_gzip(accept_encoding: str) -> bool:
    """Say whether an Accept-Encoding header accepts gzip."""
    weights: dict[str, bool] = {}
    for part in accept_encoding.lower().split(","):
        name, _, options = part.partition(";")
        weights[name.strip()] = not _refuses(options)
    named = [weights[name] for name in NAMES if name in weights]
    return any(named) if named else weights.get(ANY, False)


def compress(body: bytes) -> bytes:
    """Return a body compressed."""
    return zlib.compress(body, LEVEL, GZIP)


def expand(body: bytes, limit: int) -> bytes:
    """Decompress a body; BombError if it is larger than `limit`, ValueError if it is not complete gzip.

    At most `limit` bytes are decompressed.
    """
    reader = zlib.decompressobj(GZIP)
    try:
        expanded = reader.decompress(body, limit + 1)
    except zlib.error as error:
        raise ValueError("no gzip") from error
    if len(expanded) > limit:
        raise BombError
    if not reader.eof or reader.unused_data:
        raise ValueError("not one whole gzip")
    return expanded


def _refuses(options: str) -> bool:
    weight = options.replace(" ", "").partition("q=")[2]
    return bool(weight) and not weight.strip("0.")


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


REFUSALS: Final = {
    HTTPStatus.BAD_REQUEST: (Category.STRUCTURE, "The request is not valid HTTP/1.1."),
    HTTPStatus.REQUEST_TIMEOUT: (Category.SLOW_BODY, "The request did not arrive in time."),
    HTTPStatus.REQUEST_URI_TOO_LONG: (
        Category.LONG_ADDRESS,
        f"The address is longer than {MAX_ADDRESS_BYTES} bytes.",
    ),
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: (
        Category.LONG_HEADERS,
        f"The headers are longer than {MAX_HEADER_BYTES} bytes.",
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: (Category.BUSY, "The service has too many connections; try again soon."),
}


def refusal(count: Callable[[Category], None], status: HTTPStatus) -> ConnectionRefusal:
    """Return the refusal of a request head as an OperationOutcome; `count` is called with its category."""
    category, text = REFUSALS[status]
    count(category)
    again = ((b"retry-after", b"1"),) * (category is Category.BUSY)
    body = write_json(outcome(refuse(category, text, location="http.head"), FhirVersion.R4, ""))
    return ConnectionRefusal((*SAFE, (b"content-type", b"application/fhir+json"), *again), body)

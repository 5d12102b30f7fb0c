"""What was asked of a destination, put together again from how it is kept."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson

from engine.http.request import Request
from engine.journal.file.sealing import Sealing, request_at


def request_of(sealing: Sealing | None, place: tuple[int, str, int], parts: Sequence[Any], at: datetime) -> Request:
    """Return a request from its columns: method, URL, query, headers and body; what the disk changed is left empty.

    `place`: the entry, the destination and the number of the attempt.
    """
    method, url, query, headers, body = parts
    if sealing is not None:
        query, headers, body = (_legible(sealing, part, request_at(*place)) for part in (query, headers, body))
    asked = f"?{bytes(query).decode()}" if query else ""
    listed = tuple((name, value) for name, value in orjson.loads(headers or b"[]"))
    return Request(place[2], method, url + asked, listed, body, at)


def _legible(sealing: Sealing, part: bytes | str, place: str) -> bytes | str:
    """Return a part as it was; what retention emptied is text, and no longer sealed."""
    return sealing.legible(part, place) if isinstance(part, bytes) else part

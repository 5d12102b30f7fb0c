"""What was asked of a destination, put together again from how it is kept."""

import orjson

from engine.http.request import Request
from engine.journal.file.sealing import Sealing, request_at
from engine.journal.moment import from_micros
from engine.sqlite import Row


def request_of(sealing: Sealing | None, seq: int, destination: str, row: Row) -> Request:
    """Return a request of an entry from its row in `attempt`; what the disk changed is left empty."""
    query, headers, body = row["query"], row["headers"], row["body"]
    if sealing is not None:
        place = request_at(seq, destination, row["number"])
        query, headers, body = (_legible(sealing, part, place) for part in (query, headers, body))
    asked = f"?{bytes(query).decode()}" if query else ""
    listed = tuple((name, value) for name, value in orjson.loads(headers or b"[]"))
    return Request(row["number"], row["method"], row["url"] + asked, listed, body, from_micros(row["at"]))


def _legible(sealing: Sealing, part: bytes | str, place: str) -> bytes | str:
    """Return a part as it was; what retention emptied is text, and no longer sealed."""
    return sealing.legible(part, place) if isinstance(part, bytes) else part

"""A request as it is announced to the journal before it is sent, and kept there."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, repr=False)
class HttpRequest:
    """A write that is about to be sent; `headers` hold no secrets, `number` counts from 1 within the delivery."""

    number: int
    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    at: datetime

"""Timestamps, with a cache by text; and the time of an event."""

from datetime import datetime, tzinfo
from typing import Final, NamedTuple

from engine.errors import TimestampError
from engine.hl7.message import Message
from engine.hl7.timestamp import Timestamp, offset_of_message, parse_timestamp
from engine.mapping.language.bounded_cache import BoundedCache

MAX_KEPT: Final = 4096


class Stamps:
    """Reads timestamps in one channel's zone."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._kept: BoundedCache[tuple[str, tzinfo | None], Timestamp | None] = BoundedCache(MAX_KEPT)
        self._offsets: BoundedCache[str, tzinfo | None] = BoundedCache(MAX_KEPT)

    def read(self, text: str, offset: tzinfo | None) -> Timestamp | None:
        """Return a timestamp; None if the text is invalid. `offset` is the message's, as `offset` returns it."""
        key = (text, offset)
        return self._kept[key] if key in self._kept else self._kept.keep(key, self._parse(text, offset))

    def offset(self, sent_at: str) -> tzinfo | None:
        """Return the offset of MSH-7, for the timestamps of its message; None if the channel's zone applies."""
        if "+" not in sent_at and "-" not in sent_at:
            return None
        try:
            return self._offsets[sent_at]
        except KeyError:
            return self._offsets.keep(sent_at, offset_of_message(sent_at, self._zone))

    def _parse(self, text: str, offset: tzinfo | None) -> Timestamp | None:
        try:
            return parse_timestamp(text, self._zone, offset)
        except TimestampError:
            return None


class Moment(NamedTuple):
    """The moment of an event.

    `precision` in characters, 0 if neither field is usable; `flags` are codes of decisions, with the place; `day` is
    the day as written, YYYYMMDD, empty if there is none; `offset` that of MSH-7, for timestamps without one; `stamp`
    the whole timestamp that was used.
    """

    at: datetime | None
    precision: int
    flags: tuple[str, ...]
    day: str
    offset: tzinfo | None
    stamp: Timestamp | None = None


def moment_of(message: Message, stamps: Stamps) -> Moment:
    """Return when the event of a message took place."""
    sent, event = message.leaf("MSH", 7), message.leaf("EVN", 2)
    offset = stamps.offset(sent) if isinstance(sent, str) else None
    for place, text in (("EVN-2", event), ("MSH-7", sent)):
        if isinstance(text, str):
            stamp = stamps.read(text, offset)
            if stamp is not None:
                day = text[:8] if stamp.precision >= 8 else ""
                flags = tuple([f"{flag} {place}" for flag in stamp.flags]) if stamp.flags else ()
                return Moment(stamp.at, stamp.precision, flags, day, offset, stamp)
    return Moment(None, 0, (), "", offset)

"""When an event took place: EVN-2, or else MSH-7."""

from datetime import datetime, tzinfo
from typing import NamedTuple

from engine.hl7.message import Message
from engine.hl7.timestamp import Timestamp
from engine.mapping.language.stamp import Stamps


class Moment(NamedTuple):
    """The moment of an event.

    `precision` in characters, 0 where neither field is usable; `flags` name what had to be decided, with the place;
    `day` is the day as written, YYYYMMDD, empty where there is none; `offset` that of MSH-7, for timestamps without;
    `stamp` all of the field that was used.
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

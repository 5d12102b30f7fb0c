"""Timestamps read once: the same text is parsed a single time, however many fields, functions and passes ask for it."""

from datetime import tzinfo
from typing import Final

from engine.errors import TimestampError
from engine.hl7.timestamp import Timestamp, offset_of_message, parse_timestamp
from engine.mapping.language.kept import Kept

MAX_KEPT: Final = 4096


class Stamps:
    """Reads timestamps in one channel's zone."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._kept: Kept[tuple[str, tzinfo | None], Timestamp | None] = Kept(MAX_KEPT)
        self._offsets: Kept[str, tzinfo | None] = Kept(MAX_KEPT)

    def read(self, text: str, offset: tzinfo | None) -> Timestamp | None:
        """Return a timestamp; None where the text is none. `offset` is that of the message, as `offset` returns it."""
        key = (text, offset)
        try:
            return self._kept[key]
        except KeyError:
            return self._kept.keep(key, self._parse(text, offset))

    def offset(self, sent_at: str) -> tzinfo | None:
        """Return the offset that MSH-7 gives to the timestamps of its message; None where the zone holds."""
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

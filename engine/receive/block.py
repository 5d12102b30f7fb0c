"""Blocks of the Minimal Lower Layer Protocol, cut out of a byte stream, without socket or clock.

    <SB> content <EB><CR>      SB = 0x0B, EB = 0x1C, CR = 0x0D

What comes out is the same however the stream was cut into pieces. Where senders stray from the protocol:

    bytes between blocks       skipped, counted once per run
    SB inside a block          restarts the block; the torn one comes out as a fragment
    EB without CR              ends the block before SB, before LF, after a second of silence, or where the stream ends
    EB before anything else    is no end: the block goes on to its end or to a second of silence, and is refused whole
    an empty block             a probe
    64 torn blocks in a row    this is no MLLP: the stream is dead
    more than the limit        nothing more is kept: the first bytes come out as a fragment and the stream is dead
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

START: Final = 0x0B
END: Final = 0x1C
RETURN: Final = 0x0D
FEED: Final = 0x0A

MAX_TORN: Final = 64
# So long a block that lacks only its CR, or holds an end within, waits for more.
GRACE_SECONDS: Final = 1.0
# Bytes between blocks that say nothing: line ends and padding.
EMPTY: Final = b"\r\n\t \x00\x1c"
FIRST_BYTES: Final = 8

COMMIT_ACK: Final = b"\x06"
COMMIT_NAK: Final = b"\x15"


class BlockKind(StrEnum):
    """How whole a block is."""

    COMPLETE = "complete"
    TORN = "torn"
    END_WITHIN = "end-within-block"
    OVERSIZE = "oversize"


class EventKind(StrEnum):
    """What a stream holds other than blocks."""

    STRAY = "stray-bytes"
    BARE_END = "bare-end"
    PROBE = "probe"
    LATE = "block-too-slow"
    CUT_OFF = "block-cut-off"
    NOISE = "noise"
    UNFRAMED = "unframed"


class Unframed(StrEnum):
    """What bytes without a frame look like, by the first of them."""

    TLS = "tls"
    HL7 = "hl7"
    STX = "stx"
    HTTP = "http"
    TEXT = "text"
    BINARY = "binary"


@dataclass(frozen=True, slots=True)
class Block:
    """The content of one block, without the bytes around it; `began` and `ended` are seconds of a monotonic clock."""

    raw: bytes
    kind: BlockKind
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """Something to count; `size_bytes` is the number of bytes that it concerns."""

    kind: EventKind
    size_bytes: int = 0


def enclose(content: bytes) -> bytes:
    """Return content between the start and end bytes of an MLLP block."""
    return b"\x0b%b\x1c\r" % content


def _looks_like(first: bytes) -> Unframed:
    if first.startswith(b"\x16\x03"):
        return Unframed.TLS
    if first[:3] in {b"MSH", b"FHS", b"BHS"}:
        return Unframed.HL7
    if first[:1] in {b"\x01", b"\x02"}:
        return Unframed.STX
    if first.split(b" ", 1)[0] in {b"GET", b"POST", b"PUT", b"HEAD", b"OPTIONS", b"CONNECT"}:
        return Unframed.HTTP
    return Unframed.TEXT if first.isascii() and first.decode("ascii").isprintable() else Unframed.BINARY


class BlockReader:
    """Cuts a stream into blocks of at most `block_bytes`, each of which may take `block_seconds` to arrive."""

    __slots__ = (
        *("_began", "_divided", "_ended", "_ending", "_first", "_held", "_inside", "_limit", "_seconds", "_stray"),
        *("_torn", "dead"),
    )

    def __init__(self, block_bytes: int, block_seconds: float) -> None:
        self._limit = block_bytes
        self._seconds = block_seconds
        self._held = bytearray()
        self._inside = False
        self._ending = self._divided = False
        self._began = self._ended = 0.0
        self._stray = 0
        self._first = b""
        self._torn = 0
        self.dead = False

    @property
    def deadline(self) -> float | None:
        """The moment by which the block that is under way must have ended; None between blocks."""
        if not self._inside:
            return None
        by = self._began + self._seconds
        return min(by, self._ended + GRACE_SECONDS) if self._ending or self._divided else by

    @property
    def unframed(self) -> Unframed | None:
        """What the bytes look like that came since the last block, without a frame; None where none did."""
        return _looks_like(self._first) if self._first else None

    def postpone(self, seconds: float) -> None:
        """Give the block under way more time, for seconds in which nobody read."""
        self._began += seconds
        self._ended += seconds

    def feed(self, data: bytes, now: float) -> list[Block | StreamEvent]:
        """Take the next bytes of the stream; return what they complete, in order."""
        found: list[Block | StreamEvent] = []
        position, size = 0, len(data)
        while position < size and not self.dead:
            if not self._inside:
                position = self._skip(data, position, now, found)
            elif self._ending:
                position = self._end(data, position, now, found)
            else:
                position = self._fill(data, position, now, found)
        return found

    def expire(self, now: float) -> list[Block | StreamEvent]:
        """Say that time has come; past the deadline a block that has an end ends, any other kills the stream."""
        deadline = self.deadline
        if deadline is None or now < deadline:
            return []
        found: list[Block | StreamEvent] = []
        if self._ending or self._divided:
            self._end_bare(now, found)
        else:
            found.append(StreamEvent(EventKind.LATE, len(self._held)))
            self._die()
        return found

    def end(self, now: float) -> list[Block | StreamEvent]:
        """Say that the peer sends nothing more: a block that lacks only its CR, or holds an end within, ends."""
        found: list[Block | StreamEvent] = []
        if self._inside and (self._ending or self._divided):
            self._end_bare(now, found)
        return found

    def close(self) -> list[Block | StreamEvent]:
        """Say that the stream is over; a block under way is dropped and counted."""
        found: list[Block | StreamEvent] = []
        if not self.dead:
            self._count_stray(found)
            if self._inside:
                found.append(StreamEvent(EventKind.CUT_OFF, len(self._held)))
        self._die()
        return found

    def _skip(self, data: bytes, position: int, now: float, found: list[Block | StreamEvent]) -> int:
        start = data.find(START, position)
        if start != position and len(self._first) < FIRST_BYTES:
            self._first = (self._first + data[position : start if start >= 0 else None]).lstrip(EMPTY)[:FIRST_BYTES]
        if start < 0:
            self._stray += len(data) - position
            if self._stray > self._limit:
                found.append(StreamEvent(EventKind.NOISE, self._limit))
                self._die()
            return len(data)
        self._stray += start - position
        if self._stray > self._limit:
            found.append(StreamEvent(EventKind.NOISE, self._limit))
            self._die()
            return len(data)
        self._count_stray(found)
        self._inside = True
        self._began = now
        return start + 1

    def _fill(self, data: bytes, position: int, now: float, found: list[Block | StreamEvent]) -> int:
        end = data.find(END, position)
        restart = data.find(START, position, end if end >= 0 else len(data))
        stop = restart if restart >= 0 else end if end >= 0 else len(data)
        room = max(self._limit - len(self._held), 0)
        if stop - position > room:
            fragment = bytes(self._held) + data[position : position + room]
            found.append(Block(fragment, BlockKind.OVERSIZE, self._began, now))
            self._die()
            return len(data)
        if restart >= 0:
            self._tear(bytes(self._held) + data[position:stop], now, found)
            return stop + 1
        if not self._held and data[stop + 1 : stop + 2] == b"\r":
            self._complete(data[position:stop], now, found)
            return stop + 2
        self._held += data[position:stop]
        self._ending = end >= 0
        self._ended = now
        return stop + 1

    def _end(self, data: bytes, position: int, now: float, found: list[Block | StreamEvent]) -> int:
        following = data[position]
        if following == RETURN:
            self._complete(bytes(self._held), now, found)
            return position + 1
        if following in {START, FEED}:
            self._end_bare(now, found)
            return position + (following == FEED)
        self._held.append(END)
        self._ending = False
        self._divided = True
        return position

    def _end_bare(self, now: float, found: list[Block | StreamEvent]) -> None:
        if self._ending:
            found.append(StreamEvent(EventKind.BARE_END))
        self._complete(bytes(self._held), now, found)

    def _complete(self, raw: bytes, now: float, found: list[Block | StreamEvent]) -> None:
        kind = BlockKind.COMPLETE
        if self._divided:
            # An end that was sent twice divides nothing.
            raw = raw.rstrip(b"\x1c")
            kind = BlockKind.END_WITHIN if END in raw else kind
        found.append(_block(raw, kind, self._began, now))
        self._torn = 0
        self._reset()

    def _tear(self, raw: bytes, now: float, found: list[Block | StreamEvent]) -> None:
        found.append(_block(raw, BlockKind.TORN, self._began, now))
        self._reset()
        self._torn += 1
        if self._torn >= MAX_TORN:
            found.append(StreamEvent(EventKind.NOISE, len(raw)))
            self._die()
            return
        self._inside = True
        self._began = now

    def _count_stray(self, found: list[Block | StreamEvent]) -> None:
        if self._stray:
            found.append(StreamEvent(EventKind.STRAY, self._stray))
            self._stray = 0
        self._first = b""

    def _reset(self) -> None:
        self._inside = self._ending = self._divided = False
        if self._held:
            self._held = bytearray()

    def _die(self) -> None:
        self._reset()
        self._stray = 0
        self._first = b""
        self.dead = True


def _block(raw: bytes, kind: BlockKind, began: float, ended: float) -> Block | StreamEvent:
    return Block(raw, kind, began, ended) if raw and not raw.isspace() else StreamEvent(EventKind.PROBE)

"""A message: bytes in, the same bytes out, and in between segments that are cut only where they are asked."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from engine.errors import MessageLimitError, UnreadableMessageError
from engine.hl7.charset import BROADER, coding_of, decode
from engine.hl7.delimiters import Delimiters, delimiters_of
from engine.hl7.events import structure
from engine.hl7.header import EVENT_IN_EVN, character_set
from engine.hl7.leaf import Leaf
from engine.hl7.legible import illegible, legible, may_be_illegible
from engine.hl7.lines import KNOWN, LEADING, TRAILING, Lines, carried_by, cut, is_own, meant
from engine.hl7.segment import KINDS, Repetition, Segment, dialect_of

__all__ = ["Message", "Repetition", "Segment", "parse"]


class OddLines(NamedTuple):
    """Lines of a message that are not as the standard has them, by their numbers among its segments, from 1.

    `none`: they are no segment, or hold such a line; nothing reads them. `meant`: a segment's name with blanks or in
    small letters, which is read as that segment. `by_feed` and `unclear` are those of `engine/hl7/lines.py`.
    """

    none: tuple[int, ...]
    meant: tuple[int, ...]
    by_feed: tuple[int, ...]
    unclear: tuple[int, ...]


class Message:
    """One message as it came in.

    `raw` are its bytes, `text` all of them decoded, `charset` the Python codec that did it (`iso-2022` for text that
    switches sets), `delimiters` what its MSH declares, `dialect` how it writes its parts, `event_from_evn` whether
    EVN-1 says its event in any version. `read_as` is `charset` where another set is declared, else ''.
    """

    __slots__ = (
        "_all",
        "_firsts",
        "_groups",
        "_headers",
        "_judged",
        "_legible",
        "_lines",
        "_meant",
        "_named",
        "_none",
        "_segments",
        "_texts",
        "charset",
        "delimiters",
        "dialect",
        "event_from_evn",
        "raw",
        "read_as",
        "text",
    )

    def __init__(
        self,
        raw: bytes,
        text: str,
        charset: str,
        texts: list[str],
        delimiters: Delimiters,
        *,
        event_from_evn: bool = False,
        lines: Lines | None = None,
    ) -> None:
        self.raw = raw
        self.text = text
        self.charset = charset
        self.delimiters = delimiters
        self.dialect = dialect_of(delimiters, charset)
        self.event_from_evn = event_from_evn
        self._texts = texts
        self._segments: list[Segment | None] = [None] * len(texts)
        self._named: dict[str, list[int]] = {}
        self._firsts: dict[str, Segment] = {}
        self._headers: dict[int, str] = {}
        self._all: tuple[Segment, ...] = ()
        self._groups: dict[str, tuple[Segment, ...]] = {}
        self._lines = lines
        self.read_as = ""
        self._none: list[int] = []
        self._meant: list[int] = []
        self._judged = False
        self._legible: Message | None = None  # where it is not this one, which would hold itself

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments in their order, MSH first."""
        if not self._all:
            if not self._groups:
                self._make()
            self._all = tuple(filter(None, self._segments))
        return self._all

    @property
    def texts(self) -> Sequence[str]:
        """The texts of all segments in their order, as sent."""
        return self._texts

    @property
    def groups(self) -> Mapping[str, tuple[Segment, ...]]:
        """All segments by their names, each group in its order."""
        if not self._groups:
            self._make()
        return self._groups

    @property
    def firsts(self) -> dict[str, Segment]:
        """The first segment of each name; a copy."""
        if not self._groups:
            self._make()
        return self._firsts.copy()

    def legible(self) -> "Message":
        """Return the message without the characters that no FHIR text holds; itself where it has none of them."""
        if not self._judged:
            self._judged = True
            if may_be_illegible(self.raw, self.text):
                texts = legible(self._texts, self.delimiters)
                if texts != self._texts:
                    self._legible = Message(
                        self.raw, self.text, self.charset, texts, self.delimiters, event_from_evn=self.event_from_evn
                    )
        return self._legible or self

    @property
    def odd_lines(self) -> OddLines | None:
        """Lines that are not as the standard has them; None where all are, as nearly always."""
        if not self._named:
            self._index()
        lines = self._lines
        if lines is None and not self._none and not self._meant:
            return None
        by_feed, kept, unclear = lines[1:] if lines else ((), (), ())
        none = sorted({*kept, *(at + 1 for at in self._none)})
        return OddLines(tuple(none), tuple(at + 1 for at in sorted(self._meant)), by_feed, unclear)

    @property
    def illegible(self) -> tuple[str, ...]:
        """Names of the segments that hold a character that no FHIR text holds, '' for what is no name."""
        return illegible(self._texts)

    def _make(self) -> None:
        """Make every segment that nobody asked for yet."""
        made, texts, dialect, firsts = self._segments, self._texts, self.dialect, self._firsts
        for name, found in (self._named or self._index()).items():
            kind, group = KINDS.get(name, Segment), []
            for at in found:
                one = made[at]
                if one is None:
                    one = made[at] = kind(name, texts[at], at + 1, dialect)
                group.append(one)
            firsts[name] = group[0]
            self._groups[name] = tuple(group)

    def named(self, name: str) -> tuple[Segment, ...]:
        """Return the segments of a name in their order, () where there is none."""
        found = (self._named or self._index()).get(name)
        return tuple([self._segment(name, at) for at in found]) if found else ()

    def first(self, name: str) -> Segment | None:
        """Return the first segment of a name, None where there is none."""
        found = (self._named or self._index()).get(name)
        if not found:
            return None
        first = self._firsts[name] = self._segment(name, found[0])
        return first

    def leaf(self, segment: str, field: int, component: int = 1, subcomponent: int = 1, repetition: int = 1) -> Leaf:
        """Return one leaf of the first segment of a name; None where there is no such part."""
        found = self._firsts.get(segment) or self.first(segment)
        return None if found is None else found.leaf(field, component, subcomponent, repetition)

    def _index(self) -> dict[str, list[int]]:
        """Note where the segments of each name stand; the name is what comes before the first field separator."""
        named = self._named
        separator = self.delimiters.field
        for at, text in enumerate(self._texts):
            name = text.partition(separator)[0]
            if name in named:
                named[name].append(at)
            else:
                named[name] = [at]
        if not named.keys() <= KNOWN:
            self._mend(named)
        return named

    def _mend(self, named: dict[str, list[int]]) -> None:
        """Give lines whose name is none the one that is meant, where there is one, and note them."""
        carried = carried_by("")
        if "MSH" in named:
            carried = carried_by(self.message_type)
        for name in [one for one in named if one not in KNOWN and not is_own(one)]:
            right = meant(name, carried)
            at = [one for one in named[name] if self._texts[one].strip()]
            if not right:
                self._none += at
                continue
            self._meant += at
            named[right] = sorted((*named.get(right, ()), *named.pop(name)))

    def _segment(self, name: str, at: int) -> Segment:
        found = self._segments[at]
        if found is None:
            kind = KINDS.get(name, Segment)
            found = self._segments[at] = kind(name, self._texts[at], at + 1, self.dialect)
        return found

    def _header(self, field: int, component: int) -> str:
        """Return a part of MSH, read once: rules, sources and keys ask for the same few again and again."""
        key = field << 8 | component
        known = self._headers.get(key)
        if known is None:
            header = self._firsts.get("MSH") or self.first("MSH")
            found = header.leaf(field, component) if header is not None else None
            known = self._headers[key] = found if isinstance(found, str) else ""
        return known

    @property
    def facility(self) -> str:
        """MSH-4.1, the sending facility; '' where it is absent, as in all that follow."""
        return self._header(4, 1)

    @property
    def message_type(self) -> str:
        """MSH-9.1, `ADT`."""
        return self._header(9, 1)

    @property
    def trigger(self) -> str:
        """MSH-9.2, `A01`; EVN-1 where that is empty in a message of 2.1 or 2.2, or as `event_from_evn` says."""
        return self._header(9, 2) or self._event_of_evn()

    def _event_of_evn(self) -> str:
        is_said_there = self.message_type == "ADT" and (self.event_from_evn or self.version in EVENT_IN_EVN)
        event = self.leaf("EVN", 1) if is_said_there else None
        return event.strip() if isinstance(event, str) else ""

    @property
    def structure(self) -> str:
        """The message structure that version and trigger make (`ADT_A39` for A40), never MSH-9.3; '' if unknown."""
        return structure(self.version, self.trigger) if self.message_type == "ADT" else ""

    @property
    def control_id(self) -> str:
        """MSH-10."""
        return self._header(10, 1)

    @property
    def processing_id(self) -> str:
        """MSH-11.1, `P`."""
        return self._header(11, 1)

    @property
    def version(self) -> str:
        """MSH-12.1; '' means the channel's version."""
        return self._header(12, 1)

    @property
    def source(self) -> str:
        """Who speaks, `MSH-3.1|MSH-4.1`."""
        return f"{self._header(3, 1)}|{self._header(4, 1)}"

    def write(self) -> bytes:
        """Return the bytes of the message: those that came in."""
        return self.raw

    def __repr__(self) -> str:
        return f"<Message of {len(self._texts)} segments>"


def parse(
    raw: bytes,
    *,
    charset: str = "UTF-8",
    undecodable: Literal["refuse", "replace"] = "refuse",
    max_segments: int = 10_000,
    max_repetitions: int = 100_000,
    event_from_evn: bool = False,
) -> Message:
    """Read one message.

    `charset` (a name of table 0211 or a Python codec) holds where MSH-18 is empty. `event_from_evn`: in any version
    EVN-1 says the event of an ADT message without MSH-9.2, not only before 2.3. Raises UnreadableMessageError where no
    usable MSH begins the bytes, UndecodableMessageError for bytes outside the character set (unless they may be
    replaced by U+FFFD), MessageLimitError for more segments, or more repetition separators, than allowed.
    """
    declared, repetition = character_set(raw, charset)
    coding = coding_of(declared, repetition, charset)
    text, codec = decode(raw, coding, replace=undecodable == "replace")
    body = text.lstrip(LEADING).rstrip(TRAILING)
    if not body.startswith("MSH") or len(body) < len("MSH|"):
        raise UnreadableMessageError
    lines = cut(body, body[3])
    texts = lines.texts
    delimiters = delimiters_of(body[3], texts[0][4:].split(body[3], 1)[0])
    if len(texts) > max_segments:
        raise MessageLimitError(f"more than {max_segments} segments")
    if delimiters.repetition and text.count(delimiters.repetition) > max_repetitions:
        raise MessageLimitError(f"more than {max_repetitions} repetitions")
    odd = lines if lines.by_feed or lines.kept or lines.unclear else None
    message = Message(raw, text, codec, texts, delimiters, event_from_evn=event_from_evn, lines=odd)
    if coding is not None and codec != coding.name and (declared or codec in BROADER):
        message.read_as = codec
    return message

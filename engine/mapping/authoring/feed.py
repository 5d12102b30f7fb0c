"""A survey of a feed's messages: senders, authorities, detected character sets, versions, events, value shapes.

Names of systems, authorities and events are shown as they are, patient data never: if such a name is also a name or a
number of the same message's patient, only its length is shown.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple

from engine.errors import MessageError, MessageLimitError, UndecodableMessageError
from engine.hl7.charset import UTF8_MARK, coding_of, decode, wide_codec
from engine.hl7.events import ADT
from engine.hl7.header import EVENT_IN_EVN, character_set, read_header
from engine.hl7.iso2022 import ESCAPE
from engine.hl7.leaf import NULL_TEXT
from engine.hl7.message import Message, Repetition, Segment, parse
from engine.mapping.authoring.survey import name_of
from engine.mapping.files.reference import segments
from engine.mapping.subject.events import EVENT

# Bytes that are characters in Windows code pages, but not in ISO 8859.
_PAGES: Final = frozenset(range(0x80, 0xA0))


class DetectedEncoding(StrEnum):
    """The encoding detected from the bytes of a message."""

    ASCII = "ASCII"
    UTF8 = "UTF-8"
    MARKED = "UTF-8 with a byte order mark"
    WIDE = "UTF-16 or UTF-32"
    SWITCHING = "ISO 2022 (escape sequences)"
    LATIN = "one byte a character, or a set of the Far East"
    PAGE = "one byte a character, of a Windows code page"


# The form of an unknown set's name: letters with digits, unlike other content of a broken MSH-18.
_NAME: Final = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9 ./_-]{1,20}")

# The `charset` of a channel for messages that declare none and are not UTF-8.
GUESSES: Final = {DetectedEncoding.LATIN: "8859/1", DetectedEncoding.PAGE: "cp1252"}


def detected_encoding(raw: bytes) -> DetectedEncoding:
    """Return the encoding of the bytes of a message."""
    if wide_codec(raw):
        return DetectedEncoding.WIDE
    if raw.startswith(UTF8_MARK):
        return DetectedEncoding.MARKED
    if raw.isascii():
        return DetectedEncoding.SWITCHING if ESCAPE in raw else DetectedEncoding.ASCII
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return DetectedEncoding.PAGE if _PAGES.intersection(raw) else DetectedEncoding.LATIN
    return DetectedEncoding.UTF8


def declared_shown(raw: bytes) -> str:
    """Return MSH-18; its length if it is not the name of a character set."""
    wide = wide_codec(raw)
    declared, repetition = character_set(raw.decode(wide, "replace").encode() if wide else raw)
    text = declared.decode("ascii", "replace")
    names = [part for part in text.split(repetition.decode("latin-1") or "~") if part.strip()]
    known = (coding_of(name.encode(), b"~", "UTF-8") or _NAME.fullmatch(name) for name in names)
    return text if all(known) else f"({len(text)} characters)"


def fault(raw: bytes) -> str:
    """Return the fault of a message's declared character set, by its bytes; empty if there is none."""
    detected = detected_encoding(raw)
    # Wide bytes and a byte order mark identify the set; MSH-18 then does not matter.
    marked = detected in {DetectedEncoding.WIDE, DetectedEncoding.MARKED}
    declared, repetition = (b"", b"") if marked else character_set(raw)
    coding = coding_of(declared, repetition, "UTF-8")
    if coding is None:
        return "MSH-18 is no character set of table 0211"
    try:
        decode(raw, coding)
    except UndecodableMessageError:
        unsaid = not declared and not marked
        return "MSH-18 is empty, which means UTF-8, and this is none" if unsaid else "bytes that are not of it"
    if detected is DetectedEncoding.UTF8 and coding.name not in {"utf-8", "gb18030", "big5", "euc_kr"}:
        return "these bytes are UTF-8"
    return ""


LONGEST: Final = 64
# A code of a table: short, without blanks, and with too few digits for a person's number or date.
_CODE: Final = re.compile(r"(?!(?:\D*\d){5})[A-Za-z0-9][A-Za-z0-9_.+/*^-]{0,19}")
_STAMP: Final = re.compile(r"\d{10,14}(?:\.\d+)?(?P<offset>[+-]\d{4})?")
_KINDS: Final = (
    (re.compile(r"[YN]"), "Y or N"),
    (re.compile(r"(?:18|19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"), "date"),
    (re.compile(r"\d{10,14}(?:\.\d+)?"), "time without a zone, or a long number"),
    (re.compile(r"\d{10,14}(?:\.\d+)?[+-]\d{4}"), "time with a zone"),
    (re.compile(r"[0-9]+"), "digits"),
    (re.compile(r"[+-]?\d+\.\d+"), "decimal number"),
    (re.compile(r"\S+"), "one word"),
)
SHORTEST: Final = 3
CODE_LIKE: Final = "like a code"
# Kinds of words that may be codes.
_WORDS: Final = ("one word", "digits")


def kind_of(text: str, component: str) -> str:
    """Return the kind of one repetition of a field; `component` separates its components."""
    if text == NULL_TEXT:
        return '"" (delete)'
    count = text.count(component) + 1 if component else 1
    if count > 1:
        return f"{count} components"
    return next((name for form, name in _KINDS if form.fullmatch(text.strip())), "text")


def offset_of(text: str) -> str | None:
    """Return the offset of a time of day, empty if it has none; None for anything else."""
    match = _STAMP.fullmatch(text.strip())
    return None if match is None else match["offset"] or ""


def name_shown(text: str, personal: Collection[str]) -> str:
    """Return the name of a system, an authority or an event; its length if it could be a person's name or number."""
    if not text.isprintable() or len(text) > LONGEST or text.casefold() in personal:
        return f"({len(text)} characters)"
    return text


def code_shown(text: str, personal: Collection[str]) -> str:
    """Return a code; its length if it does not look like one, or could be a person's name or number."""
    if not _CODE.fullmatch(text) or text.casefold() in personal:
        return f"({len(text)} characters)"
    return text


def is_shown(text: str) -> bool:
    """True if a name may be shown as it is."""
    return not (text.startswith("(") and text.endswith(" characters)"))


# The form of a segment's name, and the prefix of a site's own.
SEGMENT: Final = re.compile(r"[A-Z][A-Z0-9]{2}")
OWN: Final = "Z"
# Withdrawn fields of the standard that held numbers with an authority.
WITHDRAWN: Final = frozenset({("PID", 2), ("PID", 4), ("MRG", 2), ("MRG", 4)})
# Withdrawn fields that name a provider.
PROVIDERS: Final = frozenset({("PD1", 4)})
# The components of the assigning authority and the type by data type; `parted`: its three parts are components.
PLACES: Final = {"CX": (4, 5, False), "XCN": (9, 13, False), "XON": (6, 7, False), "EI": (2, 0, True)}


class SeenAuthority(NamedTuple):
    """An assigning authority as sent, its field, and the type of its identifiers."""

    namespace: str
    universal: str
    kind: str
    field: str
    type_: str


class Charset(NamedTuple):
    """The declared set (MSH-18), the detected encoding, and the fault of the two."""

    declared: str
    really: str
    fault: str


# Distinct values are counted up to this many.
MOST_VALUES: Final = 50


@dataclass(slots=True)
class PartSurvey:
    """The content of a component or subcomponent of a Z field: kinds, occurrences, distinct values (never shown)."""

    kinds: Counter[str] = field(default_factory=Counter)
    times: int = 0
    values: set[str] = field(default_factory=set)

    def add(self, text: str) -> None:
        """Note one occurrence."""
        self.kinds[kind_of(text, "")] += 1
        self.times += 1
        if len(self.values) <= MOST_VALUES:
            self.values.add(text)

    def join(self, other: "PartSurvey") -> None:
        """Add what another survey found."""
        self.kinds += other.kinds
        self.times += other.times
        self.values |= other.values

    @property
    def distinct(self) -> str:
        """The number of distinct values, in words."""
        return f"over {MOST_VALUES}" if len(self.values) > MOST_VALUES else str(len(self.values))

    @property
    def kind(self) -> str:
        """The kind in a word: `like a code` where few words recur, else the most frequent kind."""
        most = self.kinds.most_common(1)[0][0]
        words = self.times == sum(self.kinds[one] for one in _WORDS)
        recurs = len(self.values) <= MOST_VALUES and 2 * len(self.values) <= self.times
        return CODE_LIKE if words and recurs else most


@dataclass(slots=True)
class FeedSurvey:
    """The findings in all messages so far; each count is of messages.

    `events_of_evn`: those whose event only a channel with `event_from_evn` reads. `parts`: the components of Z fields
    (`ZPI-4.2`, `ZPI-4.2.1` where there are subcomponents); `repeated`: Z fields with several repetitions in one
    segment, and Z segments of which a message has several.
    """

    messages: int = 0
    unreadable: Counter[str] = field(default_factory=Counter)
    firsts: dict[str, str] = field(default_factory=dict)
    senders: Counter[tuple[str, str]] = field(default_factory=Counter)
    receivers: Counter[tuple[str, str]] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    processing: Counter[str] = field(default_factory=Counter)
    charsets: Counter[Charset] = field(default_factory=Counter)
    guesses: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    authorities: Counter[SeenAuthority] = field(default_factory=Counter)
    segments: Counter[str] = field(default_factory=Counter)
    own: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, Counter[str]] = field(default_factory=dict)
    parts: dict[str, PartSurvey] = field(default_factory=dict)
    repeated: Counter[str] = field(default_factory=Counter)
    zoneless: Counter[str] = field(default_factory=Counter)
    zoned: Counter[str] = field(default_factory=Counter)
    offsets: Counter[str] = field(default_factory=Counter)
    personal: set[str] = field(default_factory=set)
    events_of_evn: int = 0

    def add(self, name: str, raw: bytes) -> None:
        """Add one message; `name` is its name as an example."""
        self.add_read(name, raw, read_sample(raw))

    def add_read(self, name: str, raw: bytes, sample: "SurveyMessage") -> None:
        """Add one message that was read."""
        message, reason, guess = sample
        if reason:
            self.unreadable[reason] += 1
            self.firsts.setdefault(reason, name)
        if message is None:
            return
        self.messages += 1
        self.guesses[guess] += bool(guess)
        personal = set(_personal(message))
        self.personal |= personal
        self.charsets[Charset(declared_shown(raw), detected_encoding(raw), fault(raw))] += 1
        self._header(message, personal)
        self.authorities.update({_shown(authority, personal) for authority in _authorities(message)})
        self._segments(message)

    def join(self, other: "FeedSurvey") -> None:
        """Add what was found in the messages of another feed."""
        for name in [one.name for one in fields(self)]:
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, Counter | int):
                setattr(self, name, mine + theirs)
            elif isinstance(mine, set):
                mine |= theirs
        self.firsts = {**other.firsts, **self.firsts}
        for path, kinds in other.kinds.items():
            self.kinds[path] = self.kinds.get(path, Counter()) + kinds
        for path, part in other.parts.items():
            self.parts.setdefault(path, PartSurvey()).join(part)

    def _header(self, message: Message, personal: set[str]) -> None:
        def part(number: int, component: int = 1) -> str:
            text = message.leaf("MSH", number, component)
            return name_shown(str(text or ""), personal)

        self.senders[part(3), part(4)] += 1
        self.receivers[part(5), part(6)] += 1
        self.versions[part(12)] += 1
        self.processing[part(11)] += 1
        self.types[part(9)] += 1
        self.events[event_shown(message, personal)] += 1
        said_in_msh = isinstance(message.leaf("MSH", 9, 2), str)
        self.events_of_evn += bool(message.trigger and not said_in_msh and message.version not in EVENT_IN_EVN)

    def _segments(self, message: Message) -> None:
        """Note the segments, the content of a site's own ones, and the form of times of day."""
        self.segments.update({one.name for one in message.segments if SEGMENT.fullmatch(one.name)})
        own: dict[str, set[str]] = {}
        zones: dict[str, set[str]] = {}
        repeated: set[str] = set()
        for segment, number, path in _valued(message):
            if segment.name.startswith(OWN):
                mark = message.delimiters.component
                repetitions = segment.repetitions(number)
                own.setdefault(path, set()).update(kind_of(one.text, mark) for one in repetitions)
                self._parts(path, repetitions)
                repeated.update([path] if len(repetitions) > 1 else ())
            if (segment.name, number) in _times():
                found = (offset_of(str(repetition.leaf() or "")) for repetition in segment.repetitions(number))
                zones.setdefault(path, set()).update(one for one in found if one is not None)
        named = Counter(
            one.name for one in message.segments if one.name.startswith(OWN) and SEGMENT.fullmatch(one.name)
        )
        self.repeated.update(repeated | {name for name, count in named.items() if count > 1})
        self.own.update(own.keys())
        for path, kinds in own.items():
            self.kinds.setdefault(path, Counter()).update(kinds)
        self.zoneless.update(path for path, found in zones.items() if "" in found)
        self.zoned.update(path for path, found in zones.items() if found - {""})
        self.offsets.update({one for found in zones.values() for one in found if one})

    def _parts(self, path: str, repetitions: Iterable[Repetition]) -> None:
        """Note the components and subcomponents of a field of a site's own."""
        for repetition in repetitions:
            for number in range(1, repetition.components() + 1):
                leaves = repetition.subcomponents(number)
                for below, leaf in enumerate(leaves, 1):
                    if isinstance(leaf, str) and leaf:
                        at = f"{path}.{number}.{below}" if len(leaves) > 1 else f"{path}.{number}"
                        self.parts.setdefault(at, PartSurvey()).add(leaf)


class SurveyMessage(NamedTuple):
    """A message, None if unreadable; the fault of its declared set; and the set used to read it."""

    message: Message | None
    reason: str = ""
    charset: str = ""


def read_sample(raw: bytes) -> SurveyMessage:
    """Read a message leniently: one with bytes outside of its set is read, with the fault."""
    try:
        return SurveyMessage(parse(raw, event_from_evn=True))
    except UndecodableMessageError:
        header = read_header(raw)
        guess = "" if header is not None and header.charset_field else GUESSES.get(detected_encoding(raw), "")
    except MessageLimitError:
        return SurveyMessage(None, "too-many-parts")
    except MessageError:
        return SurveyMessage(None, "no-header" if read_header(raw) is None else "unusable-header")
    try:
        message = parse(raw, charset=guess or "UTF-8", undecodable="replace", event_from_evn=True)
    except MessageError:
        return SurveyMessage(None, "undecodable")
    return SurveyMessage(message, "undecodable", guess)


def event_shown(message: Message, personal: Collection[str]) -> str:
    """Return an event as an event table names it: `A01`, or with the type for other messages than ADT, `ORU^R01`."""
    type_ = message.message_type
    event = message.trigger if type_ in {ADT, ""} else f"{type_}^{message.trigger}"
    return event if EVENT.fullmatch(event) else name_shown(event, personal)


def _valued(message: Message) -> Iterator[tuple[Segment, int, str]]:
    for segment in message.segments:
        if SEGMENT.fullmatch(segment.name):
            for number in range(1, segment.fields() + 1):
                if segment.field(number):
                    yield segment, number, f"{segment.name}-{number}"


@cache
def _times() -> frozenset[tuple[str, int]]:
    return frozenset(
        (name, number) for name, fields in segments().items() for number, one in fields.items() if one.type_ == "DTM"
    )


@cache
def _identifying() -> dict[tuple[str, int], str]:
    """Return the fields of identifiers with an authority, and their data types."""
    found = {
        (name, number): one.type_
        for name, fields in segments().items()
        for number, one in fields.items()
        if one.type_ in PLACES
    }
    return {**found, **dict.fromkeys(WITHDRAWN, "CX"), **dict.fromkeys(PROVIDERS, "XCN")}


def _authorities(message: Message) -> Iterator[SeenAuthority]:
    for segment, number, path in _valued(message):
        type_ = _identifying().get((segment.name, number))
        if type_ is None:
            continue
        for repetition in segment.repetitions(number):
            if (type_ == "CX" and repetition.leaf() is None) or repetition.is_null:
                continue
            authority = _authority(repetition, path, type_)
            if type_ == "CX" or authority.namespace or authority.universal:
                yield authority


def _authority(one: Repetition, path: str, type_: str) -> SeenAuthority:
    place, of, parted = PLACES[type_]
    parts = [one.leaf(place + at) for at in range(3)] if parted else [one.leaf(place, at) for at in (1, 2, 3)]
    namespace, universal, kind = (str(part or "") for part in parts)
    return SeenAuthority(namespace, universal, kind, path, str(one.leaf(of) or "") if of else "")


def _shown(one: SeenAuthority, personal: set[str]) -> SeenAuthority:
    namespace, universal, kind = (name_shown(part, personal) for part in one[:3])
    return SeenAuthority(namespace, universal, kind, one.field, code_shown(one.type_, personal) if one.type_ else "")


def _personal(message: Message) -> Iterator[str]:
    """Yield names and numbers of people in a message, in lower case; without initials, which may be codes."""
    for segment, number, _path in _valued(message):
        last = _people().get((segment.name, number), 0)
        for repetition in segment.repetitions(number) if last else ():
            for leaf in (leaf for component in range(1, last + 1) for leaf in repetition.subcomponents(component)):
                if isinstance(leaf, str) and len(leaf) >= SHORTEST:
                    yield leaf.casefold()


@cache
def _people() -> dict[tuple[str, int], int]:
    """Return the fields with names and numbers of people, and the number of such components."""
    counts = {"XPN": 3, "XCN": 3, "CX": 1}
    found = {
        (name, number): counts[one.type_]
        for name, fields in segments().items()
        for number, one in fields.items()
        if one.type_ in counts
    }
    numbers = dict.fromkeys((*WITHDRAWN, ("PID", 19), ("PID", 20)), 1)
    return {**found, **numbers, **dict.fromkeys(PROVIDERS, counts["XCN"])}


def named_times(feed: FeedSurvey) -> list[tuple[str, str, int, int]]:
    """Return the fields with times of day: path, the standard's name, messages without a zone, and with one."""
    paths = sorted({*feed.zoneless, *feed.zoned}, key=lambda path: (-feed.zoneless[path], path))
    return [(path, name_of(path), feed.zoneless[path], feed.zoned[path]) for path in paths]


def ranked(kinds: Counter[str]) -> str:
    """Return kinds in a line, the most frequent first."""
    return ", ".join(f"{kind} ({count})" for kind, count in kinds.most_common(4))

"""A survey of a feed's messages, independent of mappings: senders, authorities, character sets, versions, events.

Names of systems, authorities and events are shown as they are, patient data never: if such a name is also a name or a
number of the same message's patient, only its length is shown.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple

from engine.errors import MessageError, MessageLimitError, UndecodableMessageError
from engine.hl7.events import ADT
from engine.hl7.header import EVENT_IN_EVN, read_header
from engine.hl7.message import Message, Repetition, Segment, parse
from engine.mapping.authoring.encoding import GUESSES, declared_shown, detected_encoding, fault
from engine.mapping.authoring.shape import SHORTEST, code_shown, kind_of, name_shown, offset_of
from engine.mapping.authoring.survey import name_of
from engine.mapping.files.reference import segments
from engine.mapping.subject.events import EVENT

# The form of a segment's name, and the prefix of a site's own.
SEGMENT: Final = re.compile(r"[A-Z][A-Z0-9]{2}")
OWN: Final = "Z"
# Withdrawn fields of the standard that held numbers with an authority.
WITHDRAWN: Final = frozenset({("PID", 2), ("PID", 4), ("MRG", 2), ("MRG", 4)})
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


@dataclass(slots=True)
class FeedSurvey:
    """The findings in all messages so far; each count is of messages.

    `events_of_evn`: those whose event only a channel with `event_from_evn` reads.
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
    zoneless: Counter[str] = field(default_factory=Counter)
    zoned: Counter[str] = field(default_factory=Counter)
    offsets: Counter[str] = field(default_factory=Counter)
    personal: set[str] = field(default_factory=set)
    events_of_evn: int = 0

    def add(self, name: str, raw: bytes) -> None:
        """Add one message; `name` is its name as an example."""
        message, reason, guess = read_sample(raw)
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
        self.authorities.update({_shown(one, personal) for one in _authorities(message)})
        self._segments(message)

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
        for segment, number, path in _valued(message):
            if segment.name.startswith(OWN):
                mark = message.delimiters.component
                own.setdefault(path, set()).update(kind_of(one.text, mark) for one in segment.repetitions(number))
            if (segment.name, number) in _times():
                found = (offset_of(str(one.leaf() or "")) for one in segment.repetitions(number))
                zones.setdefault(path, set()).update(one for one in found if one is not None)
        self.own.update(own.keys())
        for path, kinds in own.items():
            self.kinds.setdefault(path, Counter()).update(kinds)
        self.zoneless.update(path for path, found in zones.items() if "" in found)
        self.zoned.update(path for path, found in zones.items() if found - {""})
        self.offsets.update({one for found in zones.values() for one in found if one})


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
    return {**found, **dict.fromkeys(WITHDRAWN, "CX")}


def _authorities(message: Message) -> Iterator[SeenAuthority]:
    for segment, number, path in _valued(message):
        type_ = _identifying().get((segment.name, number))
        if type_ is None:
            continue
        for one in segment.repetitions(number):
            if (type_ == "CX" and one.leaf() is None) or one.is_null:
                continue
            authority = _authority(one, path, type_)
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
        for one in segment.repetitions(number) if last else ():
            for leaf in (leaf for component in range(1, last + 1) for leaf in one.subcomponents(component)):
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
    return {**found, **dict.fromkeys((*WITHDRAWN, ("PID", 19), ("PID", 20)), 1)}


def named_times(feed: FeedSurvey) -> list[tuple[str, str, int, int]]:
    """Return the fields with times of day: path, the standard's name, messages without a zone, and with one."""
    paths = sorted({*feed.zoneless, *feed.zoned}, key=lambda path: (-feed.zoneless[path], path))
    return [(path, name_of(path), feed.zoneless[path], feed.zoned[path]) for path in paths]


def ranked(kinds: Counter[str]) -> str:
    """Return kinds in a line, the most frequent first."""
    return ", ".join(f"{kind} ({count})" for kind, count in kinds.most_common(4))

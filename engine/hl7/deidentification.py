"""De-identification: a message of the same structure and codes, with nothing of the person in it.

Kept are codes, coding systems, authorities, types and numbers of sequence. Names, numbers, addresses, phones and free
text are replaced, dates moved back by one number of days. What no version of the standard knows is masked, Z segments
included, unless it is a code that the caller names. A kept text that holds a replaced one is masked, too.
"""

import hmac
import re
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field
from datetime import date, timedelta
from hashlib import sha256
from itertools import count
from typing import Final, NamedTuple

from engine.hl7.conformance.standard import LAST, WITHDRAWN, MessagePart, Standard, standard
from engine.hl7.events import VERSIONS
from engine.hl7.message import Message

FAMILIES: Final = ("Alderby", "Birchmere", "Caldgate", "Elmridge", "Fennwell", "Larkham", "Pellstow", "Thornden")
FREE_TEXT: Final = "TEXT"
NULL: Final = '""'
HEADERS: Final = frozenset({"MSH", "BHS", "FHS"})
# Days that dates are moved back by, at least and at most: a month is another one.
LEAST_DAYS: Final = 40
MOST_DAYS: Final = 740
EARLIEST: Final = 1000
CODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/+*-]{0,19}")
SYSTEM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/+*-]{0,99}")
STRUCTURE: Final = re.compile(r"[A-Z0-9_]{1,10}")
DATE: Final = re.compile(
    r"([12][0-9]{3})(?:(0[1-9]|1[0-2])(?:(0[1-9]|[12][0-9]|3[01])([0-9.]{0,11}))?)?([+-][0-9]{4})?"
)
WORD: Final = re.compile(r"[^\W_]{3,}")
SEGMENT: Final = re.compile(r"[A-Z][A-Z0-9]{2}")
DATES: Final = frozenset({"DT", "DTM", "TS"})
CODES: Final = frozenset({"ID", "IS"})
NAMES: Final = frozenset({"XPN", "PN", "FN", "XCN", "CN", "CNN", "PPN", "XON"})
# Composites whose first component is a number, and others of their components that are.
NUMBERED: Final = {
    **{name: {1} for name in ("CX", "CK", "EI", "XCN", "CN", "CNN", "PPN", "DLN", "CM")},
    "XON": {3, 10},
    "EIP": {1, 2},
}
CODED: Final = {name: {1, 3, 4, 6, 7, 8, 10, 12, 13, 14} for name in ("CE", "CWE", "CNE", "CF")}
ADDRESSES: Final = frozenset({"XAD", "AD", "SAD", "LA1", "LA2"})
ADDRESS: Final = {1: "1 Example Street", 3: "Exampleton", 4: "EX", 5: "00000"}
PHONES: Final = frozenset({"XTN", "TN"})
OF_A_PERSON: Final = (NAMES | ADDRESSES | PHONES | NUMBERED.keys()) - {"CM"}
# The longest sequence number, and the longest number that is a value and no identifier.
MOST_SEQUENCE: Final = 4
MOST_NUMBER: Final = 6
MOST_CODE: Final = 12
# The shortest text of a person by which a kept text is masked: a word of it, and any part.
SHORTEST_WORD: Final = 3
SHORTEST_PART: Final = 4


class HandledText(NamedTuple):
    """The text that takes a leaf's place; `kept` is what it came in as, `person` whether it is of a person."""

    text: str
    kept: bool = False
    person: bool = False


@dataclass(slots=True)
class Pseudonyms:
    """Replacements of one copy: the same text is always replaced by the same one. `key`: random, of this copy alone."""

    key: bytes
    days: int = field(init=False)

    def __post_init__(self) -> None:
        self.days = LEAST_DAYS + int.from_bytes(self._digest("days", 0)[:4]) % (MOST_DAYS - LEAST_DAYS)

    def number(self, text: str) -> str:
        """Return a number of the same shape: digits for digits, letters for letters; never the same one."""
        for again in count():
            stream = self._digest(text, again)
            made = "".join(_like(letter, stream[at % len(stream)] + at) for at, letter in enumerate(text))
            if made != text or not re.search("[A-Za-z0-9]", text):
                return made
        raise AssertionError

    def name(self, text: str) -> str:
        """Return an invented name."""
        return FAMILIES[self._digest(text.casefold(), 0)[0] % len(FAMILIES)]

    def moved(self, text: str) -> str:
        """Return a timestamp moved back, as precise as it was; empty for one that cannot be read."""
        match = DATE.fullmatch(text)
        if match is None:
            return ""
        try:
            day = date(int(match[1]), int(match[2] or 1), int(match[3] or 1)) - timedelta(days=self.days)
        except (ValueError, OverflowError):
            return ""
        if day.year < EARLIEST:
            return ""
        return f"{day:%Y%m%d}"[: 4 + 2 * bool(match[2]) + 2 * bool(match[3])] + (match[4] or "") + (match[5] or "")

    def _digest(self, text: str, again: int) -> bytes:
        return hmac.digest(self.key, f"{again} {text}".encode("utf-8", "surrogatepass"), sha256)


def deidentified(message: Message, key: bytes, codes: Set[str] = frozenset()) -> str:
    """Return the de-identified copy of a message, in ASCII, a segment a line ended by CR.

    `key`: random bytes of this copy alone, to be forgotten. `codes`: what a Z field, or one that no version of the
    standard has, may keep. Lines that are no segments are left out.
    """
    handling = MessageCopier(message, Pseudonyms(key), codes)
    leaves = [leaf for text in message.texts if SEGMENT.fullmatch(text[:3]) for leaf in handling.segment(text)]
    was = [leaf.was.casefold() for leaf in leaves if leaf.made.person]
    persons = {word for text in was for word in (text, *WORD.findall(text)) if len(word) >= SHORTEST_WORD}
    return "".join(leaf.lead + _safe(leaf, persons) for leaf in leaves)


class CopiedLeaf(NamedTuple):
    """One leaf of a copy: the delimiters before it, the text that was, what takes its place."""

    lead: str
    was: str
    made: HandledText


def _safe(leaf: CopiedLeaf, persons: Set[str]) -> str:
    """Return the text of a leaf; one that was kept is masked where it holds a text of the person."""
    text = leaf.made.text
    if not leaf.made.kept:
        return text
    return _masked(text) if _holds(text.casefold(), persons) else text


def _holds(text: str, persons: Set[str]) -> bool:
    """True if a word of a text, or a part of at least four characters, is one of a person."""
    if not persons.isdisjoint(WORD.findall(text)):
        return True
    ends = range(SHORTEST_PART, len(text) + 1)
    return any(text[start:end] in persons for end in ends for start in range(end - SHORTEST_PART + 1))


def _masked(text: str) -> str:
    """Return the shape of a text."""
    return re.sub(r"[^\W\d_]|[^\x00-\x7f]", "X", re.sub(r"\d", "9", text))


def _like(letter: str, number: int) -> str:
    """Return a letter or digit of the same kind, by a number; other ASCII characters stay."""
    if letter in "0123456789":
        return str(number % 10)
    if not letter.isascii() or letter.isupper():
        return chr(ord("A") + number % 26)
    return chr(ord("a") + number % 26) if letter.islower() else letter if letter in " -./" else "-"


@dataclass(slots=True)
class MessageCopier:
    """Takes one message apart, leaf by leaf."""

    message: Message
    pseudonyms: Pseudonyms
    codes: Set[str]
    rules: tuple[Standard, ...] = field(init=False)
    _parts: dict[tuple[str, int], MessagePart | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        versions = dict.fromkeys((self.message.version, LAST, *reversed(VERSIONS)))
        self.rules = tuple(found for one in versions if one and (found := standard(one)))

    def segment(self, text: str) -> Iterator[CopiedLeaf]:
        """Yield the leaves of a segment."""
        marks, name = self.message.delimiters, text[:3]
        fields = text.split(marks.field)
        first, start = 1, 1
        yield CopiedLeaf("", "", HandledText(name))
        if name in HEADERS:
            yield CopiedLeaf(marks.field, "", HandledText(fields[1] if len(fields) > 1 else ""))
            first, start = 2, 3
        type_ = fields[2].split(marks.repetition or "\0")[0] if name == "OBX" and len(fields) > 2 else ""
        for number, one in enumerate(fields[first:], start):
            part = self._known_part(name, number)
            if part is not None and part.type == "VARIES":
                part = next((found for rule in self.rules if (found := rule.value_type(type_))), None)
            lead = marks.field
            for repetition in one.split(marks.repetition) if marks.repetition else [one]:
                yield from self._value(lead, repetition, part, f"{name}-{number}")
                lead = marks.repetition
        yield CopiedLeaf("", "", HandledText("\r"))

    def _known_part(self, name: str, number: int) -> MessagePart | None:
        if (name, number) not in self._parts:
            self._parts[name, number] = self._part(name, number)
        return self._parts[name, number]

    def _part(self, name: str, number: int) -> MessagePart | None:
        """Return a field by a version in which it is of a person, else by the newest; None where none has it.

        The number of a visit is a mere number in 2.1, the operator a code in 2.2: they are what later versions say.
        """
        found = [
            part
            for rule in self.rules
            if (known := rule.segment(name)) and number < len(known.fields) and (part := known.fields[number])
            if part.type != WITHDRAWN
        ]
        return next((part for part in found if part.type in OF_A_PERSON), found[0] if found else None)

    def _value(self, lead: str, text: str, part: MessagePart | None, place: str) -> Iterator[CopiedLeaf]:
        """Yield the leaves of a repetition, component by component."""
        marks = self.message.delimiters
        for number, component in enumerate(text.split(marks.component) if marks.component else [text], 1):
            below = _below(part, number)
            holder = part.type if part and part.parts else ""
            pieces = component.split(marks.subcomponent) if marks.subcomponent else [component]
            for position, piece in enumerate(pieces, 1):
                deep, inner = below, holder
                at = number
                if below is not None and below.parts:
                    deep, inner = _below(below, position), below.type
                    at = number if inner in ADDRESSES else position
                start = marks.subcomponent if position > 1 else marks.component if number > 1 else lead
                yield CopiedLeaf(start, piece, self._leaf(piece, deep, inner, at, place))

    def _leaf(self, text: str, part: MessagePart | None, holder: str, number: int, place: str) -> HandledText:
        """Return what takes the place of a leaf: `number` is that of its component in `holder`."""
        if text in {"", NULL}:
            return HandledText(text)
        if place in _PLACES:
            return _PLACES[place](text, self.pseudonyms)
        if part is None or (part.primitive is None and not part.parts):
            return self._unknown(text)
        if (made := self._of_person(text, part.type, holder, number)) is not None:
            return made
        if number in CODED.get(holder, ()) or holder == "HD" or part.type in CODES:
            is_code = (SYSTEM if holder == "HD" else CODE).fullmatch(text)
            return HandledText(text, kept=True) if is_code else HandledText(_masked(text), person=True)
        return self._plain(text, part.type)

    def _of_person(self, text: str, kind: str, holder: str, number: int) -> HandledText | None:
        """Return what takes the place of a date, or of a part of a name, number, address or phone; None for others."""
        if kind in DATES:
            return HandledText(self.pseudonyms.moved(text), person=len(text) >= len("YYYYMMDD"))
        if kind in CODES and (holder not in ADDRESSES or kind == "ID"):
            return None
        if holder in PHONES:
            return HandledText(_phone(text), person=True)
        if holder in ADDRESSES:
            return HandledText(ADDRESS.get(number, ""), person=True)
        if number in NUMBERED.get(holder, ()):
            return HandledText(self.pseudonyms.number(text), person=True)
        return HandledText(self.pseudonyms.name(text), person=True) if holder in NAMES else None

    def _plain(self, text: str, kind: str) -> HandledText:
        """Return what takes the place of a number or a text of no composite with a meaning."""
        if kind in {"SI", "NM", "TM"}:
            most = MOST_SEQUENCE if kind == "SI" else MOST_NUMBER
            if len(text) <= most and re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", text):
                return HandledText(text, kept=True)
            return HandledText(self.pseudonyms.number(text), person=True)
        is_number = " " not in text and any(letter.isdigit() for letter in text)
        if kind == "ST" and is_number:
            return HandledText(self.pseudonyms.number(text), person=True)
        return HandledText(FREE_TEXT)

    def _unknown(self, text: str) -> HandledText:
        """Return what takes the place of a leaf that no version of the standard has."""
        if text in self.codes and len(text) <= MOST_CODE and CODE.fullmatch(text):
            return HandledText(text, kept=True)
        if len(text) >= len("YYYYMMDD") and (moved := self.pseudonyms.moved(text)):
            return HandledText(moved, person=True)
        return HandledText(_masked(text), person=True)


def _below(part: MessagePart | None, number: int) -> MessagePart | None:
    """Return a component; a primitive is its own first one."""
    if part is None:
        return None
    if not part.parts:
        return part if number == 1 else None
    return part.parts[number - 1] if number <= len(part.parts) else None


def _phone(text: str) -> str:
    """Return an invented phone number or address of mail, as long as a number of its kind."""
    if "@" in text:
        return "someone@example.org"
    return "555" if len(text) <= len("555") else "5550100"


def _structure(text: str, _: Pseudonyms) -> HandledText:
    return HandledText(text if STRUCTURE.fullmatch(text) else "")


def _version(text: str, _: Pseudonyms) -> HandledText:
    return HandledText(text if text in VERSIONS else "")


# Fields of headers: what says how a message is read stays, what is a secret or of one message alone does not.
_PLACES: Final[dict[str, Callable[[str, Pseudonyms], HandledText]]] = {
    "MSH-8": lambda _text, _pseudonyms: HandledText(""),
    "MSH-9": _structure,
    "MSH-10": lambda text, pseudonyms: HandledText(pseudonyms.number(text), person=True),
    "MSH-11": _structure,
    "MSH-12": _version,
    "MSH-18": lambda _text, _pseudonyms: HandledText(""),
    "PID-12": lambda _text, _pseudonyms: HandledText("", person=True),  # the county
}

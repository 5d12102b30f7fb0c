"""Patching: parts of a message written anew or taken out in its bytes; every other byte stays as it came in.

The bytes are carried as text from which they come back exactly: a byte outside the character set is a lone surrogate,
and in text that switches sets (ISO 2022) so is every byte that is no ASCII character.
"""

import re
from typing import Final

from engine.errors import EditError
from engine.hl7 import iso2022
from engine.hl7.charset import ISO_2022, Coding, coding_of, decode, switched_to
from engine.hl7.delimiters import NEVER
from engine.hl7.escape import escape
from engine.hl7.header import character_set
from engine.hl7.leaf import NULL_TEXT
from engine.hl7.lines import LEADING, TRAILING, cut
from engine.hl7.message import Message
from engine.hl7.path import Path
from engine.hl7.segment import HEADERS, Segment

# The numbers of a component and a subcomponent, each with the mark between such parts.
Below = tuple[tuple[int, str], ...]
_KEPT: Final = "surrogateescape"
_BEGINS_WITH_END: Final = re.compile(r"\A(?:\r\n|\r|\n)")
_ENDS_WITH_END: Final = re.compile(r"(?:\r\n|\r|\n)\Z")
_NOT_READ: Final = re.compile("[\ufffd\udc80-\udcff]+")
_UNFOLLOWED: Final = "the message has bytes that cannot be followed in its character set (MSH-18)"


class MessagePatch:
    """Changes to one message, whose segments name their places: they are those of the message as it was given.

    Raises EditError, here and in every method, for what cannot be done without a change elsewhere in the message.
    """

    def __init__(self, message: Message) -> None:
        self._message = message
        self._marks = message.delimiters
        self._touched: set[int] = set()
        self._left_out: dict[tuple[int, int], set[int]] = {}
        text = _carried(message)
        body = text.lstrip(LEADING).rstrip(TRAILING)
        self._texts: list[str | None] = [*cut(body, body[3:4] or NEVER).texts]
        self._gaps: list[str] = []
        at = 0
        for one in self._texts:
            begin = text.index(one or "", at)
            self._gaps.append(text[at:begin])
            at = begin + len(one or "")
        self._gaps.append(text[at:])
        self._compare()

    def _compare(self) -> None:
        """Refuse a message whose carried text is cut otherwise than the text that is read."""
        mark, read, texts = self._marks.field, self._message.texts, self._texts
        if read == texts:
            return
        if len(read) != len(texts):
            raise EditError(_UNFOLLOWED)
        for one, carried in zip(read, texts, strict=True):
            if carried is None or one == carried:
                continue
            if self._message.charset == ISO_2022:
                same = one.count(mark) == carried.count(mark)
            else:
                same = _NOT_READ.sub("", one) == _NOT_READ.sub("", carried)
            if not same:
                raise EditError(_UNFOLLOWED)

    def plain(self, text: str) -> str:
        """Return text as it is written into a part, with delimiters and line ends escaped; `""` stays null."""
        if text == NULL_TEXT:
            return text
        written = escape(text, self._marks)
        if not self._marks.escape and not {*self._marks, "\r", "\n"}.isdisjoint(written):
            raise EditError("the text holds a delimiter of the message, which declares no escape character (MSH-2)")
        return self.sent(written)

    def sent(self, text: str) -> str:
        """Return text that stands in a message as it is, delimiters included, as it is written."""
        codec = self._message.charset
        if codec == ISO_2022:
            return iso2022.visible(_in_sets(text, self._message))
        try:
            text.encode(codec)
        except UnicodeError as error:
            raise EditError("the text holds characters outside the message's character set (MSH-18)") from error
        return text

    def part(self, segment: Segment, path: Path) -> str:
        """Return a part as sent, to be written elsewhere; '' for an absent one.

        Without a repetition in the path the first, with a choice the first that it chooses.
        """
        fields, at = self._fields(segment, path)
        parts = fields[at].split(self._marks.cuts[0]) if at < len(fields) else []
        number = next(iter(chosen(segment, path)), -1) if path.predicate else (path.repetition or 1) - 1
        text = parts[number] if 0 <= number < len(parts) else ""
        if text == NULL_TEXT:
            return text
        for number, mark in self._below(path):
            pieces = text.split(mark)
            text = pieces[number - 1] if number <= len(pieces) else ""
        return text

    def write(self, segment: Segment, path: Path, text: str) -> None:
        """Write a part of a segment, as `plain`, `sent` or `part` return it; what is too short is lengthened.

        Without a repetition in the path the first, with a choice all that it chooses.
        """
        numbers = chosen(segment, path) if path.predicate else [(path.repetition or 1) - 1]
        if not numbers:
            return
        fields, at = self._fields(segment, path)
        fields += [""] * (at + 1 - len(fields))
        repeat, below = self._marks.cuts[0], self._below(path)
        parts = fields[at].split(repeat)
        parts += [""] * (max(numbers) + 1 - len(parts))
        for number in numbers:
            parts[number] = _within(parts[number], below, text)
        fields[at] = repeat.join(parts)
        self._put(segment.position - 1, fields)

    def empty(self, segment: Segment, path: Path) -> None:
        """Empty a field, or a component in all repetitions that are meant; repetitions that are chosen are taken out.

        Without a choice all repetitions are meant.
        """
        fields, at = self._fields(segment, path)
        if at >= len(fields) or not fields[at]:
            return
        repeat, below = self._marks.cuts[0], self._below(path)
        parts = fields[at].split(repeat)
        choice = path.predicate is not None or path.repetition is not None
        numbers = {*(chosen(segment, path) if choice else range(len(parts)))}
        if below:
            parts = [_without(part, below) if number in numbers else part for number, part in enumerate(parts)]
            fields[at] = repeat.join(parts)
        elif choice:
            # At the end: numbers are those of the message as it was given.
            self._left_out.setdefault((segment.position - 1, at), set()).update(numbers)
        else:
            fields[at] = ""
        self._put(segment.position - 1, fields)

    def take_out(self, segment: Segment) -> None:
        """Take a segment out, with its line end."""
        self._texts[segment.position - 1] = None
        self._touched.add(segment.position - 1)

    def patched(self) -> Message:
        """Return the message with the changes, read in the character set in which it was read before."""
        self._leave_out()
        if not self._touched:
            return self._message
        text = self._gaps[0]
        for one, gap in zip(self._texts, self._gaps[1:], strict=True):
            if one is not None:
                text += one + gap
            elif _BEGINS_WITH_END.match(gap):
                text += _BEGINS_WITH_END.sub("", gap)
            else:
                text = _ENDS_WITH_END.sub("", text) + gap
        body = text.lstrip(LEADING).rstrip(TRAILING)
        if cut(body, body[3:4]).texts != [one for one in self._texts if one is not None]:
            raise EditError("the message's segments would be cut otherwise: its line ends are not all the same")
        return self._read(_released(text, self._message.charset))

    def _read(self, raw: bytes) -> Message:
        before = self._message
        text, codec = decode(raw, _coding(before), replace=True)
        body = text.lstrip(LEADING).rstrip(TRAILING)
        texts = cut(body, body[3]).texts
        if codec == ISO_2022:
            # A set that a part designates may hold in what follows it.
            left = [(at, one) for at, one in enumerate(before.texts) if self._texts[at] is not None]
            as_many = len(left) == len(texts)
            pairs = zip(left, texts, strict=True)
            if not as_many or any(at not in self._touched and old != new for (at, old), new in pairs):
                raise EditError("the part switches the character set of what follows it (ISO 2022)")
        return Message(raw, text, codec, texts, before.delimiters, event_from_evn=before.event_from_evn)

    def _fields(self, segment: Segment, path: Path) -> tuple[list[str], int]:
        text = self._texts[segment.position - 1] or ""
        return text.split(self._marks.field), path.field - 1 if segment.name in HEADERS else path.field

    def _below(self, path: Path) -> Below:
        numbers = (path.component, path.subcomponent)
        return tuple([(one, mark) for one, mark in zip(numbers, self._marks.cuts[1:3], strict=True) if one is not None])

    def _leave_out(self) -> None:
        """Take the repetitions out that are to go."""
        repeat = self._marks.cuts[0]
        for (position, at), numbers in self._left_out.items():
            fields = (self._texts[position] or "").split(self._marks.field)
            if at < len(fields):
                kept = [one for number, one in enumerate(fields[at].split(repeat)) if number not in numbers]
                fields[at] = repeat.join(kept)
                self._put(position, fields)
        self._left_out.clear()

    def _put(self, at: int, fields: list[str]) -> None:
        text = self._marks.field.join(fields)
        if NEVER in text:
            raise EditError("the message declares no delimiter (MSH-2) that such a part needs")
        if text != self._texts[at]:
            self._texts[at] = text
            self._touched.add(at)


def chosen(segment: Segment, path: Path) -> list[int]:
    """Return the repetitions that a path chooses by number or by a value, counted from 0; [] where it chooses none."""
    if path.repetition is not None:
        return [path.repetition - 1]
    found = segment.repetitions(path.field) if path.predicate else ()
    return [at for at, one in enumerate(found) if path.predicate and not one.is_null and path.predicate.holds(one)]


def _carried(message: Message) -> str:
    """Return the bytes of a message as text from which `_released` makes the same bytes."""
    if message.charset == ISO_2022:
        if not "".join(message.delimiters).isascii():
            raise EditError(_UNFOLLOWED)
        return iso2022.visible(message.raw)
    try:
        text = message.raw.decode(message.charset, _KEPT)
        same = text.encode(message.charset, _KEPT) == message.raw
    except UnicodeError as error:
        raise EditError(_UNFOLLOWED) from error
    if not same:
        raise EditError(_UNFOLLOWED)
    return text


def _released(text: str, codec: str) -> bytes:
    return iso2022.released(text) if codec == ISO_2022 else text.encode(codec, _KEPT)


def _coding(message: Message) -> Coding:
    """Return how the bytes of a message were read."""
    if message.charset != ISO_2022:
        return Coding(message.charset)
    return coding_of(*character_set(message.raw), ISO_2022) or Coding(ISO_2022)


def _in_sets(text: str, message: Message) -> bytes:
    """Return text in one of the sets that a message with ISO 2022 declares."""
    if text.isascii():
        return text.encode()
    high = _coding(message).high
    for codec in (*(high.codecs if high else ()), *switched_to(*character_set(message.raw))):
        try:
            written = text.encode(codec)
            if iso2022.decode(written, high) == text:
                return written
        except UnicodeError:
            continue
    raise EditError("the text holds characters outside the message's character sets (MSH-18, ISO 2022)")


def _within(text: str, below: Below, value: str) -> str:
    """Return text with a part of it, given by its numbers and the marks between such parts, replaced."""
    if not below:
        return value
    (number, mark), *rest = below
    parts = [""] if text == NULL_TEXT else text.split(mark)
    parts += [""] * (number - len(parts))
    parts[number - 1] = _within(parts[number - 1], tuple(rest), value)
    return mark.join(parts)


def _without(text: str, below: Below) -> str:
    """Return text with a part of it emptied; as it is where that is not there."""
    if text == NULL_TEXT:
        return text
    if not below:
        return ""
    (number, mark), *rest = below
    parts = text.split(mark)
    if number <= len(parts):
        parts[number - 1] = _without(parts[number - 1], tuple(rest))
    return mark.join(parts)

"""Editing: single parts of a message set anew, all else byte for byte as it was; and what two messages differ in."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from engine.errors import EditError, PathError
from engine.hl7.charset import ISO_2022, coding_of
from engine.hl7.delimiters import delimiters_of
from engine.hl7.header import character_set
from engine.hl7.lines import LEADING, TRAILING, cut
from engine.hl7.message import Message
from engine.hl7.patch import MessagePatch, chosen
from engine.hl7.path import Path, parse_path
from engine.hl7.segment import HEADERS, Repetition, Segment

_LINES: Final = ("\r\n", "\n")


class FieldChange(NamedTuple):
    """One part that differs: its path (`PID-5.1`; `NK1(2)` for a segment) and its text, None where it is absent."""

    path: str
    before: str | None
    after: str | None


def edited(message: Message, changes: Mapping[str, str]) -> bytes:
    """Return a message's bytes with parts set anew, by their paths.

    A component or subcomponent is set to plain text, which is escaped; a whole field or repetition to text as it
    is in a message. Empty text makes a part absent, `""` null. Raises EditError, which names the part and what to
    do: a path that is none or means several places, a segment that is not there, text outside the character set.
    """
    for name, value in changes.items():
        path = _path(name)
        segment = _segment(message, path)
        patch, whole = MessagePatch(message), path.component is None
        patch.write(segment, _alone(segment, path), patch.sent(value) if whole else patch.plain(value))
        message = patch.patched()
    return message.raw


def written(text: str, default: str) -> bytes:
    """Return the bytes of a whole message that somebody wrote, in the character set that its MSH-18 names.

    `default` is the set where it names none. Lines may end in any way; segments then end in CR. Raises EditError.
    """
    for line in _LINES:
        text = text.replace(line, "\r")
    declared, repetition = character_set(text.encode("ascii", "replace"))
    coding = coding_of(declared, repetition, default)
    return _encoded(text, coding.name if coding else "ascii")


def editable(text: str) -> str:
    """Return the text of a message with a line for each segment; a line break within one is written as its escape."""
    body = text.lstrip(LEADING).rstrip(TRAILING)
    if body[:3] != "MSH" or not body[3:4]:
        return body
    texts = cut(body, body[3]).texts
    mark = delimiters_of(body[3], texts[0][4:].split(body[3], 1)[0]).escape
    return "\n".join(one.replace("\n", f"{mark}.br{mark}") for one in texts) if mark else "\n".join(texts)


def differences(before: Message, after: Message) -> tuple[FieldChange, ...]:
    """Return what differs between two messages by field, and within a field that does not repeat by component."""
    several = {one.name for message in (before, after) for one in message.segments if len(message.named(one.name)) > 1}
    olds, news = _numbered(before, several), _numbered(after, several)
    found: list[FieldChange] = []
    for name in dict.fromkeys((*olds, *news)):
        old, new = olds.get(name), news.get(name)
        if old is None or new is None:
            found.append(FieldChange(name, old.text if old else None, new.text if new else None))
        elif old.text != new.text:
            found += _fields(name, old, new)
    return tuple(found)


def _path(name: str) -> Path:
    try:
        path = parse_path(name)
    except PathError as error:
        raise EditError(f"{name} is not a path in a message: write it as PID-5.1 or PID-3(2).1") from error
    if path.segment in HEADERS and path.field <= 2:
        raise EditError(f"{name} holds the delimiters of the message: give the whole message with --file")
    return path


def _segment(message: Message, path: Path) -> Segment:
    found = message.named(path.segment)
    if len(found) != 1:
        many = f"has {len(found)} segments {path.segment}" if found else f"has no segment {path.segment}"
        raise EditError(f"the message {many}: give the whole message with --file")
    return found[0]


def _alone(segment: Segment, path: Path) -> Path:
    """Return a path with the number of the one repetition that it means."""
    if path.predicate is not None:
        met = chosen(segment, path)
        if len(met) != 1:
            raise EditError(f"{path} matches {len(met)} repetitions: choose one by number, as PID-3(2)")
        return replace(path, predicate=None, repetition=met[0] + 1)
    count = len(segment.repetitions(path.field))
    if path.repetition is None and count > 1:
        raise EditError(f"{path} has {count} repetitions: choose one by number, as PID-3(2)")
    return path


def _encoded(text: str, codec: str) -> bytes:
    if codec == ISO_2022 and not text.isascii():
        raise EditError("the message switches character sets (ISO 2022), which cannot be written back")
    try:
        return text.encode("ascii" if codec == ISO_2022 else codec)
    except UnicodeError as error:
        raise EditError("the text holds characters outside the message's character set (MSH-18)") from error


def _numbered(message: Message, several: set[str]) -> dict[str, Segment]:
    """Return the segments by their names, those that come several times with a number: `NK1(2)`."""
    found: dict[str, Segment] = {}
    for segment in message.segments:
        number = message.named(segment.name).index(segment) + 1
        found[f"{segment.name}({number})" if segment.name in several else segment.name] = segment
    return found


def _fields(name: str, old: Segment, new: Segment) -> Iterator[FieldChange]:
    for number in range(1, max(old.fields(), new.fields()) + 1):
        before, after = old.field(number), new.field(number)
        if before == after:
            continue
        path = f"{name}-{number}"
        olds, news = old.repetitions(number), new.repetitions(number)
        if len(olds) == len(news) == 1:
            yield from _components(path, olds[0], news[0])
        else:
            yield FieldChange(path, before or None, after or None)


def _components(path: str, old: Repetition, new: Repetition) -> Iterator[FieldChange]:
    count = max(old.components(), new.components())
    for number in range(1, count + 1):
        before, after = old.component(number), new.component(number)
        if before != after:
            yield FieldChange(path if count == 1 else f"{path}.{number}", before or None, after or None)

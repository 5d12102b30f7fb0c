"""A message as people read it: segments, fields and components by their names, and whom it is about."""

from collections.abc import Iterator
from typing import Final

from engine.errors import MessageError
from engine.fhir.patient import current_numbers, person
from engine.hl7.charset import wide_codec
from engine.hl7.conformance.standard import LAST, MessagePart, Standard, standard
from engine.hl7.header import character_set
from engine.hl7.leaf import NULL
from engine.hl7.message import Message, Repetition, Segment, parse
from engine.ops.views.answer import Answer, Count
from engine.ops.views.events import patient_of

UTF_8: Final = "UTF-8"
LATIN_1: Final = "8859/1"
DECLARING: Final = 2  # MSH-1 and MSH-2 declare delimiters and are never cut


class PartView(Answer):
    """A component or subcomponent, unescaped: `PID-3.1`, of a second repetition `PID-3(2).1`, below it `PID-3.4.2`."""

    path: str
    name: str
    value: str


class FieldView(PartView):
    """A field: `value` as sent, `parts` empty where it is one plain value."""

    parts: tuple[PartView, ...]


class SegmentView(Answer):
    """A segment with what of it is valued; `number` counts the segments of a name from 1."""

    name: str
    number: Count
    fields: tuple[FieldView, ...]


def read(raw: bytes, charset: str = "") -> Message | None:
    """Return a message to look at, undecodable bytes replaced; None where the bytes are no message.

    `charset`: the channel's, which holds where MSH-18 is empty; '' where it is not known.
    """
    try:
        return parse(raw, charset=charset or guessed_charset(raw) or UTF_8, undecodable="replace")
    except MessageError:
        return None


def names_charset(raw: bytes) -> bool:
    """Say whether MSH-18 or the first bytes say how a message is read, or all of it is ASCII."""
    return raw.isascii() or bool(wide_codec(raw)) or character_set(raw)[0].strip() not in {b"", b'""'}


def guessed_charset(raw: bytes) -> str:
    """Return the set in which bytes are read that name none, where the channel's is not known; '' where they do."""
    if names_charset(raw):
        return ""
    try:
        raw.decode(UTF_8)
    except UnicodeDecodeError:
        return LATIN_1
    return UTF_8


def segments_of(message: Message, version: str) -> tuple[SegmentView, ...]:
    """Return the segments in their order.

    A null is `""`. `version` holds where MSH-12 is empty; what neither it nor the newest version knows has an empty
    name.
    """
    rules = [found for one in (message.version or version, LAST) if (found := standard(one))]
    counts: dict[str, int] = {}
    made = []
    for segment in message.segments:
        number = counts[segment.name] = counts.get(segment.name, 0) + 1
        made.append(SegmentView(name=segment.name, number=number, fields=tuple(_fields(segment, rules))))
    return tuple(made)


def _fields(segment: Segment, rules: list[Standard]) -> Iterator[FieldView]:
    for number in range(1, segment.fields() + 1):
        text = segment.field(number)
        if text:
            part = _part(rules, segment.name, number)
            path = f"{segment.name}-{number}"
            parts = () if _declares(segment, number) else tuple(_parts(segment.repetitions(number), path, part))
            if len(parts) == 1 and parts[0].path == f"{path}.1":
                text, parts = parts[0].value, ()
            yield FieldView(path=path, name=part.name if part else "", value=text, parts=parts)


def _parts(repetitions: tuple[Repetition, ...], path: str, part: MessagePart | None) -> Iterator[PartView]:
    for number, repetition in enumerate(repetitions, 1):
        here = path if number == 1 else f"{path}({number})"
        for component in range(1, repetition.components() + 1):
            below = _child(part, component)
            leaves = repetition.subcomponents(component)
            for position, leaf in enumerate(leaves, 1):
                if leaf is not None:
                    deep = _child(below, position) if len(leaves) > 1 else None
                    yield PartView(
                        path=f"{here}.{component}" + (f".{position}" if len(leaves) > 1 else ""),
                        name=", ".join(one.name for one in (below, deep) if one),
                        value='""' if leaf is NULL else leaf,
                    )


def _part(rules: list[Standard], name: str, number: int) -> MessagePart | None:
    for one in rules:
        rule = one.segment(name)
        if rule and number < len(rule.fields) and (part := rule.fields[number]):
            return part
    return None


def _child(part: MessagePart | None, number: int) -> MessagePart | None:
    return part.parts[number - 1] if part and number <= len(part.parts) else None


def _declares(segment: Segment, number: int) -> bool:
    return segment.name in {"MSH", "BHS", "FHS"} and number <= DECLARING


MOST_NUMBERS: Final = 5


class Named(Answer):
    """Whom an entry's message is about, in its own words; empty where it does not say, or its body is gone."""

    entry: Count
    name: str
    numbers: tuple[str, ...]
    born: str


def named(entry: int, raw: bytes, charset: str = "") -> Named:
    """Return whom a message is about: PID-5, the first five numbers of PID-3, PID-7; of an event its Patient."""
    message = read(raw, charset) if raw else None
    if raw and message is None and (patient := patient_of(raw)) is not None:
        who = person(patient)
        numbers = tuple(number.value for number in current_numbers(patient))[:MOST_NUMBERS]
        return Named(entry=entry, name=full_name(who.family, who.given), numbers=numbers, born=who.birth_date)
    pid = message.first("PID") if message else None
    if message is None or pid is None:
        return Named(entry=entry, name="", numbers=(), born="")
    family, given = (str(message.leaf("PID", 5, part) or "") for part in (1, 2))
    listed = (str(message.leaf("PID", 3, repetition=at + 1) or "") for at in range(len(pid.repetitions(3))))
    found = tuple(number for number in listed if number)[:MOST_NUMBERS]
    return Named(
        entry=entry, name=full_name(family, given), numbers=found, born=_day(str(message.leaf("PID", 7) or ""))
    )


def _day(text: str) -> str:
    """Return the day of an HL7 time as people write it; what is no full day as it is."""
    day = text[:8]
    return f"{day[:4]}-{day[4:6]}-{day[6:]}" if len(day) == 8 and day.isdigit() else day


def full_name(family: str, given: str) -> str:
    """Return a name as lists show it: `Quintero, Marisol`."""
    return f"{family}, {given}".strip(", ")

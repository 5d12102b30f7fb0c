r"""The message written for one version: what it lacks is left out and noted, delimiters are escaped, bytes are made."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from engine.errors import MappingError
from engine.hl7.charset import ISO_2022, coding_of
from engine.hl7.conformance.check import NAMELESS
from engine.hl7.conformance.standard import WITHDRAWN, MessagePart, Standard, standard
from engine.hl7.delimiters import STANDARD
from engine.hl7.escape import escape
from engine.hl7.events import ADT, structure
from engine.hl7.leaf import NULL_TEXT
from engine.mapping.outgoing.change import OutgoingSetting
from engine.mapping.outgoing.functions import CodedValue, Hl7Value, hl7_timestamp

LEFT_OUT: Final = "version-left-out"
VALUE_LEFT_OUT: Final = "value-left-out"
UNWRITABLE: Final = "unwritable-character"
CUT: Final = "\r"
LINE_BREAK: Final = "\\.br\\"
FIELD, COMPONENT, REPETITION, _, SUBCOMPONENT, _ = STANDARD
# What is written as an escape sequence.
SPECIAL: Final = re.compile(r"[|^~\\&\r\n]")
SEPARATORS: Final = (COMPONENT, SUBCOMPONENT)
# The field after MSH-2, which the separators themselves are.
FIRST_OF_MSH: Final = 3

Notes = list[str]
Fields = Mapping[int, Sequence[Hl7Value]]


def usable_character_set(name: str) -> bool:
    """True if messages can be written in a character set of table 0211: a known one that needs no switches."""
    coding = coding_of(name.encode("ascii", "replace"), b"~", "ascii")
    return bool(name) and coding is not None and coding.name != ISO_2022


class MessageWriter:
    """Writes the messages of one destination."""

    def __init__(self, setting: OutgoingSetting) -> None:
        self._setting = setting
        self._standard: Standard | None = standard(setting.version)
        coding = coding_of(setting.character_set.encode("ascii", "replace"), b"~", "ascii")
        self._codec = coding.name if coding is not None else "ascii"

    def header(self, event: str, control_id: str, now: datetime) -> Fields:
        """Return MSH from its third field on."""
        setting = self._setting
        name = structure(setting.version, event)
        kind = [ADT, event] if setting.version in NAMELESS else [ADT, event, name]
        return {
            3: [setting.sending_application],
            4: [setting.sending_facility],
            5: [setting.receiving_application],
            6: [setting.receiving_facility],
            7: [hl7_timestamp(now, setting.zone)],
            9: [kind],
            10: [control_id],
            11: [setting.processing_id],
            12: [setting.version],
            18: [setting.character_set],
        }

    def has(self, segment: str) -> bool:
        """True if the version has a segment, or the segment is a site's own."""
        return segment[0] == "Z" or (self._standard is not None and self._standard.segment(segment) is not None)

    def write(self, header: Fields, segments: Sequence[tuple[str, Fields]], notes: Notes) -> bytes:
        """Return the bytes of a message; MappingError for a character that the character set does not have."""
        texts = [self._segment("MSH", "MSH", header, [])]
        counts: dict[str, int] = {}
        for name, fields in segments:
            counts[name] = number = counts.get(name, 0) + 1
            texts.append(self._segment(name, name if number == 1 else f"{name}({number})", fields, notes))
        try:
            return "".join(text + CUT for text in texts).encode(self._codec)
        except UnicodeEncodeError:
            raise MappingError(UNWRITABLE, self._unwritable(texts)) from None

    def _unwritable(self, texts: Sequence[str]) -> str:
        """Return the first field that cannot be written."""
        for text in texts:
            fields = text.split(FIELD)
            for number, field in enumerate(fields):
                try:
                    field.encode(self._codec)
                except UnicodeEncodeError:
                    return f"{fields[0]}-{number + 1 if fields[0] == 'MSH' else number}"
        return ""

    def _segment(self, name: str, place: str, fields: Fields, notes: Notes) -> str:
        rule = self._standard.segment(name) if self._standard is not None else None
        known = rule.fields if rule is not None else ()
        texts: list[str] = []
        for number in sorted(fields):
            part = known[number] if number < len(known) else None
            if name[0] != "Z" and name != "MSH" and (part is None or part.most == 0):
                notes.append(f"{LEFT_OUT} {place}-{number}")
                continue
            text = REPETITION.join(self._repetitions(fields[number], part, f"{place}-{number}", notes))
            if text:
                texts += [""] * (number - len(texts) - 1)
                texts.append(text)
        if name != "MSH":
            return FIELD.join([name, *texts])
        return f"MSH{FIELD}{COMPONENT}{REPETITION}\\{SUBCOMPONENT}{FIELD}{FIELD.join(texts[FIRST_OF_MSH - 1 :])}"

    def _repetitions(
        self, values: Sequence[Hl7Value], part: MessagePart | None, place: str, notes: Notes
    ) -> Iterator[str]:
        most = part.most if part is not None and part.most > 0 else len(values)
        for number, value in enumerate(values, 1):
            at = place if number == 1 else f"{place}({number})"
            if number > most:
                notes.append(f"{LEFT_OUT} {at}")
            elif text := self._value(value, part, at, 0, notes):
                yield text

    def _value(self, value: Hl7Value, part: MessagePart | None, place: str, depth: int, notes: Notes) -> str:
        if value is None:
            return ""
        if not isinstance(value, list):
            return self._text(str(value), place, notes)
        known = part.parts if part is not None else ()
        room = max(len(known), 1) if part is not None and part.type != "VARIES" else len(value)
        implied = value.implied if isinstance(value, CodedValue) else frozenset()
        texts: list[str] = []
        for number, one in enumerate(value, 1):
            if depth == len(SEPARATORS):
                # No composite is deeper; the first part is what the version has room for.
                return self._value(value[0], None, place, depth, notes)
            if number > room:
                if _filled(one) and number not in implied:
                    notes.append(f"{LEFT_OUT} {place}.{number}")
                continue
            below = known[number - 1] if number <= len(known) else None
            if below is not None and below.type == WITHDRAWN:
                texts.append("")
                continue
            if below is None and part is not None and not known:
                below = part
            texts.append(self._value(one, below, f"{place}.{number}", depth + 1, notes))
        return SEPARATORS[depth].join(texts).rstrip(SEPARATORS[depth])

    def _text(self, text: str, place: str, notes: Notes) -> str:
        if text == NULL_TEXT:
            # As it is, it would be read as a deletion.
            notes.append(f"{VALUE_LEFT_OUT} {place}")
            return ""
        if SPECIAL.search(text) is None:
            return text
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        return LINE_BREAK.join(escape(line, STANDARD) for line in lines)


def _filled(value: Any) -> bool:
    return any(map(_filled, value)) if isinstance(value, list) else value is not None

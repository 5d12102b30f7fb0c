"""An edit: the steps by which a message is changed before it is passed on, all other bytes as they came in."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from engine.errors import EditError, MappingError
from engine.hl7.charset import coding_of, decode
from engine.hl7.edit import FieldChange, differences
from engine.hl7.header import CHARACTER_SET, character_set
from engine.hl7.leaf import NULL, NULL_TEXT
from engine.hl7.message import Message, Segment
from engine.hl7.patch import MessagePatch, chosen
from engine.hl7.path import Path
from engine.mapping.language.node import Step, Test
from engine.mapping.language.reading import MessageReading

HEADER: Final = "MSH"
PATIENT: Final = "PID"
REPLACEMENT: Final = "\ufffd"
CONTROL_ID: Final = Path(HEADER, 10)


class CopiedPart(NamedTuple):
    """A part of the message as sent, where all conditions hold: each with whether it must not (`unless`)."""

    path: Path
    guards: tuple[tuple[Test, bool], ...] = ()


# A literal text, a part as sent, or an expression.
Value = str | CopiedPart | Step


class SetPart(NamedTuple):
    """A part that is written, in each segment of its name: the first of the values that there is. `place`: its path."""

    path: Path
    place: str
    values: tuple[Value, ...]


class CompiledEditStep(NamedTuple):
    """One compiled step, with its place; `holds` None: for every message."""

    number: int
    file: str
    line: int
    holds: Test | None
    sets: tuple[SetPart, ...]
    empties: tuple[Path, ...]
    segments: tuple[str, ...]

    @property
    def charset(self) -> bool:
        """True if it changes MSH-18."""
        paths = (*(part.path for part in self.sets), *self.empties)
        return any((path.segment, path.field) == (HEADER, CHARACTER_SET) for path in paths)


class ExplainedStep(NamedTuple):
    """What a step did to a message: whether its condition held, each part that differs, and what it could not do.

    `notes` are a path and why nothing was done there, or a warning of the language with its place; never a value.
    """

    step: int
    file: str
    line: int
    held: bool
    changes: tuple[FieldChange, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MessageEdit:
    """The edit of one relay on one channel; pure: the same message gives the same bytes.

    `hash` names the steps, the files of the mapping whose tables they use, and the channel's settings.
    """

    hash: str
    steps: tuple[CompiledEditStep, ...]

    def apply(self, message: Message, control_id: str = "") -> bytes:
        """Return the bytes that leave; `control_id`: what MSH-10 is to be, empty for what it is.

        MappingError where a value cannot be written (`edit-value`), or the message cannot be changed without a change
        of other parts (`edit-unsafe`); its location is the part.
        """
        return self.edited(message, control_id).raw

    def edited(self, message: Message, control_id: str = "") -> Message:
        """Return the message that leaves; arguments and errors as of `apply`."""
        for step in self.steps:
            message = _done(step, message).message
        return _numbered(message, control_id)

    def explained(self, message: Message) -> tuple[ExplainedStep, ...]:
        """Return what each step does to a message; errors as of `apply`."""
        return tuple(self._explained(message))

    def _explained(self, message: Message) -> Iterator[ExplainedStep]:
        for step in self.steps:
            after, held, notes = _done(step, message)
            changes = differences(message, after) if after is not message else ()
            yield ExplainedStep(step.number, step.file, step.line, held, changes, tuple(notes))
            message = after


class EditReading(MessageReading):
    """The reading of all segments of a message; `written` is the position of the one that is written, 0 for none."""

    __slots__ = ("written",)

    def __init__(self, message: Message) -> None:
        super().__init__(message, message.groups, None, "")
        self.written = 0

    @property
    def pid(self) -> Segment | None:
        """The PID before what is written, or else the first: dates are shifted by the days of their own patient."""
        before = (one for one in reversed(self.message.segments[: self.written]) if one.name == PATIENT)
        return next(before, self.first.get(PATIENT))


class _StepRun:
    """One step at one message; `place` is the part that is worked on."""

    def __init__(self, step: CompiledEditStep, message: Message) -> None:
        self._step = step
        self._message = message
        self.place = ""
        self.notes: list[str] = []

    @cached_property
    def reading(self) -> "EditReading":
        """What conditions and expressions read."""
        return EditReading(self._message.legible())

    def changed(self) -> Message:
        """Return the message with the changes of the step."""
        step, message = self._step, self._message
        patch = MessagePatch(message)
        # All values are read before one is written: the order of the lines of a step does not matter.
        written = [(part, segment, text) for part in step.sets for segment, text in self._values(part, patch)]
        for part, segment, text in written:
            self.place = part.place
            patch.write(segment, part.path, text)
        for path in step.empties:
            self.place = str(path)
            for segment in message.named(path.segment):
                patch.empty(segment, path)
        for name in step.segments:
            self.place = name
            for segment in message.named(name):
                patch.take_out(segment)
        return patch.patched()

    def _values(self, part: SetPart, patch: MessagePatch) -> list[tuple[Segment, str]]:
        self.place = part.place
        segments = self._message.named(part.path.segment)
        meant = [one for one in segments if part.path.predicate is None or chosen(one, part.path)]
        found = [(one, text) for one in meant if (text := self._value(part, one, patch)) is not None]
        if not found:
            none = "no value" if meant else "no repetition is chosen"
            self.notes.append(f"{part.place}: {none if segments else f'the message has no {part.path.segment}'}")
        return found

    def _value(self, part: SetPart, segment: Segment, patch: MessagePatch) -> str | None:
        """Return the first value as it is written, else the null if there is one; None where there is neither."""
        null = None
        for value in part.values:
            if isinstance(value, CopiedPart):
                text = self._copied(value, segment, patch)
            else:
                text = self._made(value, segment, patch)
            if text and text != NULL_TEXT:
                return text
            null = text or null
        return null

    def _copied(self, value: CopiedPart, segment: Segment, patch: MessagePatch) -> str:
        if value.guards:
            legible = self.reading.message.segments[segment.position - 1]
            if any(test(legible, self.reading) == unless for test, unless in value.guards):
                return ""
        source = segment if segment.name == value.path.segment else self._message.first(value.path.segment)
        return patch.part(source, value.path) if source is not None else ""

    def _made(self, value: str | Step, segment: Segment, patch: MessagePatch) -> str:
        text = value if isinstance(value, str) else self._read(value, segment)
        try:
            return patch.plain(text)
        except EditError as error:
            raise MappingError("edit-value", self.place) from error

    def _read(self, expression: Step, segment: Segment) -> str:
        """Return what an expression makes of the message, '' for nothing."""
        self.reading.written = segment.position
        found = expression(self.reading.message.segments[segment.position - 1], self.reading)
        text = NULL_TEXT if found is NULL else "" if found is None else str(found)
        # It stands for bytes that could not be read.
        if REPLACEMENT in text:
            raise MappingError("edit-value", self.place)
        return text


class StepOutcome(NamedTuple):
    """The message as a step leaves it, whether its condition held, and its notes."""

    message: Message
    held: bool
    notes: tuple[str, ...] = ()


def _done(step: CompiledEditStep, message: Message) -> StepOutcome:
    run = _StepRun(step, message)
    if step.holds is not None and not step.holds(None, run.reading):
        return StepOutcome(message, held=False)
    try:
        after = run.changed()
    except EditError as error:
        raise MappingError("edit-unsafe", run.place) from error
    if step.charset:
        _check_charset(message, after)
    # The reading is not made for literal texts alone.
    warnings = run.reading.warnings if "reading" in run.__dict__ else ()
    return StepOutcome(after, held=True, notes=(*run.notes, *dict.fromkeys(warnings)))


def _check_charset(before: Message, after: Message) -> None:
    """Refuse a MSH-18 by which the bytes, which stay in their character set, would be read in another one."""
    declared, repetition = character_set(after.raw)
    if (declared, repetition) == character_set(before.raw):
        return
    # Where nothing is declared the standard means ASCII, whatever this channel does.
    if decode(after.raw, coding_of(declared, repetition, "ascii"), replace=True)[0] != after.text:
        raise MappingError("edit-unsafe", f"{HEADER}-{CHARACTER_SET}")


def _numbered(message: Message, control_id: str) -> Message:
    header = message.first(HEADER)
    if not control_id or header is None:
        return message
    try:
        patch = MessagePatch(message)
        patch.write(header, CONTROL_ID, patch.plain(control_id))
        return patch.patched()
    except EditError as error:
        raise MappingError("edit-unsafe", str(CONTROL_ID)) from error

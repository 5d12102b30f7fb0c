"""Messages written down: the segments that an event's structure has, in the sender's version, habits and characters."""

from datetime import datetime
from functools import cache
from typing import Final

from engine.hl7.events import StructurePart, grammar, structure
from engine.simulation import segments
from engine.simulation.event import SimulatedEvent
from engine.simulation.segments import Row
from engine.simulation.sender import INDEX, REGISTRATION

THREE_PARTS: Final = 3
LINKS: Final = frozenset({"A24", "A37"})


def write(event: SimulatedEvent, at: datetime, number: str) -> tuple[str, bytes]:
    """Return control ID, made of a number, and bytes of a message."""
    sender = event.sender
    control_id = f"{sender.prefix}{number}"
    rows = [segments.msh(event, at, control_id, _message_type(event)), segments.evn(event, at)]
    rows += _body(event, at)
    tail = "|" * sender.trailing
    text = "".join([f"{'|'.join(row)}{tail}\r" for row in rows])
    return control_id, text.encode(sender.codec)


def _body(event: SimulatedEvent, at: datetime) -> list[Row]:
    """Return what follows EVN: of all that could be said, what the event's structure has room for, in its order."""
    if event.trigger in LINKS:
        return [segments.pid(event, at), segments.pid(event, at, other=True)]
    if event.beside is not None:
        return _swapped(event, event.beside, at)
    made: list[Row] = []
    for name, many in _layout(event.sender.version, event.trigger):
        writes = segments.WRITERS.get(name)
        if writes:
            rows = writes(event, at)
            made += rows if many else rows[:1]
    if event.sender in {REGISTRATION, INDEX} and not event.merged:
        made += segments.zpi(event)
    return made


def _swapped(one: SimulatedEvent, other: SimulatedEvent, at: datetime) -> list[Row]:
    """Return the message of two patients, each with the visit."""
    name, _, *fields = segments.pid(other, at)
    return [segments.pid(one, at), *segments.pv1(one, at), [name, "2", *fields], *segments.pv1(other, at)]


def _message_type(event: SimulatedEvent) -> str:
    name = f"ADT^{event.trigger}"
    if not event.sender.structure or event.sender.release < THREE_PARTS:
        return name
    return f"{name}^{structure(event.sender.version, event.trigger)}"


@cache
def _layout(version: str, trigger: str) -> tuple[tuple[str, bool], ...]:
    """Return the segments behind EVN that the structure of an event has, in order, and whether each may repeat."""
    named: dict[str, bool] = {}
    for name, many in _named(grammar(version, structure(version, trigger))):
        named.setdefault(name, many)
    return tuple((name, many) for name, many in named.items() if name not in {"MSH", "EVN"})


def _named(parts: tuple[StructurePart, ...], *, many: bool = False) -> list[tuple[str, bool]]:
    found = []
    for part in parts:
        repeats = many or part.repeating
        found += _named(part.parts, many=repeats) if part.parts else [(part.name, repeats)]
    return found

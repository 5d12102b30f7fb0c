"""Messages written down: the segments that an event's structure has, in the sender's version, habits and characters."""

from datetime import datetime
from functools import cache
from typing import Final

from engine.hl7.events import Part, grammar, structure
from engine.simulation import segments
from engine.simulation.segments import Row
from engine.simulation.sender import INDEX, REGISTRATION
from engine.simulation.telling import Telling

THREE_PARTS: Final = 3
LINKS: Final = frozenset({"A24", "A37"})


def write(telling: Telling, at: datetime, number: int) -> tuple[str, bytes]:
    """Return control ID, made of a number, and bytes of a message."""
    sender = telling.sender
    control_id = f"{sender.prefix}{number:08d}"
    rows = [segments.msh(telling, at, control_id, _message_type(telling)), segments.evn(telling, at)]
    rows += _body(telling, at)
    tail = "|" * sender.trailing
    text = "".join([f"{'|'.join(row)}{tail}\r" for row in rows])
    return control_id, text.encode(sender.codec)


def _body(telling: Telling, at: datetime) -> list[Row]:
    """Return what follows EVN: of all that could be said, what the event's structure has room for, in its order."""
    if telling.trigger in LINKS:
        return [segments.pid(telling, at), segments.pid(telling, at, other=True)]
    if telling.beside is not None:
        return _swapped(telling, telling.beside, at)
    made: list[Row] = []
    for name, many in _layout(telling.sender.version, telling.trigger):
        writes = segments.WRITERS.get(name)
        if writes:
            rows = writes(telling, at)
            made += rows if many else rows[:1]
    if telling.sender in {REGISTRATION, INDEX} and not telling.merged:
        made += segments.zpi(telling)
    return made


def _swapped(one: Telling, other: Telling, at: datetime) -> list[Row]:
    """Return what is told of two patients, each with the visit."""
    name, _, *fields = segments.pid(other, at)
    return [segments.pid(one, at), *segments.pv1(one, at), [name, "2", *fields], *segments.pv1(other, at)]


def _message_type(telling: Telling) -> str:
    name = f"ADT^{telling.trigger}"
    if not telling.sender.structure or telling.sender.release < THREE_PARTS:
        return name
    return f"{name}^{structure(telling.sender.version, telling.trigger)}"


@cache
def _layout(version: str, trigger: str) -> tuple[tuple[str, bool], ...]:
    """Return the segments behind EVN that the structure of an event has, in order, and whether each may repeat."""
    named: dict[str, bool] = {}
    for name, many in _named(grammar(version, structure(version, trigger))):
        named.setdefault(name, many)
    return tuple((name, many) for name, many in named.items() if name not in {"MSH", "EVN"})


def _named(parts: tuple[Part, ...], *, many: bool = False) -> list[tuple[str, bool]]:
    found = []
    for part in parts:
        repeats = many or part.repeating
        found += _named(part.parts, many=repeats) if part.parts else [(part.name, repeats)]
    return found

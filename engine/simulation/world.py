"""The simulated world: everybody's course of events in one stream in order of time, and its messages written."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from random import Random
from typing import Final

from engine.hl7.events import StructurePart, grammar, structure
from engine.simulation import segments
from engine.simulation.event import DUPLICATE, LATE, SimulatedEvent, Way
from engine.simulation.hospital import INDEX, REGISTRATION, Hospital
from engine.simulation.life import live
from engine.simulation.segments import Row

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


START: Final = datetime(2026, 3, 2, 6, tzinfo=UTC)
"""Where time begins by default: a fixed day, so that a seed alone says every byte."""

PATIENTS: Final = 50
"""How many people are in care by default."""

FIRST_ARRIVALS: Final = timedelta(hours=24)
REPLACED_WITHIN: Final = timedelta(hours=48)
LATE_EVENTS: Final = frozenset({"A08", "A31"})
LATE_SHARE: Final = 0.03
RESENT_SHARE: Final = 0.02


@dataclass(frozen=True, slots=True)
class SimulatedMessage:
    """One message as it goes out.

    `event_at` is when it happened; `family` tells apart people whose messages do not speak of each other; `note` is
    `late` (older than what went out before), `duplicate` (the same bytes again), `old-number` (merged away) or empty.
    """

    raw: bytes
    control_id: str
    trigger: str
    event_at: datetime
    family: int
    sender: str
    note: str = ""


def simulate(seed: int, patients: int = PATIENTS, start: datetime = START) -> Iterator[SimulatedMessage]:
    """Return an endless stream of messages in the order in which they go out; the same arguments, the same bytes.

    Streams of other arguments share no number of a patient, visit, account, doctor or message, so that both may go
    to one server.

    At any time at most `patients` people and their newborns are dealt with, so that memory does not grow. Times are
    the hospital's own, without an offset; `start` is the earliest.
    """
    return _World(seed, patients, start).run()


def range_of(seed: int, patients: int, start: datetime = START) -> str:
    """Return what the numbers of one stream have in common: `7`, and `7P20` or `7P20D31` where more is asked for.

    After P stands how many patients, after D how many days after the default start.
    """
    people = "" if patients == PATIENTS else f"P{patients}"
    day = (start - START) / timedelta(days=1)
    return f"{seed}{people}" + (f"D{day:g}" if day else "")


class _World:
    """Courses and messages that wait for their time."""

    def __init__(self, seed: int, patients: int, start: datetime) -> None:
        name = range_of(seed, patients, start)
        # Drawn from the name: the people of two streams of one seed would be the same, under other numbers.
        self._draw = Random(name)  # noqa: S311 - believable, not secret
        self._hospital = Hospital(self._draw, patients, name)
        self._order = count()
        self._waiting: list[tuple[datetime, int, int, bool, Way | SimulatedMessage]] = []
        for family in range(patients):
            self._begin(start, family, FIRST_ARRIVALS)

    def run(self) -> Iterator[SimulatedMessage]:
        """Let time pass."""
        while True:
            at, _, family, whole, waiting = heapq.heappop(self._waiting)
            if isinstance(waiting, SimulatedMessage):
                yield waiting
            else:
                yield from self._go_on(at, family, waiting, whole=whole)

    def _begin(self, at: datetime, family: int, within: timedelta) -> None:
        draw = Random(self._draw.getrandbits(64))  # noqa: S311 - believable, not secret
        self._start(at, family, live(draw, self._hospital, within), whole=True)

    def _start(self, at: datetime, family: int, way: Way, *, whole: bool) -> None:
        """Let a course wait for its first time; `whole` marks a whole life, after which somebody else's begins."""
        wait = next(way)
        if isinstance(wait, timedelta):
            self._wait(at + wait, family, way, whole=whole)

    def _wait(self, at: datetime, family: int, waiting: Way | SimulatedMessage, *, whole: bool = False) -> None:
        heapq.heappush(self._waiting, (at, next(self._order), family, whole, waiting))

    def _go_on(self, at: datetime, family: int, way: Way, *, whole: bool) -> Iterator[SimulatedMessage]:
        """Run a course until it waits again."""
        try:
            while not isinstance(step := way.send(at), timedelta):
                if isinstance(step, SimulatedEvent):
                    yield from self._send(step, at, family)
                else:
                    self._start(at, family, step, whole=False)
        except StopIteration:
            if whole:
                self._begin(at, family, REPLACED_WITHIN)
            return
        self._wait(at + step, family, way, whole=whole)

    def _send(self, event: SimulatedEvent, at: datetime, family: int) -> Iterator[SimulatedMessage]:
        """Write a message down; now and then it is sent twice, or is kept back while others overtake it."""
        control_id, raw = write(event, at, self._hospital.message())
        message = SimulatedMessage(raw, control_id, event.trigger, at, family, event.sender.application, event.note)
        chance, draw = self._draw.random(), self._draw
        if event.trigger in LATE_EVENTS and not event.note and event.person.known and chance < LATE_SHARE:
            self._wait(at + timedelta(seconds=draw.randrange(3600, 72_000)), family, replace(message, note=LATE))
            return
        yield message
        if chance > 1 - RESENT_SHARE:
            self._wait(at + timedelta(seconds=draw.randrange(5, 300)), family, replace(message, note=DUPLICATE))

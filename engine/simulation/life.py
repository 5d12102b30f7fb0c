"""One person's dealings with the hospital: registered, seen, moved, registered twice and merged, renumbered, linked."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Final

from engine.simulation import person as people
from engine.simulation.event import OLD_NUMBER, SimulatedEvent, Way
from engine.simulation.hospital import (
    CLINIC,
    EMERGENCY,
    INDEX,
    LAKESIDE,
    REGISTRATION,
    RIVERBEND,
    Hospital,
    SendingSystem,
)
from engine.simulation.person import SimulatedPerson
from engine.simulation.visit import birth, clinic, emergency, ward_stay

OPENING_HOURS: Final = range(8, 17)
FERTILE_DAYS: Final = range(18 * 366, 43 * 365)


@dataclass(slots=True)
class Life:
    """A person, and how the two record systems know of it.

    `together` says that the index lists both numbers as one person; else a second number is a chart of its own.
    """

    draw: Random
    hospital: Hospital
    person: SimulatedPerson
    together: bool = False

    def hours(self, least: float, most: float) -> timedelta:
        """Return a span of time between two bounds, in whole seconds."""
        return timedelta(seconds=self.draw.randrange(int(least * 3600), int(most * 3600)))

    def registrar(self, authority: str) -> SendingSystem:
        """Return who registers people under an authority's numbers."""
        return REGISTRATION if authority == RIVERBEND else CLINIC


def live(draw: Random, hospital: Hospital, within: timedelta) -> Way:
    """Somebody turns up within a time, comes back some times, and moves away or dies."""
    now = yield timedelta(seconds=draw.randrange(int(within.total_seconds())))
    life = Life(draw, hospital, SimulatedPerson("", "", "", None, {}))
    yield from _first_seen(life, now)
    for _ in range(draw.choice((2, 3, 4, 5, 6))):
        if life.person.died:
            yield from _death_known(life)
            return
        now = yield life.hours(2, 90)
        for happens in _between(life):
            yield from happens(life, now)
            now = yield life.hours(0.5, 20)
        yield from _visit(life, now)


def _first_seen(life: Life, now: datetime) -> Way:
    """Make the person known: with a number of one system, with both as one, or as nobody in particular."""
    draw, hospital = life.draw, life.hospital
    kind = draw.random()
    if kind < 0.05:
        life.person = people.unknown_person(draw, {RIVERBEND: hospital.number(RIVERBEND)})
        yield from emergency(draw, hospital, life.person)
        return
    first = LAKESIDE if kind < 0.2 else RIVERBEND
    life.person = people.new_person(draw, {first: hospital.number(first)}, now.date(), grown=draw.random() < 0.2)
    if kind > 0.8:
        life.together = True
        life.person.numbers[LAKESIDE] = hospital.number(LAKESIDE)
        yield SimulatedEvent("A28", INDEX, life.person, RIVERBEND, also=LAKESIDE)
    elif kind > 0.55:
        yield SimulatedEvent("A28", life.registrar(first), life.person, first)
    yield from _visit(life, now)


def _visit(life: Life, now: datetime) -> Way:
    draw, hospital, person = life.draw, life.hospital, life.person
    if RIVERBEND not in person.numbers or (LAKESIDE in person.numbers and draw.random() < 0.3):
        now = yield _until_open(draw, now)
        yield from clinic(draw, hospital, person, LAKESIDE)
    elif _fertile(person, now) and draw.random() < 0.3:
        yield from birth(draw, hospital, person)
    elif (kind := draw.random()) < 0.4:
        yield from ward_stay(draw, hospital, person)
    elif kind < 0.75:
        yield from emergency(draw, hospital, person)
    else:
        now = yield _until_open(draw, now)
        yield from clinic(draw, hospital, person, RIVERBEND)


def _fertile(person: SimulatedPerson, now: datetime) -> bool:
    return person.sex == "F" and person.born is not None and (now.date() - person.born).days in FERTILE_DAYS


def _until_open(draw: Random, now: datetime) -> timedelta:
    """Return how long it takes until a moment of opening hours, tomorrow or on Monday."""
    day = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    while day.weekday() > 4:
        day += timedelta(days=1)
    opens = day + timedelta(hours=draw.choice(OPENING_HOURS), seconds=draw.randrange(3600))
    return opens - now


def _between(life: Life) -> Iterator[Callable[["Life", datetime], Way]]:
    """Choose what happens between two visits."""
    draw = life.draw
    if draw.random() < 0.35:
        yield _moved
    if draw.random() < 0.22:
        yield _registered_twice
    if draw.random() < 0.06:
        yield _renumbered
    if draw.random() < 0.04:
        yield _mistaken
    if not life.together and len(life.person.numbers) == 1 and draw.random() < 0.1:
        yield _linked


def _moved(life: Life, _now: datetime) -> Way:
    """A move or a marriage, which the index or the registration learns of (A31, or A28 sent once more)."""
    draw, person = life.draw, life.person
    (people.marry if draw.random() < 0.25 else people.move_house)(draw, person)
    authority = draw.choice(sorted(person.numbers))
    if life.together and draw.random() < 0.6:
        yield SimulatedEvent("A31", INDEX, person, RIVERBEND, also=LAKESIDE, reason="CHANGED")
    else:
        yield SimulatedEvent(draw.choice(("A31", "A31", "A28")), life.registrar(authority), person, authority)


def _registered_twice(life: Life, _now: datetime) -> Way:
    """The person is registered once more under a new number; hours later the two are merged, either way round.

    A department that has not heard of it may tell something under the old number afterwards: never an admission.
    """
    draw, hospital, person = life.draw, life.hospital, life.person
    authority = draw.choice(sorted(person.numbers))
    known, new = person.numbers[authority], hospital.number(authority)
    person.numbers[authority] = new
    if draw.random() < 0.5:
        yield SimulatedEvent("A28", life.registrar(authority), person, authority)
    elif authority == RIVERBEND:
        yield from emergency(draw, hospital, person)
    else:
        yield from clinic(draw, hospital, person, LAKESIDE)
    if life.together and authority == RIVERBEND and draw.random() < 0.4:
        yield life.hours(0.5, 5)
        moved = person.numbers[LAKESIDE]
        yield SimulatedEvent("A43", INDEX, person, authority, merged=moved, merged_of=LAKESIDE)
    survivor, old = draw.choice(((known, new), (new, known)))
    person.numbers[authority] = survivor
    sender = draw.choice((INDEX, life.registrar(authority)))
    yield life.hours(0.5, 30)
    yield SimulatedEvent("A40", sender, person, authority, merged=old)
    if draw.random() < 0.12:
        yield life.hours(0.1, 3)
        yield SimulatedEvent("A40", INDEX, person, authority, merged=old)
    if draw.random() < 0.5:
        yield life.hours(0.2, 20)
        late_hearer = EMERGENCY if authority == RIVERBEND else CLINIC
        yield SimulatedEvent(draw.choice(("A08", "A31")), late_hearer, person, authority, number=old, note=OLD_NUMBER)


def _mistaken(life: Life, _now: datetime) -> Way:
    """A registration that should not have been: hours later the record is deleted (A29)."""
    authority = life.draw.choice(sorted(life.person.numbers))
    number, registrar = life.hospital.number(authority), life.registrar(authority)
    yield SimulatedEvent("A28", registrar, life.person, authority, number=number)
    yield life.hours(0.5, 20)
    yield SimulatedEvent("A29", registrar, life.person, authority, number=number)


def _renumbered(life: Life, _now: datetime) -> Way:
    """The number itself changes (A47): the old one is never used again."""
    authority = life.draw.choice(sorted(life.person.numbers))
    old = life.person.numbers[authority]
    life.person.numbers[authority] = life.hospital.number(authority)
    yield SimulatedEvent("A47", INDEX, life.person, authority, merged=old)


def _linked(life: Life, _now: datetime) -> Way:
    """A second chart in the other record system, linked to the first (A24); sometimes that was wrong (A37)."""
    draw, person = life.draw, life.person
    (first,) = person.numbers
    second = LAKESIDE if first == RIVERBEND else RIVERBEND
    person.numbers[second] = life.hospital.number(second)
    yield SimulatedEvent("A28", life.registrar(second), person, second)
    yield life.hours(0.5, 12)
    yield SimulatedEvent("A24", INDEX, person, first, other=second)
    if draw.random() < 0.3:
        yield life.hours(0.5, 20)
        yield SimulatedEvent("A37", INDEX, person, first, other=second)


def _death_known(life: Life) -> Way:
    yield life.hours(0.5, 10)
    yield SimulatedEvent("A31", REGISTRATION, life.person, RIVERBEND, reason="DECEASED")

"""Visits as courses of events: days on a ward, the emergency department, a clinic, a birth."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from random import Random
from typing import Final

from engine.simulation import person as people
from engine.simulation import words
from engine.simulation.event import SimulatedEvent, Way
from engine.simulation.hospital import (
    CLINIC,
    EMERGENCY,
    LAKESIDE,
    REGISTRATION,
    RIVERBEND,
    Bed,
    Hospital,
    SendingSystem,
)
from engine.simulation.person import SimulatedPerson
from engine.simulation.stay import Stay, StayPhase

HOME: Final = "01"
OTHER_HOSPITAL: Final = "02"
DIED: Final = "20"


@dataclass(slots=True)
class SimulatedVisit:
    """One stay of one person, and who speaks of it."""

    draw: Random
    hospital: Hospital
    person: SimulatedPerson
    authority: str
    stay: Stay
    sender: SendingSystem = REGISTRATION

    def happens(self, trigger: str, at: datetime, bed: Bed | None = None, *, reason: str = "") -> SimulatedEvent:
        """Apply an event to the stay and return its message."""
        before = self.stay.bed
        self.stay.move(trigger, at, bed)
        if self.stay.bed != before:
            self.hospital.leave(before)
        if trigger in {"A11", "A23", "A27", "A38", "A03"}:
            self.hospital.leave(self.stay.bed)
        return SimulatedEvent(trigger, self.sender, self.person, self.authority, self.stay, reason=reason)

    def swap(self, other: "SimulatedVisit") -> SimulatedEvent:
        """Let this patient and another one change beds."""
        self.stay.swap(other.stay)
        beside = SimulatedEvent("A17", self.sender, other.person, other.authority, other.stay)
        return SimulatedEvent("A17", self.sender, self.person, self.authority, self.stay, beside=beside)

    def register(self, state: StayPhase, at: datetime) -> SimulatedEvent:
        """Register an outpatient or an emergency."""
        self.stay.register(state, at)
        return SimulatedEvent("A04", self.sender, self.person, self.authority, self.stay)

    def chance(self, likely: float) -> bool:
        """Tell whether something of this likelihood happens."""
        return self.draw.random() < likely

    def hours(self, least: float, most: float) -> timedelta:
        """Return a span of time between two bounds, in whole seconds."""
        return timedelta(seconds=self.draw.randrange(int(least * 3600), int(most * 3600)))


def visit_of(
    draw: Random, hospital: Hospital, person: SimulatedPerson, authority: str, sender: SendingSystem, bed: Bed
) -> SimulatedVisit:
    """Open a visit that has not begun."""
    stay = Stay(
        hospital.visit(),
        hospital.account(),
        draw.choice(words.SERVICES),
        draw.choice(hospital.doctors),
        draw.choice(hospital.doctors),
        bed,
        diagnoses=[draw.choice(words.DIAGNOSES)],
        measures=(draw.randrange(150, 196), draw.randrange(48, 110)),
    )
    return SimulatedVisit(draw, hospital, person, authority, stay, sender)


def ward_stay(draw: Random, hospital: Hospital, person: SimulatedPerson) -> Way:
    """A stay on a ward: often planned, sometimes called off, else some days and a discharge."""
    visit = visit_of(draw, hospital, person, RIVERBEND, REGISTRATION, hospital.bed(draw))
    if visit.chance(0.4):
        planned, called_off = draw.choice((("A05", "A38"), ("A05", "A38"), ("A14", "A27")))
        now = yield visit.hours(0.1, 2)
        yield visit.happens(planned, now)
        now = yield visit.hours(4, 60)
        if visit.chance(0.12):
            yield visit.happens(called_off, now)
            return
    else:
        now = yield visit.hours(0.1, 2)
    yield visit.happens("A01", now)
    if visit.chance(0.05):
        now = yield visit.hours(0.2, 2)
        yield visit.happens("A11", now)
        return
    yield from _days(visit)
    yield from _end(visit)


def emergency(draw: Random, hospital: Hospital, person: SimulatedPerson) -> Way:
    """A visit to the emergency department; four in ten go on to a ward. Who came unknown is named within hours."""
    place = hospital.place(draw, "E", "RIVERBEND")
    visit = visit_of(draw, hospital, person, RIVERBEND, EMERGENCY, place)
    now = yield visit.hours(0.1, 1)
    yield visit.register(StayPhase.EMERGENCY, now)
    if not person.known:
        now = yield visit.hours(0.5, 9)
        people.identify(draw, person, draw.choice("FM"), _birth_date(draw, now.date()))
        yield visit.happens("A08", now, reason="IDENTIFIED")
    elif visit.chance(0.04):
        now = yield visit.hours(0.1, 0.6)
        yield visit.happens("A11", now)
        return
    if visit.chance(0.3):
        now = yield visit.hours(0.2, 1)
        yield _diagnosed(visit, now)
    now = yield visit.hours(0.5, 6)
    if visit.chance(0.4):
        visit.sender = REGISTRATION
        yield visit.happens("A06", now, hospital.bed(draw))
        yield from _days(visit)
    yield from _end(visit)


def clinic(draw: Random, hospital: Hospital, person: SimulatedPerson, authority: str) -> Way:
    """An outpatient's visit, registered where the person's number is from."""
    sender = CLINIC if authority == LAKESIDE else REGISTRATION
    visit = visit_of(draw, hospital, person, authority, sender, hospital.place(draw, "O", sender.facility))
    now = yield visit.hours(0.1, 1)
    yield visit.register(StayPhase.OUTPATIENT, now)
    if visit.chance(0.1):
        now = yield visit.hours(0.1, 1)
        yield visit.happens(draw.choice(("A11", "A11", "A23")), now)
        return
    if visit.chance(0.4):
        now = yield visit.hours(0.2, 1.5)
        yield _diagnosed(visit, now)
    if authority == RIVERBEND and visit.chance(0.1):
        now = yield visit.hours(0.5, 3)
        yield visit.happens("A06", now, hospital.bed(draw))
        yield from _days(visit)
    now = yield visit.hours(0.3, 3)
    visit.stay.disposition = HOME
    yield visit.happens("A03", now)


def birth(draw: Random, hospital: Hospital, mother: SimulatedPerson) -> Way:
    """A mother's stay, and with it that of her child, or of her twins."""
    visit = visit_of(draw, hospital, mother, RIVERBEND, REGISTRATION, hospital.bed(draw))
    visit.stay.service, visit.stay.diagnoses = "OBS", [words.DELIVERY_DIAGNOSIS]
    now = yield visit.hours(0.1, 2)
    yield visit.happens("A01", now)
    now = yield visit.hours(2, 14)
    orders = (1, 2) if visit.chance(0.25) else (0,)
    cots = []
    for order in orders:
        child = people.newborn(draw, mother, hospital.number(RIVERBEND), RIVERBEND, now.date(), order)
        cots.append(visit_of(draw, hospital, child, RIVERBEND, REGISTRATION, hospital.bed(draw)))
        yield _first_days(draw, cots[-1], visit.stay)
    now = yield visit.hours(1, 6)
    yield visit.happens("A02", now, hospital.bed(draw))
    if len(cots) > 1 and visit.chance(0.8):
        yield visit.hours(0.1, 0.5)
        yield cots[0].swap(cots[1])
    yield from _end(visit)


def _first_days(draw: Random, visit: SimulatedVisit, mothers: Stay) -> Way:
    child = visit.person
    visit.stay.service, visit.stay.attending, visit.stay.measures = "NEW", mothers.attending, None
    visit.stay.diagnoses = [words.TWIN_DIAGNOSIS if child.order else words.BORN_DIAGNOSIS]
    now = yield timedelta(minutes=draw.randrange(2, 30))
    yield visit.happens("A01", now)
    now = yield visit.hours(6, 40)
    people.name_child(draw, child)
    yield visit.happens("A08", now, reason="NAMED")
    now = yield visit.hours(4, 50)
    visit.stay.disposition = HOME
    yield visit.happens("A03", now)


def _days(visit: SimulatedVisit) -> Way:
    """What happens between an admission and a discharge."""
    for _ in range(visit.draw.choice((1, 2, 2, 3, 4, 5))):
        now = yield visit.hours(2, 22)
        happens = visit.draw.choice(
            (_correction, _correction, _transfer, _transfer, _procedure, _leave, _plans, _change, _allergy)
        )
        yield from happens(visit, now)


def _correction(visit: SimulatedVisit, now: datetime) -> Way:
    yield _diagnosed(visit, now)


def _transfer(visit: SimulatedVisit, now: datetime) -> Way:
    draw = visit.draw
    left = visit.stay.bed
    kept = visit.chance(0.2)
    yield visit.happens("A02", now, visit.hospital.bed(draw))
    if kept and visit.chance(0.6):
        now = yield visit.hours(0.1, 0.5)
        if visit.hospital.take(left):
            yield visit.happens("A12", now)


def _allergy(visit: SimulatedVisit, now: datetime) -> Way:
    """An allergy that the ward finds, if there is one more to be found."""
    person = visit.person
    unknown = [each for each in range(len(words.ALLERGENS)) if each not in person.allergies]
    if unknown and person.known:
        person.allergies.append(visit.draw.choice(unknown))
        yield visit.happens("A60", now)


def _procedure(visit: SimulatedVisit, now: datetime) -> Way:
    visit.stay.procedures.append((visit.draw.choice(words.PROCEDURES), now))
    yield visit.happens("A08", now)


def _leave(visit: SimulatedVisit, now: datetime) -> Way:
    yield visit.happens("A21", now)
    now = yield visit.hours(0.3, 12)
    if visit.chance(0.15):
        yield visit.happens("A52", now)
        return
    yield visit.happens("A22", now)
    if visit.chance(0.1):
        now = yield visit.hours(0.1, 0.5)
        yield visit.happens("A53", now)
        now = yield visit.hours(0.5, 3)
        yield visit.happens("A22", now)


def _plans(visit: SimulatedVisit, now: datetime) -> Way:
    """A transfer, or a discharge, that is planned and mostly called off."""
    planned, called_off = visit.draw.choice((("A15", "A26"), ("A16", "A25")))
    bed = visit.hospital.ward(visit.draw) if planned == "A15" else None
    yield visit.happens(planned, now, bed)
    if visit.chance(0.6):
        now = yield visit.hours(0.5, 5)
        yield visit.happens(called_off, now)


def _change(visit: SimulatedVisit, now: datetime) -> Way:
    """Another doctor, or some hours as an outpatient."""
    if visit.chance(0.5):
        visit.stay.attending = visit.draw.choice(visit.hospital.doctors)
        yield visit.happens("A54", now)
        return
    yield visit.happens("A07", now)
    now = yield visit.hours(1, 6)
    yield visit.happens("A06", now)


def _end(visit: SimulatedVisit) -> Way:
    """Discharge, home or elsewhere or dead; once in a while it is taken back and done again a day later."""
    draw, stay = visit.draw, visit.stay
    now = yield visit.hours(1, 20)
    died = visit.chance(0.02) and not visit.person.mother
    stay.disposition = DIED if died else draw.choice((HOME, HOME, HOME, OTHER_HOSPITAL))
    visit.person.died = died
    inpatient = stay.state is StayPhase.INPATIENT
    yield visit.happens("A03", now)
    if died or not inpatient:
        return
    if visit.chance(0.06):
        left = stay.bed
        now = yield visit.hours(0.2, 2)
        if visit.hospital.take(left):
            yield visit.happens("A13", now)
            now = yield visit.hours(8, 30)
            stay.disposition = HOME
            yield visit.happens("A03", now)
    if visit.chance(0.2):
        now = yield visit.hours(1, 30)
        yield _diagnosed(visit, now)
    if visit.chance(0.06):
        yield visit.hours(1, 20)
        yield _account_merged(visit)


def _account_merged(visit: SimulatedVisit) -> SimulatedEvent:
    """Two accounts were opened for one stay; the one that was billed until now goes into the other."""
    gone, visit.stay.account = visit.stay.account, visit.hospital.account()
    number = visit.person.numbers[visit.authority]
    return SimulatedEvent("A41", visit.sender, visit.person, visit.authority, visit.stay, merged=number, account=gone)


def _diagnosed(visit: SimulatedVisit, now: datetime) -> SimulatedEvent:
    """Update the visit: another diagnosis, other measures, or a corrected telephone number."""
    stay, draw = visit.stay, visit.draw
    found = draw.choice(words.DIAGNOSES)
    if found not in stay.diagnoses and len(stay.diagnoses) < 5 and visit.chance(0.6):
        stay.diagnoses.append(found)
    elif visit.person.known:
        people.move_house(draw, visit.person)
    return visit.happens("A08", now)


def _birth_date(draw: Random, today: date) -> date:
    return today - timedelta(days=draw.randrange(16 * 366, 80 * 365))

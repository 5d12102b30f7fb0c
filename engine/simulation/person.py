"""Invented people: how one is made, is born, is brought in unknown, moves and marries."""

from dataclasses import dataclass, field
from datetime import date, timedelta
from random import Random
from typing import Final

from engine.simulation import words
from engine.simulation.words import City

OLDEST_DAYS: Final = 34_000
CHILD_DAYS: Final = 18 * 365
UNKNOWN_NAMES: Final = (("UNKNOWN", "TRAUMA"), ("DOE", "JOHN"), ("DOE", "JANE"))


@dataclass(frozen=True, slots=True)
class Contact:
    """Somebody to call: a name, how they are related, and a telephone number."""

    family: str
    given: str
    relation: str
    phone: str


@dataclass(slots=True)
class SimulatedPerson:
    """What is known of one person now.

    `numbers` holds the current medical record number by authority; `own_writing` family and given name in letters
    beyond ISO 8859-1; `born` is None while nobody knows; `order` is the place among twins, 0 for all others.
    """

    family: str
    given: str
    sex: str
    born: date | None
    numbers: dict[str, str]
    second: str = ""
    own_writing: tuple[str, str] | None = None
    street: str = ""
    city: City | None = None
    phone: str = ""
    marital: str = ""
    race: str = ""
    religion: str = ""
    language: str = ""
    social_security: str = ""
    insurer: int | None = None
    policy: str = ""
    mother: str = ""
    order: int = 0
    died: bool = False
    contacts: list[Contact] = field(default_factory=list)
    allergies: list[int] = field(default_factory=list)

    @property
    def known(self) -> bool:
        """Whether anybody knows who this is."""
        return self.born is not None

    def child(self, today: date) -> bool:
        """Tell whether somebody else answers for this person's bills."""
        return self.born is not None and (today - self.born).days < CHILD_DAYS


def new_person(
    draw: Random, numbers: dict[str, str], today: date, *, sex: str = "", grown: bool = False
) -> SimulatedPerson:
    """Make a person with a whole set of demographics; `grown` makes it eighteen to forty."""
    sex = sex or draw.choice("FFFFFFMMMMMMO")
    person = unknown_person(draw, numbers)
    identify(draw, person, sex, today - timedelta(days=draw.randrange(18 * 366, 40 * 365) if grown else _age(draw)))
    return person


def unknown_person(draw: Random, numbers: dict[str, str]) -> SimulatedPerson:
    """Make a person of whom nothing is known but that somebody lies there."""
    family, given = draw.choice(UNKNOWN_NAMES)
    return SimulatedPerson(family, given, "U", None, numbers)


def identify(draw: Random, person: SimulatedPerson, sex: str, born: date) -> None:
    """Let everything about a person become known."""
    person.family, person.given, person.own_writing = _name(draw, sex)
    person.second, person.sex, person.born = draw.choice(words.SECOND), sex, born
    person.marital = draw.choice(words.MARITAL)
    person.race, person.religion = draw.choice(words.RACES), draw.choice(words.RELIGIONS)
    person.language = draw.choice(words.LANGUAGES)
    # Area 666 was never given out.
    person.social_security = (
        f"666-{draw.randrange(1, 99):02d}-{draw.randrange(1, 9999):04d}" if draw.random() < 0.4 else ""
    )
    if draw.random() < 0.8:
        person.insurer, person.policy = draw.randrange(len(words.INSURERS)), f"P{draw.randrange(10**7):07d}"
    move_house(draw, person)
    person.contacts = [_contact(draw, person) for _ in range(draw.choice((0, 1, 1, 2)))]
    person.allergies = sorted(draw.sample(range(len(words.ALLERGENS)), draw.choice((0, 0, 1, 2))))


def newborn(
    draw: Random, mother: SimulatedPerson, number: str, authority: str, today: date, order: int
) -> SimulatedPerson:
    """Make a child that has no name yet, of its mother; `order` is its place among twins, 0 for one child."""
    sex = draw.choice("FM")
    return SimulatedPerson(
        mother.family,
        "BABY GIRL" if sex == "F" else "BABY BOY",
        sex,
        today,
        {authority: number},
        street=mother.street,
        city=mother.city,
        phone=mother.phone,
        insurer=mother.insurer,
        policy=mother.policy,
        mother=mother.numbers[authority],
        order=order,
        contacts=[Contact(mother.family, mother.given, "MTH", mother.phone)],
    )


def name_child(draw: Random, child: SimulatedPerson) -> None:
    """Let a newborn get the name it will keep."""
    child.given = draw.choice(words.GIVEN[child.sex])


def move_house(draw: Random, person: SimulatedPerson) -> None:
    """Let a person live somewhere else, with another telephone number; 555-0100 to 555-0199 are kept for fiction."""
    person.street = f"{draw.randrange(1, 400)} {draw.choice(words.STREETS)}"
    person.city = draw.choice(words.CITIES)
    person.phone = _phone(draw)


def marry(draw: Random, person: SimulatedPerson) -> None:
    """Let a person marry, and often take another family name."""
    person.marital = "M"
    if draw.random() < 0.7:
        person.family, person.own_writing = _family(draw), None


def _age(draw: Random) -> int:
    """Return an age in days: the old are seen more often than the young."""
    return max(draw.randrange(60, OLDEST_DAYS), draw.randrange(60, OLDEST_DAYS))


def _name(draw: Random, sex: str) -> tuple[str, str, tuple[str, str] | None]:
    if draw.random() < 0.04:
        (family, given), own = draw.choice(words.WRITTEN_OTHERWISE)
        return family, given, own
    return _family(draw), draw.choice(words.GIVEN.get(sex) or words.GIVEN["F"]), None


def _family(draw: Random) -> str:
    if draw.random() < 0.15:
        return draw.choice(words.MARKED_FAMILIES)
    name = draw.choice(words.BEGINNINGS) + draw.choice(words.ENDINGS)
    return f"O'{name}" if draw.random() < 0.05 else name


def _contact(draw: Random, person: SimulatedPerson) -> Contact:
    relation = draw.choice(words.RELATIONS)
    family = _family(draw) if relation in {"FND", "EMC"} else person.family
    return Contact(family, draw.choice(words.GIVEN[draw.choice("FM")]), relation, _phone(draw))


def _phone(draw: Random) -> str:
    return f"{draw.choice((503, 541, 971))}55501{draw.randrange(100):02d}"

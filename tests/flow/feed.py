"""A seeded, believable ADT stream: stays, corrections, second registrations, merges, late use of old numbers, resends.

Every message carries its own telephone number in PID-13 (`stamp`), so that whatever the service stores shows which
message it came from. Messages of one family name each other's numbers and must be sent in order, on one connection.
"""

from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Final

SYSTEM: Final = "https://mrn.riverbend.example"
START: Final = datetime(2026, 3, 2, 6, tzinfo=UTC)

FAMILIES: Final = ("Alderton", "Birchfield", "Castellan", "Dunmore", "Everhart", "Fairweather", "Grantham", "Holloway")
GIVEN: Final = ("Amara", "Bastian", "Celeste", "Dorian", "Elowen", "Felix", "Greta", "Hugo", "Imogen", "Jasper")
STREETS: Final = ("Alder Way", "Brook Street", "Canal Row", "Dovecote Lane", "Elm Terrace", "Ferry Road")
CITIES: Final = (("Keswick", "OR", "97301"), ("Linden", "OR", "97355"), ("Marlow", "WA", "98660"))

PLACES: Final = ("3W^312^A", "3W^312^B", "5E^512^A", "ED^T1^")
ADMITS: Final = frozenset({"A01", "A04", "A05"})
MOVEMENTS: Final = ("A02", "A05", "A11", "A13", "A21", "A22")
VISITED: Final = ADMITS | {"A03", "A08", *MOVEMENTS}
NULL: Final = '""'
MERGES: Final = ("A40", "A40", "A40", "A18", "A30", "A34", "A39")
STRUCTURES: Final = {
    "A04": "A01",
    "A08": "A01",
    "A28": "A05",
    "A29": "A21",
    "A31": "A05",
    "A34": "A30",
    "A40": "A39",
    "A47": "A30",
}


@dataclass(frozen=True, slots=True)
class FeedMessage:
    """One message to send; `expected` is the acknowledgement code, `stamp` what PID-13 of it says."""

    control_id: str
    family: int
    raw: bytes
    stamp: str
    expected: str = "AA"
    resend: bool = False


@dataclass(slots=True)
class Person:
    """What one person says of itself now, its number, and the numbers that were merged away."""

    family: str
    given: str
    second: str
    gender: str
    birth_date: str
    street: str
    city: tuple[str, str, str]
    number: str
    retired: list[str] = field(default_factory=list)


class Author:
    """Writes the messages of one feed; the same seed gives the same bytes."""

    def __init__(self, seed: int, prefix: str = "RB", first_stamp: int = 1_000_000) -> None:
        self.random = Random(seed)
        self._prefix = prefix
        self._stamp = first_stamp
        self._number = 0
        self._turn: dict[str, int] = {}
        self._over: set[str] = set()
        self._at = START

    def number(self) -> str:
        """Return a medical record number that was never used before."""
        self._number += 1
        return f"{self._prefix}{self._number:06d}"

    def person(self, alike: Person | None = None) -> Person:
        """Return a new person, with the demographics of another where one is given."""
        if alike is not None:
            return replace(alike, number=self.number(), retired=[])
        draw = self.random
        born = date(1931, 1, 1) + timedelta(days=draw.randrange(33_000))
        return Person(
            family=f"{draw.choice(FAMILIES)}{draw.choice(('', '-Moss', '-Vale', ' Quay'))}",
            given=draw.choice(GIVEN),
            second=draw.choice(("", "Ruth", "Cole")),
            gender=draw.choice("FM"),
            birth_date=f"{born:%Y%m%d}",
            street=f"{draw.randrange(1, 400)} {draw.choice(STREETS)}",
            city=draw.choice(CITIES),
            number=self.number(),
        )

    def event(
        self, trigger: str, family: int, person: Person, number: str = "", *, address: str = "say"
    ) -> FeedMessage:
        """Write an event about one person; `address` is `say`, `absent` or `delete`."""
        stamp, pid = self._pid(person, number or person.number, address)
        head = self._head(trigger, stamp)
        return FeedMessage(
            head[0], family, self._write([*head[1:], pid, *self._rest(trigger, person, number or person.number)]), stamp
        )

    def merge(
        self, family: int, person: Person, old: str, kept: str, *, expected: str = "AA", trigger: str = "A40"
    ) -> FeedMessage:
        """Write an A40, or another event of its family, that merges the number `old` into `kept`."""
        stamp, pid = self._pid(person, kept, "say")
        head = self._head(trigger, stamp)
        mrg = f"MRG|{old}^^^RVB^MR||||||{person.family}^{person.given}"
        return FeedMessage(head[0], family, self._write([*head[1:], pid, mrg]), stamp, expected)

    def rename(self, family: int, person: Person, old: str, new: str) -> FeedMessage:
        """Write an A47 that changes the number `old` into `new`."""
        stamp, pid = self._pid(person, new, "say")
        head = self._head("A47", stamp)
        return FeedMessage(head[0], family, self._write([*head[1:], pid, f"MRG|{old}^^^RVB^MR"]), stamp)

    def link(self, trigger: str, family: int, one: Person, other: Person) -> FeedMessage:
        """Write an A24 or A37 of two persons; both speak under one stamp."""
        stamp, first = self._pid(one, one.number, "say")
        self._stamp -= 1
        second = self._pid(other, other.number, "say")[1]
        head = self._head(trigger, stamp)
        return FeedMessage(head[0], family, self._write([*head[1:], first, "PV1|1|N", second]), stamp)

    def again(self, message: FeedMessage) -> FeedMessage:
        """Return a resend of a message, byte for byte."""
        return replace(message, resend=True)

    def _head(self, trigger: str, stamp: str) -> tuple[str, str, str]:
        self._at += timedelta(seconds=self.random.randrange(1, 20))
        control_id = f"{self._prefix}C{stamp}"
        at = f"{self._at:%Y%m%d%H%M%S}"
        structure = STRUCTURES.get(trigger, trigger)
        return (
            control_id,
            f"MSH|^~\\&|REG|RIVERBEND|ADTENGINE|HUB|{at}||ADT^{trigger}^ADT_{structure}|{control_id}|P|2.5.1",
            f"EVN|{trigger}|{at}|||CLERK{self.random.randrange(40):02d}^Keel^Orla",
        )

    def _pid(self, person: Person, number: str, address: str) -> tuple[str, str]:
        self._stamp += 1
        stamp = f"{self._stamp:07d}"
        city, state, code = person.city
        said = {"say": f"{person.street}^^{city}^{state}^{code}^USA^H", "absent": "", "delete": NULL}[address]
        name = f"{person.family}^{person.given}^{person.second}^^^^L"
        return stamp, (
            f"PID|1||{number}^^^RVB^MR||{name}||{person.birth_date}|{person.gender}|||{said}||^PRN^PH^^1^503^{stamp}"
        )

    def _visit(self, trigger: str, number: str) -> str:
        """Write the PV1 of a visit: each registration has visits of its own, one after the other."""
        draw = self.random
        if trigger not in VISITED:
            return "PV1|1|N"
        if trigger in ADMITS and number in self._over:
            self._over.discard(number)
            self._turn[number] = self._turn.get(number, 1) + (draw.random() < 0.7)
        if trigger in {"A03", "A11"}:
            self._over.add(number)
        kind = "P" if trigger == "A05" else "I"
        doctors = "1187^Osei^Ada^^^DR^MD|2204^Lund^Tor^^^DR^MD"
        visit = f"V{number}-{self._turn.get(number, 1)}^^^RVB"
        return f"PV1|1|{kind}|{draw.choice(PLACES)}^RIVERBEND^^N^MAIN|U|||{doctors}||MED||||1|A0||||{visit}"

    def _rest(self, trigger: str, person: Person, number: str) -> list[str]:
        draw = self.random
        lines = [self._visit(trigger, number)]
        lines += [
            f"NK1|{index}|{person.family}^{draw.choice(GIVEN)}^^^^^L|{draw.choice(('SPO', 'CHD', 'MTH'))}"
            f"|{draw.randrange(1, 400)} {draw.choice(STREETS)}^^Keswick^OR^97301|^PRN^PH^^1^503^55501{index}7"
            for index in range(1, 1 + draw.randrange(3))
        ]
        lines += [
            f"AL1|{index}|DA|{1000 + index}^PENICILLIN^L|MO|RASH AND SWELLING OF THE FOREARMS|20190{index}04"
            for index in range(1, 1 + draw.randrange(4))
        ]
        lines += [
            f"DG1|{index}||I10.{index}^Essential hypertension with a long free text^I10|||A"
            for index in range(1, 1 + draw.randrange(5))
        ]
        if draw.random() < 0.3:
            lines.append("IN1|1|PPO^Preferred^L|7781|RIVERBEND MUTUAL ASSURANCE|1 Plaza^^Keswick^OR^97301|||G-2231")
        return lines

    def _write(self, segments: list[str]) -> bytes:
        text = "".join(f"{segment}\r" for segment in segments)
        room = self.random.choice((500, 500, 900, 1900)) - len(text)
        if room > 0:
            text += f"ZNT|{'the rest of this segment is of no use to anybody; ' * (room // 50 + 1)}\r"
        return text.encode()


@dataclass(slots=True)
class Story:
    """One family: a person, perhaps one of its kin, and the messages written of it so far."""

    family: int
    person: Person
    kin: Person | None = None
    messages: list[FeedMessage] = field(default_factory=list)


def make_feed(
    seed: int, messages: int, merges: int, *, prefix: str = "RB", first_stamp: int = 1_000_000
) -> list[FeedMessage]:
    """Return at least `messages` messages with `merges` A40 that make one record of two, families interleaved."""
    author = Author(seed, prefix, first_stamp)
    draw = author.random
    count = max(merges * 5 // 4, messages // 14, 1)
    stories: list[Story] = []
    for family in range(count):
        twin = draw.choice(stories).person if stories and draw.random() < 0.03 else None
        stories.append(_beginning(author, family, twin))
    for index in range(merges):
        _second_registration(author, stories[index % count])
    while (short := messages - sum(len(story.messages) for story in stories)) > 0:
        for story in draw.sample(stories, min(short, count)):
            _visit(author, story)
    return _interleave(draw, [story.messages for story in stories])


def make_storms(seed: int, families: int, storms: int) -> list[FeedMessage]:
    """Return storms of updates of each family, some of which say less, with stays and merges between them."""
    author = Author(seed)
    draw = author.random
    stories = [_beginning(author, family, None) for family in range(families)]
    for story in stories:
        for _ in range(storms):
            trigger = draw.choice(("A31", "A31", "A31", "A08"))
            for _ in range(draw.randrange(2, 10)):
                _live(author, story.person)
                address = draw.choice((*["say"] * 10, "absent", "delete"))
                story.messages.append(author.event(trigger, story.family, story.person, address=address))
            if draw.random() < 0.5:
                _second_registration(author, story)
            else:
                story.messages.append(author.event(draw.choice(("A01", "A03", "A02")), story.family, story.person))
    return _interleave(draw, [story.messages for story in stories])


def _beginning(author: Author, family: int, twin: Person | None) -> Story:
    story = Story(family, author.person(twin))
    story.messages.append(author.event(author.random.choice(("A28", "A04", "A01", "A05")), family, story.person))
    return story


def _visit(author: Author, story: Story) -> None:
    draw, person = author.random, story.person
    if draw.random() < 0.05:
        story.messages.append(author.again(story.messages[-1]))
        return
    if draw.random() < 0.1:
        _change_who_it_is(author, story)
        return
    _live(author, person)
    trigger = draw.choice(("A01", "A03", "A04", "A08", "A08", "A31", draw.choice(MOVEMENTS)))
    address = draw.choice(("say", "say", "absent", "absent", "delete"))
    number = draw.choice(person.retired) if person.retired and draw.random() < 0.3 else person.number
    story.messages.append(author.event(trigger, story.family, person, number, address=address))


def _live(author: Author, person: Person) -> None:
    """Let something of a person change: a move, a marriage."""
    draw = author.random
    if draw.random() < 0.3:
        person.street, person.city = f"{draw.randrange(1, 400)} {draw.choice(STREETS)}", draw.choice(CITIES)
    if draw.random() < 0.1:
        person.family = f"{draw.choice(FAMILIES)}-{draw.choice(('Moss', 'Vale'))}"


def _change_who_it_is(author: Author, story: Story) -> None:
    """Change a person's number, delete it, or link it to somebody who has not been heard of, and part them again."""
    draw, person, family, say = author.random, story.person, story.family, story.messages.append
    act = draw.choice(("rename", "rename", "delete", "link", "unlink", "kin"))
    if act == "rename":
        _new_number(author, story)
    elif act == "delete":
        say(author.event("A29", family, person, draw.choice((person.number, *person.retired))))
    elif act == "link":
        story.kin = story.kin or author.person(person)
        say(author.link("A24", family, person, story.kin))
    elif story.kin is not None and act == "unlink":
        say(author.link("A37", family, story.kin, person))
    else:
        say(author.event("A08", family, story.kin or person))


def _new_number(author: Author, story: Story) -> None:
    person, old, new = story.person, story.person.number, author.number()
    story.messages.append(author.rename(story.family, person, old, new))
    if author.random.random() < 0.2:
        story.messages.append(author.rename(story.family, person, old, new))
    person.number = new
    person.retired.append(old)


def _second_registration(author: Author, story: Story) -> None:
    """Register the person once more under a new number and merge the two, either way round."""
    draw, person, family, say = author.random, story.person, story.family, story.messages.append
    if draw.random() < 0.1:
        _new_number(author, story)
    known, new = person.number, author.number()
    say(author.event(draw.choice(("A08", "A31", "A03")), family, person, known))
    registered = draw.random() < 0.9
    if registered:
        person.second = draw.choice(("", "Ruth", "Cole"))
        say(author.event(draw.choice(("A28", "A04")), family, person, new))
    if registered and draw.random() < 0.4:
        say(author.event("A08", family, person, new, address="absent"))
    if registered and draw.random() < 0.2:
        say(author.link("A24", family, person, replace(person, number=new)))
        if draw.random() < 0.3:
            say(author.link("A37", family, person, replace(person, number=new)))
    old, kept = (known, new) if draw.random() < 0.5 or not registered else (new, known)
    say(author.merge(family, person, old, kept, trigger=draw.choice(MERGES)))
    person.number = kept
    person.retired.append(old)
    if draw.random() < 0.1:
        say(author.again(story.messages[-1]))
    if draw.random() < 0.1:
        say(author.merge(family, person, kept, kept, expected="AE"))
    if draw.random() < 0.1:
        say(author.merge(family, person, old, kept))
    if draw.random() < 0.1:
        unheard_of = author.number()
        say(author.merge(family, person, unheard_of, kept))
        person.retired.append(unheard_of)
    if draw.random() < 0.5:
        say(author.event("A08", family, person, old))


def _interleave(draw: Random, stories: list[list[FeedMessage]]) -> list[FeedMessage]:
    turns = [family for family, story in enumerate(stories) for _ in story]
    draw.shuffle(turns)
    left = [iter(story) for story in stories]
    return [next(left[family]) for family in turns]

"""What the benchmark of the engine sends: one scenario for each kind of day that a feed may have."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

MERGE_EVERY: Final = 20
# Numbers of people beyond those that are known, so that the two never meet.
STRANGERS: Final = 1_000_000
LARGE_BYTES: Final = 10_000
# Each admission has its own minute, none of them midnight: that is no time.
FIRST_ADMISSION: Final = datetime(2020, 1, 1, 1, tzinfo=UTC)
A_DAY: Final = 600

Person = Callable[[int, int], int]
Text = Callable[[int, int], str]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A kind of feed, and the destination that takes it.

    `person`: whom the message of a number speaks of, given how many patients are known; what is of one person goes over
    one connection. `text`: the message of a number about a person. `latency_ms`: what the destination takes for each
    request. `concurrency`: deliveries at once. `relays`: receivers that get each message too, in the order of the feed.
    """

    name: str
    about: str
    person: Person
    text: Text
    resources: tuple[str, ...] = ("Patient",)
    latency_ms: float = 0.0
    concurrency: int = 64
    relays: int = 0


def _template(name: str) -> str:
    return Path(__file__).with_name(f"{name}.template.hl7").read_text().replace("\n", "\r")


ADT: Final = _template("adt")
A40: Final = _template("a40")
OBX: Final = (
    "OBX|{at}|TX|11506-3^Progress note^LN|{at}|Day {at}, note {number}: rested, pain on exertion eased, walked the "
    "corridor twice with help, appetite fair, took fluids well; wound dry and clean, dressing changed; breath sounds "
    "clear at both bases; sleeps with one pillow; asks when she may go home||||||F|||2026030122{at}\r"
)


def _letters(number: int) -> str:
    return "".join(chr(97 + int(digit)) for digit in str(number))


def adt(number: int, person: int, *, event: str = "A08", mrn: str = "", visit: int | None = None) -> str:
    """Return an ADT message about a person, whose telephone number is another one in each; a visit has its minute."""
    visit = person if visit is None else visit
    return ADT.format(
        event=event,
        number=number,
        person=person,
        mrn=mrn or f"BN{person:06d}",
        visit=visit,
        begin=f"{FIRST_ADMISSION + timedelta(days=visit // A_DAY, minutes=visit % A_DAY):%Y%m%d%H%M%S}",
        letters=_letters(person),
        second=number % 60,
    )


def _known(number: int, patients: int) -> int:
    return number % patients


def _new(number: int, _patients: int) -> int:
    return STRANGERS + number


def _new_visit(number: int, person: int) -> str:
    return adt(number, person, event="A01", visit=number)


def _merged(number: int, patients: int) -> int:
    """Of twenty messages the first two register a person twice, and the last one merges the two records."""
    if number % MERGE_EVERY in {0, 1, MERGE_EVERY - 1}:
        return STRANGERS + number // MERGE_EVERY
    return _known(number, patients)


def _merge(number: int, person: int) -> str:
    if person < STRANGERS:
        return adt(number, person)
    survivor, merged = f"BN{person}S", f"BN{person}M"
    at = number % MERGE_EVERY
    if at < MERGE_EVERY - 1:
        return adt(number, person, event="A04", mrn=(survivor, merged)[at])
    return A40.format(number=number, mrn=survivor, merged=merged, letters=_letters(person), second=number % 60)


def _large(number: int, person: int) -> str:
    text, at = adt(number, person), 10
    while len(text) < LARGE_BYTES:
        text += OBX.format(at=at, number=number)
        at += 1
    return text


SCENARIOS: Final = {
    one.name: one
    for one in (
        Scenario("known", "updates of patients that are in the identity cache", _known, adt),
        Scenario("new", "a new patient each message", _new, adt),
        Scenario("visit", "a new visit of a known patient each message", _known, _new_visit, ("Patient", "Encounter")),
        Scenario("merges", "one A40 in twenty messages, of two records made for it", _merged, _merge),
        Scenario("large", "updates of known patients by messages of 10 kB", _known, _large),
        Scenario(
            "slow",
            "updates of known patients at a destination that takes 50 ms a request",
            *(_known, adt),
            latency_ms=50.0,
            concurrency=16,
        ),
        Scenario(
            "relay",
            "updates of known patients, which also go to three receivers by MLLP in feed order",
            *(_known, adt),
            relays=3,
        ),
    )
}

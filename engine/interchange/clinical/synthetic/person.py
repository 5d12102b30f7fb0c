"""An invented patient, and the invented people and places that care for it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Final, TypeVar
from uuid import UUID

from engine.fhir.json import JsonObject
from engine.interchange.clinical.synthetic.codes import ETHNICITIES, LANGUAGES, RACES
from engine.interchange.clinical.synthetic.elements import CORE, coding, term, to
from engine.interchange.kernel.check_digit import to_npi

One = TypeVar("One")


class Draw:
    """Draws by a seed. Only `Random.random` is used: of Python's generators it alone is promised never to change."""

    def __init__(self, seed: str) -> None:
        self._random = Random(int.from_bytes(hashlib.sha256(seed.encode()).digest()))  # noqa: S311 - no secret

    def below(self, end: int) -> int:
        """Return a whole number from 0 up to, without, `end`."""
        return int(self._random.random() * end)

    def between(self, low: float, high: float, decimals: int = 0) -> float:
        """Return a number from `low` to `high` rounded to `decimals`; an int for 0."""
        value = round(low + self._random.random() * (high - low), decimals)
        return value if decimals else int(value)

    def pick(self, of: Sequence[One]) -> One:
        """Return one element."""
        return of[self.below(len(of))]

    def some(self, of: Sequence[One], number: int) -> list[One]:
        """Return `number` different elements, all of them where there are fewer."""
        left = list(of)
        return [left.pop(self.below(len(left))) for _ in range(min(number, len(left)))]

    def chance(self, share: float) -> bool:
        """Return True with the probability `share`."""
        return self._random.random() < share

    def moment(self, start: datetime, end: datetime) -> datetime:
        """Return a whole minute from `start` to `end`."""
        return start + timedelta(minutes=self.below(max(1, int((end - start).total_seconds() // 60))))

    def id(self) -> str:
        """Return an id that is a version 4 UUID, so that it is valid in a `urn:uuid:`."""
        return str(UUID(int=self.below(2**48) << 80 | self.below(2**48) << 32 | self.below(2**32), version=4))


MRN: Final = "https://mrn.riverbend.example"
NPI: Final = "http://hl7.org/fhir/sid/us-npi"
RACE_AND_ETHNICITY: Final = "urn:oid:2.16.840.1.113883.6.238"
OLDEST_DAYS: Final = 33_000
MARRIED: Final = ("M", "Married")
SINGLE: Final = ("S", "Never Married")
FAMILIES: Final = tuple(
    beginning + ending
    for beginning in (
        "Alder",
        "Birch",
        "Cald",
        "Elm",
        "Fenn",
        "Harrow",
        "Kess",
        "Lark",
        "Marr",
        "Oster",
        "Thorn",
        "Yarrow",
    )
    for ending in ("by", "combe", "field", "gate", "lund", "mere", "ridge", "stow", "well")
)
GIVEN: Final = {
    "female": (
        "Amara",
        "Celeste",
        "Delia",
        "Greta",
        "Hana",
        "Imogen",
        "Linnea",
        "Noor",
        "Petra",
        "Renée",
        "Una",
        "Zoë",
    ),
    "male": (
        "Anselm",
        "Bastian",
        "Corin",
        "Emrys",
        "Gideon",
        "Hugo",
        "Idris",
        "Jörn",
        "Milo",
        "Orson",
        "Tobias",
        "Viggo",
    ),
}
STREETS: Final = ("Alder Way", "Brook Street", "Canal Row", "Elm Terrace", "Ferry Road", "Heron Close", "Kiln Yard")
# ZIP codes that were never given out.
TOWNS: Final = (("Riverbend", "OR", "00101"), ("Ostwick", "WA", "00233"), ("Quarry Point", "ID", "00372"))
PLAN_NAMES: Final = ("Riverbend Mutual Assurance", "Harrow & Vale Health", "Northmarch County Plan")


@dataclass(frozen=True, slots=True)
class SyntheticDirectory:
    """Who and where: a hospital and its clinic, an insurer, doctors; all of them resources."""

    hospital: JsonObject
    payer: JsonObject
    ward: JsonObject
    doctors: tuple[JsonObject, ...]

    @property
    def resources(self) -> list[JsonObject]:
        """Return all of them, what is referred to first."""
        return [self.hospital, self.payer, self.ward, *self.doctors]


def make_directory(draw: Draw) -> SyntheticDirectory:
    """Return a directory; its names are the same in each, its ids are not."""
    hospital = {
        **_organization(draw, "Riverbend General Hospital", "prov", "Healthcare Provider"),
        "telecom": [_phone(draw, "work")],
        "address": [_address(draw)],
    }
    ward = {
        "resourceType": "Location",
        "id": draw.id(),
        "status": "active",
        "name": "4 East",
        "mode": "instance",
        "type": [term("v3-RoleCode", "HU", "Hospital unit")],
        "managingOrganization": to(hospital),
    }
    payer = _organization(draw, draw.pick(PLAN_NAMES), "pay", "Payer")
    return SyntheticDirectory(hospital, payer, ward, tuple(_doctor(draw) for _ in range(3)))


def make_patient(draw: Draw, end: date) -> JsonObject:
    """Return a patient as US Core has it, born before `end`."""
    gender = draw.pick(("female", "male"))
    born = end - timedelta(days=60 + draw.below(OLDEST_DAYS))
    language, name = draw.pick(LANGUAGES)
    grown_up = born <= end - timedelta(days=18 * 366)
    number = f"SY-{draw.below(10**8):08d}"
    return {
        "resourceType": "Patient",
        "id": draw.id(),
        "extension": [
            _us_core_extension("race", draw.pick(RACES)),
            _us_core_extension("ethnicity", draw.pick(ETHNICITIES)),
            {"url": f"{CORE}birthsex", "valueCode": gender[0].upper()},
        ],
        "identifier": [{"use": "usual", "type": term("v2-0203", "MR"), "system": MRN, "value": number}],
        "active": True,
        "name": [{"use": "official", "family": draw.pick(FAMILIES), "given": draw.some(GIVEN[gender], 2)}],
        "telecom": [
            _phone(draw, "home"),
            {"system": "email", "value": f"{number.lower()}@mail.example", "use": "home"},
        ],
        "gender": gender,
        "birthDate": born.isoformat(),
        "address": [_address(draw)],
        "maritalStatus": term("v3-MaritalStatus", *draw.pick((MARRIED if grown_up else SINGLE, SINGLE))),
        "communication": [{"language": {"coding": [coding("urn:ietf:bcp:47", language, name)]}, "preferred": True}],
    }


def birth_of(patient: JsonObject) -> datetime:
    """Return the midnight at which a patient's day of birth ends, its first day where only a month or year is known."""
    text = patient.get("birthDate") or "1980"
    day = date.fromisoformat((text + "-01-01")[:10])
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)


def name_of(person: JsonObject) -> str:
    """Return the name of a patient or doctor, in one line."""
    name = person.get("name", [{}])[0]
    return " ".join((*name.get("given", ()), name.get("family", ""))).strip()


def _organization(draw: Draw, name: str, code: str, kind: str) -> JsonObject:
    return {
        "resourceType": "Organization",
        "id": draw.id(),
        "active": True,
        "type": [term("organization-type", code, kind)],
        "name": name,
    }


def _doctor(draw: Draw) -> JsonObject:
    gender = draw.pick(("female", "male"))
    return {
        "resourceType": "Practitioner",
        "id": draw.id(),
        "identifier": [{"system": NPI, "value": _provider_number(draw)}],
        "active": True,
        "name": [{"family": draw.pick(FAMILIES), "given": [draw.pick(GIVEN[gender])], "prefix": ["Dr."]}],
        "telecom": [_phone(draw, "work")],
        "gender": gender,
    }


def _provider_number(draw: Draw) -> str:
    """Return a National Provider Identifier with its check digit; none given out begins with 9."""
    return to_npi(f"99999{draw.below(10**4):04d}")


def _us_core_extension(name: str, code: tuple[str, str]) -> JsonObject:
    category = {"url": "ombCategory", "valueCoding": coding(RACE_AND_ETHNICITY, *code)}
    return {"url": CORE + name, "extension": [category, {"url": "text", "valueString": code[1]}]}


def _address(draw: Draw) -> JsonObject:
    city, state, postal_code = draw.pick(TOWNS)
    return {
        "use": "home",
        "line": [f"{1 + draw.below(400)} {draw.pick(STREETS)}"],
        "city": city,
        "state": state,
        "postalCode": postal_code,
        "country": "US",
    }


def _phone(draw: Draw, use: str) -> JsonObject:
    """Return a telephone number; 555-0100 to 555-0199 are kept for fiction."""
    return {"system": "phone", "value": f"+1 {draw.pick((503, 541, 971))} 555 01{draw.below(100):02d}", "use": use}

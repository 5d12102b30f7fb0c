"""The criteria of a conditional create: what If-None-Exist says, and what a server needs of a new Patient."""

from typing import Final
from urllib.parse import quote

from engine.deliver.wire.query import escaped, parameters
from engine.fhir.patient import PersonName
from engine.fhir.plan import Identity

IDENTIFIER: Final = "identifier"
DEMOGRAPHICS: Final = "demographics"

# What the interchange service requires of a Patient; an absent gender becomes `unknown`, the others are never made up.
REQUIRED: Final = frozenset({"name", "gender", "birthDate"})


def criteria(template: str, identity: Identity, who: PersonName, *, stand_in: bool) -> str:
    """Return the query of If-None-Exist, empty where the create must be a plain one.

    `template`: `identifier`, `demographics`, or a query with `{system}`, `{value}`, `{family}`, `{given}`,
    `{gender}` and `{birthdate}`. Stand-ins (`stand_in`: a newborn, an unknown person) and demographics that are not
    whole are never criteria.
    """
    people = {"family": who.family, "given": who.given, "gender": who.gender, "birthdate": who.birth_date}
    certain = who.complete and not stand_in and not who.placeholder
    if template == IDENTIFIER:
        return "identifier=" + quote(f"{escaped(identity.system)}|{escaped(identity.value)}", safe="")
    if template == DEMOGRAPHICS:
        names = ("given", "family", "gender", "birthdate")
        return parameters([(name, people[name]) for name in names]) if certain else ""
    asks_people = any(f"{{{name}}}" in template for name in people)
    if asks_people and not certain:
        return ""
    values = people | {"system": identity.system, "value": identity.value}
    for name, value in values.items():
        template = template.replace(f"{{{name}}}", quote(escaped(value), safe=""))
    return template


def required_by(template: str) -> frozenset[str]:
    """Return the elements without which a destination takes no Patient, as far as its settings tell."""
    return REQUIRED if template == DEMOGRAPHICS else frozenset()


def lacking(template: str, who: PersonName) -> tuple[str, ...]:
    """Return the elements that a new Patient lacks where the destination needs them: family, given, birth date."""
    needed = {"Patient.name.family": who.family, "Patient.name.given": who.given, "Patient.birthDate": who.birth_date}
    return tuple(name for name, value in needed.items() if not value) if required_by(template) else ()

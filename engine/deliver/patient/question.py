"""The question behind a hold for identity: which records a patient may be; and the criteria of a conditional create."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final
from urllib.parse import quote

from engine.deliver.patient.remember import recall
from engine.deliver.patient.unseen import search_patients
from engine.deliver.stored import ServerResource
from engine.deliver.wire.client import escaped, parameters
from engine.deliver.wire.exchange import Exchange
from engine.errors import PermanentDeliveryError
from engine.fhir.changes import created
from engine.fhir.patient import PersonName, carries_any, person, replaced_by
from engine.fhir.plan import Identity, Link, Merge, Move, PatientRecord, Plan, Rename, Upsert

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


class ChoiceRefusal(StrEnum):
    """Why a record that somebody named cannot be the answer."""

    ABSENT = "absent"
    MERGED_AWAY = "merged-away"
    UNRELATED = "unrelated"


@dataclass(frozen=True, slots=True, repr=False)
class PatientQuestion:
    """The identifiers in question, and the records that the server finds for them, or for the demographics.

    `refusal`: why the record that somebody named cannot be the answer; None where it can, or nobody named one.
    """

    identities: tuple[Identity, ...]
    matches: tuple[ServerResource, ...]
    refusal: ChoiceRefusal | None = None

    @property
    def left(self) -> int:
        """How many of the records were not merged into another one."""
        return sum(not replaced_by(match.body) for match in self.matches)


async def question(exchange: Exchange, plan: Plan, named: str = "") -> PatientQuestion:
    """Return the first question of a plan to which the server has several answers, else its first one.

    `named` is the record that somebody chose: it must match, or carry one of the numbers, and not be merged away.
    Raises PermanentDeliveryError `no-patient` where the plan speaks of none, and those of reading.
    """
    first = None
    for identities, record in _sides(plan):
        found = await search_patients(exchange, identities, await recall(exchange, identities), {})
        matches = (*found.shown, *found.hidden)
        if not matches and record is not None:
            matches = await _alike(exchange, record)
        asked = PatientQuestion(identities, matches)
        first = first or asked
        if len(matches) > 1:
            first = asked
            break
    if first is None:
        raise PermanentDeliveryError("no-patient", codes=("no-patient",))
    return replace(first, refusal=await _refusal(exchange, first, named)) if named else first


async def _refusal(exchange: Exchange, asked: PatientQuestion, logical_id: str) -> ChoiceRefusal | None:
    found = next((match for match in asked.matches if match.logical_id == logical_id), None)
    patient = found or await exchange.read(logical_id)
    if patient is None:
        return ChoiceRefusal.ABSENT
    if replaced_by(patient.body):
        return ChoiceRefusal.MERGED_AWAY
    return None if found or carries_any(patient.body, asked.identities) else ChoiceRefusal.UNRELATED


async def _alike(exchange: Exchange, record: PatientRecord) -> tuple[ServerResource, ...]:
    who = person(created(record.changes).body)
    template = exchange.server.settings.if_none_exist
    condition = criteria(template, record.identities[0], who, stand_in=record.placeholder)
    return await exchange.search(condition) if condition else ()


def _sides(plan: Plan) -> list[tuple[tuple[Identity, ...], PatientRecord | None]]:
    """Return the groups of identifiers that each stand for one patient, and what the message says of that one."""
    found: list[tuple[tuple[Identity, ...], PatientRecord | None]] = []
    for one in plan.interactions:
        if isinstance(one, Upsert):
            found.append((one.patient.identities, one.patient))
        elif isinstance(one, Merge):
            found += [(one.survivor.identities, one.survivor), (one.sources, None)]
        elif isinstance(one, Rename):
            found += [(one.old, None), (one.patient.identities, one.patient)]
        elif isinstance(one, Move):
            found += [(one.source or one.moving, None), (one.target.identities, one.target)]
        elif isinstance(one, Link):
            found += [(side.identities, side) for side in (one.one, one.other)]
    return [(identities, record) for identities, record in found if identities]

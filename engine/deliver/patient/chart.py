"""What a server holds of a patient now: the records that numbers stand for, those that they link to, and the visits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from engine.deliver.patient.remember import recall
from engine.deliver.stored import ServerResource
from engine.deliver.wire.client import parameters
from engine.deliver.wire.exchange import Exchange
from engine.errors import DeliveryError
from engine.fhir.patient import links, person, replaced_by
from engine.fhir.plan import Identity

KINDS: Final = ("replaced-by", "replaces", "seealso", "refer")
MOST_RECORDS: Final = 20
MOST_VISITS: Final = 50
MOST_ALIKE: Final = 4


@dataclass(frozen=True, slots=True, repr=False)
class PatientChart:
    """Records of Patients, those that stand first, and their Encounters, the newest first.

    `refused`: why the visits could not be read, where the records were. `more`: there are more records or visits.
    """

    patients: tuple[ServerResource, ...]
    visits: tuple[ServerResource, ...]
    refused: str = ""
    more: bool = False


async def chart(exchange: Exchange, identities: Sequence[Identity]) -> PatientChart:
    """Return what a server holds under identifiers: at most 20 records and 50 visits; DeliveryError as of reading."""
    found = {one.logical_id: one for one in await exchange.find(identities)}
    known = await recall(exchange, identities)
    named = [one for each in known.values() for one in (each.logical_id, each.survivor) if one]
    ahead = dict.fromkeys([*named, *(other for one in found.values() for other in linked(one))])
    looked = set(found)
    while (left := [one for one in ahead if one not in looked]) and len(looked) < MOST_RECORDS:
        looked.add(left[0])
        patient = await exchange.read(left[0])
        if patient is not None:
            found[left[0]] = patient
            ahead |= dict.fromkeys(linked(patient))
    patients = tuple(sorted(found.values(), key=lambda one: bool(replaced_by(one.body))))
    try:
        visits = await _visits(exchange, patients)
    except DeliveryError as error:
        return PatientChart(patients, (), str(error), more=bool(left))
    return PatientChart(patients, visits[:MOST_VISITS], more=bool(left) or len(visits) > MOST_VISITS)


@dataclass(frozen=True, slots=True, repr=False)
class Alike:
    """The record that numbers stand for, None where none is left, and the others with the same demographics."""

    mine: ServerResource | None
    others: tuple[ServerResource, ...]


async def alike(exchange: Exchange, identities: Sequence[Identity]) -> Alike:
    """Return a patient's record and those of the same name, gender and birth date; at most 4, none merged away.

    DeliveryError as of reading.
    """
    found = await exchange.find(identities)
    mine = next((one for one in found if not replaced_by(one.body)), None)
    if mine is None:
        return Alike(None, ())
    who = person(mine.body)
    said = {"given": who.given, "family": who.family, "gender": who.gender, "birthdate": who.birth_date}
    matches = await exchange.search(parameters([(name, value) for name, value in said.items() if value]))
    others = [match for match in matches if match.logical_id != mine.logical_id and not replaced_by(match.body)]
    return Alike(mine, tuple(others[:MOST_ALIKE]))


async def records(exchange: Exchange, logical_ids: Sequence[str]) -> dict[str, ServerResource]:
    """Return the Patients of some ids, merged ones too, as far as they are there; DeliveryError as above."""
    found = {logical_id: await exchange.read(logical_id) for logical_id in dict.fromkeys(logical_ids)}
    return {logical_id: patient for logical_id, patient in found.items() if patient is not None}


def linked(patient: ServerResource) -> tuple[str, ...]:
    """Return the logical ids of all records that one links to."""
    return tuple(other for kind in KINDS for other in links(patient.body, kind))


async def _visits(exchange: Exchange, patients: Sequence[ServerResource]) -> tuple[ServerResource, ...]:
    found: dict[str, ServerResource] = {}
    for patient in patients:
        if not replaced_by(patient.body):
            query = f"patient={quote(patient.reference, safe='')}&_count={MOST_VISITS + 1}"
            found |= {visit.logical_id: visit for visit in await exchange.search(query, "Encounter")}
    return tuple(sorted(found.values(), key=_begin, reverse=True))


def _begin(visit: ServerResource) -> str:
    period = visit.body.get("period")
    return str(period.get("start") or "") if isinstance(period, dict) else ""

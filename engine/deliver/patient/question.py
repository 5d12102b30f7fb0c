"""The question behind a hold for identity: which records of the server a patient may be; a person answers it."""

from dataclasses import dataclass, replace
from enum import StrEnum

from engine.deliver.patient.criteria import criteria
from engine.deliver.patient.remember import recall
from engine.deliver.patient.unseen import search_patients
from engine.deliver.stored import ServerResource
from engine.deliver.wire.exchange import Exchange
from engine.errors import PermanentDeliveryError
from engine.fhir.changes import created
from engine.fhir.patient import carries_any, person, replaced_by
from engine.fhir.plan import Identity, Link, Merge, Move, PatientRecord, Plan, Rename, Upsert


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
    found = next((one for one in asked.matches if one.logical_id == logical_id), None)
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

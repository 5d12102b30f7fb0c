"""Creating a patient whom the server does not know, so that it exists once; a match is never assumed.

On condition that nobody else has, under an id derived from its number, or with an idempotency key (`create`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from engine.deliver.patient.absorbed import head_of
from engine.deliver.patient.question import IDENTIFIER, criteria, lacking
from engine.deliver.patient.remember import remember
from engine.deliver.patient.resolve import Resolution, check_found
from engine.deliver.stored import PATIENT, Body, ServerResource, id_of, involved, stored
from engine.deliver.verdict import KnownIdentifier
from engine.deliver.wire.client import ServerResponse
from engine.deliver.wire.creating import (
    DUPLICATE,
    IDS_REFUSED,
    IGNORED,
    NO_IDS,
    ONCE,
    THERE,
    UNCLEAR,
    check_number,
    check_taken,
    client_id,
    has_client_ids,
    has_keys,
    key_header,
    original_of,
    there_under,
)
from engine.deliver.wire.exchange import Exchange
from engine.deliver.wire.failure import unclear
from engine.errors import HeldDeliveryError
from engine.fhir.changes import created
from engine.fhir.outcome import required
from engine.fhir.patient import carries_any, current_numbers, person, replaced_by
from engine.fhir.plan import PatientRecord

MISSING: Final = "missing-required"
LIMIT: Final = "duplicate-patient-limit"
CREATED_BESIDE: Final = "created-beside"
# How many records with the same demographics are named; where there are more, only people settle it.
MOST_ALIKE: Final = 4
# How many records a hold names.
MOST_NAMED: Final = 20
_SPOKEN: Final = frozenset({400, 409, 412, 422})
_CREATED: Final = frozenset({201})
_ALWAYS: Final = (("Prefer", "create-always"),)


class How(StrEnum):
    """What came of a create."""

    CREATED = "created"
    FOUND = "found"
    TAKEN = "taken"


@dataclass(frozen=True, slots=True)
class Creation:
    """What came of a create: the record made, or the one that matched and is to be updated; None where taken."""

    how: How
    patient: ServerResource | None


class _Match(StrEnum):
    OURS = "ours"
    ATTACH = "attach"
    OTHERS = "others"


def resource_of(exchange: Exchange, record: PatientRecord, base: Body | None = None) -> Body:
    """Return the Patient that a message describes, as it is first written.

    `base` gives elements that the message does not have. Raises HeldDeliveryError `missing-required`.
    """
    template = exchange.server.settings.if_none_exist
    body: Body = {"resourceType": "Patient", "active": True, "identifier": list(record.identifiers)}
    body |= (base or {}) | created(record.changes).body
    if absent := lacking(template, person(body)):
        raise HeldDeliveryError(MISSING, codes=tuple(f"{MISSING} {element}" for element in absent))
    if template == "demographics":
        body.setdefault("gender", "unknown")
    return body


async def create(exchange: Exchange, record: PatientRecord, *, base: Body | None = None) -> Creation:
    """Create the patient of a record; `base` as for `resource_of`, and then never on condition of demographics.

    `taken`: the number belongs to somebody, or did until that record was merged away; resolve again. Raises
    HeldDeliveryError: `missing-required`, `multiple-matches`, `demographic-match`, `duplicate-after-create`,
    `id-of-another-record`, `client-ids-refused`, `deleted-at-server`, and those of a record that was found
    by its number (`merged-identifier-reused` ...).
    """
    body = resource_of(exchange, record, base)
    if has_client_ids(exchange):
        return await _put_once(exchange, record, body)
    if has_keys(exchange):
        return await _post_once(exchange, record, body)
    who = person(created(record.changes).body)
    condition = ""
    template = exchange.server.settings.if_none_exist
    if base is None or template == IDENTIFIER:
        condition = criteria(template, record.identities[0], who, stand_in=record.placeholder)
    answer = await _post(exchange, body, (("If-None-Exist", condition),) if condition else ())
    alike: tuple[ServerResource, ...] = ()
    if answer.status == 200:
        match = await _matched(exchange, answer, condition)
        if replaced_by(match.body):
            if carries_any(match.body, record.identities):
                return Creation(How.TAKEN, None)
            match = await head_of(exchange, match)
        kind = _judged(exchange, record, match)
        if kind is not _Match.OTHERS:
            return Creation(How.FOUND, match)
        alike = (match,)
        answer = await _post(exchange, body, ())
    elif answer.status == 412:
        alike = await _several(exchange, record, condition)
        if not alike:
            return Creation(How.TAKEN, None)
        answer = await _post(exchange, body, ())
    creation = await _made(exchange, record, body, answer)
    if creation.patient is not None and 0 < len(alike) <= MOST_ALIKE and not _is_crowded(exchange):
        exchange.note(*(f"{CREATED_BESIDE} {creation.patient.reference} {one.reference}" for one in alike))
    return creation


async def _several(exchange: Exchange, record: PatientRecord, condition: str) -> tuple[ServerResource, ...]:
    """Return what a condition matched, none of it this patient's; empty where all of it is one record with the number.

    Nothing matched where a create met another write, which passes (Aidbox): an error to try again. HeldDeliveryError
    `multiple-matches`.
    """
    alike = await exchange.search(condition) if condition else ()
    if not alike:
        raise unclear(UNCLEAR, 412)
    if len(alike) == 1 and carries_any(alike[0].body, record.identities):
        return ()
    if not _all_others(exchange, record, alike):
        whose = tuple(involved("matches", one) for one in alike[:MOST_NAMED])
        raise HeldDeliveryError("multiple-matches", status=412, involved=whose)
    return alike


def _is_crowded(exchange: Exchange) -> bool:
    """True if the server has as many of the same demographics as make a person decide on one more."""
    return any(LIMIT in attempt.codes for attempt in exchange.attempts)


async def _post(exchange: Exchange, body: Body, headers: tuple[tuple[str, str], ...]) -> ServerResponse:
    answer = await exchange.write_patient("POST", "Patient", body, headers, _SPOKEN)
    codes = exchange.attempts[-1].codes
    if answer.status == 409 and LIMIT in codes:
        exchange.note("possible-duplicate")
        answer = await exchange.write_patient("POST", "Patient", body, (*headers, *_ALWAYS), _SPOKEN)
    _check_body(exchange, answer)
    return answer


def _check_body(exchange: Exchange, answer: ServerResponse) -> None:
    """Hold where the server refuses what the Patient says, or lacks."""
    if answer.status in {400, 422}:
        codes = exchange.attempts[-1].codes
        reason = MISSING if "required" in codes else f"http-{answer.status}"
        named = tuple(f"{MISSING} {element}" for element in required(answer.json)) if reason == MISSING else ()
        raise HeldDeliveryError(reason, status=answer.status, codes=(*codes, *named))


async def _put_once(exchange: Exchange, record: PatientRecord, body: Body) -> Creation:
    """Create the patient under the id of its first number, unless something is there: that is read, and judged."""
    number = record.identities[0]
    found = await there_under(exchange, number)
    if found is not None:
        return _found(exchange, record, found)
    path = f"Patient/{client_id(number)}"
    deleted = exchange.vacant[path]
    if deleted and exchange.channel.deleted_person != "delete":
        raise HeldDeliveryError("deleted-at-server", status=410)
    body = {**body, "id": client_id(number)}
    answer = await exchange.write_patient("PUT", path, body, ONCE, THERE | NO_IDS | _SPOKEN)
    if answer.status in THERE:
        taken = DUPLICATE in exchange.attempts[-1].codes  # else 409 may be said of a lock, which passes
        del exchange.vacant[path]
        found = await there_under(exchange, number)
        if found is not None:
            return _found(exchange, record, found)
        if taken:
            return Creation(How.TAKEN, None)
        raise HeldDeliveryError("deleted-at-server", status=410) if deleted else unclear(UNCLEAR, answer.status)
    check_taken(exchange, answer)
    _check_body(exchange, answer)
    if answer.status == 200:
        exchange.note(IGNORED)
    return await _made(exchange, record, body, answer, frozenset({200, 201}))


async def _post_once(exchange: Exchange, record: PatientRecord, body: Body) -> Creation:
    """Create the patient with a key by which this entry's create takes effect once."""
    headers = key_header(exchange, PATIENT, record.identities[0])
    answer = await exchange.write_patient("POST", PATIENT, body, headers, _SPOKEN)
    _check_body(exchange, answer)
    if answer.status != 409:
        return await _made(exchange, record, body, answer)
    exchange.deleted = False
    original = await original_of(exchange, answer, PATIENT)
    if original is not None:
        return _found(exchange, record, original, unless=Creation(How.TAKEN, None))
    if exchange.deleted:
        raise HeldDeliveryError("deleted-at-server", status=410)
    if not await exchange.find(record.identities):
        raise unclear(UNCLEAR, answer.status)
    return Creation(How.TAKEN, None)


def _found(
    exchange: Exchange, record: PatientRecord, found: ServerResource, unless: Creation | None = None
) -> Creation:
    """Return a record that was there under an id: this patient's, or `unless` where it has none of the numbers.

    One that was merged away is resolved again, which leads to its survivor. HeldDeliveryError as of `check_number`
    without `unless`, and as of `check_found`.
    """
    if unless is not None and not carries_any(found.body, record.identities):
        return unless
    check_number(found, *record.identities)
    if replaced_by(found.body):
        return Creation(How.TAKEN, None)
    check_found(exchange, record, Resolution(found))
    return Creation(How.FOUND, found)


async def _made(
    exchange: Exchange, record: PatientRecord, body: Body, answer: ServerResponse, done: frozenset[int] = _CREATED
) -> Creation:
    if answer.status == 409 and (DUPLICATE in exchange.attempts[-1].codes or await exchange.find(record.identities)):
        return Creation(How.TAKEN, None)
    if answer.status not in done:
        raise unclear(UNCLEAR, answer.status)
    patient = exchange.new(await _new(exchange, answer, body))
    if patient.logical_id != body.get("id", patient.logical_id):
        raise HeldDeliveryError(IDS_REFUSED, status=answer.status, involved=(involved("was created", patient),))
    for identity in record.identities:
        exchange.known[identity] = KnownIdentifier(identity, patient.logical_id)
    await remember(exchange, patient, record, created(record.changes).owned)
    found = await exchange.find(record.identities)
    others = [item for item in found if item.logical_id != patient.logical_id]
    whose = tuple(involved("has the same number", one) for one in others[:MOST_NAMED])
    if others:
        exchange.server.cache.drop(patient.logical_id)
        raise HeldDeliveryError("duplicate-after-create", involved=(involved("was created", patient), *whose))
    if not found:
        exchange.note("not-yet-searchable")
    return Creation(How.CREATED, patient)


async def _new(exchange: Exchange, answer: ServerResponse, body: Body) -> ServerResource:
    patient = stored(exchange.server.inward(answer.json), answer.headers)
    if patient is not None:
        return patient
    logical_id = id_of(answer.headers.get("location", "")) or str(body.get("id", ""))
    if not logical_id:
        raise unclear("no-patient-in-answer", answer.status)
    return ServerResource(logical_id, "", {**body, "id": logical_id}, fresh=False)


async def _matched(exchange: Exchange, answer: ServerResponse, condition: str) -> ServerResource:
    """Return the record that a condition matched; where the answer neither shows nor names it, the one it finds."""
    match = stored(exchange.server.inward(answer.json), answer.headers)
    if match is None:
        logical_id = id_of(answer.headers.get("location", ""))
        match = await exchange.read(logical_id) if logical_id else None
    if match is None and condition:
        found = await exchange.search(condition)
        if len(found) > 1:
            whose = tuple(involved("matches", patient) for patient in found[:MOST_NAMED])
            raise HeldDeliveryError("multiple-matches", involved=whose)
        match = next(iter(found), None)
    if match is None:
        raise unclear("no-patient-in-answer", answer.status)
    return match


def _judged(exchange: Exchange, record: PatientRecord, match: ServerResource) -> _Match:
    if carries_any(match.body, record.identities):
        check_found(exchange, record, Resolution(match))
        return _Match.OURS
    ours = person(resource_of(exchange, record))
    numbers = current_numbers(match.body)
    systems = {identity.system for identity in record.identities}
    if record.placeholder or not ours.equals(person(match.body)) or any(item.system in systems for item in numbers):
        exchange.note("possible-duplicate")
        return _Match.OTHERS
    policy = exchange.server.settings.on_demographic_match
    if numbers and policy == "hold":
        raise HeldDeliveryError("demographic-match", involved=(involved("has the same demographics", match),))
    if numbers and policy == "create":
        exchange.note("possible-duplicate")
        return _Match.OTHERS
    exchange.note("attached-by-demographics")
    return _Match.ATTACH


def _all_others(exchange: Exchange, record: PatientRecord, matches: Sequence[ServerResource]) -> bool:
    """Say whether all records that match are registrations of this authority under other numbers.

    Charts of another authority may be this person's, and nothing says which one: they are held, never chosen from.
    """
    systems = {identity.system for identity in record.identities}
    others = all(
        not carries_any(match.body, record.identities)
        and any(number.system in systems for number in current_numbers(match.body))
        for match in matches
    )
    if others:
        exchange.note("possible-duplicate")
    return others

"""Create-or-update: from a message's identifiers to a record that says what the message says."""

from typing import Final

from engine.deliver.patient.absorbed import replaced_with
from engine.deliver.patient.create import How, create
from engine.deliver.patient.ownership import applied
from engine.deliver.patient.question import required_by
from engine.deliver.patient.remember import remember
from engine.deliver.patient.resolve import Resolution, check_found, resolve
from engine.deliver.stored import PATIENT, Body, ServerResource, involved
from engine.deliver.verdict import MERGED_AWAY, KnownIdentifier
from engine.deliver.wire.creating import leave, only_creates
from engine.deliver.wire.exchange import Exchange
from engine.deliver.wire.failure import unclear
from engine.deliver.wire.revise import delete, prove
from engine.errors import HeldDeliveryError
from engine.fhir.changes import ChangedResource, grow, still
from engine.fhir.patient import bears_current, carries, links, number_of, replaced_by
from engine.fhir.plan import Identity, PatientRecord, Upsert

MOST_ROUNDS: Final = 4
_STALE: Final = frozenset({409, 412})
_LOST: Final = frozenset({404, 410})


async def upsert(exchange: Exchange, interaction: Upsert, *, remembered: bool = True) -> str:
    """Carry out a create-or-update and return how it ended: `created`, `updated`, `unchanged` or a reason for nothing.

    `remembered` False: start from what the server says now. Raises HeldDeliveryError and the errors of a delivery.
    """
    record = interaction.patient
    exchange.deleted = False
    # What is deleted is never what is only remembered.
    found = await resolve(exchange, record.identities, remembered=remembered and not interaction.inactivate)
    for _ in range(MOST_ROUNDS):
        if found is None:
            ending, found = await _absent(exchange, interaction)
        else:
            ending, found = await _update(exchange, interaction, found)
        if ending:
            return ending
    raise HeldDeliveryError("version-conflict")


async def _absent(exchange: Exchange, interaction: Upsert) -> tuple[str, Resolution | None]:
    if interaction.inactivate:
        return "nothing-to-delete", None
    if not interaction.create:
        if interaction.ignore:
            return "nothing-to-do" if interaction.thin else "nothing-to-cancel", None
        raise HeldDeliveryError("unknown-patient")
    if exchange.deleted and exchange.channel.deleted_person != "delete":
        raise HeldDeliveryError("deleted-at-server", status=410)
    record = interaction.patient
    creation = await create(exchange, record)
    if creation.how is How.CREATED:
        return "created", None
    if creation.patient is not None:
        return "", Resolution(creation.patient)
    found = await resolve(exchange, record.identities, remembered=False)
    if found is None:
        raise HeldDeliveryError("duplicate-identifier", status=409)
    return "", found


async def _update(exchange: Exchange, interaction: Upsert, found: Resolution) -> tuple[str, Resolution | None]:
    """One round: apply, write, and say how it ended, or with which record to go on."""
    record, patient = interaction.patient, found.patient
    if interaction.inactivate and (ending := await _deleted(exchange, record, found)):
        return ending, None
    check_found(exchange, record, found)
    result = await _applied(exchange, interaction, found)
    if not result.changed or only_creates(exchange):
        return await _left(exchange, interaction, found, result)
    as_read = not await _is_to_be_tried(exchange, patient) or await prove(exchange, patient)
    if not (as_read and exchange.still(patient)):
        return "", await _again(exchange, interaction, patient)
    spoken = _STALE | _LOST if patient.fresh else _STALE | _LOST | {400, 422}
    answer = await exchange.write_patient("PUT", patient.reference, result.body, patient.if_match, spoken)
    if answer.status < 300:
        written = exchange.patient_of(answer)
        if written.logical_id != patient.logical_id:
            raise unclear("wrong-record-answered", answer.status)
        exchange.note(*result.flags)
        await _remember(exchange, record, found, written.remembered(still(result.marks, written.body)), result)
        return "updated", None
    if patient.fresh and "duplicate-mrn" in exchange.attempts[-1].codes:
        whose = (involved("was to be written", patient),)
        raise HeldDeliveryError(
            "duplicate-identifier", status=answer.status, codes=exchange.attempts[-1].codes, involved=whose
        )
    if answer.status == 410 and patient.fresh:
        raise HeldDeliveryError("deleted-at-server", status=410)
    return "", await _again(exchange, interaction, patient)


async def _left(
    exchange: Exchange, interaction: Upsert, found: Resolution, result: ChangedResource
) -> tuple[str, Resolution | None]:
    """Leave a record as it is, once it was read: what is only remembered may be there no more."""
    record, patient = interaction.patient, found.patient
    if not patient.fresh:
        return "", await _again(exchange, interaction, patient)
    if result.changed:
        await remember(exchange, patient, record, await exchange.owned_slices(patient))
        return leave(exchange, PATIENT), None
    await _remember(exchange, record, found, patient, result)
    return "unchanged", None


async def _is_to_be_tried(exchange: Exchange, patient: ServerResource) -> bool:
    """Say whether this is the record on which If-Match is tried: one just read, of which this feed has written."""
    server = exchange.server
    if not (patient.fresh and patient.tag and server.abilities.provable):
        return False
    owned = await exchange.owned_slices(patient)
    return bool(owned) and server.abilities.provable and not server.proving


async def _deleted(exchange: Exchange, record: PatientRecord, found: Resolution) -> str:
    """Delete a record where the channel says so and the server allows it; empty where it becomes inactive instead."""
    if found.redirected or not _current(record, found.patient):
        return "nothing-to-delete"
    deletes = exchange.channel.deleted_person == "delete" and not only_creates(exchange)
    if not deletes or found.patient.body.get("active") is False:
        return ""
    return "deleted" if await delete(exchange, found.patient, cascade=True) else ""


async def _again(exchange: Exchange, interaction: Upsert, patient: ServerResource) -> Resolution | None:
    """Read a record again; one that is gone, merged away or has none of the numbers in use is resolved anew."""
    identities = interaction.patient.identities
    fresh = await exchange.read_again(patient)
    if fresh is not None and not replaced_by(fresh.body) and bears_current(fresh.body, identities):
        return Resolution(fresh)
    return await resolve(exchange, identities, remembered=False)


def _current(record: PatientRecord, patient: ServerResource) -> bool:
    """Say whether one of the numbers is in use: what is deleted under an old one is not the record that has it now."""
    return bears_current(patient.body, record.identities)


async def _applied(exchange: Exchange, interaction: Upsert, found: Resolution) -> ChangedResource:
    record, patient = interaction.patient, found.patient
    if interaction.inactivate:
        live = patient.body.get("active") is not False
        flags = ("inactivated",) if live else ()
        return ChangedResource(
            patient.body | {"active": False}, live, dict(await exchange.owned_slices(patient)), flags
        )
    result = await applied(
        exchange,
        patient,
        () if interaction.thin else record.changes,
        fill=exchange.channel.demographics == "fill",
        required=required_by(exchange.server.settings.if_none_exist),
    )
    body, changed = result.body, result.changed
    numbers = await _numbers(exchange, record, found)
    current = body.get("identifier") or []
    grown = grow(current, numbers)
    if grown is not current:
        body["identifier"], changed = grown, True
    active = _active(exchange, interaction, body)
    if active is not None:
        body["active"], changed = active, True
    return result._replace(changed=changed)


async def _numbers(exchange: Exchange, record: PatientRecord, found: Resolution) -> list[Body]:
    """Return the identifiers to add: all but old numbers of records that this one replaced."""
    patient = found.patient
    missing = [item for item in record.identities if not carries(patient.body, item)]
    if not missing or not (found.redirected or links(patient.body, "replaces")):
        return list(record.identifiers)
    old: set[Identity] = set()
    for identity in missing:
        gone = found.tombstone if found.tombstone and carries(found.tombstone.body, identity) else None
        absorbed = gone or await replaced_with(exchange, patient, (identity,))
        if absorbed is not None:
            old.add(identity)
            exchange.known[identity] = KnownIdentifier(identity, absorbed.logical_id, MERGED_AWAY, patient.logical_id)
    return [item for item in record.identifiers if number_of(item) not in old]


def _active(exchange: Exchange, interaction: Upsert, body: Body) -> bool | None:
    """Return what `active` becomes, None where it stays."""
    if body.get("active") is not False:
        return None
    if interaction.reactivate and not only_creates(exchange):
        exchange.note("reactivated")
        return True
    exchange.note("inactive")
    return None


async def _remember(
    exchange: Exchange, record: PatientRecord, found: Resolution, patient: ServerResource, result: ChangedResource
) -> None:
    exchange.note(*result.flags)
    await remember(exchange, patient, record, result.owned)
    if found.redirected and found.tombstone is not None:
        _redirected(exchange, record.identities, found.tombstone, patient)


def _redirected(
    exchange: Exchange, identities: tuple[Identity, ...], tombstone: ServerResource, survivor: ServerResource
) -> None:
    for identity in identities:
        if carries(tombstone.body, identity) and carries(survivor.body, identity) != "current":
            exchange.known[identity] = KnownIdentifier(identity, tombstone.logical_id, MERGED_AWAY, survivor.logical_id)

"""Change of identifier: a record's old numbers are kept as such and the new ones added (A47); never two made one."""

from collections.abc import Iterable, Sequence
from typing import Any

from engine import fault
from engine.deliver.patient.create import How, create, resource_of
from engine.deliver.patient.ownership import adopt
from engine.deliver.patient.resolve import Resolution, check_found, merged_elsewhere, resolve
from engine.deliver.stored import Body, ServerResource, involved
from engine.deliver.verdict import KnownIdentifier
from engine.deliver.wire.exchange import Exchange
from engine.deliver.wire.failure import unclear
from engine.deliver.wire.revise import revise
from engine.errors import HeldDeliveryError, InvolvedRecord
from engine.fhir.changes import grow
from engine.fhir.patient import carries, current_numbers, number_of
from engine.fhir.plan import Identity, PatientRecord, Rename

Numbers = Iterable[Any]


async def rename(exchange: Exchange, interaction: Rename) -> str:
    """Carry out a change of identifier and return how it ended.

    `renamed`, `already-renamed`, `created` where nobody knew the patient (noted `source-absent`), `nothing-to-rename`
    where the message is too thin for that. Raises HeldDeliveryError: `would-merge` where the new number belongs to
    another record, `merge-cycle`, `source-merged-elsewhere`, `identity-conflict`, and those of resolving.
    """
    record = interaction.patient
    exchange.server.cache.forget((*interaction.old, *interaction.new, *record.identities))
    source = await _resolved(exchange, interaction.old)
    target = await _resolved(exchange, interaction.new)
    if interaction.old and source is None:
        exchange.note("source-absent")
    found = _one_record(source, target) or await _resolved(exchange, record.identities)
    if source is not None and source.redirected:
        return "already-renamed"
    if found is None:
        return await _create(exchange, interaction)
    await adopt(exchange, record, found.patient)
    await _check_rest(exchange, interaction, found)
    check_found(exchange, record, found, (*interaction.old, *interaction.new))
    return await _renumber(exchange, interaction, found)


def renumbered(body: Body, retired: Numbers, issued: Numbers, others: Numbers = ()) -> Body:
    """Return a record whose `retired` numbers are out of use, and which carries the `issued` and the `others`.

    An issued number that was out of use comes into use again, but only in exchange for one that is in use.
    """
    old, new = {number_of(item): item for item in retired}, {number_of(item): item for item in issued}
    current = body.get("identifier") or []
    swapped = any(number_of(item) in old and item.get("use") != "old" for item in current)
    items = []
    for item in current:
        key = number_of(item)
        if key in old:
            items.append(_out_of_use(item, old[key]))
        else:
            items.append(new[key] if swapped and key in new and item.get("use") == "old" else item)
    missing: dict[Identity, Any] = {}
    for item in (*new.values(), *others, *old.values()):
        missing.setdefault(number_of(item), item)
    items = grow(items, missing.values())
    return body if items == current else body | {"identifier": items}


async def _resolved(exchange: Exchange, identities: Sequence[Identity]) -> Resolution | None:
    return await resolve(exchange, identities, remembered=False) if identities else None


def _one_record(source: Resolution | None, target: Resolution | None) -> Resolution | None:
    """Return the record that old and new numbers lead to; held where they lead to two, or the wrong way round.

    A number whose record was merged under another one is changed by nobody: it would give the survivor a second
    current number that the merge has not named, and which of the two is right a person has to say
    (`source-merged-elsewhere`).
    """
    if source is None or target is None:
        if source is not None and source.redirected:
            raise merged_elsewhere(source.patient, source.tombstone, None)
        return source or target
    if source.patient.logical_id != target.patient.logical_id:
        raise HeldDeliveryError("would-merge", involved=_sides(source, target))
    if target.redirected and not source.redirected:
        raise HeldDeliveryError("merge-cycle", involved=_sides(source, target))
    return source


def _sides(source: Resolution, target: Resolution) -> tuple[InvolvedRecord, ...]:
    gone = () if target.tombstone is None else (involved("merged away", target.tombstone),)
    old = involved("has the number to be changed", source.patient)
    same = target.patient.logical_id == source.patient.logical_id
    return (*gone, old) if same else (*gone, old, involved("has the new number", target.patient))


async def _check_rest(exchange: Exchange, interaction: Rename, found: Resolution) -> None:
    """Hold a message that names somebody else's number besides those that change, or changes a number twice."""
    rest = [identity for identity in interaction.patient.identities if identity not in interaction.new]
    other = await _resolved(exchange, rest)
    if other is not None and other.patient.logical_id != found.patient.logical_id:
        whose = (involved("has the number to be changed", found.patient), involved("has a number", other.patient))
        raise HeldDeliveryError("identity-conflict", involved=whose)
    body = found.patient.body
    if any(carries(body, identity) == "current" for identity in (*interaction.old, *interaction.new)):
        return
    systems = {identity.system for identity in interaction.new}
    if any(number.system in systems for number in current_numbers(body)) and not found.redirected:
        raise HeldDeliveryError("identity-conflict", involved=(involved("has another number", found.patient),))


async def _renumber(exchange: Exchange, interaction: Rename, found: Resolution) -> str:
    patient, record = found.patient, interaction.patient
    issued = () if found.redirected else interaction.issued
    others = () if found.redirected else record.identifiers

    def change(body: Body) -> Body:
        return renumbered(body, interaction.retired, issued, others)

    if change(patient.body) == patient.body:
        _remember(exchange, interaction, patient)
        return "already-renamed"
    try:
        await revise(exchange, patient, change)
    except HeldDeliveryError as error:
        if "duplicate" in error.codes:
            whose = (involved("has the number to be changed", patient),)
            raise HeldDeliveryError("would-merge", status=error.status, codes=error.codes, involved=whose) from error
        raise
    fault.point("F18")
    await _verify(exchange, interaction, patient, issued)
    return "renamed"


async def _verify(exchange: Exchange, interaction: Rename, patient: ServerResource, issued: Numbers) -> None:
    after = await exchange.read(patient.logical_id)
    if after is None or renumbered(after.body, interaction.retired, issued) != after.body:
        raise unclear("rename-unverified")
    _remember(exchange, interaction, after)


async def _create(exchange: Exchange, interaction: Rename) -> str:
    """Create the patient with the new numbers, and the old ones as such, where the message is enough for a record."""
    record = interaction.patient
    numbers = renumbered({"identifier": list(record.identifiers)}, interaction.retired, interaction.issued)
    whole = PatientRecord(
        record.identities or interaction.new, tuple(numbers["identifier"]), record.changes, record.placeholder
    )
    try:
        resource_of(exchange, whole)
    except HeldDeliveryError:
        return "nothing-to-rename"
    creation = await create(exchange, whole)
    if creation.patient is None:
        raise HeldDeliveryError("duplicate-identifier", status=409)
    if creation.how is How.CREATED:
        _remember(exchange, interaction, creation.patient)
        return "created"
    return await _renumber(exchange, interaction, Resolution(creation.patient))


def _remember(exchange: Exchange, interaction: Rename, patient: ServerResource) -> None:
    exchange.server.cache.forget((*interaction.old, *interaction.new, *interaction.patient.identities))
    for identity in (*interaction.old, *interaction.new, *interaction.patient.identities):
        status = carries(patient.body, identity)
        if status:
            exchange.known[identity] = KnownIdentifier(identity, patient.logical_id, status)


def _out_of_use(item: Body, retired: Body) -> Body:
    if item.get("use") == "old":
        return item
    old = {**item, "use": "old"}
    end = (retired.get("period") or {}).get("end")
    period = item.get("period") or {}
    return {**old, "period": {**period, "end": end}} if end and "end" not in period else old

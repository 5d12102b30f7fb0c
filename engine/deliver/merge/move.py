"""Moves of numbers from one patient's record to another's (A43): two versioned writes, and the charts stay two.

A wrong move gives one person's messages to another, so whatever is open is held: nobody but the number itself says
whom it leaves, a number that was merged or changed before has a chart of its own, and a record keeps at least one.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from engine import fault
from engine.deliver.patient.create import create, resource_of
from engine.deliver.patient.resolve import Resolution, check_found, merged_elsewhere, resolve
from engine.deliver.stored import Body, ServerResource, involved
from engine.deliver.verdict import KnownIdentifier
from engine.deliver.wire.exchange import Exchange
from engine.deliver.wire.failure import unclear
from engine.deliver.wire.revise import revise
from engine.errors import HeldDeliveryError, RejectedDeliveryError
from engine.fhir.changes import grow
from engine.fhir.patient import carries, current_numbers, number_of
from engine.fhir.plan import Identity, Move

# What the record is, in a hold, to which a number is moved.
GETS: Final = "record that is to get the number"


async def move(exchange: Exchange, interaction: Move) -> str:
    """Carry out a move of numbers and return how it ended.

    `moved`, `already-moved`, `source-absent` where nobody had the numbers, `created` where nobody knew the patient who
    gets them either, `nothing-to-move` where the message is too thin for that. Raises RejectedDeliveryError
    (`unknown-source`) and HeldDeliveryError: `number-of-another-patient`, `last-number`, `source-merged-elsewhere`,
    `identity-conflict`, `unknown-survivor`, `unknown-source`, and those of resolving and creating.
    """
    record = interaction.target
    exchange.server.cache.forget((*interaction.moving, *interaction.source, *record.identities))
    found = await resolve(exchange, record.identities, remembered=False)
    holders = {one: await resolve(exchange, (one,), remembered=False) for one in interaction.moving}
    source = await _source(exchange, interaction, found, holders)
    if found is None:
        return await _without_target(exchange, interaction, source)
    check_found(exchange, record, found)
    if source is not None:
        return await _two_records(exchange, interaction, source, found.patient)
    if all(holder is not None for holder in holders.values()):
        _remember(exchange, interaction, found.patient)
        return "already-moved"
    return await _without_source(exchange, interaction, found.patient)


async def _source(
    exchange: Exchange, interaction: Move, target: Resolution | None, holders: dict[Identity, Resolution | None]
) -> ServerResource | None:
    """Return the one record that the numbers leave; None where none but the target's has any of them."""
    leaving: dict[str, ServerResource] = {}
    for identity, holder in holders.items():
        if holder is None or (target is not None and holder.patient.logical_id == target.patient.logical_id):
            continue
        if holder.redirected or carries(holder.patient.body, identity) != "current":
            other = target.patient if target is not None else None
            raise merged_elsewhere(holder.patient, holder.tombstone, other, role=GETS)
        leaving[holder.patient.logical_id] = holder.patient
    if len(leaving) > 1:
        whose = tuple(involved("has a number", one) for one in leaving.values())
        raise HeldDeliveryError("identity-conflict", involved=whose)
    source = next(iter(leaving.values()), None)
    if source is None or not interaction.source:
        return source
    named = await resolve(exchange, interaction.source, remembered=False)
    if named is not None and named.patient.logical_id != source.logical_id:
        whose = (involved("has the number", source), involved("named to have it", named.patient))
        raise HeldDeliveryError("number-of-another-patient", involved=whose)
    return source


async def _two_records(exchange: Exchange, interaction: Move, source: ServerResource, target: ServerResource) -> str:
    """Take the numbers from the one record, then give them to the other: a server may want them to be unique."""
    _check_left(interaction, source, target)
    without = partial(_without, moving={number_of(item) for item in interaction.numbers})
    await revise(exchange, source, without)
    fault.point("F18")
    after = await exchange.read(source.logical_id)
    if after is None or without(after.body) != after.body:
        raise unclear("move-unverified")
    await _give(exchange, interaction, target)
    return "moved"


def _check_left(interaction: Move, source: ServerResource, target: ServerResource | None) -> None:
    """Hold what would leave a record without any number: that is no move but a merge, or a change of number."""
    moving = {number_of(item) for item in interaction.numbers}
    if all(number in moving for number in current_numbers(source.body)):
        whose = (
            involved("has no other number", source),
            *(involved(GETS, one) for one in (target,) if one is not None),
        )
        raise HeldDeliveryError("last-number", involved=whose)


async def _give(exchange: Exchange, interaction: Move, target: ServerResource) -> None:
    try:
        await revise(exchange, target, partial(_with, numbers=interaction.numbers))
    except HeldDeliveryError as error:
        if "duplicate" in error.codes:
            whose = (involved(GETS, target),)
            raise HeldDeliveryError(
                "number-of-another-patient", status=error.status, codes=error.codes, involved=whose
            ) from error
        raise
    fault.point("F18")
    after = await exchange.read(target.logical_id)
    if after is None or not all(carries(after.body, one) for one in interaction.moving):
        raise unclear("move-unverified")
    _remember(exchange, interaction, after)


async def _without_source(exchange: Exchange, interaction: Move, target: ServerResource) -> str:
    """Give numbers that nobody has; after a try of this delivery that was cut off they are those taken by it."""
    _check_policy(exchange, target)
    await _give(exchange, interaction, target)
    return "moved" if exchange.tried else "source-absent"


async def _without_target(exchange: Exchange, interaction: Move, source: ServerResource | None) -> str:
    """Create the patient who gets the numbers where the PID is enough for a record; else a person has to say who."""
    if source is not None:
        _check_left(interaction, source, None)
    else:
        _check_policy(exchange)
    known = () if source is None else (involved("has the number", source),)
    if exchange.channel.unknown_survivor != "create":
        raise HeldDeliveryError("unknown-survivor", involved=known)
    try:
        resource_of(exchange, interaction.target)
    except HeldDeliveryError as error:
        if source is None:
            return "nothing-to-move"
        raise HeldDeliveryError("unknown-survivor", involved=known) from error
    creation = await create(exchange, interaction.target)
    if creation.patient is None:
        raise HeldDeliveryError("duplicate-identifier", status=409)
    fault.point("F18")
    if source is None:
        await _give(exchange, interaction, creation.patient)
        return "created"
    if creation.patient.logical_id == source.logical_id:
        raise HeldDeliveryError("demographic-match", involved=(involved("has the same demographics", source),))
    return await _two_records(exchange, interaction, source, creation.patient)


def _check_policy(exchange: Exchange, target: ServerResource | None = None) -> None:
    policy = exchange.channel.unknown_source
    if exchange.tried or policy == "record":
        return
    whose = () if target is None else (involved(GETS, target),)
    if policy == "reject":
        raise RejectedDeliveryError("unknown-source", involved=whose)
    raise HeldDeliveryError("unknown-source", involved=whose)


def _remember(exchange: Exchange, interaction: Move, target: ServerResource) -> None:
    named: Iterable[Identity] = (*interaction.moving, *interaction.target.identities)
    exchange.server.cache.forget(named)
    for identity in named:
        status = carries(target.body, identity)
        if status:
            exchange.known[identity] = KnownIdentifier(identity, target.logical_id, status)


def _without(body: Body, moving: set[Identity]) -> Body:
    return body | {"identifier": [item for item in body.get("identifier") or () if number_of(item) not in moving]}


def _with(body: Body, numbers: Iterable[Any]) -> Body:
    return body | {"identifier": grow(body.get("identifier") or [], numbers)}

"""Links: two records that know of each other as one person's (`seealso` both ways), and their parting."""

from functools import partial
from typing import Protocol

from engine import fault
from engine.deliver.patient.create import How, create, resource_of
from engine.deliver.patient.ownership import adopt
from engine.deliver.patient.resolve import Resolution, check_found, resolve
from engine.deliver.stored import Body, ServerResource, involved
from engine.deliver.wire.exchange import Exchange
from engine.deliver.wire.failure import unclear
from engine.deliver.wire.revise import revise
from engine.errors import HeldDeliveryError, RejectedDeliveryError
from engine.fhir.changes import grow
from engine.fhir.patient import carries, links, parted, seen_also
from engine.fhir.plan import Link, PatientRecord


class LinkChange(Protocol):
    """What is made of a record with regard to another one."""

    def __call__(self, body: Body, logical_id: str) -> Body:
        """Return the record as it is to be."""


async def link(exchange: Exchange, interaction: Link) -> str:
    """Link two records, or part them, and return how it ended.

    `linked`, `already-linked` (also where the two are one record by now), `unlinked` or `nothing-to-unlink`. A record
    that is unknown is made first where they are to be linked. Raises RejectedDeliveryError `self-link`, and
    HeldDeliveryError: `missing-required` and those of resolving and creating.
    """
    sides = (interaction.one, interaction.other)
    exchange.server.cache.forget(identity for side in sides for identity in side.identities)
    one, other = [await resolve(exchange, side.identities, remembered=False) for side in sides]
    for side, found in zip(sides, (one, other), strict=True):
        if found is not None:
            check_found(exchange, side, found)
    if interaction.undo:
        return await _part(exchange, one, other)
    for side, found in zip(sides, (one, other), strict=True):
        if found is None:
            resource_of(exchange, side)
        else:
            await adopt(exchange, side, found.patient)
    one = one or await _made(exchange, interaction.one)
    other = other or await _made(exchange, interaction.other)
    if one.patient.logical_id == other.patient.logical_id:
        return _one_record(interaction, one, other)
    return await _both_ways(exchange, (one.patient, other.patient), seen_also, ("linked", "already-linked"))


def _one_record(interaction: Link, one: Resolution, other: Resolution) -> str:
    body = one.patient.body
    first, second = interaction.one.identities[0], interaction.other.identities[0]
    if not (one.redirected or other.redirected) and carries(body, first) == carries(body, second) == "current":
        raise RejectedDeliveryError("self-link", involved=(involved("has both numbers already", one.patient),))
    return "already-linked"


async def _part(exchange: Exchange, one: Resolution | None, other: Resolution | None) -> str:
    if one is None or other is None or one.patient.logical_id == other.patient.logical_id:
        return "nothing-to-unlink"
    return await _both_ways(exchange, (one.patient, other.patient), parted, ("unlinked", "nothing-to-unlink"))


async def _both_ways(
    exchange: Exchange, sides: tuple[ServerResource, ServerResource], change: LinkChange, endings: tuple[str, str]
) -> str:
    """Write both records as the change makes them, each with its own version, and verify by reading them."""
    done = False
    for mine, theirs in (sides, sides[::-1]):
        other = theirs.logical_id
        if change(mine.body, other) == mine.body:
            continue
        await revise(exchange, mine, partial(change, logical_id=other))
        done = True
        fault.point("F18")
    if not done:
        return endings[1]
    for mine, theirs in (sides, sides[::-1]):
        after = await exchange.read(mine.logical_id)
        if after is None or (theirs.logical_id in links(after.body, "seealso")) != (endings[0] == "linked"):
            raise unclear("link-unverified")
    return endings[0]


async def _made(exchange: Exchange, record: PatientRecord) -> Resolution:
    creation = await create(exchange, record)
    fault.point("F18")
    if creation.patient is None:
        raise HeldDeliveryError("duplicate-identifier", status=409)
    if creation.how is How.CREATED:
        return Resolution(creation.patient)
    grown = await revise(
        exchange,
        creation.patient,
        lambda body: body | {"identifier": grow(body.get("identifier") or [], record.identifiers)},
    )
    return Resolution(grown or creation.patient)

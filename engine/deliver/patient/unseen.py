"""Records that the engine itself wrote and a search does not show: read by id.

Servers answer searches from a cache or from an index that is behind, so that an empty search says nothing of what was
written through this engine. Costs a request only where an identifier is known and no match carries it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engine.deliver.patient.absorbed import has_taken_over, head_of, trail_of
from engine.deliver.patient.remember import recall
from engine.deliver.stored import ServerResource
from engine.deliver.verdict import CHOSEN, CONFIRMED, MERGED_AWAY, KnownIdentifier
from engine.deliver.wire.creating import there_under
from engine.deliver.wire.exchange import Exchange
from engine.errors import HeldDeliveryError
from engine.fhir.patient import carries, carries_any, replaced_by
from engine.fhir.plan import Identity

Facts = Mapping[Identity, KnownIdentifier]
Looked = dict[str, ServerResource | None]


class RecordMatches(NamedTuple):
    """Records that identifiers stand for: those that a search shows, and those that it hides."""

    shown: tuple[ServerResource, ...]
    hidden: tuple[ServerResource, ...]


async def search_patients(
    exchange: Exchange, identities: Sequence[Identity], known: Facts, looked: Looked
) -> RecordMatches:
    """Return the Patients that the identifiers stand for; where ids are derived from numbers, by the first's id, too.

    `known`: what is known of them. `looked`: records that were read already, by id. Raises HeldDeliveryError
    `survivor-missing` where all that is known is a merge into a record that is not there.
    """
    shown = await exchange.find(identities)
    found = {match.logical_id: match for match in shown}
    for one in known.values():
        if _carried(shown, one.identity) and one.status not in {CHOSEN, CONFIRMED}:
            continue
        patient = await (_survivor if one.status == MERGED_AWAY else _holder)(exchange, one, found, looked)
        if patient is not None and patient.logical_id not in found and _stands(patient, one, identities):
            found[patient.logical_id] = patient
    if not found and (patient := await there_under(exchange, identities[0])) and carries_any(patient.body, identities):
        found[patient.logical_id] = patient
    return RecordMatches(shown, tuple(found.values())[len(shown) :])


async def hidden(
    exchange: Exchange, type_: str, keys: Mapping[Identity, Identity], matches: Sequence[ServerResource]
) -> tuple[ServerResource, ...]:
    """Return the resources of a type that identifiers are known to stand for and that no match shows.

    `keys`: the identifiers by what they are remembered as.
    """
    absent = {key: identity for key, identity in keys.items() if not _carried(matches, identity)}
    known = await recall(exchange, tuple(absent))
    found: dict[str, ServerResource] = {}
    for logical_id in dict.fromkeys(one.logical_id for one in known.values()):
        resource = await exchange.read(logical_id, type_)
        if resource is not None and any(carries(resource.body, identity) for identity in absent.values()):
            found[logical_id] = resource
    return tuple(found.values())


def _carried(matches: Sequence[ServerResource], identity: Identity) -> bool:
    return any(carries(match.body, identity) for match in matches)


def _stands(patient: ServerResource, known: KnownIdentifier, identities: Sequence[Identity]) -> bool:
    """True if a record that was read still has the identifiers: it may have lost them since."""
    return known.status == MERGED_AWAY or carries_any(patient.body, identities)


async def _holder(
    exchange: Exchange, known: KnownIdentifier, found: Mapping[str, ServerResource], looked: Looked
) -> ServerResource | None:
    """Return the record that an identifier is known to stand for; the one it was merged into where that has it now."""
    if known.logical_id in found:
        return None
    patient = looked[known.logical_id] if known.logical_id in looked else await exchange.read(known.logical_id)
    if patient is None or carries(patient.body, known.identity) or not replaced_by(patient.body):
        return patient
    return await head_of(exchange, patient)


async def _survivor(
    exchange: Exchange, known: KnownIdentifier, found: Mapping[str, ServerResource], looked: Looked
) -> ServerResource | None:
    """Return the record that an identifier is known to have been merged into."""
    trail = await trail_of(exchange, known)
    if not trail or any(logical_id in found for logical_id in trail):
        return None
    last = looked[trail[-1]] if trail[-1] in looked else await exchange.read(trail[-1])
    if last is not None and await has_taken_over(exchange, last, known.identity):
        return await head_of(exchange, last)
    exchange.server.forget()
    if found:
        return None
    gone = (f"Patient/{known.logical_id}", "merged away", (), "")
    raise HeldDeliveryError(
        "survivor-missing", involved=(gone, (f"Patient/{trail[-1]}", "survivor that is not there", (), ""))
    )

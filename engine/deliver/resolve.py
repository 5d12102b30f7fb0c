"""Resolving: which record of the server a message's identifiers stand for, never by choosing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from engine.deliver.exchange import Exchange
from engine.deliver.stored import Stored
from engine.deliver.verdict import Known
from engine.errors import HeldDeliveryError
from engine.fhir.patient import carries, carries_any, current_numbers, links, replaced_by
from engine.fhir.plan import Identity

MOST_HOPS: Final = 8
CHOSEN: Final = "chosen"


@dataclass(frozen=True, slots=True)
class Resolution:
    """A record and how it was found.

    `redirected`: the identifiers stand for a record that was merged away; `patient` is the head of that chain.
    `tombstone` is the merged-away record itself, where the server shows it.
    """

    patient: Stored
    redirected: bool = False
    tombstone: Stored | None = None


async def resolve(exchange: Exchange, identities: Sequence[Identity], *, remembered: bool = True) -> Resolution | None:
    """Return the record that the identifiers stand for, None where the server has none.

    The preferred identity comes first. `remembered` False: ask the server, whatever the cache and the journal know.
    Where it would be held, the record counts that an operator chose for the identifiers, if any.
    Raises HeldDeliveryError: `ambiguous-identity`, `identity-conflict`, `identity-unproven`, `merge-loop`.
    """
    if remembered:
        found = await _remembered(exchange, identities)
        if found is not None:
            return found
    matches = await exchange.find(identities)
    resolutions: dict[str, Resolution] = {}
    for match in matches:
        resolution = await _followed(exchange, match, identities)
        if resolution is not None and not _better(resolutions.get(resolution.patient.logical_id), resolution):
            resolutions[resolution.patient.logical_id] = resolution
    if not resolutions:
        return None if remembered else await _chosen(exchange, identities)
    chosen = await _chosen(exchange, identities) if len(resolutions) > 1 else None
    found = chosen or _only(tuple(resolutions.values()), identities)
    if (
        not chosen
        and _another_registration(found, identities[0])
        and not await replaced_with(exchange, found.patient, identities[:1])
    ):
        found = await _chosen(exchange, identities)
        if found is None:
            raise HeldDeliveryError("identity-conflict")
    return found


async def head_of(exchange: Exchange, patient: Stored) -> Stored:
    """Follow `replaced-by` to the record that nobody replaced; bounded, and held where it runs in a circle."""
    seen = {patient.logical_id}
    while following := replaced_by(patient.body):
        if following in seen or len(seen) > MOST_HOPS:
            raise HeldDeliveryError("merge-loop")
        seen.add(following)
        survivor = await exchange.read(following)
        if survivor is None:
            raise HeldDeliveryError("survivor-missing")
        patient = survivor
    return patient


async def replaced_with(exchange: Exchange, survivor: Stored, identities: Sequence[Identity]) -> Stored | None:
    """Return the merged-away record with one of the identifiers that a survivor replaced, directly or through others.

    None where no such record can be read; at most `MOST_HOPS` records are read.
    """
    waiting, seen = list(links(survivor.body, "replaces")), {survivor.logical_id}
    while waiting and len(seen) <= MOST_HOPS:
        logical_id = waiting.pop(0)
        if logical_id in seen:
            continue
        seen.add(logical_id)
        record = await exchange.read(logical_id)
        if record is not None:
            if carries_any(record.body, identities):
                return record
            waiting += links(record.body, "replaces")
    return None


async def _remembered(exchange: Exchange, identities: Sequence[Identity]) -> Resolution | None:
    cached = exchange.server.cache.find(identities)
    if cached is not None:
        return Resolution(cached)
    known = await exchange.memory.known(identities)
    records = {known[identity].logical_id for identity in identities if identity in known}
    if len(records) != 1 or not all(_certain(known.get(identity)) for identity in identities):
        return None
    patient = await exchange.read(records.pop())
    if patient is None or replaced_by(patient.body):
        return None
    if not all(known[item].status == CHOSEN or carries(patient.body, item) for item in identities):
        return None
    return Resolution(patient)


async def _chosen(exchange: Exchange, identities: Sequence[Identity]) -> Resolution | None:
    """Return the record that an operator chose, while it is there and was not merged away."""
    known = await exchange.memory.known(identities)
    records = {one.logical_id for one in known.values() if one.status == CHOSEN}
    patient = await exchange.read(records.pop()) if len(records) == 1 else None
    return None if patient is None or replaced_by(patient.body) else Resolution(patient)


def _certain(known: Known | None) -> bool:
    return known is not None and known.status != "merged-away"


async def _followed(exchange: Exchange, match: Stored, identities: Sequence[Identity]) -> Resolution | None:
    if replaced_by(match.body):
        if not carries_any(match.body, identities):
            return None
        return Resolution(await head_of(exchange, match), redirected=True, tombstone=match)
    if carries_any(match.body, identities):
        return Resolution(match)
    tombstone = await replaced_with(exchange, match, identities)
    if tombstone is None and not await _known_survivor(exchange, match, identities):
        raise HeldDeliveryError("identity-unproven")
    return Resolution(match, redirected=True, tombstone=tombstone)


async def _known_survivor(exchange: Exchange, match: Stored, identities: Sequence[Identity]) -> bool:
    known = await exchange.memory.known(identities)
    return any(item.status == "merged-away" and item.survivor == match.logical_id for item in known.values())


def _better(held: Resolution | None, other: Resolution) -> bool:
    return held is not None and (not held.redirected or other.redirected)


def _only(resolutions: tuple[Resolution, ...], identities: Sequence[Identity]) -> Resolution:
    active = tuple(item for item in resolutions if item.patient.body.get("active") is not False)
    candidates = active or resolutions
    if len(candidates) == 1:
        return candidates[0]
    for identity in identities:
        if sum(bool(carries(item.patient.body, identity)) for item in candidates) > 1:
            raise HeldDeliveryError("ambiguous-identity")
    raise HeldDeliveryError("identity-conflict")


def _another_registration(found: Resolution, preferred: Identity) -> bool:
    if found.redirected or carries(found.patient.body, preferred):
        return False
    numbers = current_numbers(found.patient.body)
    return any(number.system == preferred.system and number.value != preferred.value for number in numbers)

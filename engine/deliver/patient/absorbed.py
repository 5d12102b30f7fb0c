"""Which record was merged into which: by the journal, then by the links of the records themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from engine.deliver.patient.remember import recall
from engine.deliver.stored import ServerResource, involved, numbers
from engine.deliver.verdict import MERGED_AWAY, KnownIdentifier
from engine.deliver.wire.exchange import Exchange
from engine.errors import HeldDeliveryError, InvolvedRecord
from engine.fhir.patient import carries_any, links, replaced_by
from engine.fhir.plan import Identity

MOST_HOPS: Final = 64
# How many records of a circle a hold names.
MOST_NAMED: Final = 8


@dataclass(frozen=True, slots=True)
class Absorbed:
    """A record that another one replaced: its id, empty where nobody knows it, and itself where it was read."""

    logical_id: str
    record: ServerResource | None = None


async def head_of(exchange: Exchange, patient: ServerResource) -> ServerResource:
    """Follow `replaced-by` to the record that nobody replaced; bounded, and held where it runs in a circle."""
    seen = {patient.logical_id: patient}
    while following := replaced_by(patient.body):
        if following in seen or len(seen) > MOST_HOPS:
            raise HeldDeliveryError("merge-loop", involved=_circle(seen))
        survivor = await exchange.read(following)
        if survivor is None:
            gone = (f"Patient/{following}", "survivor that is not there", (), "")
            raise HeldDeliveryError("survivor-missing", involved=(involved("merged away", patient), gone))
        patient = seen[following] = survivor
    return patient


def _circle(seen: Mapping[str, ServerResource]) -> tuple[InvolvedRecord, ...]:
    return tuple(involved(f"replaced by {replaced_by(one.body)}", one) for one in list(seen.values())[:MOST_NAMED])


async def replaced_with(
    exchange: Exchange, survivor: ServerResource, identities: Sequence[Identity]
) -> Absorbed | None:
    """Return the merged-away record with one of the identifiers that a survivor replaced, directly or through others.

    None where there is none. What the journal knows costs no request where it leads to the survivor; else records are
    read, at most `MOST_HOPS`: HeldDeliveryError `identity-unproven` where there are more.
    """
    known = await recall(exchange, identities)
    for one in known.values():
        if one.status == MERGED_AWAY and await _leads(exchange, one, survivor):
            return Absorbed(one.logical_id)
    waiting, seen = list(links(survivor.body, "replaces")), {survivor.logical_id}
    while waiting:
        logical_id = waiting.pop(0)
        if logical_id in seen:
            continue
        if len(seen) > MOST_HOPS:
            raise HeldDeliveryError("identity-unproven", involved=(involved("replaced too many", survivor),))
        seen.add(logical_id)
        record = await exchange.read(logical_id)
        if record is not None:
            if carries_any(record.body, identities):
                return Absorbed(record.logical_id, record)
            waiting += links(record.body, "replaces")
    return None


async def has_taken_over(exchange: Exchange, record: ServerResource, identity: Identity) -> bool:
    """Say whether a record bears an identifier, or one of those into which it was merged as the journal tells.

    Ids alone prove nothing: a server that was restored may have given the survivor's to somebody else.
    """
    borne, reached = numbers(record.body), {identity}
    if identity in borne:
        return True
    for merged in exchange.merges:
        if merged.source in reached:
            reached.add(merged.survivor)
    if not borne.isdisjoint(reached):
        return True
    for one in reached:
        if await exchange.memory.leads(one, tuple(borne)):
            return True
    return False


async def trail_of(exchange: Exchange, known: KnownIdentifier) -> tuple[str, ...]:
    """Return the survivors of an identifier that was merged away, as the journal knows them, each once.

    The first merge's comes first, the one that nobody is known to have replaced last; at most `MOST_HOPS`.
    """
    trail: dict[str, None] = {}
    following = known.survivor
    while following and following not in trail and len(trail) < MOST_HOPS:
        trail[following] = None
        following = _merged_here(exchange, following) or await exchange.memory.survivor(following)
    return tuple(trail)


async def _leads(exchange: Exchange, known: KnownIdentifier, survivor: ServerResource) -> bool:
    """Say whether an identifier was merged into a survivor; where the journal ends elsewhere, the records go on."""
    if await has_taken_over(exchange, survivor, known.identity):
        return True
    trail = await trail_of(exchange, known)
    if survivor.logical_id in trail or not trail:
        return False
    last = await exchange.read(trail[-1])
    if last is None or not await has_taken_over(exchange, last, known.identity):
        return False
    return (await head_of(exchange, last)).logical_id == survivor.logical_id


def _merged_here(exchange: Exchange, logical_id: str) -> str:
    """Return the survivor of a record that this delivery itself has merged away; empty where it has not."""
    merged = (one for one in exchange.known.values() if one.status == MERGED_AWAY and one.logical_id == logical_id)
    return next((one.survivor for one in merged if one.survivor != logical_id), "")

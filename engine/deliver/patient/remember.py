"""What is known of identifiers: recalled from this delivery and the journal, remembered after a write."""

from collections.abc import Mapping, Sequence

from engine.deliver.stored import ServerResource
from engine.deliver.verdict import MERGED_AWAY, OLD, KnownIdentifier, Owned
from engine.deliver.wire.exchange import Exchange
from engine.fhir.patient import carries
from engine.fhir.plan import Identity, PatientRecord


async def remember(
    exchange: Exchange, patient: ServerResource, record: PatientRecord, owned: Mapping[str, tuple[str, ...]]
) -> None:
    """Note whom the record's identifiers stand for and what its source owns; keep the body where it has a version.

    What the journal knows already is written again only where it changed. An old number never gives out the body, as
    somebody else may have it by now, and what was merged away stays known as such.
    """
    exchange.references[record.local] = patient.reference
    cache = exchange.server.cache
    carried = tuple(item for item in record.identities if carries(patient.body, item))
    before = cache.owned(patient.logical_id, exchange.source)
    if before != owned:
        exchange.owned[patient.reference] = Owned(patient.reference, exchange.source, owned)
    current = tuple(item for item in carried if carries(patient.body, item) != OLD)
    if cache.stands_for(current) is None:
        old = [item for item in carried if item not in current]
        recalled = await recall(exchange, old) if old else {}
        for fact in (KnownIdentifier(item, patient.logical_id, carries(patient.body, item)) for item in carried):
            known = recalled.get(fact.identity)
            if known is None or (known.status != MERGED_AWAY and known != fact):
                exchange.known[fact.identity] = fact
    if patient.tag and exchange.server.abilities.if_match:
        cache.put(patient, current, exchange.source, owned)
    else:
        cache.drop(patient.logical_id)


async def recall(exchange: Exchange, identities: Sequence[Identity]) -> Mapping[Identity, KnownIdentifier]:
    """Return what is known of the identifiers; those never seen are left out."""
    here = {identity: exchange.known[identity] for identity in identities if identity in exchange.known}
    rest = [identity for identity in identities if identity not in here]
    return {**await exchange.memory.known(rest), **here} if rest else here

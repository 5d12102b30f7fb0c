"""What is known of identifiers: recalled from this delivery and the journal, remembered after a write."""

from collections.abc import Mapping, Sequence

from engine.deliver.stored import Stored
from engine.deliver.verdict import Known, Owned
from engine.deliver.wire.exchange import Exchange
from engine.fhir.patient import carries
from engine.fhir.plan import Identity, PatientRecord


def remember(exchange: Exchange, patient: Stored, record: PatientRecord, owned: Mapping[str, tuple[str, ...]]) -> None:
    """Note whom the record's identifiers stand for and what its source owns; keep the body where it has a version.

    What the journal knows already is told again only where it changed.
    """
    exchange.references[record.local] = patient.reference
    cache = exchange.server.cache
    carried = tuple(item for item in record.identities if carries(patient.body, item))
    before = cache.owned(patient.logical_id, exchange.source)
    if before != owned:
        exchange.owned[patient.reference] = Owned(patient.reference, exchange.source, owned)
    if cache.stands_for(carried) is None:
        exchange.known.update((item, Known(item, patient.logical_id, carries(patient.body, item))) for item in carried)
    if patient.tag and exchange.server.abilities.if_match:
        cache.put(patient, carried, exchange.source, owned)
    else:
        cache.drop(patient.logical_id)


async def recall(exchange: Exchange, identities: Sequence[Identity]) -> Mapping[Identity, Known]:
    """Return what is known of the identifiers; those never seen are left out."""
    here = {identity: exchange.known[identity] for identity in identities if identity in exchange.known}
    rest = [identity for identity in identities if identity not in here]
    return {**await exchange.memory.known(rest), **here} if rest else here

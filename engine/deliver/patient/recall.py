"""What is known of identifiers: what this delivery told, before what the journal holds."""

from collections.abc import Mapping, Sequence

from engine.deliver.verdict import Known
from engine.deliver.wire.exchange import Exchange
from engine.fhir.plan import Identity


async def recall(exchange: Exchange, identities: Sequence[Identity]) -> Mapping[Identity, Known]:
    """Return what is known of the identifiers; those never seen are left out."""
    told = {identity: exchange.known[identity] for identity in identities if identity in exchange.known}
    rest = [identity for identity in identities if identity not in told]
    return {**await exchange.memory.known(rest), **told} if rest else told

"""What delivery needs to remember between entries and restarts; the spine binds it to the journal."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from engine.deliver.verdict import KnownIdentifier
from engine.fhir.plan import Identity


class Memory(Protocol):
    """Reads what earlier verdicts noted, for one destination."""

    async def known(self, identities: Sequence[Identity]) -> Mapping[Identity, KnownIdentifier]:
        """Return what is known of the identifiers; those never seen are left out."""

    async def owned(self, resource: str, source: str) -> Mapping[str, tuple[str, ...]]:
        """Return the digests a source last wrote to `Patient/<id>`, by slice; empty where there is no record."""

    async def claimed(self, resource: str, source: str) -> frozenset[str]:
        """Return the digests of all that other sources last wrote to a resource, or found there as they said it."""

    async def merged(self, source: Identity, survivor: Identity) -> bool:
        """Say whether this merge was carried out before."""

    async def leads(self, source: Identity, survivors: Sequence[Identity]) -> bool:
        """Say whether an identifier was merged into one of others, directly or through others."""

    async def survivor(self, logical_id: str) -> str:
        """Return the id of the Patient that one was merged into; empty where that is not known."""

"""As what a resource is kept that a client writes: as it came in, where its type has no rule of its own."""

from collections.abc import Callable

from engine.fhir.json import JsonObject
from engine.interchange.core.exchange import FhirRequest
from engine.interchange.core.service import Service
from engine.interchange.store.transaction import StoredVersion, Transaction

# Of what a client writes, and the live resource that it replaces (None for a new one, whose id the request has), makes
# what is kept; or refuses.
Settle = Callable[[Service, Transaction, FhirRequest, JsonObject, StoredVersion | None], JsonObject]


def unchanged(
    _service: Service,
    _transaction: Transaction,
    _request: FhirRequest,
    resource: JsonObject,
    _live: StoredVersion | None,
) -> JsonObject:
    """Return a resource as it came in."""
    return resource

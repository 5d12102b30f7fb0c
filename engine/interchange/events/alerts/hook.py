"""POST /_test/network-query and /_test/document: a test acts as an exchange network."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.core.service import Service
from engine.interchange.events.alerts.network import NetworkDocument, NetworkProtocol, NetworkQuery, available, queried

TENANTS_OF: Final = (
    "SELECT tenant.name FROM resource JOIN tenant ON tenant.number=resource.tenant"
    " WHERE resource.type='Patient' AND resource.id=?"
)
SOURCE: Final = ("purpose", "network", "organization")


class NetworkHookError(ValueError):
    """The request of a test is malformed."""


async def network_query(service: Service, body: JsonObject) -> JsonObject:
    """Simulate a network query; `told` in the answer is whether an alert was raised.

    `{"patient": id, "transaction": "patient-discovery" or "document-query", "purpose": "treatment", "network": name,
    "organization": name}`, optionally `tenant` and `at`. NetworkHookError for a malformed request.
    """
    patient, source, at = _read(service, body)
    protocols = [protocol for protocol in NetworkProtocol if protocol == body.get("transaction")]
    if not protocols:
        raise NetworkHookError(f"transaction is one of {', '.join(NetworkProtocol)}")
    query = NetworkQuery(patient, protocols[0], *source, at)
    return {"status": "done", "told": await queried(service, _tenant(service, body, patient), query)}


async def network_document(service: Service, body: JsonObject) -> JsonObject:
    """Simulate a document that becomes available; `told` in the answer is whether an alert was raised.

    The request is that of a query without `transaction`; `encounter` is the id of the document's visit.
    """
    patient, source, at = _read(service, body)
    document = NetworkDocument(patient, *source, at, str(body.get("encounter", "")).removeprefix("Encounter/"))
    return {"status": "done", "told": await available(service, _tenant(service, body, patient), document)}


def _read(service: Service, body: JsonObject) -> tuple[str, tuple[str, str, str], datetime]:
    if not isinstance(body, dict) or not isinstance(body.get("patient"), str):
        raise NetworkHookError("name the patient: an id")
    missing = [name for name in SOURCE if not isinstance(body.get(name), str)]
    if missing:
        raise NetworkHookError(f"missing: {', '.join(missing)}")
    try:
        at = datetime.fromisoformat(body["at"]) if "at" in body else service.clock()
    except (TypeError, ValueError) as error:
        raise NetworkHookError("at is a moment: 2025-07-01T10:02:11+00:00") from error
    purpose, network, organization = (body[name] for name in SOURCE)
    return body["patient"].removeprefix("Patient/"), (purpose, network, organization), at


def _tenant(service: Service, body: JsonObject, patient: str) -> str:
    named = body.get("tenant")
    if named is None:
        tenants = [name for (name,) in service.store.reader().execute(TENANTS_OF, (patient,))]
        if len(tenants) != 1:
            raise NetworkHookError("no tenant has this patient, or several: name the tenant")
        named = tenants[0]
    if named not in service.configuration.tenants:
        raise NetworkHookError("there is no such tenant")
    return str(named)


HOOKS: Final[dict[str, Callable[[Service, JsonObject], Awaitable[JsonObject]]]] = {
    "network-query": network_query,
    "document": network_document,
}

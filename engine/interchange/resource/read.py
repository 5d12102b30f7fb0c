"""Read of any type; a merged-away patient is still readable."""

from engine.fhir.versions.names import name_in
from engine.interchange.exchange import Answer, Request
from engine.interchange.outcome import Category, refuse
from engine.interchange.reply import resource_answer, version_headers
from engine.interchange.resource.precondition import is_known
from engine.interchange.service import Service


async def read(service: Service, request: Request) -> Answer:
    """Answer GET /{type}/{id}: 200, 304 where If-None-Match names the version, 404."""
    stored = service.store.read(request.principal.tenant, lambda transaction: transaction.get(request.type, request.id))
    if stored is None:
        name = name_in(request.version, request.type)
        raise refuse(Category.NOT_FOUND, f"{name}/{request.id[:64]} does not exist.", location="http.id")
    if is_known(request, stored):
        return Answer(304, b"", version_headers(stored))
    return resource_answer(stored, request)

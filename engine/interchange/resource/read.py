"""Read of any type; a merged-away patient is still readable."""

from engine.fhir.versions.names import name_in
from engine.interchange.exchange import Answer, Request
from engine.interchange.outcome import Category, RefusedError, refuse
from engine.interchange.reply import resource_answer, version_headers
from engine.interchange.resource.precondition import is_known
from engine.interchange.service import Service


async def read(service: Service, request: Request) -> Answer:
    """Answer GET /{type}/{id}: 200, 304 where the client has the version, 404, 410 once it was deleted."""
    stored = service.store.read(request.principal.tenant, lambda transaction: transaction.get(request.type, request.id))
    if stored is None:
        raise absent(request)
    if stored.deleted:
        text = f"{name_in(request.version, request.type)}/{stored.id} was deleted, as version {stored.version}."
        raise refuse(Category.DELETED, text, location="http.id")
    if is_known(request, stored):
        return Answer(304, b"", version_headers(stored))
    return resource_answer(stored, request)


def absent(request: Request) -> RefusedError:
    """Return the refusal of a request for what there never was."""
    name = name_in(request.version, request.type)
    return refuse(Category.NOT_FOUND, f"{name}/{request.id[:64]} does not exist.", location="http.id")

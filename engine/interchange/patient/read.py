"""Patient read; a merged-away record is still readable."""

from engine.interchange.exchange import Access, Answer, Interaction, Level, Request
from engine.interchange.oauth.role import Action
from engine.interchange.outcome import Category, refuse
from engine.interchange.reply import resource_answer, version_headers
from engine.interchange.service import Service


async def read(service: Service, request: Request) -> Answer:
    """Answer GET /Patient/{id}: 200, 304 where If-None-Match names the version, 404."""
    stored = service.store.read(request.principal.tenant, lambda transaction: transaction.get("Patient", request.id))
    if stored is None:
        raise refuse(Category.NOT_FOUND, f"Patient/{request.id} does not exist.", location="http.id")
    if request.headers.get("if-none-match") == f'W/"{stored.version}"':
        return Answer(304, b"", version_headers(stored))
    return resource_answer(stored, request)


INTERACTION = Interaction("Patient", "read", Level.INSTANCE, "GET", Access.READ, Action.PATIENT, read)

"""Read of any type; a merged-away patient is still readable."""

from typing import Final

from engine.fhir.versions.names import name_in
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, resource_answer, version_headers
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, RefusedError, refuse, unsupported
from engine.interchange.kernel.view import to_version
from engine.interchange.rest.resource.precondition import is_known
from engine.interchange.rest.resource.projection import Projection, read_projection
from engine.interchange.store.search.page import FORMAT, PART
from engine.interchange.store.transaction import StoredVersion

TAKEN: Final = FORMAT | PART


async def read(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer GET /{type}/{id}: 200, 304 where the client has the version, 404, 410 once it was deleted."""
    part = asked_part(request)
    stored = service.store.find(request.principal.tenant, request.type, request.id)
    if stored is None:
        raise absent(request)
    if stored.deleted:
        raise deleted(request, stored)
    if is_known(request, stored):
        return HttpAnswer(304, b"", version_headers(stored))
    return resource_answer(stored, request, part.shown if part is not None else to_version)


def asked_part(request: FhirRequest) -> Projection | None:
    """Return the part of one resource that is asked for, None for the whole; RefusedError for any other parameter."""
    if not request.query:
        return None
    for name, value in request.query:
        if name not in TAKEN or (name, value) == ("_summary", "count"):
            raise unsupported(name)
    if len({name for name, _ in request.query}) < len(request.query):
        raise refuse(Category.BAD_VALUE, "A parameter is given more than once.", location="http.query")
    return read_projection(request.query, request.type, request.version)


def deleted(request: FhirRequest, stored: StoredVersion) -> RefusedError:
    """Return the refusal of a request for a deleted resource."""
    text = f"{name_in(request.version, request.type)}/{stored.id} was deleted, as version {stored.version}."
    return refuse(Category.DELETED, text, location="http.id")


def absent(request: FhirRequest) -> RefusedError:
    """Return the refusal of a request for a resource that never existed."""
    name = name_in(request.version, request.type)
    return refuse(Category.NOT_FOUND, f"{name}/{request.id[:64]} does not exist.", location="http.id")

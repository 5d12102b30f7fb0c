"""Temporary Binary resources: `Binary/tmp-…`, made by an operation, read by the same tenant until they expire (410)."""

import asyncio
import secrets
from base64 import b64encode
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Final

from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, RequiredAccess
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import Category, refuse, unsupported
from engine.interchange.rest.binary.content import ELEMENT, Content, raw_answer, wants_resource
from engine.interchange.rest.everything import SCOPES
from engine.interchange.rest.resource.context import outside_compartment
from engine.interchange.store import temporary
from engine.interchange.store.search.page import FORMAT
from engine.interchange.store.temporary import Temporary
from engine.interchange.store.transaction import Transaction, milliseconds
from engine.interchange.tokens.role import RoleRule

# How the id of a temporary Binary begins; no other one does.
PREFIX: Final = "tmp-"
LIFE: Final = timedelta(hours=1)


def new_temporary(body: bytes, content_type: str, until: datetime, *, patient: str) -> Temporary:
    """Return a document that belongs to a patient (id) until a moment by the service's clock.

    Once `store.temporary.keep` has kept it, it is found under `{base}/Binary/{id}`.
    """
    return Temporary(PREFIX + secrets.token_hex(16), patient, content_type, body, milliseconds(until))


async def read_temporary(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer GET /Binary/tmp-…: 200 with the content, 404 for what is not the tenant's, 410 once it has expired."""

    unknown = next((name for name, _ in request.query if name not in FORMAT), None)
    if unknown is not None:
        raise unsupported(unknown)

    def look(transaction: Transaction) -> tuple[Temporary | None, bool]:
        found = temporary.find(transaction, request.id)
        return found, found is not None and temporary.expired(transaction, found)

    found, expired = service.store.read(request.principal.tenant, look)
    if found is None:
        raise refuse(Category.NOT_FOUND, f"Binary/{request.id[:64]} does not exist.", location="http.id")
    if request.within and found.patient not in request.within:
        raise outside_compartment()
    if expired:
        text = f"Binary/{found.id} could be fetched for a limited time only; ask for the document again."
        raise refuse(Category.GONE, text, location="http.id")
    headers = (("etag", f'"{sha256(found.body).hexdigest()}"'),)
    if wants_resource(request, found.content_type):
        return HttpAnswer(200, _resource(found, request.version), headers, patients=(found.patient,))
    return raw_answer(Content(found.content_type, found.body, (found.patient,)), headers)


def _resource(found: Temporary, version: FhirVersion) -> bytes:
    content = {"contentType": found.content_type, ELEMENT[version]: b64encode(found.body).decode()}
    return write_json({"resourceType": "Binary", "id": found.id, **content})


INTERACTION: Final = Interaction(
    "Binary",
    "read-temporary",
    InteractionLevel.INSTANCE,
    "GET",
    RequiredAccess.READ,
    RoleRule.CHART,
    read_temporary,
    operation=PREFIX,
    flags=SCOPES,
    raw=True,
)


async def take_expired(service: Service) -> None:
    """Take the content of temporary Binaries that have expired; writes only where there are any."""
    now_ms = milliseconds(service.clock())
    if await asyncio.to_thread(lambda: temporary.due(service.store.reader(), now_ms)):
        await service.store.write_raw(partial(temporary.sweep, now_ms=now_ms))

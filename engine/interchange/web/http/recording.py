"""The row of a call in the access log: principal, interaction, and the patients it names, reaches or shows."""

import asyncio
from contextlib import suppress
from typing import Final

from engine.fhir.schema import FhirVersion
from engine.interchange.core.audit.entry import entry, named_in
from engine.interchange.core.exchange import HttpAnswer, Interaction
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, RefusedError
from engine.interchange.rest.binary.content import FHIR_JSON
from engine.interchange.store.access import AccessRow, joined
from engine.interchange.store.transaction import milliseconds
from engine.interchange.tokens.oauth.vault import Principal
from engine.interchange.web.http.call import BUNDLES, WITH_BODY, HttpCall, read_body
from engine.interchange.web.http.reached import reached

# Timeout for reading the body of a refused request, to see which patients it names.
REFUSED_BODY_SECONDS: Final = 5
# Statuses of answers whose content the client has already.
NOT_MODIFIED: Final = 304


def access_of(
    service: Service, call: HttpCall, principal: Principal, interaction: Interaction, answer: HttpAnswer | None
) -> AccessRow:
    """Return the access log's row of a call, and of its answer if there is one.

    The patients are looked up where the answer does not name them.
    """
    at_ms = milliseconds(service.clock())
    row = entry(at_ms, call.base, principal, interaction, call.id, call.named, answer, call.origin)
    if answer is None or answer.status >= Category.FAULT.status or interaction in BUNDLES.values():
        return row
    if row.patients and answer.status < Category.STRUCTURE.status and answer.status != NOT_MODIFIED:
        return row
    found = reached(service, principal.tenant, interaction, call.id, call.pairs(), call.text or b"")
    return row._replace(patients=joined((*row.patients.split(), *found)))


async def name_refused(service: Service, call: HttpCall, version: FhirVersion) -> None:
    """Find the patients that a refused request names, for the access log; the answer does not change.

    Reads the body too, with a short timeout, unless the client waits for '100 Continue'.
    """
    if call.interaction is None or (call.principal or call.former) is None or call.refusal is not None:
        return
    if call.text is None and call.method in WITH_BODY and "expect" not in call.headers:
        with suppress(RefusedError, ConnectionError, TimeoutError):
            async with asyncio.timeout(REFUSED_BODY_SECONDS):
                call.text = await read_body(service, call)
    # A raw body may mention other patients; the X-Security-Context header names the one it belongs to.
    raw = call.interaction.raw and not call.headers.get("content-type", "").startswith(FHIR_JSON)
    context = f'"{call.headers.get("x-security-context", "")}"'.encode("latin-1", "replace")
    text = (b"" if raw else call.text or b"") + context
    call.named = named_in(call.interaction, call.id, call.pairs(), text, service.base(version))

"""Read and vread of a Binary: its content with the media type that it has, or the resource where FHIR is asked for."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from engine.interchange.core.exchange import FhirRequest, HttpAnswer
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import read_resource
from engine.interchange.rest.binary.content import Content, content_of, raw_answer, wants_resource
from engine.interchange.rest.binary.patient_compartment import owners
from engine.interchange.store.references import local_target

Reading = Callable[[Service, FhirRequest], Awaitable[HttpAnswer]]


def raw(reading: Reading) -> Reading:
    """Return the reading of a Binary's content, made of the one that shows the resource."""

    async def read(service: Service, request: FhirRequest) -> HttpAnswer:
        answer = await reading(service, request)
        if not answer.body:
            return answer
        return await asyncio.to_thread(_shown, service, request, answer)

    return read


def _shown(service: Service, request: FhirRequest, answer: HttpAnswer) -> HttpAnswer:
    resource = read_resource(answer.body)
    whose = service.store.read(request.principal.tenant, lambda inner: tuple(owners(inner, request.id, resource)))
    media_type = resource.get("contentType", "")
    if wants_resource(request, media_type):
        return replace(answer, patients=whose)
    headers = answer.headers
    context = local_target(resource.get("securityContext", {}).get("reference", ""))
    if context:
        headers = (*headers, ("x-security-context", context))
    return raw_answer(Content(media_type, content_of(resource, request.version), whose), headers)

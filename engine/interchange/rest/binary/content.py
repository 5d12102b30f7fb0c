"""Binary: content of any media type, read as it is or as a resource, within the patient compartment."""

import asyncio
import re
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from engine.fhir.json import Json, JsonObject
from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest, HttpAnswer
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import NO_JSON, UnfitJsonError, read_resource, read_strictly
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.store.references import local_target
from engine.interchange.store.transaction import Transaction

# The patients of resources that refer to a target, and patients that refer to it themselves (a photo).
REFERRING: Final = (
    "SELECT DISTINCT CASE WHEN r.type = 'Patient' THEN 'Patient/' || r.id ELSE own.target END"
    " FROM reference_index AS i JOIN resource AS r ON r.key = i.key"
    " LEFT JOIN reference_index AS own ON own.key = i.key AND own.parameter = r.type || '.patient'"
    " WHERE i.tenant = ? AND i.target = ?"
)
IN_CHART_OF: Final = (
    "SELECT target FROM reference_index WHERE parameter = ? AND key ="
    " (SELECT key FROM resource WHERE tenant = ? AND type = ? AND id = ?)"
)


def owners(transaction: Transaction, binary_id: str, resource: JsonObject) -> frozenset[str]:
    """Return the ids of a Binary's patients; empty for none."""
    context = local_target(resource.get("securityContext", {}).get("reference", ""))
    if context.startswith("Patient/"):
        targets = {context}
    elif context:
        type_name, _, context_id = context.partition("/")
        arguments: tuple[str | int, ...] = (f"{type_name}.patient", transaction.tenant, type_name, context_id)
        targets = {row[0] for row in transaction.connection.execute(IN_CHART_OF, arguments).fetchall()}
    else:
        target = f"Binary/{binary_id}"
        rows = transaction.connection.execute(REFERRING, (transaction.tenant, target)).fetchall()
        targets = {row[0] for row in rows if row[0]}
    return frozenset(target.removeprefix("Patient/") for target in targets if target.startswith("Patient/"))


FHIR_JSON: Final = "application/fhir+json"
JSON: Final = "application/json"
UNKNOWN: Final = "application/octet-stream"
# RFC 9110, section 8.3.1: a FHIR code need not be a valid media type.
WORD: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
MEDIA_TYPE: Final = re.compile(rf'{WORD}/{WORD}(?:[ \t]*;[ \t]*{WORD}=(?:{WORD}|"[ !#-\[\]-~]*"))*', re.ASCII)
# The element that holds the content.
ELEMENT: Final = {FhirVersion.R4: "data", FhirVersion.STU3: "content"}
# A browser that opens the address offers a file: it shows no content and runs no script.
FILE: Final = (("content-disposition", "attachment"), ("content-security-policy", "sandbox"))


class Content(NamedTuple):
    """The content of a Binary, its media type, and the ids of its patients."""

    media_type: str
    body: bytes
    patients: tuple[str, ...]


def as_resource(headers: Mapping[str, str], text: bytes, version: FhirVersion, binary_id: str = "") -> Json:
    """Return a body as a Binary of a version: it is one in FHIR JSON, or it is the content of one with this id.

    RefusedError for FHIR that is no JSON (400), or is unfit (422).
    """
    media_type = headers.get("content-type", "").strip() or UNKNOWN
    kind = media_type.partition(";")[0].strip().lower()
    if kind in {FHIR_JSON, JSON}:
        try:
            resource = read_strictly(text)
        except UnfitJsonError as error:
            if kind == FHIR_JSON:
                raise refuse(Category.INVALID, str(error), location=error.place) from None
            resource = None
        except NO_JSON as error:
            if kind == FHIR_JSON:
                raise refuse(Category.STRUCTURE, "The body is not valid JSON.", location="http.body") from error
            resource = None
        if isinstance(resource, dict) and resource.get("resourceType") == "Binary":
            return resource
    made: JsonObject = {"resourceType": "Binary", **({"id": binary_id} if binary_id else {}), "contentType": media_type}
    context = headers.get("x-security-context", "").strip()
    if context:
        made["securityContext"] = {"reference": context}
    return {**made, ELEMENT[version]: b64encode(text).decode()}


def content_of(resource: JsonObject, version: FhirVersion) -> bytes:
    """Return the content of a Binary of a version."""
    return b64decode(resource.get(ELEMENT[version], ""))


def wants_resource(request: FhirRequest, media_type: str) -> bool:
    """Return whether a Binary of a media type is answered as FHIR; otherwise as its content."""
    accepted = {part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "").split(",")}
    return bool(request.query) or FHIR_JSON in accepted or (accepted == {JSON} and not media_type.startswith(JSON))


def raw_answer(content: Content, headers: tuple[tuple[str, str], ...]) -> HttpAnswer:
    """Return content unchanged as the answer to a read; an invalid media type is not sent in a header."""
    media_type = content.media_type if MEDIA_TYPE.fullmatch(content.media_type) else UNKNOWN
    return HttpAnswer(200, content.body, (*headers, *FILE), media_type, content.patients)


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

"""Content of any media type: a body as a Binary resource, and a Binary as what it contains (FHIR, "Binary")."""

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Final, NamedTuple

from engine.fhir.json import Json, JsonObject
from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest, HttpAnswer
from engine.interchange.kernel.exact import NO_JSON, UnfitJsonError, read_strictly
from engine.interchange.kernel.outcome import Category, refuse

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

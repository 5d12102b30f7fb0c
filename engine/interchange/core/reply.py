"""Answers with one resource: status, ETag, Last-Modified, Location and the body by `Prefer`."""

from collections.abc import Callable
from typing import Final
from wsgiref.handlers import format_date_time

from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Return
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import success
from engine.interchange.kernel.view import to_version
from engine.interchange.store.transaction import StoredVersion

HISTORY: Final = "_history"
Show = Callable[[bytes, str, FhirVersion], bytes]


def resource_answer(stored: StoredVersion, request: FhirRequest, show: Show = to_version) -> HttpAnswer:
    """Return a stored resource as the answer to a read; `show` renders it."""
    return HttpAnswer(200, show(stored.body, stored.type, request.version), version_headers(stored))


def written_answer(
    status: int, stored: StoredVersion, request: FhirRequest, *, location: bool, seen: bool = True
) -> HttpAnswer:
    """Return the answer to a write: the resource, nothing, or an outcome, as the client prefers.

    `location`: the answer has Location, else Content-Location; both include the version, as FHIR requires. `seen`: the
    client may read the resource that it wrote.
    """
    name = name_in(request.version, stored.type)
    place = "location" if location else "content-location"
    address = f"{request.base}/{name}/{stored.id}/{HISTORY}/{stored.version}"
    headers = ((place, address), *version_headers(stored))
    if request.prefer.returns is Return.OUTCOME:
        result = success(f"{name}/{stored.id} is kept as version {stored.version}.")
        return HttpAnswer(status, write_json(result), headers)
    if request.prefer.returns is Return.MINIMAL or not seen:
        return HttpAnswer(status, b"", headers)
    return HttpAnswer(status, to_version(stored.body, stored.type, request.version), headers)


def version_headers(stored: StoredVersion) -> tuple[tuple[str, str], ...]:
    """Return ETag and Last-Modified."""
    return ("etag", f'W/"{stored.version}"'), ("last-modified", format_date_time(stored.updated_ms // 1000))

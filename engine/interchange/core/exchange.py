"""A parsed FHIR request, its answer with one resource, and the interaction between them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from wsgiref.handlers import format_date_time

from engine.config.service import Feature
from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import success
from engine.interchange.kernel.view import to_version
from engine.interchange.store.transaction import StoredVersion
from engine.interchange.tokens.role import RoleRule
from engine.interchange.tokens.vault import Principal


class Return(StrEnum):
    """Values of `Prefer: return=`."""

    REPRESENTATION = "representation"
    MINIMAL = "minimal"
    OUTCOME = "OperationOutcome"


@dataclass(frozen=True, slots=True)
class Prefer:
    """The preferences of a request (RFC 7240)."""

    returns: Return = Return.REPRESENTATION
    create_always: bool = False
    lenient: bool = False
    respond_async: bool = False


@dataclass(frozen=True, slots=True)
class FhirRequest:
    """One FHIR request after authentication, routing and negotiation; `base` is the address of the called base.

    `vid` is the version in the address, '' for none. A `large` body is processed in a thread, so that it does not block
    the loop. The fields of a `form` are part of `query`. A compartment search has the patient's `id`. With a token for
    one patient, `within` are the ids whose former versions and Binaries it may access.
    """

    version: FhirVersion
    base: str
    type: str
    id: str
    query: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]
    prefer: Prefer
    principal: Principal
    body: Any
    large: bool = False
    vid: str = ""
    form: bool = False
    within: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An HTTP answer; no body if `body` is empty.

    `media_type` is that of the body, '' for FHIR JSON. `patients` are the ids of those whose data the body shows, if it
    is not FHIR JSON that names them.
    """

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    media_type: str = ""
    patients: tuple[str, ...] = ()


class InteractionLevel(StrEnum):
    """The level of an interaction: system, type, or instance."""

    SYSTEM = "system"
    TYPE = "type"
    INSTANCE = "instance"


class RequiredAccess(StrEnum):
    """The access that a scope must grant."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Interaction:
    """One FHIR interaction: its address, the rights it needs, and the function that carries it out.

    `code` is its name in a CapabilityStatement; `operation` the `$name`, `_history` or `_search` in the address, '' for
    none. `form`: the body is a form. `feature`: served only while the feature is in force. `flags`: each of these
    scopes suffices. With `flags` or `tenant_wide` a scope of the type does not suffice, only one of all types. `also`:
    each of these scopes suffices too. `own_rights`: the interaction checks the rights itself. `raw`: the body or the
    answer has any media type. `document`: the answer may be XML. `bodiless`: the body is optional.
    """

    type: str
    code: str
    level: InteractionLevel
    method: str
    access: RequiredAccess
    action: RoleRule
    run: Callable[[Service, FhirRequest], Awaitable[HttpAnswer]]
    operation: str = ""
    versions: tuple[FhirVersion, ...] = (FhirVersion.R4, FhirVersion.STU3)
    feature: Feature | None = None
    flags: frozenset[str] = frozenset()
    also: frozenset[str] = frozenset()
    tenant_wide: bool = False
    form: bool = False
    own_rights: bool = False
    raw: bool = False
    document: bool = False
    bodiless: bool = False


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

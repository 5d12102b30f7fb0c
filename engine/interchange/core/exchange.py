"""A parsed FHIR request, its answer, and the interaction between them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from engine.config.service import Feature
from engine.fhir.schema import FhirVersion
from engine.interchange.core.service import Service
from engine.interchange.tokens.oauth.role import RoleRule
from engine.interchange.tokens.oauth.vault import Principal


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

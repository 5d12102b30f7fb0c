"""A FHIR request as it was understood, the answer to it, and the interaction that turns one into the other."""

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
    """What `Prefer: return=` asks for."""

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
    """One FHIR request after authentication, routing and negotiation; `base` is the base address that was called.

    `vid` is the number of the version in the address, '' for none.

    The work on a `large` body is not done on the loop, where it would hold up all other requests. Of one that came as a
    `form` the fields are among `query`; a search of a type within a patient's compartment has the patient's `id`.
    Where the token is for one patient, former versions are shown, and Binaries attached, only where they belong to one
    of these ids, `within`.
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
    """An HTTP answer; no body where `body` is empty.

    `media_type` is that of the body, FHIR in JSON where it is ''. `patients` are those (ids) whose data the body shows,
    where FHIR in JSON does not say so itself.
    """

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    media_type: str = ""
    patients: tuple[str, ...] = ()


class InteractionLevel(StrEnum):
    """At what an interaction stands: the whole base, a type, or one resource."""

    SYSTEM = "system"
    TYPE = "type"
    INSTANCE = "instance"


class RequiredAccess(StrEnum):
    """What a scope must grant."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Interaction:
    """One interaction of FHIR: where it is found, what it needs, and what carries it out.

    `code` is its name in a CapabilityStatement; `operation` the `$name`, `_history` or `_search` in the address, '' for
    none. Its body is a `form`, if not FHIR. One with a `feature` is there only while that is in force. Where `flags`
    are given, each of these scopes suffices. Where they are, or for one that is `tenant_wide`, a scope of the type
    alone does not, only one of all types; beside it each of those in `also` suffices. One with `own_rights` says itself
    who may. A `raw` one takes a body of any media type, or answers with one. One that makes a `document` may answer
    with XML. A `bodiless` one needs no body, although its method has one.
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

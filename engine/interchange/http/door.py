"""The FHIR door: who asks, for what, in which form; then the interaction, and its answer or refusal."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any, Final
from urllib.parse import parse_qsl

from engine.fhir.schema import FhirVersion
from engine.interchange.exact import NO_JSON, read_strictly, write_json
from engine.interchange.exchange import Answer, Interaction, Level, Request
from engine.interchange.http.capability import capability_statement
from engine.interchange.http.gzip import BombError, expand
from engine.interchange.http.negotiation import (
    FORM,
    FORMATS,
    PATCH,
    WRITABLE,
    acceptable,
    encoding,
    prefer,
    writable,
)
from engine.interchange.http.route import Address, find_route, read_address, wrong_method
from engine.interchange.http.wire import LARGE_BYTES, Body
from engine.interchange.oauth.account import principal_of
from engine.interchange.oauth.role import demand
from engine.interchange.oauth.scope import ANY, allows
from engine.interchange.oauth.vault import Principal, TokenKind
from engine.interchange.outcome import Category, Issue, RefusedError, outcome, refuse, repeatable
from engine.interchange.resource.context import confine
from engine.interchange.service import Service

Json = Any

MAX_PARAMETERS: Final = 100
# Interactions that read their parameters themselves, and the parameters that every other one takes.
QUERIED: Final = frozenset(
    {"read", "search-type", "create", "delete", "everything", "history-instance", "history-type"}
)
PLAIN: Final = frozenset({"_format", "_pretty"})
WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
# What of `cruds` an interaction needs where that is less than all that its access stands for.
LETTERS: Final = {
    "read": "r",
    "vread": "r",
    "history-instance": "r",
    "history-type": "s",
    "search-type": "s",
    "create": "c",
    "update": "cu",
    "patch": "u",
    "delete": "d",
}


@dataclass(slots=True)
class Call:
    """One HTTP request to the FHIR door: method, path below /fhir/, query, headers, body.

    `principal`, `interaction`, `refusal` and `error` are what has been found out of it; metrics and logs tell them.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: Body
    principal: Principal | None = None
    interaction: Interaction | None = None
    refusal: Category | None = None
    error: BaseException | None = None


async def answer_call(service: Service, call: Call) -> Answer:
    """Return the answer to a call; a refusal is an OperationOutcome. Other errors are the caller's to turn to 500."""
    address = read_address(call.path, service.configuration.stu3_path_aliases)
    try:
        if address.segments == ("metadata",):
            return _metadata(service, address.version, call)
        return await _interact(service, address, call)
    except RefusedError as refusal:
        call.refusal = refusal.category
        return refused(service, refusal, address.version)


def refused(service: Service, refusal: RefusedError, version: FhirVersion) -> Answer:
    """Return the answer that a refusal makes."""
    body = outcome(refusal, version, service.configuration.service_identifier_system)
    return Answer(refusal.category.status, write_json(body), refusal.headers)


async def _interact(service: Service, address: Address, call: Call) -> Answer:
    principal = call.principal = authenticate(service, call.headers.get("authorization", ""))
    _throttle(service, principal)
    route = find_route(address, call.method, service.configuration.features)
    call.interaction = route.interaction
    _negotiate(call, _kinds(route.interaction))
    _authorise(service, principal, route.interaction)
    query = _query(call.query)
    if query and not _queried(route.interaction):
        _check_plain(query)
    text = await _body(service, call)
    if route.interaction.form:
        query, text = _query("&".join(filter(None, (call.query, _form(text))))), b""
    request = Request(
        version=address.version,
        base=service.base(address.version),
        type=route.interaction.type,
        id=route.id,
        query=tuple(query),
        headers=call.headers,
        prefer=prefer(call.headers.get("prefer", "")),
        principal=principal,
        body=await _read(text) if call.method in WITH_BODY and not route.interaction.form else None,
        large=len(text) > LARGE_BYTES,
        vid=route.vid,
        form=route.interaction.form,
    )
    request = confine(service, request, route.interaction, _needed(route.interaction))
    return await route.interaction.run(service, request)


def _queried(interaction: Interaction) -> bool:
    """Say whether an interaction reads its parameters itself."""
    return interaction.code in QUERIED or (interaction.code == "update" and interaction.level is Level.TYPE)


def _kinds(interaction: Interaction) -> tuple[str, ...]:
    """Return what the body of an interaction may be."""
    if interaction.form:
        return FORM
    return PATCH if interaction.code == "patch" else WRITABLE


def authenticate(service: Service, authorization: str) -> Principal:
    """Return who asks; RefusedError (401) without a token that is active."""
    kind, _, text = authorization.partition(" ")
    found = service.vault.find(text.strip()) if kind.lower() == "bearer" and text.strip() else None
    principal = principal_of(service.configuration, found) if found else None
    if found is None or principal is None or found.kind != TokenKind.ACCESS:
        raise _unauthorised(Category.LOGIN, "Send a valid access token as 'Authorization: Bearer'.", known=bool(text))
    if service.vault.seconds_left(found) <= 0:
        raise _unauthorised(Category.EXPIRED, "The access token has expired.", known=True)
    return principal


def _unauthorised(category: Category, text: str, *, known: bool) -> RefusedError:
    challenge = 'Bearer error="invalid_token"' if known else "Bearer"
    return RefusedError(category, (Issue(text, "http.Authorization"),), (("www-authenticate", challenge),))


def _throttle(service: Service, principal: Principal) -> None:
    limit = service.configuration.rate_limit
    seconds = service.throttle.wait(principal.client, limit, service.clock()) if limit else 0
    if seconds:
        issue = Issue(f"Too many calls; the next one may come in {seconds} seconds.", "http.Authorization")
        raise RefusedError(Category.THROTTLED, (issue,), (("retry-after", str(seconds)),))


def _form(text: bytes) -> str:
    try:
        return text.decode("ascii").strip()
    except ValueError as error:
        told = "The form cannot be read; escape what is not ASCII."
        raise refuse(Category.BAD_VALUE, told, location="http.body") from error


def _query(text: str) -> list[tuple[str, str]]:
    if not text:
        return []
    try:
        query = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except ValueError as error:
        raise refuse(Category.BAD_VALUE, "The query cannot be read.", location="http.query") from error
    if "%00" in text or "\0" in text:
        raise refuse(Category.BAD_VALUE, "The query holds a NUL.", location="http.query")
    return query


def _check_plain(query: list[tuple[str, str]]) -> None:
    """Refuse parameters of an interaction that takes none: to leave one out may answer another question."""
    unknown = next((name for name, _ in query if name not in PLAIN), None)
    if unknown is not None:
        name = repeatable(unknown)
        text = f"The parameter {name} is not supported here."
        raise refuse(Category.UNSUPPORTED, text, location=f"http.{name}")


def _negotiate(call: Call, kinds: tuple[str, ...] = WRITABLE) -> None:
    # A query that cannot be read is told later, to those who may ask.
    query = parse_qsl(call.query, keep_blank_values=True) if "_format" in call.query else []
    asked = [value for name, value in query if name == "_format"]
    if call.method in WITH_BODY and not writable(call.headers.get("content-type", ""), kinds):
        raise refuse(Category.MEDIA_TYPE, f"Send {kinds[0]}.", location="http.Content-Type")
    if call.method in WITH_BODY and encoding(call.headers.get("content-encoding", "")) == "?":
        issue = Issue("Send the body as it is, or compressed by gzip.", "http.Content-Encoding")
        raise RefusedError(Category.MEDIA_TYPE, (issue,), (("accept-encoding", "gzip"),))
    if any(value not in FORMATS for value in asked) or not (asked or acceptable(call.headers.get("accept", ""))):
        raise refuse(Category.ACCEPT, "Only application/fhir+json is served.", location="http.Accept")


def _authorise(service: Service, principal: Principal, interaction: Interaction) -> None:
    strict = service.tenant(principal.tenant).scope_enforcement == "strict"
    of = ANY if interaction.flags or interaction.tenant_wide else interaction.type
    granted = allows(principal.scopes, of, _needed(interaction)) or not interaction.flags.isdisjoint(principal.scopes)
    if strict and not granted:
        issue = Issue(f"No scope of the token allows to {interaction.access} {interaction.type}.", "http.Authorization")
        raise RefusedError(Category.FORBIDDEN, (issue,), (("www-authenticate", 'Bearer error="insufficient_scope"'),))
    demand(principal.role, interaction.action)


def _needed(interaction: Interaction) -> str:
    """Return the access, or the letters of `cruds`, that a scope must grant for an interaction."""
    return LETTERS.get(interaction.code, interaction.access)


async def _body(service: Service, call: Call) -> bytes:
    if call.method not in WITH_BODY:
        return b""
    limit = service.configuration.max_body_bytes
    text = await call.body.read(call.headers.get("content-length"), limit)
    if text is not None and not encoding(call.headers.get("content-encoding", "")):
        return text
    try:
        if text is not None:
            return await asyncio.to_thread(expand, text, limit)
    except BombError:
        text = None
    except ValueError as error:
        raise refuse(
            Category.STRUCTURE, "The body is not compressed by gzip as it says.", location="http.body"
        ) from error
    raise refuse(Category.TOO_LONG, f"The body is larger than {limit} bytes.", location="http.body")


async def _read(text: bytes) -> Json:
    try:
        return await asyncio.to_thread(read_strictly, text) if len(text) > LARGE_BYTES else read_strictly(text)
    except NO_JSON as error:
        place = f" (line {error.lineno}, column {error.colno})" if isinstance(error, JSONDecodeError) else ""
        told = f"The body is no JSON that can be read{place}."
        raise refuse(Category.STRUCTURE, told, location="http.body") from error


def _metadata(service: Service, version: FhirVersion, call: Call) -> Answer:
    if call.method != "GET":
        raise wrong_method({"GET"})
    _negotiate(call)
    _query(call.query)
    return Answer(200, capability_statement(version, service.configuration))

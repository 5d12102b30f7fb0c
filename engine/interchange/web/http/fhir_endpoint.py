"""The FHIR endpoint: authentication, routing and negotiation, then the interaction and its answer or refusal."""

import asyncio
from contextlib import suppress
from functools import partial
from json import JSONDecodeError
from typing import Any
from urllib.parse import parse_qsl

from engine.fhir.schema import FhirVersion
from engine.interchange.core.audit.entry import named_in
from engine.interchange.core.exchange import Access, Answer, Interaction, Request
from engine.interchange.core.http.negotiation import (
    FORM,
    FORMATS,
    PATCH,
    WRITABLE,
    acceptable,
    encoding,
    prefer,
    writable,
)
from engine.interchange.core.service import Service
from engine.interchange.jobs.jobs import handle
from engine.interchange.kernel.exact import NO_JSON, UnfitJsonError, read_strictly, write_json
from engine.interchange.kernel.outcome import Category, Issue, RefusedError, outcome, refuse
from engine.interchange.rest.binary.content import as_resource
from engine.interchange.rest.http.access import authorise, check_plain, needed, queried, read_query
from engine.interchange.rest.resource.context import restrict_to_patient
from engine.interchange.store.store.access import PENDING, Pending
from engine.interchange.tokens.oauth.account import former_principal, principal_of
from engine.interchange.tokens.oauth.vault import Principal, TokenKind
from engine.interchange.web.bundles.operation import answer_bundle
from engine.interchange.web.bundles.plan import Sender
from engine.interchange.web.bundles.recording import EntryLog
from engine.interchange.web.bundles.step import Kind, Step, read_bundle
from engine.interchange.web.http.call import BUNDLES, WITH_BODY, Call, read_body
from engine.interchange.web.http.capability import capability_statement
from engine.interchange.web.http.recording import access_of, name_refused
from engine.interchange.web.http.route import Address, Route, find_route, read_address, wrong_method
from engine.interchange.web.http.wire import LARGE_BYTES

Json = Any


async def answer_call(service: Service, call: Call) -> Answer:
    """Return the answer to a call; a refusal is an OperationOutcome. Other errors are the caller's to turn to 500."""
    address = read_address(call.path, service.configuration.stu3_path_aliases)
    try:
        if address.segments == ("metadata",):
            return _metadata(service, address.version, call)
        if address.segments == ("",) and call.method == "POST":
            return await _bundle(service, address.version, call)
        return await _interact(service, address, call)
    except RefusedError as refusal:
        call.refusal = refusal.category
        return refused(service, refusal, address.version)


def refused(service: Service, refusal: RefusedError, version: FhirVersion) -> Answer:
    """Return the answer that a refusal makes."""
    body = outcome(refusal, version, service.configuration.service_identifier_system)
    return Answer(refusal.category.status, write_json(body), refusal.headers)


async def _interact(service: Service, address: Address, call: Call) -> Answer:
    try:
        principal = identify(service, call)
    except RefusedError:
        with suppress(RefusedError):
            route = find_route(address, call.method, service.configuration.features)
            if call.former is not None:
                call.interaction, call.id = route.interaction, route.id
            await name_refused(service, call, address.version)
        raise
    throttle(service, principal)
    route = find_route(address, call.method, service.configuration.features)
    call.interaction, call.id = route.interaction, route.id
    try:
        return await _carry_out(service, address, call, principal, route)
    except RefusedError:
        await name_refused(service, call, address.version)
        raise


async def _carry_out(service: Service, address: Address, call: Call, principal: Principal, route: Route) -> Answer:
    negotiate(call, route.interaction)
    authorise(service, principal, route.interaction)
    query = read_query(call.query)
    if query and not queried(route.interaction):
        check_plain(query)
    text = call.text = await read_body(service, call)
    if route.interaction.form:
        query, text = read_query("&".join(filter(None, (call.query, _form(text))))), b""
    request = Request(
        version=address.version,
        base=service.base(address.version),
        type=route.interaction.type,
        id=route.id,
        query=tuple(query),
        headers=call.headers,
        prefer=prefer(call.headers.get("prefer", "")),
        principal=principal,
        body=await _resource(call, route.interaction, address.version, text),
        large=len(text) > LARGE_BYTES,
        vid=route.vid,
        form=route.interaction.form,
    )
    told = write_json(request.body.get("securityContext")) if route.interaction.raw and request.body else text
    call.named = named_in(route.interaction, route.id, request.query, told, request.base)
    if route.interaction.type == handle.NAME:
        call.named = handle.patient_of(service, request)
    request = restrict_to_patient(service, request, route.interaction, needed(route.interaction))
    if route.interaction.access is Access.WRITE:
        PENDING.set(Pending(access_of(service, call, principal, route.interaction, None)))
    return await route.interaction.run(service, request)


def _kinds(interaction: Interaction) -> tuple[str, ...]:
    """Return what the body of an interaction may be."""
    if interaction.form:
        return FORM
    return PATCH if interaction.code == "patch" else WRITABLE


async def _bundle(service: Service, version: FhirVersion, call: Call) -> Answer:
    """Answer a batch or a transaction."""
    try:
        principal = identify(service, call)
    except RefusedError:
        if call.former is not None:
            call.interaction = BUNDLES[Kind.BATCH]
            await name_refused(service, call, version)
        raise
    throttle(service, principal)
    call.interaction = BUNDLES[Kind.BATCH]
    try:
        negotiate(call)
        check_plain(read_query(call.query))
        text = call.text = await read_body(service, call)
        base = service.base(version)
        call.named = named_in(call.interaction, "", (), text, base)
        sender = Sender(principal, version, base, prefer(call.headers.get("prefer", "")))
        body = await _read(text)
        kind, steps = await _steps(body, version, base, large=len(text) > LARGE_BYTES)
        call.interaction = BUNDLES[kind]
        if kind is Kind.TRANSACTION:
            PENDING.set(Pending(access_of(service, call, principal, call.interaction, None)))
        log = EntryLog(service, sender, call.base, call.origin, call.rows)
        return await answer_bundle(service, sender, kind, steps, log)
    except RefusedError:
        await name_refused(service, call, version)
        raise


async def _steps(body: Json, version: FhirVersion, base: str, *, large: bool) -> tuple[Kind, tuple[Step, ...]]:
    if large:
        return await asyncio.to_thread(read_bundle, body, version, base)
    return read_bundle(body, version, base)


def identify(service: Service, call: Call) -> Principal:
    """Return who calls; RefusedError (401), after which the call says whose the token was that is no longer valid."""
    authorization = call.headers.get("authorization", "")
    try:
        call.principal = authenticate(service, authorization)
    except RefusedError:
        token = service.vault.find_any(authorization.partition(" ")[2].strip())
        call.former = former_principal(service.configuration, token) if token is not None else None
        raise
    return call.principal


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


def throttle(service: Service, principal: Principal) -> None:
    """Refuse (429) a client that calls more often than the configuration lets it."""
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


async def _resource(call: Call, interaction: Interaction, version: FhirVersion, text: bytes) -> Json:
    """Return the body of a call as a value, None where it has none; what is raw becomes a Binary."""
    if call.method not in WITH_BODY or interaction.form or (interaction.bodiless and not text):
        return None
    if not interaction.raw:
        return await _read(text)
    work = partial(as_resource, call.headers, text, version, call.id)
    return await asyncio.to_thread(work) if len(text) > LARGE_BYTES else work()


def negotiate(call: Call, interaction: Interaction | None = None) -> None:
    """Refuse a body that is not taken, and to answer what is not made; `interaction` None for a Bundle."""
    kinds = _kinds(interaction) if interaction else WRITABLE
    raw, document = (interaction.raw, interaction.document) if interaction else (False, False)
    bodiless = interaction is not None and interaction.bodiless
    # A query that cannot be read is told later, to those who may ask.
    query = parse_qsl(call.query, keep_blank_values=True) if "_format" in call.query else []
    asked = [value for name, value in query if name == "_format"]
    media_type = call.headers.get("content-type", "")
    if call.method in WITH_BODY and not (raw or (bodiless and not media_type)) and not writable(media_type, kinds):
        raise _media_type(kinds)
    if call.method in WITH_BODY and encoding(call.headers.get("content-encoding", "")) == "?":
        issue = Issue("Send the body uncompressed, or compressed with gzip.", "http.Content-Encoding")
        raise RefusedError(Category.MEDIA_TYPE, (issue,), (("accept-encoding", "gzip"),))
    if any(value not in FORMATS for value in asked) or not (
        asked or acceptable(call.headers.get("accept", ""), raw=raw, document=document)
    ):
        raise refuse(Category.ACCEPT, "Only application/fhir+json is served.", location="http.Accept")


def _media_type(kinds: tuple[str, ...]) -> RefusedError:
    told = f"Send {kinds[0]}."
    # RFC 5789, 2.2: who sends another kind of patch is told which one is taken.
    headers = (("accept-patch", ", ".join(PATCH)),) if kinds == PATCH else ()
    if headers:
        told = f"Send a JSON Patch (RFC 6902) as {PATCH[0]}; FHIRPath Patch and others are not taken."
    return RefusedError(Category.MEDIA_TYPE, (Issue(told, "http.Content-Type"),), headers)


async def _read(text: bytes) -> Json:
    try:
        return await asyncio.to_thread(read_strictly, text) if len(text) > LARGE_BYTES else read_strictly(text)
    except UnfitJsonError as error:
        raise refuse(Category.INVALID, str(error), location=error.place) from None
    except NO_JSON as error:
        place = f" (line {error.lineno}, column {error.colno})" if isinstance(error, JSONDecodeError) else ""
        told = f"The body is not valid JSON{place}."
        raise refuse(Category.STRUCTURE, told, location="http.body") from error


def _metadata(service: Service, version: FhirVersion, call: Call) -> Answer:
    if call.method != "GET":
        raise wrong_method({"GET"})
    negotiate(call)
    read_query(call.query)
    return Answer(200, capability_statement(version, service.configuration))

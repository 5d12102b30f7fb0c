"""The FHIR door: who asks, for what, in which form; then the interaction, and its answer or refusal."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from json import JSONDecodeError
from typing import Any, Final
from urllib.parse import parse_qsl

from engine.fhir.schema import FhirVersion
from engine.interchange.audit.entry import entry, named_in
from engine.interchange.binary.content import as_resource
from engine.interchange.bundles.operation import answer_bundle
from engine.interchange.bundles.plan import Sender
from engine.interchange.bundles.step import Kind
from engine.interchange.exact import NO_JSON, read_strictly, write_json
from engine.interchange.exchange import Access, Answer, Interaction, Level, Request
from engine.interchange.http.access import authorise, check_plain, needed, queried, read_query
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
from engine.interchange.jobs import handle
from engine.interchange.oauth.account import principal_of
from engine.interchange.oauth.role import Action
from engine.interchange.oauth.vault import Principal, TokenKind
from engine.interchange.outcome import Category, Issue, RefusedError, outcome, refuse
from engine.interchange.resource.context import confine
from engine.interchange.service import Service
from engine.interchange.store.access import PENDING, Pending, patients_in
from engine.interchange.store.access import Access as Row
from engine.interchange.store.transaction import milliseconds

Json = Any

WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


async def _by_bundle(_service: Service, _request: Request) -> Answer:
    """Never run: a Bundle's entries are interactions of their own, and each is judged for itself."""
    return Answer(404)


# What metrics and logs call a Bundle of requests.
BUNDLES: Final = {
    kind: Interaction("Bundle", kind, Level.TYPE, "POST", Access.WRITE, Action.PATIENT, _by_bundle) for kind in Kind
}


@dataclass(slots=True)
class Call:
    """One HTTP request to the FHIR door: method, path below /fhir/, query, headers, body; or one to the Chart API.

    `chart`: its path is below /chart/v1/.
    `origin` is where it came from, and its request id as it may be told. `principal`, `interaction`, `id`, `named`
    (patients), `refusal` and `error` are what has been found out of it; metrics, logs and the access log tell them.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: Body
    origin: tuple[str, str] = ("", "")
    principal: Principal | None = None
    interaction: Interaction | None = None
    id: str = ""
    named: tuple[str, ...] = ()
    refusal: Category | None = None
    error: BaseException | None = None
    chart: bool = False

    @property
    def base(self) -> str:
        """What it calls, as metrics and the access log have it: R4, STU3 or chart."""
        return "chart" if self.chart else "R4" if self.path.partition("/")[0] == "R4" else "STU3"

    @property
    def address(self) -> str:
        """The path below the service's base."""
        return f"{'/chart/v1' if self.chart else '/fhir'}/{self.path}"


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
    principal = call.principal = authenticate(service, call.headers.get("authorization", ""))
    throttle(service, principal)
    route = find_route(address, call.method, service.configuration.features)
    call.interaction, call.id = route.interaction, route.id
    negotiate(call, route.interaction)
    authorise(service, principal, route.interaction)
    query = read_query(call.query)
    if query and not queried(route.interaction):
        check_plain(query)
    text = await _body(service, call)
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
    call.named = named_in(request, route.interaction, told)
    if route.interaction.type == handle.NAME:
        call.named = handle.patient_of(service, request)
    request = confine(service, request, route.interaction, needed(route.interaction))
    if route.interaction.access is Access.WRITE:
        PENDING.set(Pending(access_of(service, call, principal, route.interaction, None)))
    return await route.interaction.run(service, request)


def access_of(
    service: Service, call: Call, principal: Principal, interaction: Interaction, answer: Answer | None
) -> Row:
    """Return the row of the access log for a call, and its answer if there is one yet."""
    return entry(
        milliseconds(service.clock()), call.base, principal, interaction, call.id, call.named, answer, call.origin
    )


def _kinds(interaction: Interaction) -> tuple[str, ...]:
    """Return what the body of an interaction may be."""
    if interaction.form:
        return FORM
    return PATCH if interaction.code == "patch" else WRITABLE


async def _bundle(service: Service, version: FhirVersion, call: Call) -> Answer:
    """Answer a batch or a transaction."""
    principal = call.principal = authenticate(service, call.headers.get("authorization", ""))
    throttle(service, principal)
    call.interaction = BUNDLES[Kind.BATCH]
    negotiate(call)
    check_plain(read_query(call.query))
    text = await _body(service, call)
    call.named = tuple(patients_in(text))
    PENDING.set(Pending(access_of(service, call, principal, call.interaction, None)))
    sender = Sender(principal, version, service.base(version), prefer(call.headers.get("prefer", "")))
    kind, answer = await answer_bundle(service, sender, await _read(text), large=len(text) > LARGE_BYTES)
    call.interaction = BUNDLES[kind]
    return answer


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
        told = f"The body is not valid JSON{place}."
        raise refuse(Category.STRUCTURE, told, location="http.body") from error


def _metadata(service: Service, version: FhirVersion, call: Call) -> Answer:
    if call.method != "GET":
        raise wrong_method({"GET"})
    negotiate(call)
    read_query(call.query)
    return Answer(200, capability_statement(version, service.configuration))

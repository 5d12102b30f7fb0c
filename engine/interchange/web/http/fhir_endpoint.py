"""The FHIR endpoint: the guard, the body, then the interaction and its answer or refusal."""

import asyncio
from functools import partial
from json import JSONDecodeError

from engine.fhir.json import Json
from engine.fhir.schema import FhirVersion
from engine.interchange.core.audit.entry import named_in
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, RequiredAccess
from engine.interchange.core.negotiation import prefer
from engine.interchange.core.service import Service
from engine.interchange.jobs import handle
from engine.interchange.kernel.exact import NO_JSON, UnfitJsonError, read_strictly, write_json
from engine.interchange.kernel.outcome import Category, RefusedError, outcome, refuse
from engine.interchange.rest.access import AdmittedInteraction, read_query
from engine.interchange.rest.binary.content import as_resource
from engine.interchange.store.access import PENDING, Pending
from engine.interchange.web.bundles.operation import answer_bundle
from engine.interchange.web.bundles.plan import BundleSender, EntryLog
from engine.interchange.web.bundles.step import BundleKind, BundleStep, read_bundle
from engine.interchange.web.http.admission import admit_call, negotiate
from engine.interchange.web.http.call import BUNDLES, WITH_BODY, HttpCall, read_body
from engine.interchange.web.http.capability import capability_statement
from engine.interchange.web.http.recording import access_of, name_refused
from engine.interchange.web.http.route import FhirRoute, RequestTarget, find_route, read_address, wrong_method
from engine.interchange.web.http.wire import LARGE_BYTES


async def answer_call(service: Service, call: HttpCall) -> HttpAnswer:
    """Return the answer to a call; a refusal is an OperationOutcome. The caller turns other errors to 500."""
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


def refused(service: Service, refusal: RefusedError, version: FhirVersion) -> HttpAnswer:
    """Return the answer of a refusal."""
    body = outcome(refusal, version, service.configuration.service_identifier_system)
    return HttpAnswer(refusal.category.status, write_json(body), refusal.headers)


async def _interact(service: Service, address: RequestTarget, call: HttpCall) -> HttpAnswer:
    find = partial(find_route, address, call.method, service.configuration.features)
    try:
        return await _carry_out(service, address, call, *admit_call(service, call, find))
    except RefusedError:
        await name_refused(service, call, address.version)
        raise


async def _carry_out(
    service: Service, address: RequestTarget, call: HttpCall, route: FhirRoute, admission: AdmittedInteraction
) -> HttpAnswer:
    query, principal = admission.query, admission.principal
    text = call.text = await read_body(service, call)
    if route.interaction.form:
        query, text = tuple(read_query("&".join(filter(None, (call.query, _form(text)))))), b""
    request = FhirRequest(
        version=address.version,
        base=service.base(address.version),
        type=route.interaction.type,
        id=route.id,
        query=query,
        headers=call.headers,
        prefer=prefer(call.headers.get("prefer", "")),
        principal=principal,
        body=await _resource(call, route.interaction, address.version, text),
        large=len(text) > LARGE_BYTES,
        vid=route.vid,
        form=route.interaction.form,
    )
    body = write_json(request.body.get("securityContext")) if route.interaction.raw and request.body else text
    call.named = named_in(route.interaction, route.id, request.query, body, request.base)
    if route.interaction.type == handle.NAME:
        call.named = handle.patient_of(service, request)
    if route.interaction.access is RequiredAccess.WRITE:
        PENDING.set(Pending(access_of(service, call, principal, route.interaction, None)))
    return await admission.answer(service, request)


async def _bundle(service: Service, version: FhirVersion, call: HttpCall) -> HttpAnswer:
    """Answer a batch or a transaction, by the body's type."""
    route = FhirRoute(BUNDLES[BundleKind.BATCH], "")
    try:
        _, admission = admit_call(service, call, lambda: route)
        text = call.text = await read_body(service, call)
        base = service.base(version)
        call.named = named_in(route.interaction, "", (), text, base)
        principal = admission.principal
        sender = BundleSender(principal, version, base, prefer(call.headers.get("prefer", "")))
        body = await _read(text)
        kind, steps = await _steps(body, version, base, large=len(text) > LARGE_BYTES)
        call.interaction = BUNDLES[kind]
        if kind is BundleKind.TRANSACTION:
            PENDING.set(Pending(access_of(service, call, principal, call.interaction, None)))
        log = EntryLog(service, sender, call.base, call.origin, call.rows)
        return await answer_bundle(service, sender, kind, steps, log)
    except RefusedError:
        await name_refused(service, call, version)
        raise


async def _steps(
    body: Json, version: FhirVersion, base: str, *, large: bool
) -> tuple[BundleKind, tuple[BundleStep, ...]]:
    if large:
        return await asyncio.to_thread(read_bundle, body, version, base)
    return read_bundle(body, version, base)


def _form(text: bytes) -> str:
    try:
        return text.decode("ascii").strip()
    except ValueError as error:
        problem = "The form cannot be read; escape what is not ASCII."
        raise refuse(Category.BAD_VALUE, problem, location="http.body") from error


async def _resource(call: HttpCall, interaction: Interaction, version: FhirVersion, text: bytes) -> Json:
    """Return the parsed body of a call, None without one; a raw body becomes a Binary."""
    if call.method not in WITH_BODY or interaction.form or (interaction.bodiless and not text):
        return None
    if not interaction.raw:
        return await _read(text)
    work = partial(as_resource, call.headers, text, version, call.id)
    return await asyncio.to_thread(work) if len(text) > LARGE_BYTES else work()


async def _read(text: bytes) -> Json:
    try:
        return await asyncio.to_thread(read_strictly, text) if len(text) > LARGE_BYTES else read_strictly(text)
    except UnfitJsonError as error:
        raise refuse(Category.INVALID, str(error), location=error.place) from None
    except NO_JSON as error:
        place = f" (line {error.lineno}, column {error.colno})" if isinstance(error, JSONDecodeError) else ""
        raise refuse(Category.STRUCTURE, f"The body is not valid JSON{place}.", location="http.body") from error


def _metadata(service: Service, version: FhirVersion, call: HttpCall) -> HttpAnswer:
    if call.method != "GET":
        raise wrong_method({"GET"})
    negotiate(call)
    read_query(call.query)
    return HttpAnswer(200, capability_statement(version, service.configuration))

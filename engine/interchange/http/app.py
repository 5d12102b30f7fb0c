"""The service as an ASGI application: the FHIR door, the token endpoints, health, and a sandbox's test hooks."""

import asyncio
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import orjson
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route, Router

from engine.config.service import ServiceConfiguration
from engine.fhir.schema import FhirVersion, defects
from engine.interchange.clock import Clock
from engine.interchange.exchange import Answer
from engine.interchange.http.capability import smart_configuration
from engine.interchange.http.door import Call, answer_call, refused
from engine.interchange.http.hooks import HookError, Hooks
from engine.interchange.http.wire import Receive, Scope, Send, read_body, read_headers, send_answer
from engine.interchange.oauth import endpoint
from engine.interchange.oauth.fault import OAuthError
from engine.interchange.oauth.vault import Vault
from engine.interchange.outcome import Category, refuse
from engine.interchange.patient.index import index_patient
from engine.interchange.service import Service
from engine.interchange.store.store import Store
from engine.telemetry import logger

FHIR_JSON: Final = "application/fhir+json"
INDEXERS: Final = {"Patient": index_patient}
MAX_FORM_BYTES: Final = 65_536
NO_STORE: Final = {"cache-control": "no-store", "pragma": "no-cache"}
MINIMAL: Final = {"resourceType": "Patient"}


def wall_clock() -> datetime:
    """Return the moment, UTC."""
    return datetime.now(UTC)


def new_id() -> str:
    """Return a random logical id: 24 hexadecimal digits."""
    return secrets.token_hex(12)


def new_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(32)


def create_app(
    configuration: ServiceConfiguration,
    database: Path,
    *,
    clock: Callable[[], datetime] = wall_clock,
    ids: Callable[[], str] = new_id,
    tokens: Callable[[], str] = new_token,
) -> "App":
    """Return the service over a database file; close it when done. StartError: the file cannot be used."""
    own_clock = Clock(clock)
    store = Store(database, configuration.tenants, own_clock, INDEXERS)
    lifetimes = (configuration.access_token_lifetime_s, configuration.refresh_token_lifetime_s)
    vault = Vault(store, own_clock, tokens, lifetimes)
    for version in FhirVersion:
        defects(MINIMAL, version)
    service = Service(configuration, store, vault, own_clock, ids)
    return App(service, Hooks(own_clock) if configuration.test_hooks else None)


class App:
    """The ASGI application; `service` is what its interactions work with."""

    def __init__(self, service: Service, hooks: Hooks | None) -> None:
        self.service = service
        self._hooks = hooks
        self._prefix = service.configuration.path_prefix
        self._router = Router(routes=_routes(service, hooks))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; nothing of it is logged but the kind of an unforeseen error."""
        if scope["type"] != "http":
            return
        headers = read_headers(scope)
        request_id = _request_id(headers.get("x-request-id", ""))
        path = scope["path"].removeprefix(self._prefix)
        try:
            if self._hooks is not None and await self._struck(self._hooks, scope, receive, send, request_id):
                return
            if path.startswith("/fhir/") or path == "/fhir":
                call = Call(scope["method"], path[6:], scope["query_string"].decode("latin-1"), headers)
                await send_answer(send, await self._answer(call, receive, request_id), FHIR_JSON, request_id)
            else:
                await self._router({**scope, "path": path}, receive, partial(_with_request_id, send, request_id))
        except ConnectionError:
            return

    def close(self) -> None:
        """Finish what is being written and let the database go."""
        self.service.store.close()

    async def _answer(self, call: Call, receive: Receive, request_id: str) -> Answer:
        try:
            return await answer_call(self.service, call, receive)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an OperationOutcome without its text
            logger().error("request failed", error=type(error).__name__, method=call.method, request=request_id)
            return self._fault(Category.FAULT, "The service met an internal error.", call.path)

    def _fault(self, category: Category, text: str, path: str) -> Answer:
        version = FhirVersion.R4 if path.startswith("R4/") else FhirVersion.STU3
        return refused(self.service, refuse(category, text), version)

    async def _struck(self, hooks: Hooks, scope: Scope, receive: Receive, send: Send, request_id: str) -> bool:
        """Let a test's trouble befall the request; True where it has been answered."""
        path = scope["path"].removeprefix(self._prefix)
        trouble = hooks.strike(scope["method"], path)
        if trouble is None or path.startswith("/_test/"):
            return False
        limit = self.service.configuration.request_timeout_s
        if trouble.seconds >= limit:
            await asyncio.sleep(limit)
            answer = self._fault(Category.TIMEOUT, "The request took too long.", path.removeprefix("/fhir/"))
            await send_answer(send, answer, FHIR_JSON, request_id)
            return True
        await asyncio.sleep(trouble.seconds)
        if not trouble.fails:
            return False
        category, text = Category.FAULT, "A test asked for this fault."
        if trouble.after_commit:
            call = Call(scope["method"], path[6:], scope["query_string"].decode("latin-1"), read_headers(scope))
            await self._answer(call, receive, request_id)
            category = Category.TIMEOUT
        await send_answer(send, self._fault(category, text, path.removeprefix("/fhir/")), FHIR_JSON, request_id)
        return True


def _request_id(sent: str) -> str:
    usable = 0 < len(sent) <= 128 and sent.isascii() and sent.isprintable()
    return sent if usable else secrets.token_hex(8)


async def _with_request_id(send: Send, request_id: str, message: Scope) -> None:
    if message["type"] == "http.response.start":
        message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
    await send(message)


def _routes(service: Service, hooks: Hooks | None) -> list[Route]:
    routes = [
        Route("/oauth/token", partial(_token, service), methods=["POST"]),
        Route("/oauth/info", partial(_info, service), methods=["GET"]),
        Route("/oauth/cancel", partial(_cancel, service), methods=["GET"]),
        Route("/.well-known/smart-configuration", partial(_smart, service), methods=["GET"]),
        Route("/livez", _alive, methods=["GET"]),
        Route("/readyz", partial(_ready, service), methods=["GET"]),
    ]
    if hooks is not None:
        routes.append(Route("/_test/{name}", partial(_hook, hooks), methods=["POST"]))
    return routes


def _json(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(value), status, headers, "application/json")


def _oauth_fault(error: OAuthError) -> Response:
    body = {"error": error.code, "error_description": error.description}
    return _json(body, error.status, {**NO_STORE, **error.headers})


async def _token(service: Service, request: HttpRequest) -> Response:
    try:
        body = await read_body(request.receive, request.headers.get("content-length"), MAX_FORM_BYTES)
        fields = endpoint.parse_fields(request.headers.get("content-type", ""), body)
        issued = await endpoint.token(service, fields, request.headers.get("authorization", ""))
    except OAuthError as error:
        return _oauth_fault(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, the client gets server_error without its text
        logger().error("token request failed", error=type(error).__name__)
        return _json({"error": "server_error"}, 500, NO_STORE)
    return _json(endpoint.token_answer(issued), 200, NO_STORE)


async def _info(service: Service, request: HttpRequest) -> Response:
    try:
        return _json(endpoint.info(service, request.query_params.get("access_token", "")), 200, NO_STORE)
    except OAuthError as error:
        return _oauth_fault(error)


async def _cancel(service: Service, request: HttpRequest) -> Response:
    try:
        await endpoint.cancel(service, request.query_params.get("token", ""))
    except OAuthError as error:
        return _oauth_fault(error)
    return _json({}, 200, NO_STORE)


async def _smart(service: Service, _request: HttpRequest) -> Response:
    return Response(smart_configuration(service.configuration), 200, None, "application/json")


async def _alive(_request: HttpRequest) -> Response:
    return _json({"status": "alive"})


async def _ready(service: Service, _request: HttpRequest) -> Response:
    return _json({"status": "failed"}, 503) if service.store.failed else _json({"status": "ready"})


async def _hook(hooks: Hooks, request: HttpRequest) -> Response:
    try:
        hooks.ask(request.path_params["name"], orjson.loads(await request.body() or b"{}"))
    except (HookError, ValueError) as error:
        return _json({"error": str(error)}, 400)
    return _json({"status": "done"})

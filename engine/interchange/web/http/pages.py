"""What is served besides FHIR: tokens, sign-in, health, metrics, SMART's discovery, and a sandbox's test hooks."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route, Router

from engine.config.service import ServiceConfiguration
from engine.errors import place_of
from engine.interchange.core.audit.reading import NAME as AUDIT_EVENT
from engine.interchange.core.service import Service
from engine.interchange.events.alerts.network import HOOKS, NetworkHookError
from engine.interchange.events.subscriptions.settling import end_those_over
from engine.interchange.kernel.exact import write_json
from engine.interchange.orders.laboratory.hook import LaboratoryHookError, laboratory_hook
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.store.writer import StoreBusyError
from engine.interchange.tokens.assertion import ALGORITHMS, SECRET_ALGORITHM
from engine.interchange.tokens.identity import ALGORITHM
from engine.interchange.tokens.scope import ANY, right
from engine.interchange.web.http.calls import loggable
from engine.interchange.web.http.cors import Headers
from engine.interchange.web.http.hooks import HookError, Hooks
from engine.interchange.web.http.meter import MEDIA_TYPE, Meter
from engine.interchange.web.http.sign_in import SignIn
from engine.interchange.web.http.tokens import token_routes
from engine.interchange.web.http.wire import SAFE, Receive, Scope, Send
from engine.interchange.web.oauth.endpoint import GRANTS
from engine.telemetry import logger

PATH: Final = "/.well-known/smart-configuration"
OPENID_PATH: Final = "/.well-known/openid-configuration"

AUTHENTICATION_METHODS: Final = (
    "client_secret_basic",
    "client_secret_post",
    "client_secret_jwt",
    "private_key_jwt",
    "none",
)
CAPABILITIES: Final = (
    "launch-standalone",
    "context-standalone-patient",
    "sso-openid-connect",
    "client-public",
    "client-confidential-symmetric",
    "client-confidential-asymmetric",
    "permission-offline",
    "permission-user",
    "permission-patient",
    "permission-v1",
    "permission-v2",
)
KEPT_TYPES: Final = frozenset(name.lower() for name in KEPT) | {ANY, AUDIT_EVENT.lower()}


def smart_configuration(configuration: ServiceConfiguration) -> bytes:
    """Return the document; its scopes are those that a client is registered for and that grant something."""
    oauth = f"{configuration.token_url}/oauth"
    scopes = sorted({scope for client in configuration.clients.values() for scope in client.scopes if works(scope)})
    signed = [SECRET_ALGORITHM, *ALGORITHMS.values()]
    return write_json(
        {
            "issuer": configuration.token_url,
            "jwks_uri": f"{oauth}/jwks",
            "authorization_endpoint": f"{oauth}/authorize",
            "token_endpoint": f"{oauth}/token",
            "userinfo_endpoint": f"{oauth}/userinfo",
            "introspection_endpoint": f"{oauth}/info",
            "revocation_endpoint": f"{oauth}/cancel",
            "grant_types_supported": list(GRANTS),
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": AUTHENTICATION_METHODS,
            "token_endpoint_auth_signing_alg_values_supported": signed,
            "introspection_endpoint_auth_methods_supported": AUTHENTICATION_METHODS[:-1],
            "introspection_endpoint_auth_signing_alg_values_supported": signed,
            "revocation_endpoint_auth_methods_supported": AUTHENTICATION_METHODS,
            "revocation_endpoint_auth_signing_alg_values_supported": signed,
            "scopes_supported": scopes,
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
            "claims_supported": ["iss", "sub", "aud", "exp", "iat", "nonce", "name", "fhirUser"],
            "capabilities": CAPABILITIES,
        }
    )


def works(scope: str) -> bool:
    """Say whether a scope grants anything: a known flag, or a type that the service stores."""
    granted = right(scope)
    return granted is not None and (not granted.access or granted.type in KEPT_TYPES)


UNKNOWN: Final = {404: "not_found", 405: "method_not_allowed"}


class Pages:
    """Answers all requests but FHIR's; errors are JSON `{"error": ...}` without an exception's text.

    `more` are the routes of the chart viewer.
    """

    def __init__(
        self, service: Service, hooks: Hooks | None, meter: Meter, sign_in: SignIn, more: Sequence[Route] = ()
    ) -> None:
        self.stopping = False
        self._more = more
        self._service = service
        self._sign_in = sign_in
        self._hooks = hooks
        self._meter = meter
        # The aliases of a base, like all addresses, are fixed at the start.
        names = ("", "R4", *service.configuration.stu3_path_aliases)
        self.discovery = frozenset(
            {PATH, OPENID_PATH, "/oauth/jwks", *(f"/fhir/{name}".rstrip("/") + PATH for name in names)}
        )
        self._router = Router(routes=self._routes(), redirect_slashes=False)

    def _allowed(self, path: str) -> str:
        """Return the methods of all routes that match an address."""
        routes = (route for route in self._router.routes if isinstance(route, Route) and route.path_regex.match(path))
        return ", ".join(sorted({method for route in routes for method in route.methods or ()}))

    async def __call__(self, scope: Scope, receive: Receive, send: Send, request_id: str, shared: Headers) -> None:
        """Answer one request; `shared` are its CORS headers."""
        limit = self._service.configuration.request_timeout_s
        tell = _Teller(send, request_id, shared)
        try:
            async with asyncio.timeout(limit):
                await self._carry_out({**scope, "app": self}, receive, tell)
        except HTTPException as error:
            answer = _json({"error": UNKNOWN.get(error.status_code, "invalid_request")}, error.status_code)
            answer.headers.update(error.headers or {})
            if error.status_code == 405:
                answer.headers["allow"] = self._allowed(scope["path"])
        except ConnectionError:
            raise
        except (TimeoutError, asyncio.CancelledError, StoreBusyError):
            answer = _json({"error": "temporarily_unavailable"}, 503, {"connection": "close"})
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets server_error without its text
            fields = {"error": type(error).__name__, "file": place_of(error)}
            logger().error("page failed", request=loggable(request_id), status=500, **fields)
            answer = _json({"error": "server_error"}, 500)
        else:
            return
        if not tell.begun:
            await answer(scope, receive, tell)

    async def _carry_out(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        fault = None
        if self._hooks is not None and not path.startswith("/_test/"):
            fault = self._hooks.match(scope["method"], path)
        if fault is not None:
            await fault.apply()
        await self._router(scope, receive, _swallow if fault is not None and fault.after_commit else send)
        if fault is not None:
            fault.apply_after_commit()

    def _routes(self) -> list[Route]:
        routes = [
            *token_routes(self._service, self._meter),
            *self._sign_in.routes(),
            *self._more,
            *(
                Route(path, partial(_smart, self._service), methods=["GET"])
                for path in self.discovery - {"/oauth/jwks"}
            ),
            Route("/livez", _alive, methods=["GET"]),
            Route("/readyz", self._ready, methods=["GET"]),
            Route("/metrics", self._metrics, methods=["GET"]),
        ]
        if self._hooks is not None:
            routes.append(Route("/_test/outbound", self._outbound, methods=["GET"]))
            routes.append(Route("/_test/lab", self._laboratory, methods=["POST"]))
            routes += [
                Route(f"/_test/{name}", partial(_network, self._service, hook), methods=["POST"])
                for name, hook in HOOKS.items()
            ]
            routes.append(Route("/_test/{name}", partial(_hook, self._service, self._hooks), methods=["POST"]))
        return routes

    async def _outbound(self, _request: HttpRequest) -> Response:
        return _json({"connections": self._service.outbound.connections})

    async def _laboratory(self, request: HttpRequest) -> Response:
        try:
            return _json(await laboratory_hook(self._service, orjson.loads(await request.body() or b"{}")))
        except LaboratoryHookError as error:
            return _json({"error": str(error)}, error.status)
        except ValueError:
            return _json({"error": "/_test/lab takes JSON"}, 400)

    async def _ready(self, _request: HttpRequest) -> Response:
        if self._service.store.failed:
            return _json({"status": "failed"}, 503)
        if self._service.store.away:
            return _json({"status": "database away"}, 503)
        return _json({"status": "stopping"}, 503) if self.stopping else _json({"status": "ready"})

    async def _metrics(self, _request: HttpRequest) -> Response:
        return Response(self._meter.text(), 200, None, MEDIA_TYPE)


class _Teller:
    """Sends messages with the request id and the headers of every answer."""

    def __init__(self, send: Send, request_id: str, shared: Headers) -> None:
        self._send = send
        own = tuple((name.encode(), value.encode()) for name, value in shared)
        self._headers = ((b"x-request-id", request_id.encode()), *own, *SAFE)
        self.begun = False

    async def __call__(self, message: Scope) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            message["headers"] = [*message["headers"], *self._headers]
        await self._send(message)


async def _swallow(_message: Scope) -> None:
    """Send nothing."""


def _json(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(value), status, headers, "application/json")


async def _smart(service: Service, _request: HttpRequest) -> Response:
    configuration: ServiceConfiguration = service.configuration
    return Response(smart_configuration(configuration), 200, None, "application/json")


async def _alive(_request: HttpRequest) -> Response:
    return _json({"status": "alive"})


async def _network(service: Service, tell: Callable[..., Awaitable[Any]], request: HttpRequest) -> Response:
    try:
        return _json(await tell(service, orjson.loads(await request.body() or b"{}")))
    except ValueError as error:
        text = str(error) if isinstance(error, NetworkHookError) else "send JSON"
        return _json({"error": text}, 400)


async def _hook(service: Service, hooks: Hooks, request: HttpRequest) -> Response:
    try:
        body: Any = orjson.loads(await request.body() or b"{}")
        hooks.ask(request.path_params["name"], body)
    except (HookError, ValueError) as error:
        return _json({"error": str(error)}, 400)
    # Jobs that the new time expires end before the answer.
    await end_those_over(service)
    service.webhook_wakeup.set()
    return _json({"status": "done"})

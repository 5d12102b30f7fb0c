"""The application: routes behind the authentication, errors as pages or as problem+json, headers on every answer."""

import asyncio
import re
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Router
from starlette.routing import Route as Matched
from starlette.types import Message, Receive, Scope, Send

from engine import telemetry
from engine.config.network import Network, is_allowed
from engine.errors import AdtEngineError, place_of
from engine.ops.web.auth_middleware import AuthMiddleware, SignInNeededError, is_stream, is_stream_at
from engine.ops.web.call import WebCall, WebContext
from engine.ops.web.headers import SESSION, secured
from engine.ops.web.origin import is_known
from engine.ops.web.refusal import TITLES, RefusedRequestError, status_of
from engine.ops.web.route import Free, Route, checked
from engine.pipeline.fhir_intake import outcome

ANSWER_SECONDS: Final = 60.0
SIGN_IN: Final = "/log-in"
PROBLEM: Final = "application/problem+json"
_OF_ENTRY: Final = re.compile(r"/messages/(\d{1,15})/")
# What sends there is a FHIR server, which reads refusals as FHIR has them.
_FOR_SERVERS: Final = "/fhir/"
_FOR_PROGRAMS: Final = ("/api/", "/hl7/", "/metrics", "/livez", "/readyz")

_log = telemetry.logger()


class App:
    """Answers every request of the pages' listener.

    `hosts` are the names under which it may be asked, `allow` the networks that are answered; none for all.
    """

    def __init__(self, context: WebContext, hosts: frozenset[str], allow: tuple[Network, ...] = ()) -> None:
        self._context = context
        self._hosts = hosts
        self._allow = allow
        ordered = sorted(checked(context.routes), key=lambda route: "{" in route.path)
        self._places = [
            Matched(route.path, AuthMiddleware(context, route).answer, methods=[route.method]) for route in ordered
        ]
        for place in self._places:
            if place.methods and is_stream_at(place.path):
                place.methods.discard("HEAD")
        self._router = Router(routes=self._places, redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        scope["state"] = {}
        secured_send = _SecuredSend(send, tls=scope["scheme"] == "https")
        request = Request(scope, receive)
        try:
            self._check_address(request)
            self._check_host(request)
            async with asyncio.timeout(None if is_stream(request) else ANSWER_SECONDS):
                await self._router({**scope, "app": self}, receive, secured_send)
        except ConnectionError:
            return
        except (AdtEngineError, HTTPException, TimeoutError) as error:
            answer = await self._refused(request, error)
        except Exception as error:  # noqa: BLE001 - the last resort: the client learns nothing of what went wrong
            _log.error("page failed", error=type(error).__name__, point=place_of(error))
            answer = await self._refused(request, RefusedRequestError(500, "the engine's log says where it failed"))
        else:
            return
        if not secured_send.begun:
            await answer(scope, receive, secured_send)

    def _check_address(self, request: Request) -> None:
        address = request.client.host if request.client else ""
        if self._allow and not is_allowed(address, self._allow):
            raise RefusedRequestError(403, "this address is not allowed: see --admin-allow")

    def _check_host(self, request: Request) -> None:
        if not is_known(request.headers.get("host", ""), self._hosts):
            raise RefusedRequestError(421, "this server is not known by that name")

    async def _refused(self, request: Request, error: Exception) -> Response:
        answer = await self._rendered(request, error)
        if answer.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            answer.headers["allow"] = self._allowed(request)
        return answer

    def _allowed(self, request: Request) -> str:
        """Return the methods that an address takes."""
        scope = {**request.scope, "path": request.url.path}
        found = [place.methods or () for place in self._places if place.matches(scope)[0] is not Match.NONE]
        return ", ".join(sorted({method for methods in found for method in methods}))

    async def _rendered(self, request: Request, error: Exception) -> Response:
        status, text = _status_and_text(error)
        if request.url.path.startswith(_FOR_SERVERS):
            return _as_outcome(status, text)
        if request.url.path.startswith(_FOR_PROGRAMS):
            return problem(status, text)
        if isinstance(error, SignInNeededError):
            return _to_sign_in(request)
        call = self._call(request)
        values = {
            "code": status,
            "title": TITLES.get(status, HTTPStatus(status).phrase),
            "text": text,
            "entry": _entry_at(request),
        }
        answer = await call.page("error.html", status, **values)
        if call.renewed:
            self._context.cookies.set(answer, SESSION, call.renewed)
        return answer

    def _call(self, request: Request) -> WebCall:
        """Return the call that was refused, as far as it had come."""
        known = request.scope["state"].get("call")
        return (
            known
            if known is not None
            else WebCall(request, self._context, Route("GET", request.url.path, Free.ANYBODY, _nothing))
        )


def problem(status: int, detail: str) -> Response:
    """Return an error as programs read it (RFC 9457)."""
    value = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return Response(orjson.dumps(value), status, _asks_for_token(status), PROBLEM)


def _as_outcome(status: int, text: str) -> Response:
    _, kind, content = outcome(status, text or TITLES.get(status, HTTPStatus(status).phrase))
    return Response(content, status, _asks_for_token(status), kind)


def _asks_for_token(status: int) -> dict[str, str] | None:
    return {"www-authenticate": "Bearer"} if status == 401 else None


def _status_and_text(error: Exception) -> tuple[int, str]:
    if isinstance(error, HTTPException):
        return error.status_code, TITLES.get(error.status_code, "")
    if isinstance(error, TimeoutError):
        return 503, "it took too long"
    return (status_of(error), str(error)) if isinstance(error, AdtEngineError) else (500, "")


def _entry_at(request: Request) -> str:
    """Return the entry about which something was asked, '' where it was none or the entry itself."""
    found = _OF_ENTRY.match(request.url.path)
    return found[1] if found else ""


def _to_sign_in(request: Request) -> Response:
    """Send a browser to the log-in page, and from there to where it wanted to be."""
    wanted = request.url.path if request.method == "GET" and not is_stream(request) else "/"
    place = SIGN_IN if wanted == "/" else f"{SIGN_IN}?to={quote(wanted, safe='/')}"
    if is_stream(request):
        return Response(status_code=401)
    return Response(status_code=303, headers={"location": place})


async def _nothing(_call: object) -> Response:
    return Response(status_code=404)


class _SecuredSend:
    """Sends an answer with the headers that stand on every one."""

    def __init__(self, send: Send, *, tls: bool) -> None:
        self._send = send
        self._tls = tls
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            message["headers"] = secured(message["headers"], tls=self._tls)
        await self._send(message)

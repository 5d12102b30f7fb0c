"""The token endpoints over HTTP: /oauth/token, /oauth/info, /oauth/cancel and /oauth/userinfo, all answers JSON.

info and cancel are GETs of the specification, and POSTs with client authentication (RFC 7662, RFC 7009).
"""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Final

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.fhir.json import JsonObject
from engine.interchange.core.service import Service
from engine.interchange.tokens.fault import OAuthError
from engine.interchange.web.http.meter import Meter
from engine.interchange.web.http.wire import RequestBody
from engine.interchange.web.oauth import endpoint
from engine.interchange.web.oauth.authentication import Caller, Fields, claimed
from engine.telemetry import logger

MOST: Final = 20
WINDOW: Final = timedelta(minutes=1)
CAPACITY: Final = 10_000


class WrongProofs:
    """Wrong proofs of the last minute, in memory: the latest 10,000 counts; `client` is '' for an unknown one."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._counts: dict[bytes, tuple[int, datetime]] = {}

    def wait(self, client: str, address: str) -> int:
        """Return 0, or once the limit is reached the seconds until it ends, 1 or more."""
        number, since = self._of(client, address)
        left = since + WINDOW - self._clock()
        return max(1, -(-left // timedelta(seconds=1))) if number >= MOST else 0

    def fail(self, client: str, address: str) -> None:
        """Count a wrong proof."""
        number, since = self._of(client, address)
        self._counts[_key(client, address)] = number + 1, since
        while len(self._counts) > CAPACITY:
            del self._counts[next(iter(self._counts))]

    def _of(self, client: str, address: str) -> tuple[int, datetime]:
        now = self._clock()
        number, since = self._counts.get(_key(client, address), (0, now))
        return (number, since) if now - since < WINDOW else (0, now)


def _key(client: str, address: str) -> bytes:
    return sha256(f"{len(address)}:{address}{client}".encode("utf-8", "replace")).digest()


Tell = Callable[[Request], Awaitable[JsonObject]]
Work = Callable[[Fields, str], Awaitable[JsonObject]]

MAX_FORM_BYTES: Final = 65_536
PRAGMA: Final = {"pragma": "no-cache"}


def token_routes(service: Service, meter: Meter) -> list[Route]:
    """Return the routes of the token endpoints."""
    proofs = WrongProofs(service.clock)

    async def token(fields: Fields, authorization: str) -> JsonObject:
        given = await endpoint.token(service, fields, authorization)
        meter.issued(fields["grant_type"])
        return endpoint.signed_answer(service, given)

    async def introspect(fields: Fields, authorization: str) -> JsonObject:
        return await endpoint.introspect(service, fields, authorization)

    async def revoke(fields: Fields, authorization: str) -> JsonObject:
        await endpoint.revoke(service, fields, authorization)
        return {}

    async def info(request: Request) -> JsonObject:
        return endpoint.info(service, _parameter(request, "access_token"))

    async def cancel(request: Request) -> JsonObject:
        await endpoint.cancel(service, _parameter(request, "token"))
        return {}

    async def user_info(request: Request) -> JsonObject:
        return {**endpoint.user_info(service, request.headers.get("authorization", ""))}

    async def keys(_request: Request) -> JsonObject:
        return {**service.signer.public_keys()}

    return [
        _route("/oauth/token", POST=partial(_proven, service, proofs, token)),
        _route("/oauth/info", GET=info, POST=partial(_proven, service, proofs, introspect)),
        _route("/oauth/cancel", GET=cancel, POST=partial(_proven, service, proofs, revoke)),
        _route("/oauth/userinfo", GET=user_info),
        _route("/oauth/jwks", GET=keys),
    ]


def _route(path: str, **tellers: Tell) -> Route:
    async def answer(request: Request) -> Response:
        return await _answer(tellers["GET" if request.method == "HEAD" else request.method], request)

    return Route(path, answer, methods=list(tellers))


async def _proven(service: Service, proofs: WrongProofs, work: Work, request: Request) -> JsonObject:
    """Return the answer of `work` to a form with client authentication; wrong proofs are counted, then 429."""
    fields = endpoint.parse_fields(request.headers.get("content-type", ""), await read_form(request))
    authorization = request.headers.get("authorization", "")
    caller = claimed(service, fields, authorization)
    whose = (caller.name if caller else "", request.client.host if request.client else "")
    try:
        _check(proofs.wait(*whose))
        return await work(fields, authorization)
    except OAuthError as error:
        if error.unproven:
            proofs.fail(*whose)
        _tell(error, caller)
        raise


def _parameter(request: Request, name: str) -> str:
    """Return a parameter of a query, '' for none; OAuthError if it is given twice."""
    given = request.query_params.getlist(name)
    if len(given) > 1:
        raise OAuthError("invalid_request", f"{name} is given more than once.")
    return given[0] if given else ""


def _check(wait: int) -> None:
    if wait:
        text = f"Too many wrong secrets or signatures; try again in {wait} seconds."
        raise OAuthError("temporarily_unavailable", text, wait=wait)


async def read_form(request: Request) -> bytes | None:
    """Return the body of a request, None where it is larger than 64 KiB."""
    return await RequestBody(request.receive).read(request.headers.get("content-length"), MAX_FORM_BYTES)


def _tell(error: OAuthError, caller: Caller | None) -> None:
    """Log a refusal with the configured client's name; an unknown client's own name is not logged."""
    said = (caller.client.trouble if caller else "") or error.description
    logger().warning("token refused", client=caller.name if caller else "", reason=error.code, error=said)


async def _answer(tell: Tell, request: Request) -> Response:
    try:
        return _json(await tell(request), 200, PRAGMA)
    except OAuthError as error:
        body: JsonObject = {"error": error.code, "error_description": error.description}
        return _json(body, error.status, {**PRAGMA, **error.headers})


def _json(value: JsonObject, status: int, headers: dict[str, str]) -> Response:
    return Response(orjson.dumps(value), status, headers, "application/json")

"""The viewer's session (a cookie with an access token, a CSRF token), and what its pages ask of the APIs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from engine.config.account import AUTHORIZATION_CODE, Client
from engine.config.service import ServiceConfiguration
from engine.fhir.json import Json, JsonObject
from engine.interchange.core.exchange import HttpAnswer, Interaction
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import read_resource, write_json
from engine.interchange.kernel.outcome import RefusedError
from engine.interchange.kernel.seal import seal, unseal
from engine.interchange.rest.access import authorise
from engine.interchange.store.transaction import milliseconds
from engine.interchange.tokens.account import principal_of
from engine.interchange.tokens.vault import Principal, TokenKind, digest_of
from engine.interchange.web.http.call import HttpCall
from engine.interchange.web.http.calls import Calls
from engine.interchange.web.http.wire import RequestBody, Scope

HOME: Final = "/chart"
RETURN: Final = f"{HOME}/signed-in"
FORM_LIFETIME_MS: Final = 12 * 3_600_000


@dataclass(frozen=True, slots=True)
class ViewerSession:
    """A signed-in person: the token, its principal, and the display name."""

    token: str
    principal: Principal
    name: str

    def bound(self) -> tuple[str, ...]:
        """Return the value that forms of this session are bound to."""
        return ("chart", digest_of(self.token).hex())


def viewers(configuration: ServiceConfiguration) -> dict[str, Client]:
    """Return the clients with a redirect address at these pages, by name."""
    address = f"{configuration.base_url}{RETURN}"
    clients = configuration.clients.items()
    return {
        name: one
        for name, one in clients
        if address in one.redirect_uris and AUTHORIZATION_CODE in one.grants and not one.disabled
    }


@dataclass(frozen=True, slots=True)
class Cookie:
    """One cookie of the pages: HttpOnly, SameSite=Lax; over TLS with the prefix `__Host-`."""

    name: str
    secure: bool

    def read(self, request: Request) -> str:
        """Return its value, '' where there is none."""
        return request.cookies.get(self._name, "")

    def set(self, answer: Response, value: str, seconds: int) -> None:
        """Set the cookie with a maximum age."""
        # Lax: sent with the redirect from the sign-in, which may have another origin.
        answer.set_cookie(self._name, value, seconds, path="/", secure=self.secure, httponly=True, samesite="lax")

    def drop(self, answer: Response) -> None:
        """Delete the cookie."""
        answer.delete_cookie(self._name, path="/", secure=self.secure, httponly=True, samesite="lax")

    @property
    def _name(self) -> str:
        return f"__Host-{self.name}" if self.secure else self.name


def session_of(service: Service, cookie: Cookie, request: Request) -> ViewerSession | None:
    """Return the session; None without one, with an expired token, and with another client's token."""
    text = cookie.read(request)
    token = service.vault.find(text) if text else None
    if token is None or token.kind != TokenKind.ACCESS or service.vault.seconds_left(token) <= 0:
        return None
    principal = principal_of(service.configuration, token)
    if principal is None or token.client not in viewers(service.configuration):
        return None
    user = service.configuration.users.get(principal.user)
    return ViewerSession(text, principal, user.name if user is not None and user.name else principal.user)


def form_token(service: Service, session: ViewerSession) -> str:
    """Return the CSRF token of a form of this session."""
    return seal(service.seal_secret, session.bound(), (), milliseconds(service.clock()) + FORM_LIFETIME_MS)


def allowed(service: Service, principal: Principal, interaction: Interaction) -> bool:
    """Say whether scopes and role allow an interaction."""
    try:
        authorise(service, principal, interaction)
    except RefusedError:
        return False
    return True


def is_ours(service: Service, session: ViewerSession, text: str) -> bool:
    """Say whether a form's CSRF token is valid: made here, for this session, and recent."""
    try:
        unseal(service.seal_secret, session.bound(), text, milliseconds(service.clock()), "")
    except RefusedError:
        return False
    return True


JSON_IN: Final = "application/fhir+json"
# The ASGI scope keys of the client's address and the request id.
ORIGIN: Final = "interchange.origin"
MOST: Final = 100
# Maximum items of a list that a page reads.
LISTED: Final = 500


class RefusedPageError(Exception):
    """An API has refused a request of a page."""

    def __init__(self, status: int, issues: tuple[tuple[str, str], ...] = ()) -> None:
        """Take the status, and each issue with its location."""
        super().__init__(f"refused with {status}")
        self.status = status
        self.issues = issues


@dataclass(frozen=True, slots=True)
class Asker:
    """Calls the APIs for one session and one request of a browser; `sis` is the service's identifier system.

    `path` and `query` are those of the request.
    """

    calls: Calls
    session: ViewerSession
    origin: tuple[str, str]
    sis: str
    path: str
    query: Mapping[str, str]

    async def chart(self, path: str, query: str = "") -> JsonObject:
        """Return the answer of the Chart API; RefusedPageError for a refusal."""
        return read_resource(
            (await self._answer(HttpCall("GET", path, query, self._headers(), _body(b""), chart=True))).body
        )

    async def items(self, path: str) -> JsonObject:
        """Return the first items of a list of the Chart API, LISTED at most, and the total."""
        found = await self.chart(path, f"limit={MOST}")
        items = found["items"]
        while len(items) < min(found["total"], LISTED):
            part = await self.chart(path, f"limit={MOST}&offset={len(items)}")
            if not part["items"]:
                break
            items += part["items"]
        return {"total": max(found["total"], len(items)), "items": items}

    async def fhir(self, path: str, query: str = "") -> JsonObject:
        """Return the answer of FHIR R4; RefusedPageError for a refusal."""
        return read_resource((await self.get(path, query)).body)

    async def get(self, path: str, query: str = "", accept: str = "") -> HttpAnswer:
        """Return the answer of FHIR R4 to a GET; RefusedPageError for a refusal."""
        headers = {**self._headers(), **({"accept": accept} if accept else {})}
        return await self._answer(HttpCall("GET", f"R4/{path}", query, headers, _body(b"")))

    async def found(self, path: str, query: str = "") -> list[JsonObject]:
        """Return the resources on the first page of a FHIR R4 search."""
        bundle = await self.fhir(path, query)
        return [one["resource"] for one in bundle["entry"] if one.get("search", {}).get("mode") != "outcome"]

    async def send(self, path: str, resource: JsonObject, once: str) -> Json:
        """Create a resource unless the query `once` matches (If-None-Exist), and return it; RefusedPageError."""
        headers = {**self._headers(), "content-type": JSON_IN, "if-none-exist": once}
        return read_resource(
            (await self._answer(HttpCall("POST", f"R4/{path}", "", headers, _body(write_json(resource))))).body
        )

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.session.token}"}

    async def _answer(self, call: HttpCall) -> HttpAnswer:
        call.origin = self.origin
        answer = await self.calls.answer(call, self.origin[1])
        if answer.status < 400:
            return answer
        issues = read_resource(answer.body).get("issue", ()) if answer.body else ()
        raise RefusedPageError(
            answer.status, tuple((issue.get("diagnostics", ""), (issue.get("location") or [""])[0]) for issue in issues)
        )


def _body(text: bytes) -> RequestBody:
    async def receive() -> Scope:
        return {"type": "http.request", "body": text, "more_body": False}

    return RequestBody(receive)

"""Who is signed in at the pages: a cookie that holds an access token of the service, and what proves a form is ours."""

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from engine.config.account import AUTHORIZATION_CODE, Client
from engine.config.service import ServiceConfiguration
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import RefusedError
from engine.interchange.kernel.seal import seal, unseal
from engine.interchange.store.transaction import milliseconds
from engine.interchange.tokens.oauth.account import principal_of
from engine.interchange.tokens.oauth.vault import Principal, TokenKind, digest_of

HOME: Final = "/chart"
RETURN: Final = f"{HOME}/signed-in"
FORM_LIFETIME_MS: Final = 12 * 3_600_000


@dataclass(frozen=True, slots=True)
class ViewerSession:
    """A person who is signed in: the token, whom it speaks for, and the name as people read it."""

    token: str
    principal: Principal
    name: str

    def bound(self) -> tuple[str, ...]:
        """Return what forms of this session are bound to."""
        return ("chart", digest_of(self.token).hex())


def viewers(configuration: ServiceConfiguration) -> dict[str, Client]:
    """Return the clients that are these pages: those that people are sent back to here, by name."""
    address = f"{configuration.base_url}{RETURN}"
    clients = configuration.clients.items()
    return {
        name: one
        for name, one in clients
        if address in one.redirect_uris and AUTHORIZATION_CODE in one.grants and not one.disabled
    }


@dataclass(frozen=True, slots=True)
class Cookie:
    """One cookie of the pages: out of reach of scripts and of forms on other sites; over TLS only this host sets it."""

    name: str
    secure: bool

    def read(self, request: Request) -> str:
        """Return its value, '' where there is none."""
        return request.cookies.get(self._name, "")

    def set(self, answer: Response, value: str, seconds: int) -> None:
        """Let the browser keep a value for some time."""
        # Lax: it comes along when the sign-in, which may be at another address, sends the person here.
        answer.set_cookie(self._name, value, seconds, path="/", secure=self.secure, httponly=True, samesite="lax")

    def drop(self, answer: Response) -> None:
        """Let the browser forget it."""
        answer.delete_cookie(self._name, path="/", secure=self.secure, httponly=True, samesite="lax")

    @property
    def _name(self) -> str:
        return f"__Host-{self.name}" if self.secure else self.name


def session_of(service: Service, cookie: Cookie, request: Request) -> ViewerSession | None:
    """Return who is signed in; None for nobody, once the token has ended, and for a token of another client."""
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
    """Return what a form of this session carries, so that no other site can send one in its place."""
    return seal(service.seal_secret, session.bound(), (), milliseconds(service.clock()) + FORM_LIFETIME_MS)


def is_ours(service: Service, session: ViewerSession, text: str) -> bool:
    """Say whether a form was made here, for this session, not too long ago."""
    try:
        unseal(service.seal_secret, session.bound(), text, milliseconds(service.clock()), "")
    except RefusedError:
        return False
    return True

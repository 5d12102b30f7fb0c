"""The viewer's session: a cookie with an access token of the service, and the CSRF token of forms."""

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


def is_ours(service: Service, session: ViewerSession, text: str) -> bool:
    """Say whether a form's CSRF token is valid: made here, for this session, and recent."""
    try:
        unseal(service.seal_secret, session.bound(), text, milliseconds(service.clock()), "")
    except RefusedError:
        return False
    return True

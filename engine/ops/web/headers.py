"""Headers that stand on every answer, and the two cookies: of a session, and of a visitor who is not signed in yet."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
EVERYWHERE: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
OVER_TLS: Final = ((b"strict-transport-security", b"max-age=31536000"),)
NOT_KEPT: Final = (b"cache-control", b"no-store")
KEPT: Final = (b"cache-control", b"public, max-age=3600")

Header = tuple[bytes, bytes]


def secured(headers: Iterable[Header], *, tls: bool) -> list[Header]:
    """Return headers with those that stand on every answer; what does not say how long it may be kept is not kept."""
    own = list(headers)
    if not any(name == b"cache-control" for name, _ in own):
        own.append(NOT_KEPT)
    return [*own, *EVERYWHERE, *(OVER_TLS if tls else ())]


SESSION: Final = "sid"
VISITOR: Final = "visitor"


@dataclass(frozen=True, slots=True)
class Cookies:
    """How cookies of this server are named and kept: for it alone, out of reach of scripts and of other sites' pages.

    Over TLS no other host below the same domain can set them. Without, the port keeps engines of one machine apart.
    """

    port: int
    tls: bool

    def read(self, request: Request, name: str) -> str:
        """Return a cookie's value, '' where it is absent."""
        return request.cookies.get(self._name(name), "")

    def set(self, answer: Response, name: str, value: str) -> None:
        """Let the browser keep a value until it is closed."""
        answer.set_cookie(self._name(name), value, path="/", secure=self.tls, httponly=True, samesite="strict")

    def drop(self, answer: Response, name: str) -> None:
        """Let the browser forget a value."""
        answer.delete_cookie(self._name(name), path="/", secure=self.tls, httponly=True, samesite="strict")

    def _name(self, name: str) -> str:
        return f"__Host-{name}" if self.tls else f"{name}-{self.port}"

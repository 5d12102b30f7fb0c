"""The two cookies: of a session, and of somebody who is not signed in yet, for whom forms must be ours all the same."""

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

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

"""A route: address, method, the permission that it needs, and the view that answers it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from starlette.responses import Response

from engine.errors import StartError
from engine.ops.access.actor import Permission


class Free(StrEnum):
    """Who may ask for what needs no permission: anybody, or anybody who is signed in."""

    ANYBODY = "anybody"
    SIGNED_IN = "signed-in"


class Authentication(StrEnum):
    """How a caller shows who it is: a browser by its session's cookie, a program by a bearer token."""

    SESSION = "session"
    TOKEN = "token"  # noqa: S105 - a kind, no secret


@dataclass(frozen=True, slots=True)
class Route:
    """One route; `view(call)` answers, and GET changes nothing. `label`: its place in the menu, if any."""

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    needs: Permission | Free
    view: Callable[[Any], Awaitable[Response]]
    gate: Authentication = Authentication.SESSION
    label: str = ""

    @property
    def key(self) -> str:
        """Method and path, as people write them."""
        return f"{self.method} {self.path}"


def checked(routes: Sequence[Route]) -> tuple[Route, ...]:
    """Return the routes; StartError where one does not say what it needs, or is there twice."""
    seen = set()
    for route in routes:
        if not isinstance(route.needs, Permission | Free):
            raise StartError(f"the route {route.key} declares no permission: add one to the table of routes")
        if route.key in seen:
            raise StartError(f"the route {route.key} is twice in the table of routes")
        seen.add(route.key)
    return tuple(routes)

"""Browsers of other origins (CORS): each client names its own; discovery is for everybody, as SMART has it."""

from collections.abc import Mapping
from typing import Final

from engine.config.service import ServiceConfiguration
from engine.interchange.core.exchange import HttpAnswer

Headers = tuple[tuple[str, str], ...]

METHODS: Final = "GET, HEAD, POST, PUT, PATCH, DELETE"
# What a browser's script may send and read beside the few that every one may.
SENT: Final = (
    "Authorization, Accept, Content-Type, Prefer, X-Request-Id,"
    " If-Match, If-None-Match, If-Modified-Since, If-None-Exist"
)
READ: Final = "ETag, Location, Content-Location, Last-Modified, Retry-After, WWW-Authenticate, X-Progress, X-Request-Id"
AGE_SECONDS: Final = "600"
VARY: Final = ("vary", "origin")


def preflight(configuration: ServiceConfiguration, method: str, headers: Mapping[str, str]) -> HttpAnswer | None:
    """Return the answer to a browser that asks beforehand, for an origin of any client; None for all other requests."""
    asks = method == "OPTIONS" and "access-control-request-method" in headers
    if not asks or not _known(configuration, headers.get("origin", "")):
        return None
    told = (
        ("access-control-allow-origin", headers["origin"]),
        ("access-control-allow-methods", METHODS),
        ("access-control-allow-headers", SENT),
        ("access-control-max-age", AGE_SECONDS),
    )
    return HttpAnswer(204, b"", (*told, VARY))


def let_in(configuration: ServiceConfiguration, origin: str, client: str, *, public: bool) -> Headers:
    """Return the headers by which a script of an origin may read an answer, none where it may not.

    `client` is whose token was sent: only its own origins read what it sees. '' stands for a request without one,
    which shows nothing of anybody. `public`: for everybody.
    """
    if public:
        return (("access-control-allow-origin", "*"),)
    found = configuration.clients.get(client)
    if not (origin in found.origins if found is not None else _known(configuration, origin)):
        return ()
    return (("access-control-allow-origin", origin), ("access-control-expose-headers", READ), VARY)


def _known(configuration: ServiceConfiguration, origin: str) -> bool:
    return any(origin in client.origins for client in configuration.clients.values())

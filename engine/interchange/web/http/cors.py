"""CORS: each client has its own allowed origins; discovery is open to all origins (SMART App Launch)."""

from collections.abc import Mapping
from typing import Final

from engine.config.service import ServiceConfiguration
from engine.interchange.core.exchange import HttpAnswer

Headers = tuple[tuple[str, str], ...]

METHODS: Final = "GET, HEAD, POST, PUT, PATCH, DELETE"
# Headers that scripts may send and read in addition to the CORS-safelisted ones.
SENT: Final = (
    "Authorization, Accept, Content-Type, Prefer, X-Request-Id,"
    " If-Match, If-None-Match, If-Modified-Since, If-None-Exist"
)
READ: Final = "ETag, Location, Content-Location, Last-Modified, Retry-After, WWW-Authenticate, X-Progress, X-Request-Id"
AGE_SECONDS: Final = "600"
VARY: Final = ("vary", "origin")


def preflight(configuration: ServiceConfiguration, method: str, headers: Mapping[str, str]) -> HttpAnswer | None:
    """Return the answer to a preflight request from an origin of any client; None for all other requests."""
    asks = method == "OPTIONS" and "access-control-request-method" in headers
    if not asks or not _known(configuration, headers.get("origin", "")):
        return None
    headers_sent = (
        ("access-control-allow-origin", headers["origin"]),
        ("access-control-allow-methods", METHODS),
        ("access-control-allow-headers", SENT),
        ("access-control-max-age", AGE_SECONDS),
    )
    return HttpAnswer(204, b"", (*headers_sent, VARY))


def let_in(configuration: ServiceConfiguration, origin: str, client: str, *, public: bool) -> Headers:
    """Return the CORS headers of an answer; none if scripts of the origin may not read it.

    `client` is the token's client: only its own origins may read the answer; '' for a request without a token, which
    shows no data. `public`: every origin may read it.
    """
    if public:
        return (("access-control-allow-origin", "*"),)
    configured = configuration.clients.get(client)
    if not (origin in configured.origins if configured is not None else _known(configuration, origin)):
        return ()
    return (("access-control-allow-origin", origin), ("access-control-expose-headers", READ), VARY)


def _known(configuration: ServiceConfiguration, origin: str) -> bool:
    return any(origin in client.origins for client in configuration.clients.values())

"""The headers that stand on every answer, and those of what may hold something of a patient."""

from collections.abc import Iterable
from typing import Final

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

"""Sealed continuations: the payload of a next link, signed by the service, for one use, with an expiry.

A seal is URL-safe text. Its holder can read the payload, so it holds no more than the answer did; only the service can
make or change it. Its binding (tenant, version, type, criteria) is signed but not included: a seal is not valid for
another request.
"""

import base64
import hmac
from typing import Final

import orjson

from engine.interchange.kernel.outcome import Category, refuse

# HMAC-SHA256, cut to the half that RFC 2104, section 5 allows.
SIGNATURE_BYTES: Final = 16

Payload = tuple[str | int, ...]


def seal(secret: bytes, bound: Payload, payload: Payload, expires_ms: int) -> str:
    """Return the continuation; `bound` starts with the name of its use, so that it is not valid for another use."""
    content = orjson.dumps([expires_ms, *payload])
    return _text(_signature(secret, bound, content) + content)


def unseal(secret: bytes, bound: Payload, text: str, now_ms: int, location: str) -> Payload:
    """Return the payload; RefusedError 400 if it was changed or is bound to another request, 410 if it has expired.

    `location` is that of the issue (`http._cursor`).
    """
    sealed = _bytes(text)
    signature, content = sealed[:SIGNATURE_BYTES], sealed[SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _signature(secret, bound, content)):
        raise refuse(
            Category.BAD_VALUE, "The link to the next page was changed; follow it as it was given.", location=location
        )
    expires_ms, *payload = orjson.loads(content)
    if now_ms > expires_ms:
        raise refuse(
            Category.GONE, "The link to the next page has expired; the search must be restarted.", location=location
        )
    return tuple(payload)


def _signature(secret: bytes, bound: Payload, content: bytes) -> bytes:
    # JSON is self-delimiting: no other pair makes the same bytes.
    return hmac.digest(secret, orjson.dumps(bound) + content, "sha256")[:SIGNATURE_BYTES]


def _text(sealed: bytes) -> str:
    return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    """Return the bytes of a text in canonical base64, b"" for any other spelling."""
    try:
        sealed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""
    return sealed if _text(sealed) == text else b""

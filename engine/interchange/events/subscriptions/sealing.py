"""Header lines of subscriptions are stored sealed: neither a copy of the database nor a search shows them.

The key is derived from the service's secret. A seal is bound to one subscription of one tenant: it cannot be opened in
another row.
"""

from typing import Final

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

NONCE_BYTES: Final = 12
KEY_BYTES: Final = 32
PURPOSE: Final = b"header lines of webhooks"

Lines = tuple[str, ...]


def seal(secret: bytes, tenant: int, subscription_id: str, lines: Lines, nonce: bytes) -> bytes:
    """Return header lines sealed, b'' for none; `nonce` is 12 random bytes, new for each call."""
    if not lines:
        return b""
    return nonce + AESGCM(_key(secret)).encrypt(nonce, orjson.dumps(lines), _bound(tenant, subscription_id))


def unseal(secret: bytes, tenant: int, subscription_id: str, sealed: bytes) -> Lines | None:
    """Return the header lines; None if they were sealed by another service or for another subscription."""
    if not sealed:
        return ()
    nonce, text = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
    try:
        return tuple(orjson.loads(AESGCM(_key(secret)).decrypt(nonce, text, _bound(tenant, subscription_id))))
    except InvalidTag:
        return None


def _key(secret: bytes) -> bytes:
    return HKDF(SHA256(), KEY_BYTES, None, PURPOSE).derive(secret)


def _bound(tenant: int, subscription_id: str) -> bytes:
    return f"{tenant}/{subscription_id}".encode()

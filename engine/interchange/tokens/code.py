"""Authorization codes: single use, 60 seconds, bound to client, redirect address and code verifier."""

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from hmac import compare_digest
from typing import Final, NamedTuple

from engine.config.account import AUTHORIZATION_CODE
from engine.database.connection import Connection
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import milliseconds
from engine.interchange.tokens.vault import Bearer, Issued, Vault, digest_of

LIFETIME_MS: Final = 60_000
# A reused code revokes its tokens even after its expiry.
KEPT_AFTER_EXPIRY_MS: Final = 86_400_000
CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")

ADD: Final = (
    "INSERT INTO authorization_code"
    " (digest, pair, client, login, scope, redirect_uri, challenge, patient, nonce, expires_ms, used)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)"
)
GET: Final = (
    "SELECT client, login, scope, redirect_uri, challenge, patient, nonce, pair, expires_ms, used"
    " FROM authorization_code WHERE digest=?"
)
USE: Final = "UPDATE authorization_code SET used=1 WHERE digest=?"
FORGET: Final = "DELETE FROM authorization_code WHERE expires_ms < ?"


class Authorization(NamedTuple):
    """An authorization by a user: client, scope, and redirect address; `challenge` is '' without PKCE.

    `patient` is the chosen patient's id, `nonce` the id_token's nonce; '' for none.
    """

    client: str
    user: str
    scope: str
    redirect_uri: str
    challenge: str
    patient: str = ""
    nonce: str = ""


class CodeExchange(NamedTuple):
    """A client's request to exchange a code; `verifier` is '' without PKCE.

    `left` returns the scopes of the authorization that are still allowed, '' for none.
    """

    client: str
    redirect_uri: str
    verifier: str
    api_version: str
    left: Callable[[Authorization], str]


class AuthorizationCodes:
    """Issues authorization codes and exchanges them for tokens; stores only digests."""

    def __init__(self, store: Store, vault: Vault, clock: Callable[[], datetime], new_code: Callable[[], str]) -> None:
        self._store = store
        self._vault = vault
        self._clock = clock
        self._new_code = new_code

    async def issue(self, given: Authorization) -> str:
        """Return a new code, once it is on disk."""
        code = f"ac_{self._new_code()}"
        family = self._vault.new_family()

        def work(connection: Connection) -> None:
            now = milliseconds(self._clock())
            connection.execute(FORGET, (now - KEPT_AFTER_EXPIRY_MS,))
            connection.execute(ADD, (digest_of(code), family, *given, now + LIFETIME_MS))

        await self._store.write_raw(work)
        return code

    async def exchange(self, code: str, asked: CodeExchange) -> tuple[Issued, str] | None:
        """Return the tokens for a code, and its nonce; None if it is unknown, used, expired or another client's.

        A second use revokes the tokens of the first (RFC 6749 section 4.1.2). An attempt with a wrong client, address
        or verifier does not use up the code.
        """
        digest = digest_of(code)

        def work(connection: Connection) -> tuple[Issued, str] | None:
            row = connection.execute(GET, (digest,)).fetchone()
            if row is None or row[0] != asked.client:
                return None
            given, (family, expires_ms, used) = Authorization(*row[:-3]), row[-3:]
            if used:
                self._vault.end(connection, family)
            if used or expires_ms <= milliseconds(self._clock()) or not fits(given, asked):
                return None
            scope = asked.left(given)
            if not scope:
                return None
            connection.execute(USE, (digest,))
            bearer = Bearer(given.client, given.user, scope, asked.api_version, given.patient, AUTHORIZATION_CODE)
            return self._vault.add(connection, family, bearer, refresh=True), given.nonce

        issued = await self._store.write_raw(work)
        if issued is None:
            self._vault.forget()
        return issued


def fits(given: Authorization, asked: CodeExchange) -> bool:
    """Say whether redirect address and verifier match the authorization.

    A verifier without a challenge is refused too: it indicates a PKCE downgrade (RFC 9700 section 4.8).
    """
    if given.redirect_uri != asked.redirect_uri:
        return False
    if not given.challenge or not asked.verifier:
        return not given.challenge and not asked.verifier
    known = VERIFIER.fullmatch(asked.verifier) is not None
    return known and compare_digest(challenge_of(asked.verifier), given.challenge)


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a verifier (RFC 7636 section 4.2)."""
    return urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()

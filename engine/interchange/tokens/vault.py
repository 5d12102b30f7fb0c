"""The store of tokens: only digests are stored, lifetimes follow the service's clock; tokens for local administrators.

A token and its successors by refresh are one family: revoking an access token revokes the family's refresh tokens. A
reused refresh token was copied, so that the whole family is revoked (RFC 9700 section 4.14.2).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Final, NamedTuple

from engine.config.account import Role
from engine.config.service import ServiceConfiguration
from engine.database.connection import Connection
from engine.errors import UsageError
from engine.interchange.store.place import Place, open_known
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import milliseconds
from engine.interchange.tokens.scope import OFFLINE, PERSONAL, granted, right

CACHE: Final = 10_000
KEPT_AFTER_EXPIRY_MS: Final = 86_400_000

ADD: Final = (
    "INSERT INTO token (digest, kind, pair, client, login, scope, api_version, patient, given_by, expires_ms, revoked)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)"
)
GET: Final = (
    "SELECT kind, pair, client, login, scope, api_version, patient, given_by, expires_ms, revoked"
    " FROM token WHERE digest=?"
)
# An exchanged token keeps this state, so that its reuse reveals a theft.
REVOKE: Final = "UPDATE token SET revoked=1 WHERE digest=? AND revoked=0"
# 2: not revoked by anybody, but exchanged for its successor.
ROTATE: Final = "UPDATE token SET revoked=2 WHERE digest=?"
REVOKE_FAMILY: Final = "UPDATE token SET revoked=1 WHERE pair=? AND revoked=0"
REVOKE_REFRESH: Final = "UPDATE token SET revoked=1 WHERE pair=? AND kind='refresh' AND revoked=0"
FORGET: Final = "DELETE FROM token WHERE expires_ms < ?"
ROTATED: Final = 2


class TokenKind(StrEnum):
    """Access tokens open the service; refresh tokens are exchanged for new ones."""

    ACCESS = "access"
    REFRESH = "refresh"


class StoredToken(NamedTuple):
    """A stored token; `user` is '' for a token of the client itself, `scope` is as it was granted.

    `patient` is the id of its patient, `grant` the grant type; '' for none.
    """

    kind: str
    pair: int
    client: str
    user: str
    scope: str
    api_version: str
    patient: str
    grant: str
    expires_ms: int
    revoked: int


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller: client and user ('' for none), current tenant and role, and the scopes of the token.

    `patient` is the id of the only patient that the token may access, '' for no such limit.
    """

    client: str
    user: str
    tenant: str
    role: Role
    scopes: tuple[str, ...]
    api_version: str
    patient: str = ""


class Bearer(NamedTuple):
    """The subject of new tokens: client and user ('' for none), scope, patient, and grant."""

    client: str
    user: str
    scope: str
    api_version: str
    patient: str = ""
    grant: str = ""


class Issued(NamedTuple):
    """New tokens in the clear, for the answer; `refresh` is empty for none."""

    access: str
    refresh: str
    expires_in: int
    bearer: Bearer


class Vault:
    """Issues, checks, refreshes and revokes tokens."""

    def __init__(
        self, store: Store, clock: Callable[[], datetime], new_token: Callable[[], str], lifetimes: tuple[int, int]
    ) -> None:
        self._store = store
        self._clock = clock
        self._new_token = new_token
        self._access_seconds, self._refresh_seconds = lifetimes
        self._cache: dict[bytes, StoredToken] = {}

    async def issue(self, bearer: Bearer, *, refresh: bool) -> Issued:
        """Return a new access token, and a refresh token if requested, once they are on disk."""
        family = self.new_family()
        return await self._store.write_raw(lambda connection: self.add(connection, family, bearer, refresh=refresh))

    async def exchange(self, refresh_token: str, client: str, scope: str) -> Issued | None:
        """Exchange a refresh token for its successors, with the given scopes.

        None if it is unknown, expired, used or another client's. A used one revokes its family.
        """
        digest = digest_of(refresh_token)

        def work(connection: Connection) -> Issued | None:
            token = _get(connection, digest)
            if token is None or token.kind != TokenKind.REFRESH or token.client != client:
                return None
            if token.revoked == ROTATED:
                self.end(connection, token.pair)
            if token.revoked or self.seconds_left(token) <= 0:
                return None
            connection.execute(ROTATE, (digest,))
            bearer = Bearer(client, token.user, scope, token.api_version, token.patient, token.grant)
            return self.add(connection, token.pair, bearer, refresh=True)

        issued = await self._store.write_raw(work)
        if issued is None:
            self.forget()
        return issued

    def find(self, token: str) -> StoredToken | None:
        """Return a token, expired or not; None if it is unknown or revoked."""
        digest = digest_of(token)
        known = self._cache.get(digest)
        if known is None:
            known = _get(self._store.reader(), digest)
            if known is None or known.revoked:
                return None
            if self._store.shared:
                # Another process may revoke it at any moment.
                return known
            if len(self._cache) >= CACHE:
                self._cache.clear()
            self._cache[digest] = known
        return known

    def find_any(self, token: str) -> StoredToken | None:
        """Return a token in any state; None if it is unknown or deleted."""
        return _get(self._store.reader(), digest_of(token)) if token else None

    def seconds_left(self, token: StoredToken) -> int:
        """Return the whole seconds until a token expires, 0 or less after that."""
        return (token.expires_ms - milliseconds(self._clock())) // 1000

    async def revoke(self, token: str) -> None:
        """Revoke a token, an access token with its refresh token; an unknown one without error (RFC 7009)."""
        digest = digest_of(token)

        def work(connection: Connection) -> None:
            known = _get(connection, digest)
            if known is not None:
                connection.execute(REVOKE, (digest,))
                if known.kind == TokenKind.ACCESS:
                    connection.execute(REVOKE_REFRESH, (known.pair,))

        await self._store.write_raw(work)
        self.forget()

    def forget(self) -> None:
        """Read tokens from disk again, after some were revoked."""
        self._cache.clear()

    def new_family(self) -> int:
        """Return the number of a new family."""
        return int.from_bytes(digest_of(self._new_token())[:7])

    def add(self, connection: Connection, family: int, bearer: Bearer, *, refresh: bool) -> Issued:
        """Store new tokens of a family within a write, and return them."""
        now = milliseconds(self._clock())
        connection.execute(FORGET, (now - KEPT_AFTER_EXPIRY_MS,))
        access, second = f"at_{self._new_token()}", f"rt_{self._new_token()}" if refresh else ""
        rows = [(access, TokenKind.ACCESS, self._access_seconds)]
        if refresh:
            rows.append((second, TokenKind.REFRESH, self._refresh_seconds))
        for text, kind, seconds in rows:
            connection.execute(ADD, (digest_of(text), str(kind), family, *bearer, now + seconds * 1000))
        return Issued(access, second, self._access_seconds, bearer)

    def end(self, connection: Connection, family: int) -> None:
        """Revoke every token of a family within a write; call `forget` after it."""
        connection.execute(REVOKE_FAMILY, (family,))


def digest_of(token: str) -> bytes:
    """Return the stored digest of a token or code: its SHA-256."""
    return sha256(token.encode("utf-8", "replace")).digest()


def _get(connection: Connection, digest: bytes) -> StoredToken | None:
    row = connection.execute(GET, (digest,)).fetchone()
    return StoredToken(*row) if row else None


def issue_locally(
    configuration: ServiceConfiguration,
    database: Place,
    client: str,
    scope: str,
    clock: Callable[[], datetime],
    new_token: Callable[[], str],
) -> Issued:
    """Return a new access token of a client; with the scope `offline_access` a refresh token too.

    `scope` '' means all registered scopes; scopes without access to FHIR (`offline_access`) need no registration.
    UsageError: unknown client or scope; StartError: no service's database.
    """
    registered = configuration.clients.get(client)
    if registered is None:
        raise UsageError(f"there is no client {client!r}; the file has: {', '.join(configuration.clients) or 'none'}")
    scopes = tuple(scope.split()) or registered.scopes
    unknown = [one for one in scopes if right(one) is None]
    beyond = [one for one in scopes if not granted((*registered.scopes, *PERSONAL), (one,))]
    if unknown or not scopes:
        raise UsageError(f"no scope: {', '.join(unknown) or 'the client has none; give --scope'}")
    if beyond:
        raise UsageError(f"the client is not registered for {', '.join(beyond)}; add it to clients.{client}.scopes")
    # No service would know a token in a new database.
    open_known(database).close()
    store = Store(database, configuration.tenants, clock, {}, alone=False, environment=configuration.environment)
    try:
        vault = Vault(
            store, clock, new_token, (configuration.access_token_lifetime_s, configuration.refresh_token_lifetime_s)
        )
        version = configuration.tenants[registered.tenant].rest_api_version
        return asyncio.run(vault.issue(Bearer(client, "", " ".join(scopes), version), refresh=OFFLINE in scopes))
    finally:
        store.close()

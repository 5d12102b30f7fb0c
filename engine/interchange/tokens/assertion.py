"""Signed assertions: JWTs that authenticate a client or name a user (RFC 7523).

The registered key determines the algorithm, never the token: HS256 for a secret, RS384 for an RSA key,
ES384 for one on P-384.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import orjson
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OctKey, RSAKey
from joserfc.jwt import JWTClaimsRegistry
from joserfc.util import urlsafe_b64decode

from engine.config.account import Client
from engine.database.connection import Connection
from engine.errors import ServiceError
from engine.fhir.json import JsonObject
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import milliseconds
from engine.interchange.tokens.vault import digest_of

Key = OctKey | RSAKey | ECKey

TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
SKEW_SECONDS: Final = 60
LONGEST_ID: Final = 256
ALGORITHMS: Final = {"RSA": "RS384", "EC": "ES384"}
SECRET_ALGORITHM: Final = "HS256"  # noqa: S105 - an algorithm's name
SHORTEST_RSA_BITS: Final = 2048
# Errors of joserfc for input that is not a JWT.
UNREADABLE: Final = (JoseError, ValueError, TypeError, KeyError, AttributeError)

SPEND: Final = "INSERT INTO spent_assertion (digest, expires_ms) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING digest"
FORGET: Final = "DELETE FROM spent_assertion WHERE expires_ms < ?"


class RefusedAssertionError(ServiceError):
    """An assertion is not valid; the text names the claim, never its value."""


class ForgedAssertionError(RefusedAssertionError):
    """An assertion is not signed by the client's key."""


@dataclass(frozen=True, slots=True)
class Assertion:
    """The claims of a verified assertion; `id` is its `jti`, '' for none."""

    subject: str
    id: str
    expires_at: float


@dataclass(frozen=True, slots=True)
class ExpectedClaims:
    """The required claims of an assertion: issuer, audience, and maximum lifetime."""

    issuer: str
    audience: str
    longest_seconds: int


def claimed_subject(text: str) -> str:
    """Return the `sub` of an unverified assertion, '' if it cannot be parsed."""
    try:
        claims = orjson.loads(jws.extract_compact(text.encode()).payload)
        subject = claims.get("sub", "")
    except UNREADABLE:
        return ""
    return subject if isinstance(subject, str) else ""


def verify(text: str, client: Client, expected: ExpectedClaims, now: datetime) -> Assertion:
    """Return the claims of a client's assertion; RefusedAssertionError if signature, claims or time are wrong."""
    claims = _signed(text, client)
    options: JsonObject = {name: {"essential": True} for name in ("sub", "aud", "exp")}
    registry = JWTClaimsRegistry(
        int(now.timestamp()), SKEW_SECONDS, iss={"essential": True, "value": expected.issuer}, **options
    )
    try:
        registry.validate(claims)
    except JoseError as error:
        raise RefusedAssertionError(f"{getattr(error, 'claim', 'a claim')} is missing or wrong") from error
    # One audience only: an assertion for several servers could be replayed at another one.
    if claims["aud"] not in (expected.audience, [expected.audience]):
        raise RefusedAssertionError("aud must be the address of this token endpoint")
    if claims["exp"] > now.timestamp() + expected.longest_seconds + SKEW_SECONDS:
        raise RefusedAssertionError(f"exp is more than {expected.longest_seconds} seconds ahead")
    identity = claims.get("jti", "")
    if len(identity) > LONGEST_ID:
        raise RefusedAssertionError("jti is too long")
    return Assertion(claims["sub"], identity, float(claims["exp"]))


async def spend(store: Store, clock: Callable[[], datetime], client: str, assertion: Assertion) -> bool:
    """Record the use of an assertion; False if it was used before. Without a `jti` replay is not detected."""
    if not assertion.id:
        return True
    digest = digest_of(f"{len(client)}:{client}{assertion.id}")

    def work(connection: Connection) -> bool:
        connection.execute(FORGET, (milliseconds(clock()),))
        until = int((assertion.expires_at + SKEW_SECONDS) * 1000) + 1
        return bool(connection.execute(SPEND, (digest, until)).fetchall())

    return await store.write_raw(work)


def _signed(text: str, client: Client) -> JsonObject:
    try:
        header = jws.extract_compact(text.encode()).headers()
        # Neither is supported, and both change the meaning of the signature (RFC 7797, RFC 7515 section 4.1.11).
        if "crit" in header or "b64" in header:
            raise RefusedAssertionError("the header asks for an extension")
        for algorithm, name, key in _keys(client):
            meant = header.get("alg") == algorithm and header.get("kid", name) in {name, None}
            if meant and _signs(text, key, algorithm):
                claims = orjson.loads(jws.extract_compact(text.encode()).payload)
                if isinstance(claims, dict):
                    return claims
    except (*UNREADABLE, LookupError) as error:
        raise RefusedAssertionError("it cannot be read or checked") from error
    raise ForgedAssertionError("the signature is not of this client's registered key and its algorithm")


def _signs(text: str, key: Key, algorithm: str) -> bool:
    try:
        jws.deserialize_compact(text, key, [algorithm])
    except JoseError:
        return False
    return True


def _keys(client: Client) -> Iterator[tuple[str, str | None, Key]]:
    """Yield the keys of a client, each with its algorithm and its `kid`; LookupError if none can be read."""
    if client.secret is not None:
        secret = client.secret.read().encode()
        yield SECRET_ALGORITHM, None, OctKey(secret, secret)
    for key in client.jwks.read() if client.jwks is not None else ():
        if key.get("kty") == "RSA" and int.from_bytes(urlsafe_b64decode(key["n"].encode())) >> (SHORTEST_RSA_BITS - 1):
            yield ALGORITHMS["RSA"], key.get("kid"), RSAKey.import_key(key)
        elif key.get("kty") == "EC" and key.get("crv") == "P-384":
            yield ALGORITHMS["EC"], key.get("kid"), ECKey.import_key(key)

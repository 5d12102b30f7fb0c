"""The id_token of OpenID Connect Core 1.0, and its public key."""

from functools import cached_property
from typing import Final

from joserfc import jwt
from joserfc.jwk import RSAKey

from engine.config.service import ServiceConfiguration
from engine.fhir.json import JsonObject
from engine.interchange.store.store import Store
from engine.interchange.tokens.vault import Bearer

OPENID: Final = "openid"
ALGORITHM: Final = "RS256"
KEY_BITS: Final = 2048
LIFETIME_SECONDS: Final = 300


class Signer:
    """Signs id_tokens with a key in the database, generated at its first use."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @cached_property
    def _key(self) -> RSAKey:
        new: bytes = RSAKey.generate_key(KEY_BITS).as_pem(private=True)
        return RSAKey.import_key(self._store.secret("id_token", new))

    def public_keys(self) -> dict[str, list[JsonObject]]:
        """Return the public key as a JWK Set (RFC 7517)."""
        shown = self._key.as_dict(private=False)
        return {"keys": [{**shown, "kid": self._key.thumbprint(), "use": "sig", "alg": ALGORITHM}]}

    def id_token(self, configuration: ServiceConfiguration, bearer: Bearer, nonce: str, now_s: int) -> str:
        """Return the id_token for a user's token; '' without a user, or if the client did not request it."""
        scopes = bearer.scope.split()
        if not bearer.user or OPENID not in scopes:
            return ""
        user = configuration.users[bearer.user]
        claims: JsonObject = {
            "iss": configuration.token_url,
            "sub": bearer.user,
            "aud": bearer.client,
            "iat": now_s,
            "exp": now_s + LIFETIME_SECONDS,
        }
        person = f"{configuration.base_url}/fhir/R4/{user.fhir_user}" if user.fhir_user else ""
        optional = {"nonce": nonce, "fhirUser": person if "fhirUser" in scopes else ""}
        optional["name"] = user.name if "profile" in scopes else ""
        claims |= {name: value for name, value in optional.items() if value}
        return jwt.encode({"alg": ALGORITHM, "kid": self._key.thumbprint()}, claims, self._key)

"""What proves a client at a token endpoint: keys, and assertions that they sign."""

from datetime import UTC, datetime

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from engine.config.connector import ConnectorAuth
from engine.security.oauth import ASSERTION_TYPE, UnusableKeyError, access_token, assertion, signing_key

NOW = datetime(2026, 3, 1, tzinfo=UTC)
AUTH = ConnectorAuth(token_url="https://other.example/token", client_id="cdis", key_id="k1")
KEYS = {
    "RS384": RSAKey.generate_key(2048),
    "ES256": ECKey.generate_key("P-256"),
    "ES384": ECKey.generate_key("P-384"),
}


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_key_signs_by_its_algorithm(algorithm: str) -> None:
    """The assertion is good for four minutes, at this endpoint, and says which key signed it."""
    key, found = signing_key(KEYS[algorithm].as_pem(private=True).decode())
    form = assertion(AUTH, key, found, NOW, lambda: "id1")
    read = jwt.decode(form["client_assertion"], KEYS[algorithm], algorithms=[algorithm])
    assert form["client_assertion_type"] == ASSERTION_TYPE
    assert read.header == {"alg": algorithm, "typ": "JWT", "kid": "k1"}
    began = int(NOW.timestamp())
    who = {"iss": "cdis", "sub": "cdis", "aud": "https://other.example/token"}
    assert read.claims == {**who, "iat": began, "exp": began + 240, "jti": "id1"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no key",
        '{"kty":"oct","k":"c2VjcmV0"}',
        KEYS["RS384"].as_pem(private=False).decode(),
        ECKey.generate_key("secp256k1").as_pem(private=True).decode(),
    ],
)
def test_what_signs_nothing(text: str) -> None:
    """Neither a public key, nor a shared secret, nor a curve that has no algorithm."""
    with pytest.raises(UnusableKeyError):
        signing_key(text)


def test_a_key_of_an_algorithm_that_is_not_taken() -> None:
    """SMART backend services sign by ES384 or RS384 only."""
    with pytest.raises(UnusableKeyError):
        signing_key(KEYS["ES256"].as_pem(private=True).decode(), {"ES384", "RS384"})


@pytest.mark.parametrize("answer", [None, [], {}, {"access_token": 1}, {"token": "a"}])
def test_an_answer_without_a_token(answer: object) -> None:
    """It is nothing that opens anything."""
    assert access_token(answer) == ""
    assert access_token({"access_token": "a"}) == "a"

"""What proves a client at a token endpoint: keys, and assertions that they sign."""

from datetime import UTC, datetime

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from engine.config.connector import ConnectorAuth
from engine.security.oauth import (
    ASSERTION_TYPE,
    TokenRefusedError,
    UnusableKeyError,
    access_token,
    assertion,
    issued_token,
    signing_key,
    token_request,
)

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


def test_a_secret_is_sent_in_one_place() -> None:
    """In the form, or in the header; a client without a secret says its id in the form, whatever the method."""
    form = {"grant_type": "client_credentials"}
    headers, body = token_request(form, "me", "a b&c")
    assert ("authorization" in headers, body) == (
        False,
        b"grant_type=client_credentials&client_id=me&client_secret=a+b%26c",
    )
    headers, body = token_request(form, "Aladdin", "open:sesame", "basic")
    assert headers["authorization"] == "Basic QWxhZGRpbjpvcGVuJTNBc2VzYW1l"
    assert body == b"grant_type=client_credentials"
    assert token_request(form, "me", "", "basic")[1] == b"grant_type=client_credentials&client_id=me"


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        ({"expires_in": 60}, 60.0),
        ({"expires_in": "3599"}, 3599.0),
        ({"expires_on": str(int(NOW.timestamp()) + 100)}, 100.0),
        ({"expires_on": "soon"}, 300.0),
        ({"expires_in": "nan"}, 300.0),
        ({"expires_in": -5}, 5.0),
        ({}, 300.0),
    ],
)
def test_how_long_a_token_lasts(answer: dict[str, object], seconds: float) -> None:
    """As it says in one of two ways; five minutes where it does not, and never less than five seconds."""
    assert issued_token(200, {"access_token": "t", **answer}, NOW).seconds == seconds


@pytest.mark.parametrize(
    ("status", "answer", "codes"),
    [
        (400, {"error": "invalid_scope", "access_token": "t"}, ("invalid_scope",)),
        (
            401,
            {"error": "invalid_client", "error_codes": [7000215, -1, "7", True]},
            ("invalid_client", "aadsts7000215"),
        ),
        (400, {"error": "Patient Quintero", "error_codes": 1}, ()),
        (200, {"access_token": "a\r\nX: y"}, ()),
        (200, [], ()),
        (302, {"access_token": "t"}, ()),
    ],
)
def test_a_refusal_is_told_by_its_codes(status: int, answer: object, codes: tuple[str, ...]) -> None:
    """Only by words and numbers of the standard, whatever else an answer says."""
    with pytest.raises(TokenRefusedError) as raised:
        issued_token(status, answer, NOW)
    assert raised.value.codes == codes

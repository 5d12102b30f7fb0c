"""Signed assertions: for a user (jwt-bearer), and in place of a client's secret (points C-041, C-042, C-043)."""

import base64
import hmac
import json
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey

from engine.config.account import JWT_BEARER, Client, PublicKeys, Role
from engine.config.secret import Secret
from engine.interchange.tokens.assertion import TYPE
from tests.interchange.browser import USERS, portal
from tests.interchange.kit import SECRET, Running, running, secret_file

RSA = RSAKey.generate_key(2048, {"kid": "one"})
EC = ECKey.generate_key("P-384")
SMALL = ECKey.generate_key("P-256")
with warnings.catch_warnings(action="ignore"):
    WEAK = RSAKey.generate_key(1024, {"kid": "weak"})
SYMMETRIC = OctKey.import_key(SECRET)


def clients(folder: Path) -> dict[str, Client]:
    """Return clients that hold a secret, and two that are known by public keys, in place and in a file."""
    secret = Secret(file=str(secret_file(folder)))
    file = folder / "jwks.json"
    public = [key.as_dict(private=False) for key in (EC, SMALL, WEAK)]
    file.write_bytes(orjson.dumps({"keys": public}))
    settings: dict[str, Any] = {"tenant": "riverbend", "scopes": ("user/.",), "role": Role.PHYSICIAN}
    grants = (JWT_BEARER, "client_credentials", "refresh_token")
    return {
        "engine": portal(secret, uri="https://engine.example", grants=grants),
        "twin": portal(secret, uri="https://twin.example", grants=grants),
        "plain": portal(secret, grants=("client_credentials",)),
        "inline": Client(**settings, jwks=PublicKeys(keys=(RSA.as_dict(private=False),))),
        "filed": Client(**settings, jwks=PublicKeys(file=str(file))),
        "lost": Client(**settings, jwks=PublicKeys(file=str(folder / "none.json"))),
    }


@pytest.fixture(scope="module")
def asserting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service that takes assertions."""
    folder = tmp_path_factory.mktemp("asserting")
    with running(folder, clients=clients(folder), users=USERS) as found:
        yield found


def signed(claims: dict[str, Any], key: Any = SYMMETRIC, alg: str = "HS256", **header: Any) -> str:
    """Return a JWT; a claim or header given as None is left out."""
    told = {name: value for name, value in {"alg": alg, "typ": "JWT", **header}.items() if value is not None}
    kept = {name: value for name, value in claims.items() if value is not None}
    return jws.serialize_compact(told, json.dumps(kept), key, [alg])


def raw(header: Any, claims: Any, signature: bytes | None = None) -> str:
    """Return what looks like a JWT, signed with the secret whatever its header says."""
    parts = [base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=") for one in (header, claims)]
    made = signature if signature is not None else hmac.digest(SECRET.encode(), b".".join(parts), "sha256")
    return b".".join([*parts, base64.urlsafe_b64encode(made).rstrip(b"=")]).decode()


def changed(text: str, claims: dict[str, Any]) -> str:
    """Return a JWT with other claims under the same signature."""
    header, _, signature = text.split(".")
    return ".".join((header, raw({}, claims).split(".")[1], signature))


def user_claims(service: Running, **changes: Any) -> dict[str, Any]:
    """Return what an assertion for a user says."""
    now = int(time.time())
    claims = {"iss": "https://engine.example", "sub": "dr.osei", "aud": f"{service.url}/oauth/token", "exp": now + 300}
    return {**claims, "iat": now, "nbf": now, **changes}


def client_claims(service: Running, name: str, **changes: Any) -> dict[str, Any]:
    """Return what an assertion of a client says of itself."""
    identity = f"{name}-{time.monotonic_ns()}"
    return {**user_claims(service), "iss": name, "sub": name, "jti": identity, **changes}


def speak(service: Running, text: str, **fields: str) -> httpx.Response:
    """Ask for a token by an assertion for a user."""
    usual = {"grant_type": JWT_BEARER, "client_id": "engine", "assertion": text, "scope": "user/."}
    filled = {name: value for name, value in {**usual, **fields}.items() if value != "-"}
    return service.http.post(f"{service.url}/oauth/token", data=filled)


def prove(service: Running, text: str, **fields: str) -> httpx.Response:
    """Ask for a client's own token by an assertion of it."""
    usual = {"grant_type": "client_credentials", "scope": "user/.", "client_assertion_type": TYPE}
    filled = {**usual, "client_assertion": text, **fields}
    return service.http.post(f"{service.url}/oauth/token", data={n: v for n, v in filled.items() if v != "-"})


def refuses(answer: httpx.Response, code: str) -> None:
    """Hold an answer to 400 and an error; it is JSON and never kept."""
    assert (answer.status_code, answer.json()["error"]) == (400, code), answer.text
    assert answer.headers["cache-control"] == "no-store"


def user_of(service: Running, token: str) -> httpx.Response:
    """Ask who a token speaks for."""
    return service.http.get(f"{service.url}/oauth/userinfo", headers={"authorization": f"Bearer {token}"})


def test_a_token_for_a_user(asserting: Running) -> None:
    """C-041: an assertion signed with the client's secret gives a token that speaks for the user, no refresh token."""
    answer = speak(asserting, signed(user_claims(asserting)), rest_api_version="2023-01-01")
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert set(body) == {"access_token", "token_type", "expires_in", "scope", "rest_api_version"}
    assert (body["scope"], body["rest_api_version"]) == ("user/.", "2023-01-01")
    assert user_of(asserting, body["access_token"]).json()["sub"] == "dr.osei"
    headers = {"authorization": f"Bearer {body['access_token']}"}
    assert asserting.http.get(f"{asserting.url}/fhir/R4/Patient?_count=0", headers=headers).status_code == 200


def test_a_refresh_token_for_a_user(asserting: Running) -> None:
    """Section 4.2: with offline_access there is a refresh token, and what it gives speaks for the same user."""
    body = speak(asserting, signed(user_claims(asserting)), scope="user/. offline_access").json()
    fields = {"grant_type": "refresh_token", "client_id": "engine", "client_secret": SECRET}
    fields["refresh_token"] = body["refresh_token"]
    again = asserting.http.post(f"{asserting.url}/oauth/token", data=fields).json()
    assert user_of(asserting, again["access_token"]).json()["sub"] == "dr.osei"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"iat": None, "nbf": None}, id="without iat and nbf"),
        pytest.param({"exp": -30}, id="a clock that goes 30 s wrong"),
        pytest.param({"nbf": 30, "iat": 30}, id="a clock that is 30 s ahead"),
        pytest.param({"exp": 3600}, id="an hour"),
    ],
)
def test_clocks_may_differ(asserting: Running, changes: dict[str, Any]) -> None:
    """C-041: 60 seconds of skew are allowed; iat and nbf may be left out."""
    now = int(time.time())
    moments = {name: value if value is None else now + value for name, value in changes.items()}
    assert speak(asserting, signed(user_claims(asserting, **moments))).status_code == 200


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"aud": "https://elsewhere.example/oauth/token"}, id="C-042 wrong aud"),
        pytest.param({"aud": "{url}"}, id="C-042 the base as aud"),
        pytest.param({"aud": "{url}/oauth/token/"}, id="C-042 a slash more"),
        pytest.param({"aud": ["{url}/oauth/token", "https://elsewhere.example"]}, id="C-042 two audiences"),
        pytest.param({"aud": ["{url}/oauth/token"] * 2}, id="C-042 one audience twice"),
        pytest.param({"aud": []}, id="C-042 no audience in the list"),
        pytest.param({"aud": None}, id="C-042 no aud"),
        pytest.param({"aud": {"url": 1}}, id="C-042 an object as aud"),
        pytest.param({"exp": -61}, id="C-042 past exp"),
        pytest.param({"exp": None}, id="C-042 no exp"),
        pytest.param({"exp": 86_400}, id="C-042 exp a day ahead"),
        pytest.param({"exp": "soon"}, id="C-042 exp no number"),
        pytest.param({"exp": True}, id="C-042 exp a boolean"),
        pytest.param({"nbf": 120}, id="C-042 future nbf"),
        pytest.param({"iat": 120}, id="C-042 future iat"),
        pytest.param({"sub": "stranger"}, id="C-042 unknown sub"),
        pytest.param({"sub": "away"}, id="C-042 a user of another tenant"),
        pytest.param({"sub": ""}, id="C-042 empty sub"),
        pytest.param({"sub": None}, id="C-042 no sub"),
        pytest.param({"sub": ["dr.osei"]}, id="C-042 sub no text"),
        pytest.param({"iss": "engine"}, id="C-042 the client id as iss"),
        pytest.param({"iss": "https://twin.example"}, id="C-042 another client's iss"),
        pytest.param({"iss": None}, id="C-042 no iss"),
        pytest.param({"jti": 5}, id="jti no text"),
        pytest.param({"jti": "x" * 300}, id="jti too long"),
    ],
)
def test_assertions_that_say_the_wrong_thing(asserting: Running, changes: dict[str, Any]) -> None:
    """C-042: whatever is wrong in a claim, the answer is invalid_grant; aud is this endpoint to the letter."""
    now = int(time.time())

    def filled(name: str, value: Any) -> Any:
        if name in {"exp", "nbf", "iat"} and type(value) is int:
            return now + value
        if isinstance(value, list):
            return [filled(name, one) for one in value]
        return value.replace("{url}", asserting.url) if isinstance(value, str) else value

    claims = user_claims(asserting, **{name: filled(name, value) for name, value in changes.items()})
    refuses(speak(asserting, signed(claims)), "invalid_grant")


def test_one_audience_in_a_list(asserting: Running) -> None:
    """RFC 7519 section 4.1.3: a list of one is the same as the text alone."""
    claims = user_claims(asserting, aud=[f"{asserting.url}/oauth/token"])
    assert speak(asserting, signed(claims)).status_code == 200


FORGED = {
    "C-042 bad signature": lambda claims: signed(claims, OctKey.import_key("another secret of somebody")),
    "C-042 changed": lambda claims: changed(signed(claims), {**claims, "sub": "nurse.lind"}),
    "no signature": lambda claims: raw({"alg": "HS256"}, claims, b""),
    "alg none": lambda claims: raw({"alg": "none"}, claims, b""),
    "alg None": lambda claims: raw({"alg": "None"}, claims),
    "alg none, signed": lambda claims: raw({"alg": "none"}, claims),
    "HS512": lambda claims: signed(claims, SYMMETRIC, "HS512"),
    "RS384 with a key of its own": lambda claims: signed(claims, RSA, "RS384", jwk=RSA.as_dict(private=False)),
    "alg a list": lambda claims: raw({"alg": ["HS256"]}, claims),
    "no alg": lambda claims: raw({"typ": "JWT"}, claims),
    "crit": lambda claims: raw({"alg": "HS256", "crit": ["exp"], "exp": 1}, claims),
    "crit no list": lambda claims: raw({"alg": "HS256", "crit": 5}, claims),
    "b64 false": lambda claims: raw({"alg": "HS256", "b64": False}, claims),
    "header no object": lambda claims: raw(["alg"], claims),
    "claims no object": lambda claims: raw({"alg": "HS256"}, [claims]),
    "NaN": lambda claims: raw({"alg": "HS256"}, {**claims, "exp": float("nan")}),
    "two parts": lambda claims: signed(claims).rpartition(".")[0],
    "four parts": lambda claims: f"{signed(claims)}.x",
    "no base64": lambda _claims: "ä.ö.ü",
    "deep": lambda _claims: "[" * 20_000,
    "nothing to read": lambda _claims: "..",
}


@pytest.mark.parametrize("kind", FORGED)
def test_assertions_that_are_not_signed_by_the_client(asserting: Running, kind: str) -> None:
    """C-042, RFC 8725: the algorithm is that of the client's key, whatever the token says."""
    refuses(speak(asserting, FORGED[kind](user_claims(asserting))), "invalid_grant")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        pytest.param({"client_id": "-"}, "invalid_request", id="no client_id"),
        pytest.param({"client_id": "unknown"}, "invalid_client", id="unknown client"),
        pytest.param({"client_id": "twin"}, "invalid_grant", id="another client"),
        pytest.param({"client_id": "plain"}, "unauthorized_client", id="a client without this grant"),
        pytest.param({"client_secret": "wrong"}, "invalid_client", id="a wrong secret beside it"),
        pytest.param({"assertion": "-"}, "invalid_request", id="no assertion"),
        pytest.param({"scope": "nonsense"}, "invalid_scope", id="no scope"),
        pytest.param({"rest_api_version": "1999-01-01"}, "unsupported_api_version", id="C-555"),
    ],
)
def test_requests_that_are_refused(asserting: Running, fields: dict[str, str], code: str) -> None:
    """Section 4.4: each fault has its code."""
    refuses(speak(asserting, signed(user_claims(asserting)), **fields), code)


def test_an_assertion_serves_once(asserting: Running) -> None:
    """RFC 7523 section 3: one with a jti is taken once, even by many at one moment; a refused one is not spent."""
    text = signed(user_claims(asserting, jti=f"once-{time.monotonic_ns()}"))
    refuses(speak(asserting, text, scope="nonsense"), "invalid_scope")
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: speak(asserting, text), range(6)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 5
    refuses(speak(asserting, text), "invalid_grant")
    # Another client may use the same text as its id.
    own = {"iss": "https://twin.example", "jti": json.loads(base64.urlsafe_b64decode(text.split(".")[1] + "=="))["jti"]}
    assert speak(asserting, signed(user_claims(asserting, **own)), client_id="twin").status_code == 200


def test_a_used_assertion_is_remembered_across_a_restart(tmp_path: Path) -> None:
    """A restart gives nobody a second use."""
    with running(tmp_path, clients=clients(tmp_path), users=USERS, auth_url="https://auth.example") as first:
        claims = {**user_claims(first), "aud": "https://auth.example/oauth/token", "jti": "remembered"}
        assert speak(first, signed(claims)).status_code == 200
    with running(tmp_path, clients=clients(tmp_path), users=USERS, auth_url="https://auth.example") as second:
        refuses(speak(second, signed(claims)), "invalid_grant")


@pytest.mark.parametrize(
    ("name", "key", "alg"),
    [("plain", SYMMETRIC, "HS256"), ("inline", RSA, "RS384"), ("filed", EC, "ES384")],
    ids=["client_secret_jwt", "RS384", "ES384"],
)
def test_a_client_proves_itself(asserting: Running, name: str, key: Any, alg: str) -> None:
    """C-043, SMART Backend Services: an assertion in place of a secret, once; with or without client_id beside it."""
    text = signed(client_claims(asserting, name), key, alg)
    answer = prove(asserting, text)
    assert answer.status_code == 200, answer.text
    assert "refresh_token" not in answer.json()
    refuses(prove(asserting, text), "invalid_client")
    assert prove(asserting, signed(client_claims(asserting, name), key, alg), client_id=name).status_code == 200


@pytest.mark.parametrize(
    ("name", "key", "alg", "changes", "fields"),
    [
        pytest.param("inline", RSA, "RS256", {}, {}, id="RS256"),
        pytest.param("inline", RSA, "PS384", {}, {}, id="PS384"),
        pytest.param("inline", EC, "ES384", {}, {}, id="another client's key"),
        pytest.param("filed", SMALL, "ES256", {}, {}, id="P-256"),
        pytest.param("filed", WEAK, "RS384", {}, {}, id="RSA of 1024 bits"),
        pytest.param("lost", RSA, "RS384", {}, {}, id="keys that cannot be read"),
        pytest.param("inline", SYMMETRIC, "HS256", {}, {}, id="a secret where a key is registered"),
        pytest.param("inline", RSA, "RS384", {"sub": "filed"}, {}, id="another client as sub"),
        pytest.param("inline", RSA, "RS384", {"iss": "filed"}, {}, id="another client as iss"),
        pytest.param("inline", RSA, "RS384", {"jti": None}, {}, id="no jti"),
        pytest.param("inline", RSA, "RS384", {"exp": 3600}, {}, id="an hour"),
        pytest.param("inline", RSA, "RS384", {}, {"client_id": "filed"}, id="another client_id"),
        pytest.param("inline", RSA, "RS384", {}, {"client_assertion_type": "-"}, id="no type"),
        pytest.param("inline", RSA, "RS384", {}, {"client_assertion_type": "urn:other"}, id="another type"),
        pytest.param("unknown", RSA, "RS384", {}, {}, id="unknown client"),
    ],
)
def test_proofs_that_are_refused(
    asserting: Running, name: str, key: Any, alg: str, changes: dict[str, Any], fields: dict[str, str]
) -> None:
    """RFC 7523 section 3, SMART: whatever is wrong, the client is not known; a client with keys has no secret."""
    if "exp" in changes:
        changes = {"exp": int(time.time()) + changes["exp"]}
    refuses(prove(asserting, signed(client_claims(asserting, name, **changes), key, alg), **fields), "invalid_client")


def test_a_key_that_is_named(asserting: Running) -> None:
    """RFC 7515 section 4.1.4: a `kid` names the key; a key in the token itself is not used."""
    claims = client_claims(asserting, "inline")
    refuses(prove(asserting, signed(claims, RSA, "RS384", kid="two")), "invalid_client")
    assert prove(asserting, signed(claims, RSA, "RS384", kid="one")).status_code == 200
    other = RSAKey.generate_key(2048)
    forged = signed(client_claims(asserting, "inline"), other, "RS384", jwk=other.as_dict(private=False))
    refuses(prove(asserting, forged), "invalid_client")


def test_one_way_only(asserting: Running) -> None:
    """RFC 6749 section 2.3: a secret beside an assertion is refused, in the body and as HTTP Basic."""
    text = signed(client_claims(asserting, "plain"))
    refuses(prove(asserting, text, client_id="plain", client_secret=SECRET), "invalid_request")
    fields = {"grant_type": "client_credentials", "client_assertion_type": TYPE, "client_assertion": text}
    answer = asserting.http.post(f"{asserting.url}/oauth/token", data=fields, auth=("plain", SECRET))
    refuses(answer, "invalid_request")

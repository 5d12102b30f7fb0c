"""Access tokens from a real token endpoint: once, in time, and never in a text."""

import asyncio

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from engine.deliver.verdict import Failure, VerdictKind
from engine.fhir.plan import Upsert
from tests.deliver.fake_fhir import Step


@pytest.fixture
def credentials(server, monkeypatch):
    """Settings of a client with a secret in the environment, at a server that asks for tokens."""
    monkeypatch.setenv("ENGINE_SECRET", "hush")
    server.accepted_tokens = set()
    return {
        "type": "client_credentials",
        "token_url": server.base.replace("/fhir/R4", "/oauth/token"),
        "client_id": "engine",
        "client_secret": {"env": "ENGINE_SECRET"},
        "scope": "system/*.*",
    }


async def test_token_is_asked_for_once(site, server, credentials, patient):
    """Many deliveries at once share one token and one request for it."""
    site.open(auth=credentials)
    verdicts = await asyncio.gather(*(site.send(Upsert(patient(str(number)))) for number in range(5)))
    assert {verdict.kind for verdict in verdicts} <= {VerdictKind.DELIVERED, VerdictKind.HELD}
    assert server.tokens == 1
    assert server.token_forms[0]["scope"] == ["system/*.*"]
    assert server.token_forms[0]["client_secret"] == ["hush"]


async def test_token_is_renewed_at_four_fifths(server, credentials, site, patient, ticking):
    """Nothing is asked at 79 % of a token's life; a new one is taken at 80 %."""
    ticks, destination = ticking(auth=credentials)
    site.destination = destination
    await site.send(Upsert(patient("1")))
    ticks[0] = 3600 * 0.79
    await site.send(Upsert(patient("1")))
    assert server.tokens == 1
    ticks[0] = 3600 * 0.81
    await site.send(Upsert(patient("1")))
    assert server.tokens == 2


async def test_token_that_still_lives_is_used_while_the_endpoint_is_down(server, credentials, site, patient, ticking):
    """A renewal that fails does not stop deliveries before the old token ends."""
    ticks, site.destination = ticking(auth=credentials)
    await site.send(Upsert(patient("1")))
    server.token_answers.extend([(500, {})] * 2)
    ticks[0] = 3600 * 0.9
    assert (await site.send(Upsert(patient("1")))).kind is VerdictKind.DELIVERED
    ticks[0] = 3600 * 1.1
    verdict = await site.send(Upsert(patient("1")))
    assert (verdict.kind, verdict.failure) == (VerdictKind.RETRY, Failure.DESTINATION)


async def test_401_is_answered_with_one_new_token(site, server, credentials, patient):
    """A token that the server no longer takes is renewed once; the request is repeated once."""
    await site.open(auth=credentials).send(Upsert(patient("1")))
    server.accepted_tokens.clear()
    assert (await site.send(Upsert(patient("1", gender="male")))).reason == "updated"
    assert server.tokens == 2


async def test_a_write_that_is_repeated_waits_for_its_lease_again(site, server, credentials, patient):
    """A new token may take longer than what is left of the lease: each write that is sent was let through."""
    site.open(auth=credentials)
    fenced = []

    async def fence():
        fenced.append(len(server.requests))

    site.destination._server._fence = fence
    server.script.append(Step("POST", 401))
    assert (await site.send(Upsert(patient("1")))).reason == "created"
    posts = [number for number, line in enumerate(server.requests) if line.startswith("POST Patient")]
    assert (len(posts), fenced) == (2, posts)


async def test_second_401_pauses_the_destination(site, server, credentials, patient):
    """A server that refuses the new token too is a fault of the destination, not of the message."""
    site.open(auth=credentials)
    server.script.extend(Step("GET", 401) for _ in range(4))
    verdict = await site.send(Upsert(patient("1")))
    assert (verdict.kind, verdict.failure, verdict.reason) == (VerdictKind.RETRY, Failure.DESTINATION, "http-401")
    assert [request.split("?")[0] for request in server.requests].count("GET Patient") == 2


async def test_refused_client_pauses_the_destination_with_the_code(site, server, credentials, patient):
    """invalid_client pauses the destination; the code is told, the secret is not."""
    server.token_answers.append((400, {"error": "invalid_client", "error_description": "hush"}))
    verdict = await site.open(auth=credentials).send(Upsert(patient("1")))
    assert (verdict.failure, verdict.reason) == (Failure.DESTINATION, "token-refused")
    assert "invalid_client" in verdict.notes
    assert "hush" not in repr(verdict)


@pytest.mark.parametrize("said", [0, None, "soon", -5, "nan"])
async def test_life_of_a_token_that_is_not_said_well(site, server, credentials, patient, said):
    """A missing, zero or absurd expires_in neither fails nor asks for a token with each request."""
    server.token_answers.append((200, {"access_token": "t", "expires_in": said}))
    site.open(auth=credentials)
    assert (await site.send(Upsert(patient("1")))).reason == "created"
    assert server.tokens == 1


async def test_refresh_token_is_rotated(site, server, credentials, patient, monkeypatch):
    """The refresh token that an answer brings replaces the configured one."""
    monkeypatch.setenv("REFRESH", "rt1")
    server.token_answers.append((200, {"access_token": "t1", "expires_in": 3600, "refresh_token": "rt2"}))
    auth = credentials | {"type": "refresh_token", "refresh_token": {"env": "REFRESH"}}
    await site.open(auth=auth).send(Upsert(patient("1")))
    server.accepted_tokens.clear()
    await site.send(Upsert(patient("1", gender="male")))
    assert [form["refresh_token"] for form in server.token_forms] == [["rt1"], ["rt2"]]


@pytest.mark.parametrize("kind", ["rsa", "ec"])
async def test_private_key_signs_an_assertion(site, server, credentials, patient, tmp_path, kind):
    """SMART backend services: the assertion names client, endpoint and a short life, and is signed with the key."""
    key = rsa.generate_private_key(65537, 2048) if kind == "rsa" else ec.generate_private_key(ec.SECP384R1())
    file = tmp_path / "key.pem"
    encoding = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(key.private_bytes(*encoding))
    file.chmod(0o600)
    auth = credentials | {"type": "private_key_jwt", "private_key": {"file": str(file)}, "key_id": "k1"}
    del auth["client_secret"]
    assert (await site.open(auth=auth).send(Upsert(patient("1")))).reason == "created"
    assertion = server.token_forms[0]["client_assertion"][0]
    public = (RSAKey if kind == "rsa" else ECKey).import_key(file.read_bytes())
    token = jwt.decode(assertion, public, algorithms=["RS384", "ES384"])
    assert token.header["kid"] == "k1"
    assert (token.claims["iss"], token.claims["aud"]) == ("engine", auth["token_url"])
    assert 0 < token.claims["exp"] - token.claims["iat"] <= 300


async def test_secret_that_cannot_be_read_pauses_the_destination(site, server, credentials, patient, monkeypatch):
    """A secret that is not there is a fault of the destination, found when it is used."""
    monkeypatch.delenv("ENGINE_SECRET")
    verdict = await site.open(auth=credentials).send(Upsert(patient("1")))
    assert (verdict.failure, verdict.reason) == (Failure.DESTINATION, "secret-unreadable")

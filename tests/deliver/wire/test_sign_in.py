"""Each kind of sign-in against a token endpoint or metadata service of its own; what it asks, and what is sent on."""

import asyncio
import logging
from base64 import b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from engine.config.sign_in import Auth
from engine.deliver.verdict import Failure, VerdictKind
from engine.deliver.wire.authorizer import Authorizer
from engine.deliver.wire.client import FhirClient
from engine.errors import DestinationError
from engine.fhir.plan import Upsert
from engine.security.sigv4 import AwsCredentials, AwsSigner
from tests.deliver.fake_fhir import Step
from tests.deliver.token_server import TokenAnswer, TokenServer

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
URL = "https://fhir.example/r4/Patient/1"
HEADERS = (("Content-Type", "application/fhir+json"),)
CANARY = "hush-SENTINEL"
OPEN = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
VARIABLES = """
AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_CONTAINER_CREDENTIALS_RELATIVE_URI
AWS_CONTAINER_CREDENTIALS_FULL_URI AWS_CONTAINER_AUTHORIZATION_TOKEN AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE
AWS_EC2_METADATA_DISABLED AWS_EC2_METADATA_SERVICE_ENDPOINT AWS_SHARED_CREDENTIALS_FILE IDENTITY_ENDPOINT
IDENTITY_HEADER AZURE_POD_IDENTITY_AUTHORITY_HOST GCE_METADATA_HOST
"""


@pytest.fixture(autouse=True)
def no_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine is in no cloud, whatever its environment says."""
    for name in VARIABLES.split():
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def tokens() -> AsyncIterator[TokenServer]:
    """A token endpoint on a free port."""
    server = await TokenServer().start()
    yield server
    await server.stop()


class Entry:
    """An authorizer whose clocks the test turns."""

    def __init__(self, auth: dict[str, Any]) -> None:
        self.now = AT
        self.ticks = 0.0
        self.client = FhirClient(request_seconds=5, journaled=False)
        ids = iter(range(1000))
        self.authorizer = Authorizer(
            Auth.model_validate(auth),
            self.client,
            clock=lambda: self.now,
            ticks=lambda: self.ticks,
            new_id=lambda: f"id{next(ids)}",
        )

    async def headers(self, method: str = "GET", body: bytes = b"") -> dict[str, str]:
        """Return what is sent with a request."""
        return dict(await self.authorizer.authorization(method, URL, HEADERS, body))

    async def header(self) -> str:
        """Return the one header that is sent."""
        return (await self.headers())["Authorization"]

    async def outcome(self) -> str | DestinationError:
        """Return the one header, or why there is none."""
        try:
            return await self.header()
        except DestinationError as error:
            return error

    async def refusal(self) -> tuple[str, ...]:
        """Return the codes of why nothing can be sent."""
        with pytest.raises(DestinationError) as raised:
            await self.headers()
        assert str(raised.value) == raised.value.codes[0]
        assert CANARY not in repr(raised.value)
        return raised.value.codes


@pytest.fixture
async def entry() -> AsyncIterator[Callable[..., Entry]]:
    """Makes an authorizer of keys of `auth`."""
    made: list[Entry] = []

    def make(**auth: Any) -> Entry:
        made.append(Entry(auth))
        return made[-1]

    yield make
    for proof in made:
        await proof.authorizer.close()
        await proof.client.close()


@pytest.fixture
def secret(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Writes a secret to a file and returns the reference to it."""

    def write(text: str | bytes, name: str = "secret") -> dict[str, str]:
        file = tmp_path / name
        file.touch(0o600)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return {"file": str(file)}

    return write


def certificate_of(key: rsa.RSAPrivateKey) -> x509.Certificate:
    """Return a self-signed certificate."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "engine")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(AT).not_valid_after(AT + timedelta(days=90))
    return made.sign(key, hashes.SHA256())


# What is kept and sent with each request.


async def test_basic_is_made_of_name_and_password(entry, secret):
    """In UTF-8 (RFC 7617); a password that changes is used without a restart."""
    proof = entry(type="basic", username="engine", password=secret("hüsh:1"))
    assert b64decode((await proof.header()).removeprefix("Basic ")).decode() == "engine:hüsh:1"
    secret("new")
    assert b64decode((await proof.header()).removeprefix("Basic ")) == b"engine:new"


async def test_basic_at_the_server(site, server, patient, secret):
    """The server gets it with each request; a refusal pauses the destination and is not repeated."""
    site.open(auth={"type": "basic", "username": "engine", "password": secret(CANARY)})
    assert (await site.send(Upsert(patient("1")))).kind is VerdictKind.DELIVERED
    assert {headers["Authorization"][:6] for headers in server.headers} == {"Basic "}
    server.script.append(Step("GET", 401))
    verdict = await site.send(Upsert(patient("1")), replay=True)
    assert (verdict.kind, verdict.failure, verdict.reason) == (VerdictKind.RETRY, Failure.DESTINATION, "http-401")
    assert CANARY not in repr(verdict)


async def test_bearer_that_fits_into_no_header(site, patient, secret):
    """A token with a letter of no header is a fault of the destination, and holds no message."""
    verdict = await site.open(auth={"type": "bearer", "token": secret("tökn")}).send(Upsert(patient("1")))
    assert (verdict.kind, verdict.failure, verdict.reason) == (
        VerdictKind.RETRY, Failure.DESTINATION, "secret-unreadable",
    )  # fmt: skip


# OAuth 2.0 by a form.


def by_secret(tokens: TokenServer, reference: dict[str, str], **more: Any) -> dict[str, Any]:
    """Return client credentials."""
    base = {"type": "client_credentials", "token_url": f"{tokens.url}/token", "client_id": "en:gine"}
    return base | {"client_secret": reference} | more


async def test_the_secret_goes_into_the_form(entry, tokens, secret):
    """As until now, with scope and audience where they are given."""
    proof = entry(**by_secret(tokens, secret("hu sh"), scope="system/*.*", audience="https://fhir.example"))
    assert await proof.header() == "Bearer t1"
    (asked,) = tokens.requests
    assert asked.form == {
        "grant_type": "client_credentials", "client_id": "en:gine", "client_secret": "hu sh", "scope": "system/*.*",
        "audience": "https://fhir.example",
    }  # fmt: skip
    assert "authorization" not in asked.headers


async def test_the_secret_goes_into_a_header(entry, tokens, secret):
    """`method: basic`: id and secret are form-encoded first, and stand nowhere else (RFC 6749, 2.3.1)."""
    proof = entry(**by_secret(tokens, secret("hu sh/ü"), method="basic"))
    await proof.header()
    (asked,) = tokens.requests
    assert b64decode(asked.headers["authorization"].removeprefix("Basic ")) == b"en%3Agine:hu+sh%2F%C3%BC"
    assert asked.form == {"grant_type": "client_credentials"}


@pytest.mark.parametrize("text", ["a\nb", "tökn", ""])
async def test_a_token_that_fits_into_no_header(site, tokens, patient, secret, text):
    """It is none: the destination is at fault, and no message is held for it."""
    tokens.script.append(TokenAnswer(body={"access_token": text}))
    verdict = await site.open(auth=by_secret(tokens, secret("x"))).send(Upsert(patient("1")))
    assert (verdict.kind, verdict.failure, verdict.reason) == (
        VerdictKind.RETRY, Failure.DESTINATION, "token-refused",
    )  # fmt: skip


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", ""])
async def test_an_assertion_is_signed_by_the_algorithm_asked_for(entry, tokens, secret, algorithm):
    """And is for the audience that is given, else for the endpoint."""
    curves = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1()}
    if algorithm in curves:
        text = ec.generate_private_key(curves[algorithm]).private_bytes(*OPEN)
        public: Any = ECKey.import_key(text)
    else:
        text = rsa.generate_private_key(65537, 2048).private_bytes(*OPEN)
        public = RSAKey.import_key(text)
    keys = {"type": "private_key_jwt", "token_url": f"{tokens.url}/token", "client_id": "engine"}
    proof = entry(
        **keys, private_key=secret(text), algorithm=algorithm, audience="https://issuer.example" if algorithm else ""
    )
    await proof.header()
    (asked,) = tokens.requests
    read = jwt.decode(asked.form["client_assertion"], public, algorithms=[algorithm or "RS384"])
    assert read.header == {"alg": algorithm or "RS384", "typ": "JWT"}
    assert read.claims["aud"] == ("https://issuer.example" if algorithm else f"{tokens.url}/token")
    assert "audience" not in asked.form


async def test_a_key_of_another_algorithm_signs_nothing(entry, tokens, secret):
    """An elliptic curve cannot sign by RS256: nothing is asked."""
    text = ec.generate_private_key(ec.SECP256R1()).private_bytes(*OPEN)
    keys = {"type": "private_key_jwt", "token_url": f"{tokens.url}/token", "client_id": "engine"}
    assert await entry(**keys, private_key=secret(text), algorithm="RS256").refusal() == ("private-key-unusable",)
    assert tokens.requests == []


@pytest.mark.parametrize("algorithm", ["", "RS256"])
async def test_entra_takes_a_certificate(entry, tokens, secret, tmp_path, algorithm):
    """Header and claims of Microsoft's page on certificate credentials: PS256, x5t#S256, and these seven claims."""
    key = rsa.generate_private_key(65537, 2048)
    certificate = certificate_of(key)
    (tmp_path / "own.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    proof = entry(
        type="entra_certificate", token_url=f"{tokens.url}/tenant/oauth2/v2.0/token", client_id="app",
        private_key=secret(key.private_bytes(*OPEN)), certificate=str(tmp_path / "own.pem"),
        scope="https://fhir.example/.default", algorithm=algorithm,
    )  # fmt: skip
    assert await proof.header() == "Bearer t1"
    (asked,) = tokens.requests
    assertion = asked.form.pop("client_assertion")
    assert asked.form == {
        "grant_type": "client_credentials", "client_id": "app", "scope": "https://fhir.example/.default",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    }  # fmt: skip
    read = jwt.decode(assertion, RSAKey.import_key(key.private_bytes(*OPEN)), algorithms=[algorithm or "PS256"])
    thumbprint = urlsafe_b64encode(certificate.fingerprint(hashes.SHA256())).decode().rstrip("=")
    assert read.header == {"alg": algorithm or "PS256", "typ": "JWT", "x5t#S256": thumbprint}
    now = int(AT.timestamp())
    assert read.claims == {
        "aud": f"{tokens.url}/tenant/oauth2/v2.0/token", "iss": "app", "sub": "app", "jti": "id0",
        "nbf": now, "iat": now, "exp": now + 240,
    }  # fmt: skip


async def test_a_certificate_of_another_key(entry, tokens, secret, tmp_path):
    """Entra would refuse it: it is said here, and nothing is asked."""
    key, other = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    (tmp_path / "own.pem").write_bytes(certificate_of(other).public_bytes(serialization.Encoding.PEM))
    keys = {"type": "entra_certificate", "token_url": f"{tokens.url}/token", "client_id": "app", "scope": "x"}
    reference = secret(key.private_bytes(*OPEN))
    proof = entry(**keys, private_key=reference, certificate=str(tmp_path / "own.pem"))
    assert await proof.refusal() == ("signing-certificate-unusable",)
    assert tokens.requests == []


@pytest.mark.parametrize(("seconds", "code"), [(-600, "sign-in-clock-behind"), (600, "sign-in-clock-ahead"), (5, "")])
async def test_a_clock_that_differs_is_named(entry, tokens, secret, seconds, code):
    """Where an assertion is refused, the Date of the answer says whether this machine's clock is the reason."""
    text = rsa.generate_private_key(65537, 2048).private_bytes(*OPEN)
    date = {"Date": format_datetime(AT - timedelta(seconds=seconds), usegmt=True)}
    tokens.script.append(TokenAnswer(400, {"error": "invalid_client", "error_codes": [700024, "x", True]}, date))
    keys = {"type": "private_key_jwt", "token_url": f"{tokens.url}/token", "client_id": "engine"}
    codes = await entry(**keys, private_key=secret(text)).refusal()
    assert codes == ("token-refused", "invalid_client", "aadsts700024", *filter(None, (code,)))


# Google.


def account(key: rsa.RSAPrivateKey, url: str) -> str:
    """Return the JSON key of a service account."""
    named = {"type": "service_account", "client_email": "engine@x.example", "private_key_id": "k9", "token_uri": url}
    return orjson.dumps(named | {"private_key": key.private_bytes(*OPEN).decode()}).decode()


async def test_a_service_account_asserts_itself(entry, tokens, secret):
    """The grant, header and claims of Google's page on service accounts (RFC 7523, 2.1)."""
    key = rsa.generate_private_key(65537, 2048)
    proof = entry(type="google_service_account", key_file=secret(account(key, f"{tokens.url}/token")))
    assert await proof.header() == "Bearer t1"
    (asked,) = tokens.requests
    assert asked.form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    public = RSAKey.import_key(key.private_bytes(*OPEN))
    read = jwt.decode(asked.form["assertion"], public, algorithms=["RS256"])
    assert read.header == {"alg": "RS256", "typ": "JWT", "kid": "k9"}
    now = int(AT.timestamp())
    assert read.claims == {
        "iss": "engine@x.example", "scope": "https://www.googleapis.com/auth/cloud-healthcare",
        "aud": f"{tokens.url}/token", "iat": now, "exp": now + 240,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["{}", "no json " + CANARY, '["a"]', '{"type": "authorized_user"}'])
async def test_what_is_no_key_of_a_service_account(entry, secret, text):
    """It is said, and not shown."""
    assert await entry(type="google_service_account", key_file=secret(text)).refusal() == ("private-key-unusable",)


async def test_a_service_account_is_not_asserted_in_the_clear(entry, secret):
    """A token endpoint on another machine is asked by TLS only."""
    text = account(rsa.generate_private_key(65537, 2048), "http://oauth2.example/token")
    assert await entry(type="google_service_account", key_file=secret(text)).refusal() == ("private-key-unusable",)


async def test_a_machine_of_google_has_an_account(entry, tokens, monkeypatch):
    """The metadata server is asked with its header, at the host that GCE_METADATA_HOST names."""
    monkeypatch.setenv("GCE_METADATA_HOST", tokens.url.removeprefix("http://"))
    assert await entry(type="google_metadata", scope="a b").header() == "Bearer t1"
    (asked,) = tokens.requests
    assert (asked.method, asked.path) == ("GET", "/computeMetadata/v1/instance/service-accounts/default/token")
    assert (asked.headers["metadata-flavor"], asked.query) == ("Google", {"scopes": "a,b"})


# Azure.


async def test_a_machine_of_azure_has_an_identity(entry, tokens, monkeypatch):
    """IMDS is asked with its header for the resource, and for a user-assigned identity by its id."""
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", f"{tokens.url}/")
    proof = entry(type="managed_identity", audience="https://fhir.example", client_id="mine")
    tokens.script.append(TokenAnswer(body={"access_token": "a", "expires_in": "3599", "expires_on": "1"}))
    assert await proof.header() == "Bearer a"
    (asked,) = tokens.requests
    assert (asked.method, asked.path, asked.headers["metadata"]) == ("GET", "/metadata/identity/oauth2/token", "true")
    assert asked.query == {"api-version": "2018-02-01", "resource": "https://fhir.example", "client_id": "mine"}
    proof.ticks = 3599 * 0.79
    assert await proof.header() == "Bearer a"


async def test_an_app_service_has_an_identity(entry, tokens, monkeypatch):
    """Its variables say where it is asked and with what; the token lasts to the moment of `expires_on`."""
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{tokens.url}/msi/token")
    monkeypatch.setenv("IDENTITY_HEADER", "proof")
    proof = entry(type="managed_identity", audience="https://fhir.example")
    tokens.script.append(TokenAnswer(body={"access_token": "a", "expires_on": str(int(AT.timestamp()) + 1000)}))
    assert await proof.header() == "Bearer a"
    (asked,) = tokens.requests
    assert (asked.path, asked.headers["x-identity-header"]) == ("/msi/token", "proof")
    assert asked.query == {"api-version": "2019-08-01", "resource": "https://fhir.example"}
    proof.ticks = 790.0
    assert await proof.header() == "Bearer a"
    proof.ticks = 810.0
    assert await proof.header() == "Bearer t1"


async def test_a_machine_without_an_identity(entry, tokens, monkeypatch):
    """404 of the metadata service: it may come up yet."""
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", tokens.url)
    tokens.script.append(TokenAnswer(404, {}))
    codes = await entry(type="managed_identity", audience="x").refusal()
    assert codes == ("token-unavailable", "http-404")


# AWS.


def signed(credentials: AwsCredentials, method: str = "GET", body: bytes = b"", at: datetime = AT) -> dict[str, str]:
    """Return what a request signed by an access key has."""
    return dict(AwsSigner("us-east-1", "healthlake").sign(credentials, method, URL, HEADERS, body, at))


async def test_a_request_is_signed(entry, secret):
    """Method, address, headers, body and time are in the signature; a key that changes is read again in time."""
    references = {"access_key_id": secret("AK1", "id"), "secret_access_key": secret("SK1", "key")}
    proof = entry(type="aws_sigv4", region="us-east-1", **references)
    assert await proof.headers("PUT", b"{}") == signed(AwsCredentials("AK1", "SK1"), "PUT", b"{}")
    proof.now = AT + timedelta(minutes=1)
    assert await proof.headers() == signed(AwsCredentials("AK1", "SK1"), at=proof.now)
    secret("AK2", "id"), secret("SK2", "key")
    proof.ticks = 239.0
    assert await proof.headers() == signed(AwsCredentials("AK1", "SK1"), at=proof.now)
    proof.ticks = 241.0
    assert await proof.headers() == signed(AwsCredentials("AK2", "SK2"), at=proof.now)


async def test_a_profile_of_the_credentials_file(entry, secret, monkeypatch):
    """AWS_SHARED_CREDENTIALS_FILE names the file; what does not stand there is said, and nothing of the file."""
    text = f"[default]\naws_access_key_id = A\n[prod]\naws_access_key_id=AK\naws_secret_access_key = {CANARY}%\n"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", secret(text)["file"])
    proof = entry(type="aws_sigv4", region="us-east-1", aws_profile="prod")
    assert await proof.headers() == signed(AwsCredentials("AK", f"{CANARY}%"))
    for name in ("default", "nowhere"):
        assert await entry(type="aws_sigv4", region="us-east-1", aws_profile=name).refusal() == ("no-credentials",)
    secret(f"{CANARY}\nno ini")
    assert await entry(type="aws_sigv4", region="us-east-1", aws_profile="prod").refusal() == ("no-credentials",)


async def test_the_access_key_of_the_environment(entry, monkeypatch):
    """It comes before what the machine has."""
    for name, value in (("ACCESS_KEY_ID", "AK"), ("SECRET_ACCESS_KEY", "SK"), ("SESSION_TOKEN", "ST")):
        monkeypatch.setenv(f"AWS_{name}", value)
    assert await entry(type="aws_sigv4", region="us-east-1").headers() == signed(AwsCredentials("AK", "SK", "ST"))


GIVEN = {"AccessKeyId": "AK", "SecretAccessKey": CANARY, "Token": "ST", "Expiration": "2026-03-01T13:00:00Z"}


async def test_the_access_key_of_a_container(entry, tokens, secret, monkeypatch):
    """Its variables say where it is asked and with what; it is renewed ahead of its end."""
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{tokens.url}/creds")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", secret("proof")["file"])
    tokens.paths["/creds"] = TokenAnswer(body=GIVEN)
    proof = entry(type="aws_sigv4", region="us-east-1")
    for ticks in (0.0, 3600 * 0.79, 3600 * 0.81):
        proof.ticks = ticks
        assert await proof.headers() == signed(AwsCredentials("AK", CANARY, "ST"))
    assert [asked.headers["authorization"] for asked in tokens.requests] == ["proof", "proof"]


async def test_a_container_is_not_asked_elsewhere(entry, monkeypatch):
    """An address that is neither of AWS nor of this machine is asked by TLS only."""
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://elsewhere.example/creds")
    assert await entry(type="aws_sigv4", region="us-east-1").refusal() == ("no-credentials",)


async def test_the_role_of_a_machine(entry, tokens, monkeypatch):
    """IMDSv2: a token first, with which the role and its access key are asked for."""
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", tokens.url)
    roles = "/latest/meta-data/iam/security-credentials/"
    tokens.paths |= {
        "/latest/api/token": TokenAnswer(body="TOKEN"),
        roles: TokenAnswer(body="engine-role\n"),
        f"{roles}engine-role": TokenAnswer(body=GIVEN),
    }
    proof = entry(type="aws_sigv4", region="us-east-1")
    assert await proof.headers() == signed(AwsCredentials("AK", CANARY, "ST"))
    asked = [(item.method, item.path, item.headers.get("x-aws-ec2-metadata-token")) for item in tokens.requests]
    assert asked == [
        ("PUT", "/latest/api/token", None), ("GET", roles, "TOKEN"), ("GET", f"{roles}engine-role", "TOKEN"),
    ]  # fmt: skip
    assert tokens.requests[0].headers["x-aws-ec2-metadata-token-ttl-seconds"] == "21600"


@pytest.mark.parametrize(
    ("status", "codes"),
    [(404, ("no-credentials",)), (403, ("token-refused",)), (503, ("token-unavailable", "http-503"))],
)
async def test_a_machine_without_a_role(entry, tokens, monkeypatch, status, codes):
    """What the machine does not have, refuses, or cannot say now."""
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", tokens.url)
    tokens.script.append(TokenAnswer(status, "no"))
    assert await entry(type="aws_sigv4", region="us-east-1").refusal() == codes


async def test_no_access_key_anywhere(entry, monkeypatch):
    """Nothing is asked of a machine that says it is none of AWS's."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert await entry(type="aws_sigv4", region="us-east-1").refusal() == ("no-credentials",)


async def test_an_access_key_that_was_replaced(site, server, patient, secret):
    """403 reads the key again, and repeats the request once; one that was read just now is not read again."""
    references = {"access_key_id": secret("AK1", "id"), "secret_access_key": secret("SK1", "key")}
    site.open(auth={"type": "aws_sigv4", "region": "us-east-1"} | references)
    assert (await site.send(Upsert(patient("1")))).kind is VerdictKind.DELIVERED
    secret("AK2", "id"), secret("SK2", "key")
    site.ticks = 10.0
    server.script.append(Step("GET", 403))
    server.headers.clear()
    assert (await site.send(Upsert(patient("1")), replay=True)).kind is VerdictKind.DELIVERED
    assert [headers["Authorization"].partition("/")[0][-3:] for headers in server.headers[:2]] == ["AK1", "AK2"]
    server.script.append(Step("GET", 403))
    server.headers.clear()
    verdict = await site.send(Upsert(patient("1")), replay=True)
    assert (verdict.failure, len(server.headers)) == (Failure.DESTINATION, 1)


async def test_a_request_at_the_server_is_signed_as_it_is_sent(site, server, patient, secret):
    """What the server gets, signed once more by the same key, has the same signature."""
    references = {"access_key_id": secret("AK", "id"), "secret_access_key": secret("SK", "key")}
    site.open(auth={"type": "aws_sigv4", "region": "us-east-1"} | references)
    assert (await site.send(Upsert(patient("1")))).reason == "created"
    base = server.base.removesuffix("/fhir/R4")
    added = {"Host", "Authorization", "X-Amz-Date", "Content-Length"}
    for line, headers, body in zip(server.requests, server.headers, server.bodies, strict=True):
        method, path = line.split(" ", 1)
        sent = [(name, value) for name, value in headers.items() if name not in added]
        url = f"{base}/fhir/R4/{path}"
        again = dict(AwsSigner("us-east-1", "healthlake").sign(AwsCredentials("AK", "SK"), method, url, sent, body, AT))
        assert headers["Authorization"] == again["Authorization"]


# Once, in time, and not again and again.


async def test_a_failing_endpoint_is_asked_with_growing_waits(entry, tokens, secret):
    """Whoever comes in between is told the same, and when the next try is due."""
    proof = entry(**by_secret(tokens, secret("x")))
    tokens.script.extend([TokenAnswer(400, {"error": "invalid_client"})] * 5)
    asked, errors = [], []
    for second in range(40):
        proof.ticks = float(second)
        before = len(tokens.requests)
        errors += [
            answer for answer in [await proof.outcome() for _ in range(3)] if isinstance(answer, DestinationError)
        ]
        if len(tokens.requests) > before:
            asked.append(second)
    assert asked == [0, 1, 3, 7, 15, 31]
    assert {error.codes for error in errors} == {("token-refused", "invalid_client")}
    assert all(0 < error.retry_after_seconds <= 16 for error in errors)
    assert await proof.header() == "Bearer t1"


async def test_an_endpoint_says_when_to_come_again(entry, tokens, secret):
    """Its Retry-After is obeyed, unless somebody asks for a try at once."""
    proof = entry(**by_secret(tokens, secret("x")))
    tokens.script.append(TokenAnswer(503, {}, {"Retry-After": "30"}))
    for ticks in (0.0, 29.0):
        proof.ticks = ticks
        assert await proof.refusal() == ("token-unavailable", "http-503")
    assert len(tokens.requests) == 1
    proof.authorizer.retry_now()
    assert await proof.header() == "Bearer t1"


async def test_a_secret_that_is_mended_is_used_at_once(entry, tokens, secret, tmp_path):
    """What is found without asking anybody is looked at again each time."""
    reference = secret("x")
    (tmp_path / "secret").unlink()
    proof = entry(**by_secret(tokens, reference))
    assert await proof.refusal() == ("secret-unreadable",)
    secret("y")
    assert await proof.header() == "Bearer t1"
    assert tokens.requests[0].form["client_secret"] == "y"


async def test_a_secret_that_changes_is_used_at_the_next_renewal(entry, tokens, secret):
    """Without a restart."""
    proof = entry(**by_secret(tokens, secret("x")))
    await proof.header()
    secret("y")
    proof.ticks = 3600 * 0.81
    assert await proof.header() == "Bearer t2"
    assert [asked.form["client_secret"] for asked in tokens.requests] == ["x", "y"]


async def test_a_refresh_token_that_is_replaced_in_its_file_is_used(entry, tokens, secret):
    """What came with an answer is used in place of the configured one until somebody configures another."""
    keys = {"type": "refresh_token", "token_url": f"{tokens.url}/token", "client_id": "engine"}
    proof = entry(**keys, refresh_token=secret("r1"))
    tokens.script.append(TokenAnswer(body={"access_token": "a", "expires_in": 100, "refresh_token": "r2"}))
    for ticks in (0.0, 90.0):
        proof.ticks = ticks
        await proof.header()
    secret("r9")
    proof.ticks = 90.0 + 3600
    await proof.header()
    assert [asked.form["refresh_token"] for asked in tokens.requests] == ["r1", "r2", "r9"]


async def test_many_at_once_share_one_request(entry, tokens, secret):
    """And those who share one that fails get its error, each."""
    proof = entry(**by_secret(tokens, secret("x")))
    tokens.script.append(TokenAnswer(500, {}))
    failed = await asyncio.gather(*(proof.header() for _ in range(5)), return_exceptions=True)
    assert {str(error) for error in failed} == {"token-unavailable"}
    proof.ticks = 1.0
    assert set(await asyncio.gather(*(proof.header() for _ in range(5)))) == {"Bearer t1"}
    assert len(tokens.requests) == 2


async def test_no_credential_is_shown(entry, tokens, secret, caplog):
    """Neither in the text of what holds it, nor in a log, nor in an error with all that it was caused by."""
    caplog.set_level(logging.DEBUG)
    proof = entry(**by_secret(tokens, secret(CANARY), method="basic"))
    tokens.script.append(TokenAnswer(body={"access_token": f"{CANARY}-t", "expires_in": 5}))
    await proof.header()
    cache = proof.authorizer._tokens
    assert not any(CANARY in repr(held) for held in (proof.authorizer, cache, cache._held, proof.authorizer._auth))
    tokens.script.append(TokenAnswer(400, {"error": CANARY, "error_description": CANARY, "access_token": CANARY}))
    proof.ticks = 100.0
    with pytest.raises(DestinationError) as raised:
        await proof.header()
    error: BaseException | None = raised.value
    while error is not None:
        assert CANARY not in repr(error)
        error = error.__cause__
    assert CANARY not in caplog.text

"""Clients and users of the service's configuration: what is refused, and that nothing secret is repeated."""

from pathlib import Path

import orjson
import pytest

from engine.config.account import PublicKeys, User
from engine.config.service import ServiceConfiguration
from engine.config.source import parse, validate
from engine.errors import ConfigurationError

HASH = "$argon2id$v=19$m=65536,t=3,p=4$0n9b/aptlZRocx01R32uCQ$gJqBl10e/VtSDOLRJszRkI1HZ6EHNepy2uputDs9wFo"


def read(environment: str = "sandbox", client: str = "", user: str = "", more: str = "") -> ServiceConfiguration:
    """Return a configuration with one client and one user."""
    text = f"""
environment: {environment}
base_url: https://cdis.example
service_identifier_system: https://cdis.example
tenants: {{riverbend: {{}}}}
clients: {{one: {{tenant: riverbend, {client}}}}}
users: {{dr.osei: {{tenant: riverbend, role: physician, {user}}}}}
{more}
"""
    return validate(parse(text, "interchange.yaml"), ServiceConfiguration)


SECRET = "secret: {env: SECRET}"
CODE = "grants: [authorization_code]"


@pytest.mark.parametrize(
    ("client", "said"),
    [
        pytest.param("", "give a secret or jwks", id="public, with client_credentials by default"),
        pytest.param(f"{CODE}, redirect_uris: []", "needs redirect_uris", id="code without addresses"),
        pytest.param("grants: [authorization_code, client_credentials]", "give a secret", id="public, with its own"),
        pytest.param(f"{SECRET}, jwks: {{file: keys.json}}", "not both", id="secret and keys"),
        pytest.param(f'{SECRET}, grants: ["urn:ietf:params:oauth:grant-type:jwt-bearer"]', "uri", id="no issuer"),
        pytest.param("secret: hunter2hunter2", "refer to it", id="a secret in the file"),
        pytest.param("jwks: {}", "either keys or file", id="no keys"),
        pytest.param("jwks: {file: a, keys: [{kty: RSA}]}", "either keys or file", id="keys twice"),
        pytest.param("jwks: {keys: [{kty: EC, d: hunter2hunter2}]}", "public key only", id="a private key"),
        pytest.param("jwks: {keys: [{kty: oct, k: hunter2hunter2}]}", "public key only", id="a symmetric key"),
    ],
)
def test_clients_that_are_refused(client: str, said: str) -> None:
    """A client proves itself in one way; one that cannot may only send people to sign in."""
    with pytest.raises(ConfigurationError, match=said) as refused:
        read(client=client)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        "/back",
        "portal.example/back",
        "https://",
        "https://portal.example/back#part",
        "https://user@portal.example/back",
        "https://portal.example/ba ck",
        "https://portal.example\\\\evil.example",
        "javascript:alert(1)",
        "data:text/html,x",
        "app:/done",
        "org.example.app:done",
        "https://portal.example;script-src/x",
        "https://pörtal.example/back",
        "https://portal.example/*'\"",
    ],
)
def test_redirect_addresses_that_are_refused(address: str) -> None:
    """Only absolute web addresses and private-use schemes, without fragment, user and what could end a header."""
    with pytest.raises(ConfigurationError, match="absolute https address"):
        read(client=f"{SECRET}, {CODE}, redirect_uris: ['{address.replace(chr(39), chr(39) * 2)}']")


@pytest.mark.parametrize(
    "address",
    [
        "https://portal.example",
        "https://portal.example:8443/back/x?site=1&b=%20",
        "https://[2001:db8::1]/back",
        "http://127.0.0.1:7777/done",
        "http://localhost/done",
        "org.example.app:/done",
    ],
)
@pytest.mark.parametrize("environment", ["sandbox", "production"])
def test_redirect_addresses_that_are_taken(environment: str, address: str) -> None:
    """The addresses of web and native applications (RFC 8252)."""
    read(environment, client=f"{SECRET}, {CODE}, redirect_uris: ['{address}']")


@pytest.mark.parametrize("address", ["http://portal.example/back", "http://localhost.evil.example/done"])
def test_codes_do_not_travel_in_the_clear(address: str) -> None:
    """Plain http to another host is for a sandbox only."""
    client = f"{SECRET}, {CODE}, redirect_uris: ['{address}']"
    read("sandbox", client=client)
    with pytest.raises(ConfigurationError, match="in production it is https"):
        read("production", client=client)


@pytest.mark.parametrize(
    "hashed", ["hunter2hunter2", "$2b$12$abcdefghijklmnopqrstuv", HASH.replace("argon2id", "argon2i"), HASH[:60]]
)
def test_passwords_are_hashes(hashed: str) -> None:
    """What is no argon2id hash is refused, and never shown: it may be the password."""
    with pytest.raises(ConfigurationError, match="adt-engine interchange password") as refused:
        read(client=SECRET, user=f"password_hash: '{hashed}'")
    assert hashed not in str(refused.value)


def test_a_hash_without_quotes() -> None:
    """In a block of braces a hash is cut at its commas: that is one problem, and nothing of the hash is shown."""
    with pytest.raises(ConfigurationError, match="put it in quotes") as refused:
        read(client=SECRET, user=f"password_hash: {HASH}")
    assert len(refused.value.problems) == 1
    assert HASH[-20:] not in str(refused.value)


@pytest.mark.parametrize(("hashed", "may"), [(HASH, True), ("!", False), ("*", False), ("", False)])
def test_who_may_sign_in(hashed: str, may: bool) -> None:
    """A hash lets its user in; the marks of shadow(5) let nobody in; neither stands in a repr."""
    user = read(client=SECRET, user=f"password_hash: '{hashed}'").users["dr.osei"]
    assert user.may_sign_in is may
    assert HASH not in repr(user)
    assert not User(tenant="riverbend", role="nurse").may_sign_in


@pytest.mark.parametrize(
    ("environment", "login"), [("production", "dr.osei"), ("sandbox", "stranger"), ("production", "stranger")]
)
def test_only_a_sandbox_signs_in_by_itself(environment: str, login: str) -> None:
    """Section 4.1: auto_login_user is a user of a sandbox."""
    with pytest.raises(ConfigurationError, match=r"auto_login_user: found .*(needs environment: sandbox|one of users)"):
        read(environment, client=SECRET, more=f"auth: {{auto_login_user: {login}}}")


def test_users_and_auth_are_in_force() -> None:
    """Nothing of them is among what waits for a later part."""
    found = read(client=SECRET, user=f"password_hash: '{HASH}'", more="auth: {auto_login_user: dr.osei}")
    assert found.unheeded == ()


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"keys": {}}', b'{"keys": [1]}', None])
def test_key_files_that_cannot_be_read(tmp_path: Path, text: bytes | None) -> None:
    """A file that is missing or no JWKS is a LookupError at its use, as for secrets."""
    file = tmp_path / "jwks.json"
    if text is not None:
        file.write_bytes(text)
    with pytest.raises(LookupError, match=r"jwks\.json (is no JWKS|cannot be read)"):
        PublicKeys(file=str(file)).read()


def test_key_files_are_read_on_each_use(tmp_path: Path) -> None:
    """Keys can be changed without a restart."""
    file = tmp_path / "jwks.json"
    keys = PublicKeys(file=str(file))
    for kid in ("one", "two"):
        file.write_bytes(orjson.dumps({"keys": [{"kid": kid}]}))
        assert keys.read() == ({"kid": kid},)

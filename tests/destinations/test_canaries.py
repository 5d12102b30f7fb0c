"""No secret of a destination leaves by a side door: canaries in each, then a search of all that the engine says."""

import base64
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.deliver.wire.test_proxy import FakeProxy
from tests.destinations.double_rig import ProfilesRig
from tests.destinations.server_like import ServerLike
from tests.flow.feed import FeedMessage
from tests.flow.operator import done
from tests.flow.program import Program
from tests.ops.web.person import Person

PEM: Final = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
ARRIVAL: Final = (
    "MSH|^~\\&|REG|RIVERBEND|ADTENGINE|HUB|20260302060000||ADT^A28^ADT_A05|A1|P|2.5.1\rEVN|A28|20260302060000\r"
    "PID|1||4711^^^RVB^MR||Kim^Ada||19540301|F\r"
)
NOWHERE: Final = "http://127.0.0.1:9"


class Secrets:
    """Canaries by name, in the environment or in files of a folder; `all`: what must be found nowhere."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment: dict[str, str] = {}
        self.all: dict[str, str] = {}

    def env(self, name: str) -> dict[str, str]:
        """Return a reference to a new canary in the environment."""
        self.all[name] = self.environment[name.upper()] = f"hush-{name}-8f2c"
        return {"env": name.upper()}

    def file(self, name: str, text: str = "", mode: int = 0o600) -> dict[str, str]:
        """Return a reference to a new canary in a file, or to a text that has its own."""
        if not text:
            text = self.all[name] = f"hush-{name}-8f2c"
        path = self.folder / f"{name}.secret"
        path.write_text(text)
        path.chmod(mode)
        return {"file": str(path)}

    def key(self, name: str) -> str:
        """Return a private key as PEM, a line in the middle of which is the canary."""
        text = rsa.generate_private_key(65537, 2048).private_bytes(*PEM).decode()
        self.all[name] = text.splitlines()[9]
        return text

    def basic(self, name: str, user: str) -> None:
        """Let what HTTP Basic makes of a canary be one."""
        self.all[f"{name} as Basic"] = base64.b64encode(f"{user}:{self.all[name]}".encode()).decode()

    def leaks(self, said: bytes) -> list[str]:
        """Return the names of the canaries in what was said, also as JSON writes them."""
        text = said.decode("utf-8", "replace")
        return [name for name, canary in self.all.items() if canary in text or json.dumps(canary)[1:-1] in text]


def destinations(secrets: Secrets, base: str, proxy: str) -> list[dict[str, Any]]:
    """Return a destination of each kind of sign-in, and one of each other key that refers to a secret."""
    token = {"token_url": base.replace("/fhir/R4", "/oauth/token"), "client_id": "engine"}
    authority = trustme.CA().issue_cert("engine.example")
    pair = {"client_certificate": secrets.folder / "own.pem", "client_key": secrets.folder / "own.key"}
    authority.cert_chain_pems[0].write_to_path(str(pair["client_certificate"]))
    authority.private_key_pem.write_to_path(str(pair["client_key"]))
    pair["client_key"].chmod(0o600)
    entra = trustme.CA().issue_cert("entra.example", key_type=trustme.KeyType.RSA)
    entra.cert_chain_pems[0].write_to_path(str(secrets.folder / "entra.pem"))
    entra_key = entra.private_key_pem.bytes().decode()
    secrets.all["entra key"] = entra_key.splitlines()[9]
    secrets.all["client key"] = authority.private_key_pem.bytes().decode().splitlines()[1]
    account = {
        "type": "service_account", "client_email": "e@p.iam.gserviceaccount.com", "private_key_id": "k1",
        "private_key": secrets.key("google"), "token_uri": token["token_url"],
    }  # fmt: skip
    auths: Mapping[str, dict[str, Any]] = {
        "basic": {"username": "engine", "password": secrets.env("password")},
        "bearer": {"token": secrets.file("bearer")},
        "client_credentials": {**token, "client_secret": secrets.env("client"), "method": "basic"},
        "refresh_token": {**token, "refresh_token": secrets.env("refresh"), "client_secret": secrets.env("second")},
        "private_key_jwt": {**token, "private_key": secrets.file("jwt-key", secrets.key("jwt"))},
        "entra_certificate": {
            **token, "scope": "x/.default", "certificate": str(secrets.folder / "entra.pem"),
            "private_key": secrets.file("entra-key", entra_key),
        },
        "google_service_account": {"key_file": secrets.file("account", json.dumps(account))},
        "aws_sigv4": {
            "region": "us-east-1", "access_key_id": secrets.env("aws_id"), "secret_access_key": secrets.env("aws"),
            "session_token": secrets.file("session"),
        },
    }  # fmt: skip
    secrets.basic("password", "engine")
    secrets.basic("client", "engine")
    made = [
        {"name": kind.replace("_", "-"), "base_url": base, "auth": {"type": kind, **keys}}
        for kind, keys in auths.items()
    ]
    headers = {"X-Api-Key": secrets.env("header"), "X-Other": secrets.file("other")}
    proxied = {"proxy": proxy, "proxy_user": "us", "proxy_password": secrets.env("proxy")}
    secrets.basic("proxy", "us")
    made += [
        {"name": "headers", "base_url": base, "headers": headers, "notify": "admin-notify"},
        {"name": "proxied", "base_url": base, **proxied},
        {
            "name": "mutual",
            "base_url": NOWHERE.replace("http:", "https:"),
            **{key: str(path) for key, path in pair.items()},
        },
    ]
    return [one | {"required": False, "retry": {"first_seconds": 0.05, "max_seconds": 0.5}} for one in made]


@pytest.fixture
async def proxy() -> AsyncIterator[FakeProxy]:
    """A forward proxy that takes no credentials but its own."""
    opened = await FakeProxy().start()
    opened.credentials = "others"
    yield opened
    await opened.stop()


COMMANDS: Final = (
    ("channels", "check", "--channels", "channels"),
    ("channels", "check", "--channels", "channels", "--json"),
    ("channels", "list", "--channels", "channels", "--json"),
    ("channels", "list", "--data", "data", "--json"),
    ("destinations", "list", "--data", "data", "--json"),
    *(("destinations", "settings", name, "--data", "data", "--json") for name in ("headers", "proxied", "aws-sigv4")),
    ("status", "--data", "data", "--json"),
    ("alerts", "list", "--data", "data", "--json"),
    ("messages", "show", "1", "--data", "data", "--json"),
    ("doctor", "--channels", "channels", "--data", "data", "--json"),
    ("doctor", "--channels", "channels", "--data", "data"),
    ("journal", "backup", "--to", "backup.db", "--data", "data"),
    ("audit", "list", "--data", "data", "--json"),
)
PAGES: Final = ("/overview", "/channels", "/alerts", "/messages", "/messages/1", "/lanes", "/sites")


async def run(folder: Path, environment: Mapping[str, str], *arguments: str) -> bytes:
    """Run a command to its end and return all that it said."""
    command = Program(folder, *arguments, environment=environment)
    await command.spawn()
    await command.ended()
    said = b"".join(command.said)
    assert b"Traceback" not in said, command.log()
    return said


@pytest.mark.process
@pytest.mark.timeout(300)
async def test_no_secret_is_in_anything_that_the_engine_says(tmp_path: Path, proxy: FakeProxy) -> None:
    """Log, commands, pages, API, metrics, audit trail, journal and backup, while each kind of sign-in is tried."""
    server = ServerLike()
    rig = await ProfilesRig(tmp_path / "engine", {"generic": server}).open()
    before = rig.proxies["generic"]
    (tmp_path / "secrets").mkdir()
    secrets = Secrets(tmp_path / "secrets")
    given = destinations(secrets, f"{before.url}/fhir/R4", proxy.url)
    file = next((rig.folder / "channels").glob("*.yaml"))
    file.write_bytes(orjson.dumps(orjson.loads(file.read_bytes()) | {"destinations": given}))
    said: dict[str, bytes] = {}
    try:
        await rig.engine.start(**secrets.environment)
        await rig.engine.line("started")
        port = (await rig.engine.line("pages listening"))["port"]
        await rig.sender([FeedMessage("A1", 1, ARRIVAL.encode(), "")], 1).run()
        await rig.until(lambda rows: sum(row.state == "delivered" for row in rows) >= 4 and bool(proxy.heads), 60.0)
        person = Person(port)
        invited = await done(rig, "users.add", name="ann", role="admin")
        assert (await person.set_up(invited["token"], "ann")).status_code == 303
        for page in PAGES:
            answer = await person.get(page)
            assert answer.status_code == 200, page
            said[page] = answer.content
        token = (await done(rig, "tokens.add", name="t", role="viewer", days=1))["token"]
        bearer = {"authorization": f"Bearer {token}"}
        for name in (one["name"] for one in given):
            path = f"/api/v1/destinations/settings?destination={name}"
            said[path] = (await person.http.get(path, headers=bearer)).content
            assert b'"base_url"' in said[path]
        for path in ("/api/v1/destinations", "/api/v1/channels", "/api/v1/status", "/metrics"):
            said[path] = (await person.http.get(path, headers=bearer)).content
        await person.close()
        said["metrics"] = str(await done(rig, "metrics")).encode()
        said["reload"] = orjson.dumps(await rig.ask("reload"))
        for arguments in COMMANDS:
            said[" ".join(arguments)] = await run(rig.folder, secrets.environment, *arguments)
        assert await rig.engine.stop() == 0
        said["log"] = b"".join(rig.engine.said)
        assert (rig.folder / "backup.db").exists()
        said |= {str(one.relative_to(rig.folder)): one.read_bytes() for one in rig.folder.rglob("*") if one.is_file()}
        assert {name: found for name, text in said.items() if (found := secrets.leaks(text))} == {}
        assert len(secrets.all) == 18
        sent = server.headers
        assert {headers.get("X-Api-Key") for headers in sent} >= {secrets.all["header"]}
        proofs = " ".join(headers.get("Authorization", "") for headers in sent)
        assert all(
            one in proofs for one in (secrets.all["password as Basic"], secrets.all["bearer"], "AWS4-HMAC-SHA256")
        )
        assert any(secrets.all["proxy as Basic"] in head for head in proxy.heads)
        assert any("/oauth/token" in call.path for call in before.calls)
    finally:
        await rig.close()


def broken(secrets: Secrets) -> dict[str, dict[str, Any]]:
    """Return keys of destinations with a secret that cannot be used, or stands where none belongs."""
    key, token = secrets.key("pasted"), {"token_url": "https://a.example/t", "client_id": "e"}
    secrets.env("text")
    text = secrets.all["text"]
    secrets.environment["HTTPS_PROXY"] = f"ftp://us:{text}@proxy.example:3128"
    by_key, by_account = {"type": "private_key_jwt", **token}, {"type": "google_service_account"}
    half = secrets.file("half", json.dumps({"private_key": text}))
    return {
        "no-key": {"auth": {**by_key, "private_key": secrets.env("no_key")}},
        "no-json": {"auth": {**by_account, "key_file": secrets.file("no-json")}},
        "half-json": {"auth": {**by_account, "key_file": half}},
        "open": {"auth": {"type": "bearer", "token": secrets.file("open", mode=0o644)}},
        "no-header": {"headers": {"X-A": secrets.file("two", f"a\n{text}")}},
        "text": {"auth": {"type": "basic", "username": "e", "password": text}},
        "pem": {"auth": {**by_key, "private_key": key}},
        "client-key": {"client_certificate": "own.pem", "client_key": key},
        "header": {"headers": {"X-Api-Key": f"{text}\n"}},
        "plain-header": {"headers": {"X-Api-Key": text}},
        "proxy-user": {"proxy": f"http://us:{text}@proxy.example:3128"},
        "proxy-password": {"proxy": "http://proxy.example:3128", "proxy_user": "us", "proxy_password": text},
        "environment": {"proxy": "environment"},
        "base": {"base_url": f"https://us:{text}@fhir.example/R4"},
        "token-url": {"auth": {**by_key, "token_url": f"https://us:{text}@a.example/t", "private_key": {"env": "X"}}},
        "aws": {"auth": {"type": "aws_sigv4", "region": "us-east-1", "access_key_id": text}},
        "account": {"auth": {**by_account, "key_file": {"private_key": key}}},
        "account-text": {"auth": {**by_account, "key_file": json.dumps({"private_key": key})}},
        "whole": {"auth": text},
    }


@pytest.mark.process
async def test_what_is_wrong_with_a_secret_is_said_without_it(tmp_path: Path) -> None:
    """Unusable, readable by others, or written where a reference belongs: check, doctor and start name the key only."""
    secrets = Secrets(tmp_path)
    for name, keys in broken(secrets).items():
        folder = tmp_path / name
        folder.mkdir()
        destination = {"name": name, "base_url": NOWHERE} | keys
        channel = {"channel": "adt", "listen": {"mllp": {"port": 2575}}, "destinations": [destination]}
        (folder / "adt.yaml").write_bytes(orjson.dumps(channel))
        for command in (("channels", "check"), ("channels", "check", "--json"), ("doctor", "--json")):
            said = await run(tmp_path, secrets.environment, *command, "--channels", str(folder))
            assert secrets.leaks(said) == [], (name, command, said)
            assert said

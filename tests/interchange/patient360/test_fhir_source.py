"""Another FHIR server as a source: this very service beside it, and servers that say what they should not."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc.jwk import ECKey
from typer.testing import CliRunner

from engine.config.account import Client, PublicKeys, Role
from engine.fhir.schema import FhirVersion, defects
from engine.interchange.app.commands.interchange import app
from engine.interchange.kernel.outbound import Outbound
from engine.interchange.network.patient360.connectors import fhir as connector
from engine.interchange.network.patient360.connectors import server as peer
from engine.interchange.network.patient360.connectors.connector import SourceError
from tests.interchange.kit import BASES, SECRET, Outside, configuration, record_number, running, secret_file
from tests.interchange.least import least, version_of
from tests.interchange.patient360.sources import ADDRESS, Said, bundle, retrieved, scripted, server, subject
from tests.interchange.patient360.sources import fhir as said
from tests.interchange.test_operations import issued

VERSIONS = {"/fhir/R4": "R4", "/fhir": "STU3"}
KEY = ec.generate_private_key(ec.SECP384R1())
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    """A second instance of the service, with a client that proves itself by a key."""
    folder: Path = tmp_path_factory.mktemp("other")
    (folder / "key").touch(0o600)
    (folder / "key").write_text(PEM)
    public = {**ECKey.import_key(PEM).as_dict(private=False), "alg": "ES384", "kid": "one"}
    backend = Client(
        tenant="riverbend", jwks=PublicKeys(keys=(public,)), scopes=("system/*.read",), role=Role.SYSTEM_INTEGRATION
    )
    known = configuration(secret_file(folder)).clients
    with running(folder, clients={**known, "backend": backend}) as found:
        yield found


def by_secret(other: Outside, client: str = "physician", **more: Any) -> dict[str, Any]:
    """Return how the service proves itself to the other one."""
    file = str(other.database.parent / "secret")
    auth = {"token_url": f"{other.url}/oauth/token", "client_id": client, "client_secret": {"file": file}, **more}
    return {"auth": auth}


def known_there(other: Outside, base: str = "/fhir/R4", **elements: Any) -> tuple[str, str]:
    """Let the other service know the person, with a number and an observation; return id and number."""
    number = uuid4().hex
    made = other.create(identifier=[record_number(number)], address=ADDRESS, **elements)
    written = other.ask("POST", f"{base}/Observation", json=least("Observation", made["id"], version_of(base)))
    assert written.status_code == 201
    return made["id"], number


def resources(body: bytes) -> list[dict[str, Any]]:
    """Return what a Bundle holds."""
    return [entry["resource"] for entry in orjson.loads(body)["entry"]]


@pytest.mark.parametrize("base", BASES.values())
def test_a_record_comes_from_another_service(other: Outside, base: str) -> None:
    """C-358: in the version of its base, found by the patient's number, as one Bundle."""
    there, number = known_there(other, base)
    outbound = Outbound()
    source = server(f"{other.url}{base}", outbound, version=VERSIONS[base], organization="Pine", **by_secret(other))
    [document] = retrieved(source, subject(number))
    assert (document.organization, document.id) == ("Pine", f"{other.url}{base}/Patient/{there}")
    assert document.version == FhirVersion(VERSIONS[base])
    found = resources(document.body)
    assert [one["resourceType"] for one in found] == ["Patient", "Observation"]
    assert all(defects(one, document.version) == () for one in found)
    assert document.at == max(one["meta"]["lastUpdated"] for one in found)
    assert outbound.connections >= 1


def test_found_by_name_birth_date_and_sex(other: Outside) -> None:
    """Who has no number that is known there is found by name, birth date and sex; two of them are nobody."""
    family = f"Zabel{uuid4().hex[:8]}".replace("0", "o")
    name = [{"family": family, "given": ["Marisol"]}]
    source = server(f"{other.url}/fhir/R4", **by_secret(other))
    who = subject(uuid4().hex, name=name)
    assert retrieved(source, who) == []
    there, _ = known_there(other, name=name)
    [document] = retrieved(source, who)
    assert document.id.endswith(there)
    assert retrieved(source, subject(name=name, birthDate="1984-02-28")) == []
    assert retrieved(source, subject(name=name, gender="male")) == []
    known_there(other, name=name)
    assert retrieved(source, who) == []


def test_a_number_of_somebody_else(other: Outside) -> None:
    """Whoever has the number and is somebody else by name is not the patient."""
    _, number = known_there(other, name=[{"family": f"X{uuid4().hex}", "given": ["Y"]}])
    name = [{"family": f"Z{uuid4().hex}", "given": ["Y"]}]
    assert retrieved(server(f"{other.url}/fhir/R4", **by_secret(other)), subject(number, name=name)) == []


def test_a_secret_in_a_header(other: Outside) -> None:
    """`method: basic` proves the service as the form does (RFC 6749, 2.3.1)."""
    there, number = known_there(other)
    [document] = retrieved(server(f"{other.url}/fhir/R4", **by_secret(other, method="basic")), subject(number))
    assert document.id.endswith(there)


def test_a_key_instead_of_a_secret(other: Outside) -> None:
    """SMART backend services: an assertion signed by ES384 lets the service in."""
    _, number = known_there(other)
    key = {"file": str(other.database.parent / "key")}
    auth = {"token_url": f"{other.url}/oauth/token", "client_id": "backend", "private_key": key, "key_id": "one"}
    source = server(f"{other.url}/fhir/R4", auth={**auth, "scope": "system/*.read"})
    assert len(retrieved(source, subject(number))) == 1


def test_pages_are_followed(other: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of several pages comes whole, each resource once."""
    monkeypatch.setattr(connector, "PAGE", 3)
    there, number = known_there(other)
    for _ in range(9):
        other.ask("POST", "/fhir/R4/Observation", json=least("Observation", there))
    [document] = retrieved(server(f"{other.url}/fhir/R4", **by_secret(other)), subject(number))
    found = [resource["id"] for resource in resources(document.body)]
    assert len(found) == len(set(found)) == 11


def test_searches_where_there_is_no_everything(other: Outside) -> None:
    """What the service's scopes there let it search comes, where a whole record is refused."""
    there, number = known_there(other)
    other.ask("POST", "/fhir/R4/Condition", json=least("Condition", there))
    who = subject(number)
    scope = "user/Patient.read user/Observation.read"
    [document] = retrieved(server(f"{other.url}/fhir/R4", **by_secret(other, scope=scope)), who)
    assert [resource["resourceType"] for resource in resources(document.body)] == ["Patient", "Observation"]
    with pytest.raises(SourceError, match="shows nothing"):
        retrieved(server(f"{other.url}/fhir/R4", **by_secret(other, scope="user/Patient.read")), who)


def test_a_wrong_secret(other: Outside, tmp_path: Path) -> None:
    """The source is told to have failed, by its name and what to check."""
    wrong = tmp_path / "wrong"
    wrong.touch(0o600)
    wrong.write_text("not " + SECRET)
    source = server(f"{other.url}/fhir/R4", **by_secret(other, client_secret={"file": str(wrong)}))
    with pytest.raises(
        SourceError, match=r"^The source other gives no token \(40[01], invalid_client\); check client_id"
    ):
        retrieved(source, subject("x"))


PERSON = {**subject("N1").patient, "id": "there"}


@pytest.mark.parametrize(
    ("said_there", "told"),
    [
        pytest.param((302, {"location": "http://127.0.0.1:1/fhir"}, b""), "redirects (302)", id="redirect"),
        pytest.param((401, {}, b"{}"), "does not know the service (401)", id="no token"),
        pytest.param((500, {}, b"<html>"), "failed (500)", id="failure"),
        pytest.param((200, {}, b"<html>"), "no JSON", id="no JSON"),
        pytest.param((418, {}, b"{}"), "answered the question for a patient with 418", id="another status"),
        pytest.param((200, {"content-encoding": "gzip"}, b"no gzip"), "cannot be read", id="no gzip"),
    ],
)
def test_what_no_server_should_say(said_there: Said, told: str) -> None:
    """Whatever a server says, the source has failed: its text has name and next step, and nothing of the patient."""
    with scripted(lambda _method, _path: said_there) as found, pytest.raises(SourceError) as failed:
        retrieved(server(found.url), subject("N1"))
    assert str(failed.value).startswith("The source other ")
    assert told in str(failed.value)
    assert "Quintero" not in str(failed.value)


def record(*pages: Said) -> Any:
    """Return a script: the person is found, and the record has these pages."""
    left = list(pages)

    def script(method: str, path: str) -> Said:
        if path.endswith("$match"):
            return said({}, 404)
        return said(bundle(PERSON)) if method == "POST" else left.pop(0)

    return script


@pytest.mark.parametrize(
    "link", ["http://127.0.0.1:1/next", "https://127.0.0.1/fhir", "//elsewhere.example/x", "http://[x"]
)
def test_a_link_elsewhere_is_not_followed(link: str) -> None:
    """A next link leads to the same scheme, host and port, or nowhere: no token reaches another server."""
    with scripted(record(said(bundle(PERSON, next=link)))) as found, pytest.raises(SourceError, match="another server"):
        retrieved(server(found.url), subject("N1"))


def test_links_of_the_same_server() -> None:
    """Relative links lead on; a link that was followed once is not followed again."""
    note = {"resourceType": "Observation", "id": "a"}
    pages = [
        said(bundle(PERSON, next="?page=2")),
        said(bundle(note, next="/fhir?page=3")),
        said(bundle(next="?page=2")),
    ]
    with scripted(record(*pages)) as found:
        [document] = retrieved(server(found.url), subject("N1"))
    assert resources(document.body) == [PERSON, note]
    assert all(headers["cache-control"] == "no-cache" for *_, headers in found.asked)
    assert all(headers["accept"] == "application/fhir+json" for *_, headers in found.asked)


def test_numbers_stay_as_they_are() -> None:
    """The precision of a decimal has a meaning: 1.50 does not become 1.5."""
    text = orjson.dumps(bundle(PERSON, {"resourceType": "Observation", "id": "a", "valueQuantity": {"value": 4711}}))
    page = (200, {}, text.replace(b"4711", b"1.50"))
    with scripted(record(page)) as found:
        [document] = retrieved(server(found.url), subject("N1"))
    assert b'"value":1.50' in document.body


def test_too_many_levels() -> None:
    """A resource that nobody could write again ends the source."""
    text = orjson.dumps(bundle(PERSON, {"resourceType": "Observation", "id": "a", "deep": 4711}))
    text = text.replace(b"4711", b'{"a":' * 300 + b"1" + b"}" * 300)
    with scripted(record((200, {}, text))) as found, pytest.raises(SourceError, match="more levels"):
        retrieved(server(found.url), subject("N1"))


def test_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record larger than is read, in one page or in many, ends the source and not the process."""
    monkeypatch.setattr(peer.ServerSession, "__init__", _small(peer.ServerSession.__init__))
    large = {"resourceType": "Observation", "id": "a", "note": [{"text": "x" * 60_000}]}
    medium = {**large, "note": [{"text": "x" * 20_000}]}
    for pages in ([said(bundle(large))], [said(bundle(medium, next=f"?{number}")) for number in range(9)]):
        with scripted(record(*pages)) as found, pytest.raises(SourceError, match="more than is read"):
            retrieved(server(found.url), subject("N1"))
    monkeypatch.setattr(peer, "MOST_PAGES", 3)
    pages = [said(bundle(next=f"?{number}")) for number in range(9)]
    with scripted(record(*pages)) as found, pytest.raises(SourceError, match="more pages"):
        retrieved(server(found.url), subject("N1"))


def _small(made: Any) -> Any:
    def init(self: Any, *arguments: Any, **more: Any) -> None:
        made(self, *arguments, **more)
        self.left = 50_000

    return init


def test_one_that_takes_too_long() -> None:
    """A slow source ends after its timeout_s, as the one that takes no connections does."""

    def slow(_method: str, _path: str) -> Said:
        time.sleep(0.5)
        return said({})

    with scripted(slow) as found, pytest.raises(SourceError, match=r"timeout_s \(0.1 s\)|in time"):
        retrieved(server(found.url, timeout_s=0.1), subject("N1"))
    with pytest.raises(SourceError, match="cannot be reached"):
        retrieved(server("http://127.0.0.1:1/fhir"), subject("N1"))


def test_a_server_that_matches_itself() -> None:
    """Patient/$match is asked first, with what says who the person is; one who is somebody else is not taken."""
    other_person = {**PERSON, "id": "another", "birthDate": "1990-01-01"}

    def script(method: str, path: str) -> Said:
        return said(bundle(other_person, PERSON)) if method == "POST" else said(bundle(PERSON))

    with scripted(script) as found:
        [document] = retrieved(server(found.url), subject("N1"))
    assert document.id == f"{found.url}/Patient/there"
    assert [path for _, path, *_ in found.asked] == [
        "/fhir/Patient/$match",
        "/fhir/Patient/there/$everything?_count=200",
    ]
    told = {one["name"]: one for one in orjson.loads(found.asked[0][2])["parameter"]}
    assert set(told["resource"]["resource"]) == {"resourceType", "name", "gender", "birthDate", "identifier", "address"}


def test_nothing_of_the_patient_in_addresses() -> None:
    """Searches are sent as forms: names and numbers stand in no address."""
    with scripted(record(said(bundle(PERSON)))) as found:
        retrieved(server(found.url), subject("N1"))
    assert [(method, path.partition("?")[0]) for method, path, *_ in found.asked] == [
        ("POST", "/fhir/Patient/$match"),
        ("POST", "/fhir/Patient/_search"),
        ("GET", "/fhir/Patient/there/$everything"),
    ]


def test_attachments_lead_to_their_server() -> None:
    """What a document has attached by a relative address is found at the server that it is from."""
    document = {"resourceType": "DocumentReference", "id": "d", "content": [{"attachment": {"url": "Binary/1"}}, {}, 1]}
    with scripted(record(said(bundle(PERSON, document)))) as found:
        [taken] = retrieved(server(found.url), subject("N1"))
    assert resources(taken.body)[1]["content"][0]["attachment"]["url"] == f"{found.url}/Binary/1"


@pytest.mark.parametrize(
    "strange",
    [
        [],
        1,
        None,
        {"entry": 1},
        {"entry": [1, {"resource": 1}, {}]},
        {"link": [1]},
        {"link": [{"relation": "next", "url": 1}]},
    ],
)
def test_strange_bundles(strange: Any) -> None:
    """Whatever JSON stands in the place of a Bundle, nothing of it is taken for a record."""
    with scripted(lambda *_: said(strange)) as found:
        assert retrieved(server(found.url), subject("N1")) == []


def checked(tmp_path: Path, *options: str, **connectors: Any) -> str:
    """Return what `interchange check` prints of a tenant with these sources."""
    file = tmp_path / "interchange.yaml"
    tenant = {"network_mode": "real", "connectors": connectors}
    settings = {
        "environment": "sandbox",
        "base_url": "http://127.0.0.1:8080",
        "service_identifier_system": "https://cdis.example",
        "tenants": {"riverbend": tenant},
    }
    file.write_bytes(orjson.dumps(settings))
    result = CliRunner().invoke(app, ["check", "--config", str(file), *options])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_check_names_what_cannot_be_asked(other: Outside, tmp_path: Path) -> None:
    """`interchange check` asks each server for a token and its statement: absent, unwilling and other ones are told."""
    kept, auth = {"type": "fhir", "url": f"{other.url}/fhir/R4"}, by_secret(other)["auth"]
    sources = {
        "fine": {**kept, "auth": auth},
        "absent": {**kept, "url": "http://127.0.0.1:1/fhir"},
        "unwilling": {**kept, "auth": {**auth, "client_id": "nobody"}},
        "older": {**kept, "url": f"{other.url}/fhir"},
        "elsewhere": {**kept, "url": f"{other.url}/nothing"},
    }
    told = " ".join(checked(tmp_path, **sources).split())
    for name, text in (
        ("absent", "the server cannot be reached"),
        ("unwilling", "the server gives no token"),
        ("older", "the server speaks FHIR 3.0.1"),
        ("elsewhere", "the server shows no CapabilityStatement"),
    ):
        assert f"tenants.riverbend.connectors.{name}: {text}" in told, told
    assert "connectors.fine" not in told
    assert "the server" not in checked(tmp_path, "--offline", **sources)


def test_certificates_are_verified(tmp_path: Path) -> None:
    """A server is trusted by the system's authorities, or by those of ca_file alone; a file that is none is told."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    (tmp_path / "none.pem").write_text("no certificate")
    with running(tmp_path, tls=issued(tmp_path, authority), base_url="https://127.0.0.1:0") as found:
        url = f"{found.url}/fhir/R4"
        for file, told in (
            (None, "not trusted"),
            ("other.pem", "not trusted"),
            ("none.pem", "has a ca_file that cannot be used"),
            # Trusted, and then asked for a token that was not brought.
            ("ca.pem", "does not know the service (401)"),
        ):
            source = server(url, **({"ca_file": str(tmp_path / file)} if file else {}))
            with pytest.raises(SourceError) as failed:
                retrieved(source, subject("N1"))
            assert told in str(failed.value)

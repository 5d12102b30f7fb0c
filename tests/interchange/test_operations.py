"""The service among others: health, metrics, log lines, TLS, stopping, and what is served beside FHIR."""

import signal
import socket
import ssl
import time
from pathlib import Path

import httpx
import pytest
import trustme

from engine.config.service import Environment, ServiceConfiguration, Tls
from engine.database.sqlite import SqliteError
from engine.errors import StartError
from engine.interchange.app.process import check_open_line
from tests.interchange.kit import Inside, Running, configuration, issue, patient, running
from tests.interchange.nursery import ran
from tests.interchange.process import ENGINE_SECRET, write_configuration

ROOT = Path(__file__).resolve().parents[2]


def metrics(service: Running) -> dict[str, float]:
    """Return the metrics by name and labels."""
    answer = service.http.get(f"{service.url}/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = (line.rpartition(" ") for line in answer.text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def test_what_is_counted(own_service: Running) -> None:
    """Requests by interaction, type, version and status class; tokens by grant; refusals, writes and commits."""
    made = own_service.create()
    own_service.ask("GET", f"/fhir/Patient/{made['id']}")
    own_service.ask("GET", "/fhir/R4/Patient/nobody")
    own_service.http.get(f"{own_service.url}/fhir/R4/Patient")
    own_service.http.get(f"{own_service.url}/fhir/R4/metadata")
    told = metrics(own_service)
    requests = "adt_interchange_requests_total"
    assert told[f'{requests}{{interaction="create",status="2xx",type="Patient",version="R4"}}'] == 1
    assert told[f'{requests}{{interaction="read",status="2xx",type="Patient",version="STU3"}}'] == 1
    assert told[f'{requests}{{interaction="read",status="4xx",type="Patient",version="R4"}}'] == 1
    assert told[f'{requests}{{interaction="none",status="4xx",type="",version="R4"}}'] == 1
    assert told['adt_interchange_request_seconds_count{interaction="read",type="Patient"}'] == 2
    assert told['adt_interchange_refusals_total{category="not-found"}'] == 1
    assert told['adt_interchange_refusals_total{category="login"}'] == 1
    assert told['adt_interchange_tokens_total{grant="client_credentials"}'] == 1
    assert told["adt_interchange_writes_total"] == 4  # the token, the patient, and what the log has of two reads
    assert 1 <= told["adt_interchange_commits_total"] <= 4
    assert told["adt_interchange_in_flight"] == 0
    assert told["adt_interchange_store_failed"] == 0


def test_every_metric_is_on_the_services_page(service: Running) -> None:
    """An operator finds each metric of the service on the page on running it."""
    text = service.http.get(f"{service.url}/metrics").text
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    page = (ROOT / "engine/interchange/docs/fhir-service.md").read_text()
    assert {name for name in names if not name.endswith("_created") and name not in page} == set()


def test_a_store_that_failed(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """After an I/O error writes are 500, and reads, too, as nobody could account for them; /readyz is 503."""
    inside.token("physician")

    class Broken:
        def execute(self, _text: str) -> None:
            raise SqliteError

    monkeypatch.setattr(inside.app.service.store._writer, "_connection", Broken())
    issue(inside.ask("POST", "/fhir/R4/Patient", json=patient()), 500, "exception")
    monkeypatch.undo()
    issue(inside.ask("POST", "/fhir/R4/Patient", json=patient()), 500, "exception")
    issue(inside.ask("GET", "/fhir/R4/Patient"), 500, "exception")
    ready = inside.http.get(f"{inside.url}/readyz")
    assert (ready.status_code, ready.json()) == (503, {"status": "failed"})
    assert inside.http.get(f"{inside.url}/livez").status_code == 200
    assert metrics(inside)["adt_interchange_store_failed"] == 1
    said = "".join(capfd.readouterr())
    assert said.count("store failed") == 1
    assert said.count("request failed") == 3


def test_a_failed_request_is_one_line(tmp_path: Path) -> None:
    """A status of 500 or more is logged with request id, interaction, kind of error and place; nothing below is."""
    uuid = "5b0c9f0e-4c1f-4c37-9b3d-0d8b4c1f2a11"
    with running(tmp_path) as service:
        service.http.post(f"{service.url}/_test/fail", json={"path": "/fhir", "times": 2})
        answers = [service.ask("GET", "/fhir/R4/Patient", headers={"x-request-id": name}) for name in (uuid, "Doe^J")]
        for answer in answers:
            issue(answer, 500, "exception")
        issue(service.ask("GET", "/fhir/R4/Patient/nobody"), 404, "not-found")
        lines = [line for line in service.process.events if line["event"] == "request failed"]
        assert [line["request"][:7] for line in lines] == [uuid[:7], "sha256:"]
        assert (lines[0]["status"], lines[0]["error"]) == (500, "AskedForError")
        assert lines[0]["file"].startswith("hooks:")
        assert "Doe" not in service.process.log.read_text()


def test_stopping_is_told_first(tmp_path: Path) -> None:
    """For `drain_s` after SIGTERM /readyz is 503 while requests are answered; a second signal does not wait."""
    with running(tmp_path, drain_s=60) as service:
        assert service.http.get(f"{service.url}/readyz").status_code == 200
        service.process.run.send_signal(signal.SIGTERM)
        service.process.event("stopping")
        ready = service.http.get(f"{service.url}/readyz")
        assert (ready.status_code, ready.json()) == (503, {"status": "stopping"})
        assert service.http.get(f"{service.url}/livez").status_code == 200
        assert service.ask("GET", "/fhir/R4/Patient").status_code == 200


def test_a_request_under_way_is_answered_before_the_end(tmp_path: Path) -> None:
    """SIGTERM lets what is under way finish."""
    with running(tmp_path) as service:
        token = service.token("physician")
        service.http.post(f"{service.url}/_test/slow", json={"path": "/fhir", "seconds": 0.5})
        with socket.create_connection(("127.0.0.1", service.port), timeout=60) as opened:
            opened.sendall(
                f"GET /fhir/R4/Patient HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n".encode()
            )
            deadline = time.monotonic() + 60
            while metrics(service)["adt_interchange_in_flight"] == 0:
                assert time.monotonic() < deadline
            service.process.run.send_signal(signal.SIGTERM)
            assert opened.recv(12) == b"HTTP/1.1 200"
        assert service.process.run.wait(60) == 0


def issued(folder: Path, authority: trustme.CA) -> Tls:
    """Write a new certificate and its key to the files of a folder, and return their names."""
    certificate = authority.issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(folder / "certificate.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    return Tls(certificate=str(folder / "certificate.pem"), key=str(folder / "key.pem"))


def test_tls(tmp_path: Path) -> None:
    """With a certificate the service speaks TLS 1.2 and 1.3 itself, and nothing older."""
    authority = trustme.CA()
    files = issued(tmp_path, authority)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with running(tmp_path, tls=files, base_url="https://127.0.0.1:0") as service:
        assert httpx.get(f"{service.url}/livez", verify=trusting, trust_env=False).status_code == 200
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            trusting.minimum_version = trusting.maximum_version = version
            assert httpx.get(f"{service.url}/fhir/metadata", verify=trusting, trust_env=False).status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{service.port}/livez", trust_env=False)


def test_sighup_renews_the_certificate(tmp_path: Path) -> None:
    """SIGHUP takes up the certificate that its files hold now; with a key of another one the old pair stays."""
    authority = trustme.CA()
    files = issued(tmp_path, authority)

    def served(port: int) -> str:
        return ssl.get_server_certificate(("127.0.0.1", port)).strip()

    with running(tmp_path, tls=files, base_url="https://127.0.0.1:0") as service:
        first = (tmp_path / "certificate.pem").read_text().strip()
        assert served(service.port) == first
        issued(tmp_path, authority)
        second = (tmp_path / "certificate.pem").read_text().strip()
        service.process.run.send_signal(signal.SIGHUP)
        service.process.event("reloaded")
        assert served(service.port) == second != first
        trustme.CA().issue_cert("127.0.0.1").private_key_pem.write_to_path(tmp_path / "key.pem")
        service.process.run.send_signal(signal.SIGHUP)
        assert "do not belong together" in service.process.event("reload refused")["error"]
        assert served(service.port) == second


def test_a_service_without_its_certificate_is_never_ready(tmp_path: Path) -> None:
    """Files of TLS that cannot be used end the start before the service says that it is ready."""
    tls = Tls(certificate=str(tmp_path / "nothing.pem"), key=str(tmp_path / "key.pem"))
    settings = configuration(tmp_path / "secret", tls=tls, base_url="https://127.0.0.1:0")
    arguments = ["--config", str(write_configuration(tmp_path, settings)), "--port", "0"]
    arguments += ["--database", f"sqlite:///{tmp_path}/s.db"]
    done = ran("interchange", *arguments, environment={"ENGINE_SECRET": ENGINE_SECRET})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("tls.certificate: ")


@pytest.mark.parametrize(
    ("environment", "host", "more", "allowed"),
    [
        ("sandbox", "192.0.2.7", {}, True),
        ("production", "127.0.0.1", {}, True),
        ("production", "::1", {}, True),
        ("production", "localhost", {}, True),
        ("production", "192.0.2.7", {}, False),
        ("production", "::", {}, False),
        ("production", "ehr.example", {}, False),
        ("production", "192.0.2.7", {"behind_proxy": True}, True),
        ("production", "192.0.2.7", {"tls": Tls(certificate="c", key="k"), "base_url": "https://a.example"}, True),
    ],
)
def test_production_speaks_no_plain_http_to_others(
    tmp_path: Path, environment: str, host: str, more: dict[str, object], *, allowed: bool
) -> None:
    """Beyond loopback a production service needs TLS, its own or a proxy's that the file vouches for."""
    settings: ServiceConfiguration = configuration(
        tmp_path / "secret", environment=Environment(environment), test_hooks=False, **more
    )
    if allowed:
        check_open_line(settings, host)
    else:
        with pytest.raises(StartError, match="behind_proxy"):
            check_open_line(settings, host)


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/nowhere", 404, ""),
        ("GET", "/chart/nowhere", 404, ""),
        ("GET", "/livez/", 404, ""),
        ("GET", "/oauth", 404, ""),
        ("GET", "/fhirs", 404, ""),
        ("GET", "/..%2f..%2fetc/passwd", 404, ""),
        ("GET", "/_test/clock", 405, "POST"),
        ("POST", "/livez", 405, "GET, HEAD"),
        ("DELETE", "/metrics", 405, "GET, HEAD"),
        ("GET", "/oauth/token", 405, "POST"),
        ("OPTIONS", "/oauth/token", 405, "POST"),
        ("DELETE", "/oauth/authorize", 405, "GET, HEAD, POST"),
        ("PUT", "/oauth/info", 405, "GET, HEAD, POST"),
        ("POST", "/oauth/userinfo", 405, "GET, HEAD"),
        ("POST", "/.well-known/smart-configuration", 405, "GET, HEAD"),
    ],
)
def test_what_is_not_there(service: Running, method: str, path: str, status: int, allow: str) -> None:
    """Beside FHIR, an unknown address is 404 and a wrong method 405 with Allow, as JSON; nothing redirects."""
    answer = service.http.request(method, service.url + path)
    assert answer.status_code == status
    assert ", ".join(sorted(answer.headers.get("allow", "").replace(" ", "").split(","))) == allow
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error"}


@pytest.mark.parametrize("path", ["/fhir/R4/Patient", "/livez", "/metrics", "/oauth/info", "/nowhere", "/fhir/Patient"])
def test_headers_on_every_answer(service: Running, path: str) -> None:
    """Nothing is cached or guessed at, no server names itself, and no origin is let in that no client names."""
    answer = service.http.get(service.url + path, headers={"origin": "https://elsewhere.example"})
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-request-id"]
    assert {name for name in answer.headers if name == "server" or name.startswith("access-control")} == set()


def test_head(service: Running, base: str) -> None:
    """HEAD is answered as GET, without the body."""
    made = service.create(base)
    for path in (f"{base}/Patient/{made['id']}", f"{base}/Patient?_id={made['id']}", f"{base}/metadata", "/livez"):
        full, bare = service.ask("GET", path), service.ask("HEAD", path)
        assert (bare.status_code, bare.content) == (200, b"")
        for name in ("content-type", "content-length", "etag"):
            assert bare.headers.get(name) == full.headers.get(name)
    assert service.ask("HEAD", f"{base}/Patient/nobody").status_code == 404
    assert service.ask("HEAD", f"{base}/Patient/$merge").status_code == 405

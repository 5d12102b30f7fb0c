"""The real process: started by its command, killed, stopped, configured."""

import contextlib
import re
import signal
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from engine.config.service import ServiceConfiguration
from engine.config.source import parse, validate
from engine.errors import ConfigurationError
from engine.interchange.app.process import at_port
from tests.interchange.kit import SECRET, patient, running, running_inside
from tests.interchange.nursery import ran
from tests.interchange.places import url_of
from tests.interchange.process import PROGRAM, started

pytestmark = pytest.mark.process

CONFIGURATION = """
environment: sandbox
base_url: http://127.0.0.1:0
service_identifier_system: https://cdis.example
tenants:
  riverbend: {duplicate_patient_limit: 10}
clients:
  engine: {tenant: riverbend, secret: {env: ENGINE_SECRET}, grants: [client_credentials, refresh_token],
           scopes: ["system/*.*"], role: system-integration}
test_hooks: true
"""


def client(url: str) -> httpx.Client:
    """Return a client with a token."""
    fields = {
        "grant_type": "client_credentials",
        "client_id": "engine",
        "client_secret": "of the process",
        "scope": "system/*.*",
    }
    token = httpx.post(f"{url}/oauth/token", data=fields, trust_env=False).json()["access_token"]
    headers = {"authorization": f"Bearer {token}", "content-type": "application/fhir+json"}
    return httpx.Client(base_url=url, headers=headers, trust_env=False)


def test_an_answered_write_survives_a_kill(tmp_path: Path) -> None:
    """C-562: what was answered is there after SIGKILL and a new start: patients, versions and tokens."""
    kept: list[Any] = []
    with started(tmp_path, CONFIGURATION) as process, client(process.url) as http:
        headers = dict(http.headers)
        for number in range(20):
            body = patient(name=[{"family": f"F{number}", "given": ["A"]}])
            kept.append(http.post("/fhir/R4/Patient", content=orjson.dumps(body)).json())
        changed = {**kept[0], "gender": "other"}
        kept[0] = http.put(f"/fhir/R4/Patient/{kept[0]['id']}", content=orjson.dumps(changed)).json()
        process.run.kill()
        assert process.run.wait(60) == -signal.SIGKILL
    with (
        started(tmp_path, CONFIGURATION) as process,
        httpx.Client(base_url=process.url, headers=headers, trust_env=False) as http,
    ):
        for one in kept:
            assert http.get(f"/fhir/R4/Patient/{one['id']}").json() == one
        assert http.get("/fhir/R4/Patient?_count=0").json()["total"] == 20


def test_what_was_answered_survives_a_kill_under_load(tmp_path: Path) -> None:
    """C-562: of writes by four clients that SIGKILL cuts short, those that were answered are kept whole."""
    answered: list[Any] = []

    def write(url: str, headers: dict[str, str], client_number: int) -> None:
        with contextlib.suppress(httpx.HTTPError), httpx.Client(base_url=url, headers=headers, trust_env=False) as http:
            for number in range(10_000):
                body = patient(name=[{"family": f"F{client_number}", "given": [f"G{number}"]}])
                answered.append(http.post("/fhir/R4/Patient", content=orjson.dumps(body)).json())

    with started(tmp_path, CONFIGURATION) as process, client(process.url) as http:
        headers = dict(http.headers)
        writers = [threading.Thread(target=write, args=(process.url, headers, number)) for number in range(4)]
        for writer in writers:
            writer.start()
        while len(answered) < 100:
            time.sleep(0.005)
        process.run.kill()
        assert process.run.wait(60) == -signal.SIGKILL
        for writer in writers:
            writer.join(60)
    with (
        started(tmp_path, CONFIGURATION) as process,
        httpx.Client(base_url=process.url, headers=headers, trust_env=False) as http,
    ):
        for one in answered:
            assert http.get(f"/fhir/R4/Patient/{one['id']}").json() == one
        total = http.get("/fhir/R4/Patient?_count=0").json()["total"]
        assert len(answered) <= total <= len(answered) + len(writers)


# What differs between two services that answer alike: ids, tokens, moments and the port.
VARIABLE = (
    (re.compile(r"[0-9a-f]{24}"), "ID"),
    (re.compile(r"[ar]t_[\w-]{43}"), "TOKEN"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00"), "AT"),
    (re.compile(r"\w{3}, \d\d \w{3} \d{4} [\d:]+ GMT"), "AT"),
    (re.compile(r"127\.0\.0\.1:\d+"), "HOST"),
)
OF_EACH_ANSWER = {"x-request-id", "date", "content-length"}


def plain(answer: httpx.Response) -> tuple[int, dict[str, str], str]:
    """Return status, headers and body of an answer, without what differs from one service to the next."""

    def of(text: str) -> str:
        for pattern, name in VARIABLE:
            text = pattern.sub(name, text)
        return text

    headers = {name: of(value) for name, value in answer.headers.items() if name not in OF_EACH_ANSWER}
    return answer.status_code, headers, of(answer.text)


def test_the_process_and_the_app_answer_alike(tmp_path: Path) -> None:
    """C-563: `python -m engine interchange` and the app inside another process answer C-001, C-020, C-100 alike."""
    answers = []
    for name, run in (("outside", partial(running, command=PROGRAM)), ("inside", running_inside)):
        (tmp_path / name).mkdir()
        with run(tmp_path / name) as service:
            created = service.ask("POST", "/fhir/R4/Patient", json=patient())
            path = created.headers["location"].removeprefix(service.url).partition("/_history/")[0]
            fields = {"grant_type": "refresh_token", "refresh_token": service.pair().refresh}
            fields |= {"client_id": "physician", "client_secret": SECRET}
            told = [created, service.ask("GET", path), service.ask("GET", path.replace("/R4", ""))]
            told.append(service.http.post(f"{service.url}/oauth/token", data=fields))
            told.append(service.ask("GET", "/fhir/R4/Patient/nobody"))
            answers.append([plain(answer) for answer in told])
    assert [status for status, _, _ in answers[0]] == [201, 200, 200, 200, 404]
    assert answers[0] == answers[1]
    assert "http://HOST/fhir/R4/Patient/ID" in answers[0][0][1]["location"]
    assert '"access_token":"TOKEN"' in answers[0][3][2]


def test_sigterm_stops_in_order(tmp_path: Path) -> None:
    """SIGTERM ends the process with exit 0; nothing of a patient was written to its output."""
    with started(tmp_path, CONFIGURATION, PROGRAM) as process, client(process.url) as http:
        http.post("/fhir/R4/Patient", content=orjson.dumps(patient()))
        http.get("/fhir/R4/Patient?family=Quintero")
        http.put("/fhir/R4/Patient/x", content=b'{"resourceType":"Patient","name":"Quintero"}')
        process.stop()
        assert (tmp_path / "out").read_text() == f"interchange ready at {process.url}\n"
        assert [line["event"] for line in process.events] == ["listening", "stopping", "stopped"]


def test_token_command(tmp_path: Path) -> None:
    """`interchange token` prints a token that a running service takes; offline_access brings a refresh token."""
    with started(tmp_path, CONFIGURATION) as process:
        url = process.url
        arguments = ["token", "--config", str(tmp_path / "interchange.yaml")]
        arguments += ["--database", url_of(tmp_path)]
        done = ran("interchange", *arguments, "--client", "engine")
        headers = {"authorization": f"Bearer {done.stdout.strip()}"}
        assert httpx.get(f"{url}/fhir/Patient", headers=headers, trust_env=False).status_code == 200
        more = ["--client", "engine", "--scope", "patient.read offline_access", "--json"]
        told = ran("interchange", *arguments, *more)
        fields = {"grant_type": "refresh_token", "client_id": "engine", "client_secret": "of the process"}
        fields["refresh_token"] = orjson.loads(told.stdout)["refresh_token"]
        assert (
            httpx.post(f"{url}/oauth/token", data=fields, trust_env=False).json()["scope"]
            == "patient.read offline_access"
        )


def test_the_example_of_the_design_is_read() -> None:
    """Section 3: every key of the example is known; those that nothing obeys yet are named."""
    text = """
environment: sandbox
base_url: http://127.0.0.1:8080
auth_url: http://127.0.0.1:8080
service_identifier_system: https://cdis.example
tenants:
  riverbend:
    network_mode: mocked
    leading_indicator: false
    clinical_alerts: {enabled: true, enrollment: roster}
    adt: {lookup_on: [A01, A02, A03], assigning_authorities: {RVB: "https://mrn.riverbend.example"}}
    duplicate_patient_limit: 10
    active_subscription_limit: 30
    rest_api_version: "2025-06-01"
    licensed_networks: [carequality, commonwell]
clients:
  engine: {tenant: riverbend, secret: {env: ENGINE_SECRET}, uri: "https://engine.riverbend.example",
           grants: [client_credentials, "urn:ietf:params:oauth:grant-type:jwt-bearer"],
           scopes: ["system/*.*"], role: system-integration}
users:
  dr.osei: {tenant: riverbend, role: physician, password_hash: "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHQ$aGFzaGhhc2g"}
"""
    read = validate(parse(text, "interchange.yaml"), ServiceConfiguration)
    assert read.clients["engine"].scopes == ("system/*.*",)
    assert read.unheeded == ("tenants.riverbend.adt.assigning_authorities", "tenants.riverbend.adt.lookup_on")


@pytest.mark.parametrize(
    ("change", "line", "said"),
    [
        pytest.param(("duplicate_patient_limit", "duplicate_limit"), 6, "unknown key", id="unknown key"),
        pytest.param(("environment: sandbox", "environment: test"), 2, "sandbox", id="environment"),
        pytest.param(("{env: ENGINE_SECRET}", "letmein"), 8, "a secret", id="secret in clear"),
        pytest.param(("tenant: riverbend,", "tenant: rivrbend,"), 8, "did you mean riverbend?", id="unknown tenant"),
        pytest.param(("http://127.0.0.1:0", "127.0.0.1:0"), 3, "http:// or https://", id="an address without scheme"),
        pytest.param(("127.0.0.1:0", "127.0.0.1:80800"), 3, "perhaps a port", id="no port"),
        pytest.param(("127.0.0.1:0", "127.0.0.1:0/"), 3, "no slash at the end", id="a slash"),
        pytest.param(("https://cdis.example", "a b"), 4, "without blanks", id="no system"),
        pytest.param(("secret: {env: ENGINE_SECRET},", ""), 8, "does not fit together; give a secret", id="public"),
        pytest.param(("test_hooks: true", "tls: {certificate: a, key: b}"), 3, "begins with https:", id="tls"),
        pytest.param(("test_hooks: true", "auth: {auto_login_user: x}"), 10, "one of users", id="nobody"),
        pytest.param(("role: system-integration", "role: god"), 9, "physician", id="role"),
        pytest.param(
            ("environment: sandbox", "environment: production"), 10, "environment: sandbox", id="hooks in production"
        ),
    ],
)
def test_mistakes_are_named_with_their_place(change: tuple[str, str], line: int, said: str) -> None:
    """A wrong file is refused with file, line and column, and what would do."""
    with pytest.raises(ConfigurationError) as told:
        validate(parse(CONFIGURATION.replace(*change), "i.yaml"), ServiceConfiguration)
    assert f"i.yaml:{line}:" in str(told.value)
    assert said in str(told.value)
    assert "letmein" not in str(told.value)


@pytest.mark.parametrize("address", ["http://h", "https://fhir.example:8443/cdis", "http://[::1]:0"])
def test_addresses_that_are_taken(address: str) -> None:
    """A host of one letter, a path and IPv6 are addresses too."""
    read = validate(parse(CONFIGURATION.replace("http://127.0.0.1:0", address), "i.yaml"), ServiceConfiguration)
    assert read.base_url == address


def test_faults_of_the_whole_are_told_all_at_once() -> None:
    """Rules over several keys name each place that breaks them, not only the first."""
    text = CONFIGURATION.replace("sandbox", "production").replace("tenant: riverbend", "tenant: lakeside")
    with pytest.raises(ConfigurationError) as told:
        validate(parse(text + "auth: {auto_login_user: dr.osei}", "i.yaml"), ServiceConfiguration)
    assert [(problem.line, problem.path) for problem in told.value.problems] == [
        (8, "clients.engine.tenant"),
        (10, "test_hooks"),
        (11, "auth.auto_login_user"),
        (11, "auth.auto_login_user"),
    ]


def test_a_return_address_below_an_open_base_url_gets_the_bound_port() -> None:
    """A browser that signs in comes back to the port that was free; another program's address stays."""
    chart = """
  chart: {tenant: riverbend, name: Charts, grants: [authorization_code], scopes: ["user/*.read"],
          redirect_uris: ["http://127.0.0.1:0/chart/signed-in", "http://127.0.0.1:1/back"]}
test_hooks"""
    text = CONFIGURATION.replace("\ntest_hooks", chart)
    bound = at_port(validate(parse(text, "i.yaml"), ServiceConfiguration), 4711)
    assert bound.base_url == "http://127.0.0.1:4711"
    assert bound.clients["chart"].redirect_uris == ("http://127.0.0.1:4711/chart/signed-in", "http://127.0.0.1:1/back")
    assert bound.clients["engine"].redirect_uris == ()

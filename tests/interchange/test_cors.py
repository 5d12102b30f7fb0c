"""Browsers of other origins: each client's own are let in to what its tokens show, discovery is for everybody."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError

from engine.config.account import Client, Role
from engine.config.secret import Secret
from engine.config.service import Environment
from tests.interchange.kit import SECRET, Running, configuration, issue, running, secret_file

APP, OTHER, STRANGER = "https://app.example", "http://localhost:3000", "https://elsewhere.example"
FIRST = "access-control-"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with two clients of different origins."""
    folder = tmp_path_factory.mktemp("cors")
    usual = {"tenant": "riverbend", "secret": Secret(file=str(secret_file(folder))), "scopes": ("user/.",)}
    clients = {
        "physician": Client(**usual, role=Role.PHYSICIAN, origins=(APP,)),
        "nurse": Client(**usual, role=Role.NURSE, origins=(OTHER,)),
    }
    with running(folder, clients=clients) as found:
        yield found


def cors(answer: httpx.Response) -> dict[str, str]:
    """Return what an answer tells browsers of other origins."""
    return {name.removeprefix(FIRST): value for name, value in answer.headers.items() if name.startswith(FIRST)}


def asked_first(service: Running, path: str, origin: str, method: str = "PUT") -> httpx.Response:
    """Ask as a browser does before a call."""
    headers = {"origin": origin, f"{FIRST}request-method": method, f"{FIRST}request-headers": "authorization,if-match"}
    return service.http.options(service.url + path, headers=headers)


@pytest.mark.parametrize("origin", [APP, OTHER])
@pytest.mark.parametrize("path", ["/fhir/R4/Patient/1", "/fhir/Patient", "/oauth/token", "/oauth/userinfo"])
def test_what_browsers_ask_first(service: Running, path: str, origin: str) -> None:
    """N-311: an origin of any client may send what clients send; nothing is done and no token asked for."""
    answer = asked_first(service, path, origin)
    told = cors(answer)
    assert (answer.status_code, answer.content, told["allow-origin"]) == (204, b"", origin)
    assert {"GET", "POST", "PUT", "PATCH", "DELETE"} <= set(told["allow-methods"].split(", "))
    allowed = {name.lower() for name in told["allow-headers"].split(", ")}
    assert {"authorization", "content-type", "if-match", "if-none-exist", "prefer"} <= allowed
    assert "allow-credentials" not in told
    assert answer.headers["vary"] == "origin"


def test_strangers_are_not_let_in(service: Running, base: str) -> None:
    """N-311: an origin of no client hears nothing of CORS, before a call or at one."""
    first = asked_first(service, f"{base}/Patient", STRANGER)
    issue(first, 401, "login")
    answer = service.ask("GET", f"{base}/Patient", headers={"origin": STRANGER})
    assert cors(first) == cors(answer) == {}
    for origin in (APP.upper(), f"{APP}.evil.example", f"{APP}:8443", "null", ""):
        assert cors(asked_first(service, f"{base}/Patient", origin)) == {}


def test_each_client_has_its_own(service: Running, base: str) -> None:
    """N-311: an answer to a token of one client is not read by the origin of another."""
    path = f"{base}/Patient/{service.create(base)['id']}"
    told = cors(service.ask("GET", path, headers={"origin": APP}))
    assert told["allow-origin"] == APP
    assert {"ETag", "Content-Location", "X-Progress", "Retry-After"} <= {*told["expose-headers"].split(", ")}
    assert cors(service.ask("GET", path, headers={"origin": OTHER})) == {}
    assert cors(service.ask("GET", path, client="nurse", headers={"origin": OTHER}))["allow-origin"] == OTHER
    assert cors(service.ask("GET", path)) == {}


def test_refusals_are_read(service: Running, base: str) -> None:
    """N-311: a script of a known origin sees why it was refused."""
    answer = service.http.get(f"{service.url}{base}/Patient", headers={"origin": APP})
    assert (answer.status_code, cors(answer)["allow-origin"]) == (401, APP)
    missing = service.ask("GET", f"{base}/Patient/nobody", headers={"origin": APP})
    assert (missing.status_code, cors(missing)["allow-origin"]) == (404, APP)


def test_tokens_for_scripts(service: Running) -> None:
    """N-311: the token endpoint is read by the origins of clients, and by no others."""
    fields = {"grant_type": "client_credentials", "client_id": "physician", "client_secret": SECRET, "scope": "user/."}
    for origin, told in ((APP, {APP}), (STRANGER, set())):
        answer = service.http.post(f"{service.url}/oauth/token", data=fields, headers={"origin": origin})
        assert answer.status_code == 200
        assert {value for name, value in cors(answer).items() if name == "allow-origin"} == told


@pytest.mark.parametrize("path", ["/metadata", "/.well-known/smart-configuration"])
def test_discovery_is_for_everybody(service: Running, base: str, path: str) -> None:
    """N-311: SMART App Launch: any origin reads what says how to sign in."""
    answer = service.http.get(service.url + base + path, headers={"origin": STRANGER})
    assert (answer.status_code, cors(answer)) == (200, {"allow-origin": "*"})


@pytest.mark.parametrize(
    "origin", ["app.example", "https://app.example/", "https://App.example", "*", "null", "https://app.example:443"]
)
def test_what_is_no_origin(origin: str) -> None:
    """An origin is written as browsers send it, or never fits."""
    with pytest.raises(ValidationError, match="origins"):
        Client(tenant="riverbend", origins=(origin,))


def test_production_wants_https(tmp_path: Path) -> None:
    """In production an origin is https, or this computer's."""
    client = Client(tenant="riverbend", origins=("http://app.example", "http://localhost:3000", APP))
    settings = configuration(
        tmp_path / "secret", environment=Environment.PRODUCTION, test_hooks=False, clients={"one": client}
    )
    places = [place for place, *_ in settings.conflicts()]
    assert ("clients", "one", "origins", 0) in places
    assert len(places) == 1

"""SIGHUP: a running service takes up its configuration anew, whole or not at all (points C-085, C-560)."""

from pathlib import Path
from typing import Any

import pytest

from engine.config.account import Client, Role
from engine.config.secret import Secret
from engine.config.service import Environment, Tenant
from tests.interchange.kit import Outside, Running, configuration, issue, merge_body, patient, running
from tests.interchange.process import started

pytestmark = pytest.mark.process


def clients(service: Running, **roles: Role) -> dict[str, Client]:
    """Return the clients with other roles."""
    known = service.settings.clients
    return {**known, **{name: known[name].model_copy(update={"role": role}) for name, role in roles.items()}}


def test_a_role_change_acts_on_issued_tokens(own_service: Outside) -> None:
    """C-085: a token that was issued before obeys the new role at its next request, and the old one when it is back."""
    source, target = own_service.create(), own_service.create()
    order = merge_body(source["id"], target["id"])
    own_service.token("nurse")
    told = own_service.reload(clients=clients(own_service, nurse=Role.ADMINISTRATIVE))
    assert [(line["event"], line["codes"]) for line in told] == [("reloaded", ["clients"])]
    issue(own_service.ask("POST", "/fhir/R4/Patient/$merge", client="nurse", json=order), 403, "forbidden")
    own_service.reload()
    assert own_service.ask("POST", "/fhir/R4/Patient/$merge", client="nurse", json=order).status_code == 200


def test_clients_come_and_go(own_service: Outside) -> None:
    """A client that is no longer named has no valid tokens; a new one, with a tenant of its own, is served at once."""
    assert own_service.ask("GET", "/fhir/R4/Patient", client="pread").status_code == 200
    known = own_service.settings.clients
    newcomer = known["physician"].model_copy(update={"tenant": "hillside"})
    own_service.reload(
        clients={**{name: one for name, one in known.items() if name != "pread"}, "newcomer": newcomer},
        tenants={**own_service.settings.tenants, "hillside": Tenant()},
    )
    issue(own_service.ask("GET", "/fhir/R4/Patient", client="pread"), 401, "login")
    fields = {"grant_type": "client_credentials", "client_id": "newcomer", "client_secret": "a secret of the tests"}
    token = own_service.http.post(f"{own_service.url}/oauth/token", data=fields).json()["access_token"]
    own_service.tokens["newcomer"] = token
    own_service.create()
    assert own_service.ask("GET", "/fhir/R4/Patient", client="newcomer").json()["total"] == 0
    own_service.create(client="newcomer")
    assert own_service.ask("GET", "/fhir/R4/Patient", client="newcomer").json()["total"] == 1


def test_settings_act_per_tenant(own_service: Outside) -> None:
    """C-560: a tenant's duplicate limit and scope enforcement act for it alone, and can change while running."""

    def creates(client: str) -> list[int]:
        return [
            own_service.ask("POST", "/fhir/R4/Patient", client=client, json=patient()).status_code for _ in range(3)
        ]

    def reads() -> list[int]:
        return [own_service.ask("GET", "/fhir/R4/Patient", client=one).status_code for one in ("observation", "lax")]

    assert reads() == [403, 200]
    changed = {"riverbend": Tenant(duplicate_patient_limit=2), "lakeside": Tenant(), "lax": Tenant()}
    own_service.reload(tenants=changed)
    assert creates("physician") == [201, 201, 409]
    assert creates("other") == [201, 201, 201]
    own_service.reload(tenants={**changed, "riverbend": Tenant(scope_enforcement="off")})
    assert reads() == [200, 200]
    assert creates("physician") == [201, 201, 201]


def test_a_wrong_file_is_refused_whole(own_service: Outside) -> None:
    """A file with mistakes is refused with the place of each, and everything stays as it was."""
    before = own_service.token("physician")
    text = own_service.process.folder.joinpath("interchange.yaml").read_text()
    told = own_service.process.reload(
        text.replace('"role":"nurse"', '"role":"god"').replace('"lax":{', '"lax":{"x":1,')
    )
    assert {line["event"] for line in told} == {"reload refused"}
    said = " ".join(line["error"] for line in told)
    assert "clients.nurse.role" in said
    assert "tenants.lax.x: unknown key" in said
    assert own_service.ask("GET", "/fhir/R4/Patient", client="nurse").status_code == 200
    assert own_service.token("physician") == before
    own_service.process.reload("environment: [")
    own_service.create()


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        pytest.param({"base_url": "http://127.0.0.1:9"}, "base_url", id="base_url"),
        pytest.param({"auth_url": "http://127.0.0.1:9"}, "auth_url", id="auth_url"),
        pytest.param({"service_identifier_system": "https://o.example"}, "service_identifier_system", id="system"),
        pytest.param({"test_hooks": False}, "test_hooks", id="test_hooks"),
        pytest.param({"access_token_lifetime_s": 7}, "access_token_lifetime_s", id="lifetime"),
        pytest.param({"environment": Environment.PRODUCTION, "test_hooks": False}, "environment", id="environment"),
        pytest.param({"tenants": {"lakeside": Tenant(), "lax": Tenant()}}, "riverbend", id="tenant"),
    ],
)
def test_what_is_bound_at_the_start_is_refused_by_name(shared: Outside, changes: dict[str, Any], name: str) -> None:
    """What is bound at the start and changes is refused by name with the next step, and so is the rest of that file."""
    known = {one: client for one, client in shared.settings.clients.items() if client.tenant != "riverbend"}
    told = shared.reload(**changes, clients=known)
    assert {line["event"] for line in told} == {"reload refused"}
    said = [line["error"] for line in told if name in line["error"]]
    assert said
    assert "restart the service" in said[0]
    assert shared.ask("GET", "/fhir/R4/Patient?_count=0").status_code == 200


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One service for the refusals, which change nothing."""
    with running(tmp_path_factory.mktemp("refusals")) as found:
        yield found


def test_a_secret_is_read_on_each_use(own_service: Outside) -> None:
    """A secret that changes in its file holds at once, without a reload."""
    own_service.token("physician")
    (own_service.process.folder / "secret").write_text("another")
    fields = {"grant_type": "client_credentials", "client_id": "physician", "scope": "user/."}
    url = f"{own_service.url}/oauth/token"
    for secret, status in (("a secret of the tests", 400), ("another", 200)):
        assert own_service.http.post(url, data={**fields, "client_secret": secret}).status_code == status


def test_a_secret_that_cannot_be_read_is_told(own_service: Outside) -> None:
    """A client whose secret is not there is named with the cause: at each reload, and at each token it asks for."""
    (own_service.process.folder / "secret").unlink()
    fields = {"grant_type": "client_credentials", "client_id": "physician", "client_secret": "x", "scope": "user/."}
    assert own_service.http.post(f"{own_service.url}/oauth/token", data=fields).status_code == 400
    refused = own_service.process.event("token refused")
    assert (refused["client"], refused["reason"]) == ("physician", "invalid_client")
    assert "secret cannot be read (No such file" in refused["error"]
    told = own_service.reload(clients=clients(own_service))
    assert told[0]["event"] == "reloaded"
    assert {(line["event"], line["client"]) for line in told[1:]} == {
        ("client cannot prove itself", name) for name in own_service.settings.clients
    }
    assert "secret cannot be read" in told[-1]["error"]


def test_an_unset_variable_is_told_at_the_start(tmp_path: Path) -> None:
    """A client whose secret is in no variable is named at the start, and a scope that is none; all else is served."""
    client = Client(tenant="lax", secret=Secret(env="NO_SUCH_SECRET"), scopes=("user/.", "nosystem/*.*"))
    with started(tmp_path, configuration(tmp_path / "secret", clients={"one": client})) as process:
        told = process.event("client cannot prove itself")
        assert (told["client"], told["error"]) == ("one", "the environment variable NO_SUCH_SECRET is not set")
        assert process.event("no such scope")["codes"] == ["nosystem/*.*"]


def test_a_reload_that_changes_nothing(tmp_path: Path) -> None:
    """The same file again is taken up without a word about a change, also where the port is the system's choice."""
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text("one")
    settings = configuration(secret, clients={"one": Client(tenant="lax", secret=Secret(file=str(secret)))})
    with started(tmp_path, settings) as process:
        assert [(line["event"], line["count"]) for line in process.reload(settings)] == [("reloaded", 0)]

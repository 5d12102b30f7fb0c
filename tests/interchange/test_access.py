"""Who may do what: tokens, scopes, roles, tenants (points C)."""

import pytest

from engine.config.account import Role
from tests.interchange.kit import Inside, Running, issue, merge_body, patient


def test_no_token(service: Running, base: str) -> None:
    """C-060: a call without a token is 401 with a challenge."""
    answer = service.http.get(f"{service.url}{base}/Patient/1")
    issue(answer, 401, "login")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("header", ["Bearer garbage", "Basic cGh5c2ljaWFuOng=", "Bearer"])
def test_wrong_token(service: Running, base: str, header: str) -> None:
    """C-061, C-062: a token that is unknown, or no bearer token, is 401."""
    answer = service.http.get(f"{service.url}{base}/Patient/1", headers={"authorization": header})
    issue(answer, 401, "login")


def test_a_refresh_token_opens_nothing(service: Running) -> None:
    """A refresh token is no access token."""
    headers = {"authorization": f"Bearer {service.pair().refresh}"}
    issue(service.http.get(f"{service.url}/fhir/R4/Patient/1", headers=headers), 401, "login")


@pytest.mark.parametrize("client", ["read", "pread", "nurse", "administrative", "system", "lax"])
def test_who_may_read(service: Running, base: str, client: str) -> None:
    """C-063, C-064, C-078, C-080, C-088: both spellings, every role, and a tenant that enforces no scopes."""
    made = service.create(client="lax" if client == "lax" else "physician")
    assert service.ask("GET", f"{base}/Patient/{made['id']}", client=client).status_code == 200
    assert service.ask("GET", f"{base}/Patient?_id={made['id']}", client=client).json()["total"] == 1


def test_a_scope_for_another_type(service: Running, base: str) -> None:
    """C-065, C-086: Observation.read does not read Patients, and the challenge says why."""
    answer = service.ask("GET", f"{base}/Patient/1", client="observation")
    issue(answer, 403, "forbidden")
    assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]


@pytest.mark.parametrize("client", ["read", "pread", "observation"])
def test_who_may_not_write(service: Running, base: str, client: str) -> None:
    """C-069, C-083: a token that may read creates, updates and merges nothing."""
    made = service.create()
    before = service.ask("GET", f"{base}/Patient?family=Quintero&_count=0").json()["total"]
    issue(service.ask("POST", f"{base}/Patient", client=client, json=patient()), 403, "forbidden")
    put = service.ask("PUT", f"{base}/Patient/{made['id']}", client=client, json=patient(id=made["id"]))
    issue(put, 403, "forbidden")
    merge = service.ask("POST", f"{base}/Patient/$merge", client=client, json=merge_body(made["id"], "x"))
    issue(merge, 403, "forbidden")
    assert service.ask("GET", f"{base}/Patient?family=Quintero&_count=0").json()["total"] == before


def test_who_may_write(service: Running, base: str) -> None:
    """C-070, C-078, C-082: patient.write creates; nurses and administrative users update."""
    always = {"prefer": "create-always"}
    assert service.ask("POST", f"{base}/Patient", client="pwrite", json=patient(), headers=always).status_code == 201
    made = service.create()
    for client in ("physician", "nurse", "administrative", "system"):
        put = service.ask("PUT", f"{base}/Patient/{made['id']}", client=client, json=patient(id=made["id"]))
        assert put.status_code == 200


def test_administrative_users_do_not_merge(service: Running, base: str) -> None:
    """Section 4.5: the role is judged beside the scope, and its denial is no matter of scope."""
    source, target = service.create(), service.create()
    order = merge_body(source["id"], target["id"])
    answer = service.ask("POST", f"{base}/Patient/$merge", client="administrative", json=order)
    issue(answer, 403, "forbidden")
    assert "www-authenticate" not in answer.headers
    assert service.ask("POST", f"{base}/Patient/$merge", client="nurse", json=order).status_code == 200


def test_a_role_change_acts_at_once(inside: Inside) -> None:
    """C-085: a token that was issued before obeys the new role at its next request."""
    source, target = inside.create(), inside.create()
    app = inside.app.service
    inside.token("nurse")
    nurse = app.configuration.clients["nurse"].model_copy(update={"role": Role.ADMINISTRATIVE})
    clients = {**app.configuration.clients, "nurse": nurse}
    app.configuration = app.configuration.model_copy(update={"clients": clients})
    order = merge_body(source["id"], target["id"])
    issue(inside.ask("POST", "/fhir/R4/Patient/$merge", client="nurse", json=order), 403, "forbidden")

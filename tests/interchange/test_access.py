"""Who may do what: tokens, scopes, roles, tenants (points C)."""

from typing import Any

import pytest

from engine.config.account import Role
from tests.interchange.kit import MRN, Inside, Running, issue, merge_body, patient, record_number
from tests.interchange.least import least, version_of


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


def test_writing_shows_nothing_that_may_not_be_read(service: Running, base: str) -> None:
    """N-132, N-156: what is there is not shown by a match or a patch to a token that may write and not read."""
    made = service.create(base, name=[{"family": f"Unread{version_of(base)}", "given": ["A"]}])
    condition = {"if-none-exist": f"family=Unread{version_of(base)}"}
    patch = {"content-type": "application/json-patch+json"}
    asked: list[tuple[str, str, Any, dict[str, str]]] = [
        ("POST", f"{base}/Patient", patient(), condition),
        ("PATCH", f"{base}/Patient/{made['id']}", [{"op": "add", "path": "/language", "value": "en"}], patch),
    ]
    put = patient(name=made["name"], id=made["id"])
    asked += [
        ("PUT", f"{base}/Patient/{made['id']}", put, {"prefer": "return=representation"}),
        ("PUT", f"{base}/Patient?family=Unread{version_of(base)}", put, {}),
    ]
    for method, path, body, headers in asked:
        for client, shown in (("pwrite", False), ("physician", True)):
            answer = service.ask(method, path, client=client, json=body, headers=headers)
            assert (answer.status_code, bool(answer.content)) == (200, shown), (method, client)
            assert answer.headers["etag"]
    entry = {"request": {"method": "POST", "url": "Patient", "ifNoneExist": condition["if-none-exist"]}}
    steps = {"resourceType": "Bundle", "type": "transaction", "entry": [{**entry, "resource": patient()}]}
    told = service.ask("POST", base, client="pwrite", json=steps).json()["entry"][0]
    assert (told["response"]["status"], "resource" in told) == ("200 OK", False)
    new = service.ask("POST", f"{base}/Patient", client="pwrite", json=patient(), headers={"prefer": "create-always"})
    assert new.json()["birthDate"] == patient()["birthDate"]


def test_a_preview_shows_nothing_that_may_not_be_read(service: Running, base: str) -> None:
    """A token that may write and not read merges, and gets no preview: that shows what stands in both records."""
    source = service.create(name=[{"family": "Hidden", "given": ["Nora"]}], birthDate="1990-05-06")
    target = service.create()
    for asked in (True, "true"):
        body = merge_body(source["id"], target["id"], preview=asked)
        answer = service.ask("POST", f"{base}/Patient/$merge", client="pwrite", json=body)
        issue(answer, 403, "forbidden")
        assert "insufficient_scope" in answer.headers["www-authenticate"]
        assert b"Hidden" not in answer.content
        assert b"1990" not in answer.content
        assert service.ask("POST", f"{base}/Patient/$merge", json=body).json()["parameter"]
    done = service.ask("POST", f"{base}/Patient/$merge", client="pwrite", json=merge_body(source["id"], target["id"]))
    assert done.json()["parameter"] == [{"name": "info", "valueString": "merged"}]


def test_a_patch_asks_nothing_that_may_not_be_read(service: Running, base: str) -> None:
    """A `test` in a patch says whether a value is there: that is for those who may read."""
    made = service.create(base)
    steps = [{"op": "test", "path": "/birthDate", "value": made["birthDate"]}]
    for value in (made["birthDate"], "1900-01-01"):
        steps = [{"op": "test", "path": "/birthDate", "value": value}]
        asked: dict[str, Any] = {"json": steps, "headers": {"content-type": "application/json-patch+json"}}
        answer = service.ask("PATCH", f"{base}/Patient/{made['id']}", client="pwrite", **asked)
        issue(answer, 403, "forbidden")
    assert service.ask("PATCH", f"{base}/Patient/{made['id']}", **asked).status_code == 409


def test_a_refused_deletion_counts_nothing_that_may_not_be_read(service: Running, base: str) -> None:
    """What refers to a patient is told by type to those who may read that type."""
    made = service.create(base)
    service.ask("POST", f"{base}/Observation", json=least("Observation", made["id"], version_of(base)))
    for scope, text in (("user/Patient.write", "types that the token may not read"), ("", "1 Observation")):
        found = issue(service.ask("DELETE", f"{base}/Patient/{made['id']}", scope=scope), 409, "conflict")
        assert text in found["diagnostics"]
        assert ("Observation" in found["diagnostics"]) == (scope == "")


def test_a_document_of_a_match_is_not_shown(service: Running) -> None:
    """DocumentReference/$merge shows the new version of what matches to those only who may read documents."""
    number = f"doc-{service.create()['id']}"
    service.create(identifier=[record_number(number)])
    document = {
        "resourceType": "DocumentReference",
        "status": "current",
        "subject": {"identifier": {"system": MRN, "value": number}},
        "content": [{"attachment": {"url": "https://elsewhere.example/a.pdf"}}],
    }
    for status, scope, shown in (
        (201, "user/DocumentReference.write", True),
        (200, "user/DocumentReference.write", False),
        (200, "", True),
    ):
        answer = service.ask("POST", "/fhir/DocumentReference/$merge", scope=scope, json=document)
        assert (answer.status_code, bool(answer.content)) == (status, shown)


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


@pytest.mark.parametrize(
    ("scope", "type_name", "status"),
    [
        pytest.param("user/Observation.read", "Observation", 200, id="C-066"),
        pytest.param("observation.read", "Observation", 200, id="C-067"),
        pytest.param("patient.read", "Observation", 403, id="C-067 patient.read"),
        pytest.param("documentreference.read", "DocumentReference", 200, id="C-068"),
        pytest.param("observation.read", "DocumentReference", 403, id="C-068 another type"),
        pytest.param("user/.", "Condition", 200, id="C-071"),
        pytest.param("patient/*.read", "Condition", 200, id="every type"),
        pytest.param("patient/*.write", "Condition", 403, id="write does not read"),
    ],
)
def test_scopes_of_a_chart(service: Running, base: str, scope: str, type_name: str, status: int) -> None:
    """C-066, C-067, C-068: a chart is searched and read with the scope of its type, in either spelling."""
    who = service.create()["id"]
    body = least(type_name, who)
    if type_name == "DocumentReference":
        moment = "date" if base.endswith("R4") else "indexed"
        body |= {"type": {"text": "x"}, moment: "2025-07-01T10:00:00Z"}
    made = service.ask("POST", f"{base}/{type_name}", json=body).json()
    search = service.ask("GET", f"{base}/{type_name}?patient={who}", scope=scope)
    read = service.ask("GET", f"{base}/{type_name}/{made['id']}", scope=scope)
    assert (search.status_code, read.status_code) == (status, status)
    if status == 200:
        assert [entry["resource"]["id"] for entry in search.json()["entry"]] == [made["id"]]
    else:
        issue(search, 403, "forbidden")


@pytest.mark.parametrize(
    ("scope", "status"),
    [
        ("user/MedicationRequest.write", 201),
        ("medicationrequest.write", 201),
        ("patient/*.write", 201),
        ("user/MedicationRequest.read", 403),
        ("patient.write", 403),
        ("user/Observation.write", 403),
    ],
)
def test_who_may_prescribe(service: Running, base: str, scope: str, status: int) -> None:
    """C-073: a MedicationRequest is created with its own write scope, or one that includes it, and not without."""
    who = service.create()["id"]
    order = least("MedicationRequest", who)
    assert service.ask("POST", f"{base}/MedicationRequest", json=order, scope=scope).status_code == status
    kept = service.ask("GET", f"{base}/MedicationRequest?patient={who}").json()["total"]
    assert kept == (1 if status == 201 else 0)


def test_nurses_do_not_prescribe(service: Running, base: str) -> None:
    """C-077, C-079: a nurse creates no MedicationRequest, by POST or by PUT, and updates one that is there."""
    who = service.create()["id"]
    order = least("MedicationRequest", who)
    issue(service.ask("POST", f"{base}/MedicationRequest", client="nurse", json=order), 403, "forbidden")
    path = f"{base}/MedicationRequest/of-{who}"
    new = {**order, "id": f"of-{who}"}
    issue(service.ask("PUT", path, client="nurse", json=new), 403, "forbidden")
    issue(service.ask("GET", path), 404, "not-found")
    assert service.ask("PUT", path, json=new).status_code == 201
    assert service.ask("PUT", path, client="nurse", json={**new, "status": "completed"}).status_code == 200
    assert service.ask("GET", path, client="nurse").json()["status"] == "completed"


def test_what_administrative_users_see(service: Running, base: str) -> None:
    """C-080, C-081: demographic and billing data; of the chart nothing, whatever the scope."""
    who = service.create()["id"]
    made = service.ask("POST", f"{base}/Coverage", client="administrative", json=least("Coverage", who))
    assert made.status_code == 201
    seen = service.ask("GET", f"{base}/Coverage/{made.json()['id']}", client="administrative")
    assert seen.json()["id"] == made.json()["id"]
    assert service.ask("GET", f"{base}/Coverage?patient={who}", client="administrative").json()["total"] == 1
    assert service.ask("GET", f"{base}/Patient/{who}", client="administrative").status_code == 200
    for type_name in ("Observation", "Condition", "DocumentReference"):
        issue(service.ask("GET", f"{base}/{type_name}?patient={who}", client="administrative"), 403, "forbidden")


def test_tokens_are_told_of_and_revoked_without_a_scope(service: Running) -> None:
    """C-087: a token that opens nothing of FHIR is introspected and revoked like any other."""
    token = service.pair(scope="openid").access
    headers = {"authorization": f"Bearer {token}"}
    issue(service.http.get(f"{service.url}/fhir/R4/Patient", headers=headers), 403, "forbidden")
    told = service.http.get(f"{service.url}/oauth/info", params={"access_token": token})
    assert (told.status_code, told.json()["scope"]) == (200, "openid offline_access")
    assert service.http.get(f"{service.url}/oauth/cancel", params={"token": token}).status_code == 200
    assert service.http.get(f"{service.url}/oauth/info", params={"access_token": token}).status_code == 400

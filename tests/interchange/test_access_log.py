"""The access log: every access has its row on disk before the answer leaves, and no row can be changed unseen."""

import csv
import json
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from engine.config.account import Client, Role
from engine.config.secret import Secret
from engine.interchange.store.access import faults
from engine.interchange.store.place import open_known as open_place
from engine.interchange.store.sqlite import open_known
from engine.interchange.tokens.scope import allows, covers
from tests.interchange.kit import (
    SECRET,
    Inside,
    Outside,
    Running,
    configuration,
    issue,
    merge_body,
    patient,
    record_number,
    running,
    secret_file,
)
from tests.interchange.least import least, version_of
from tests.interchange.nursery import ran
from tests.interchange.places import address_of

FHIR = {"content-type": "application/fhir+json"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
ROWS = "SELECT tenant, client, login, role, interaction, type, id, patients, outcome, status FROM access ORDER BY seq"


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[Outside]:
    """A service of the test's own with a client for the log, and one of another tenant."""
    clients = dict(configuration(secret_file(tmp_path)).clients)
    held = Secret(file=str(tmp_path / "secret"))
    for name, tenant, role in (
        ("auditor", "riverbend", Role.SYSTEM_INTEGRATION),
        ("other-auditor", "lakeside", Role.SYSTEM_INTEGRATION),
        ("doctor", "riverbend", Role.PHYSICIAN),
    ):
        clients[name] = Client(tenant=tenant, secret=held, scopes=("system/AuditEvent.read", "system/*.*"), role=role)
    with running(tmp_path, clients=clients) as found:
        yield found


def rows(service: Running) -> list[tuple[Any, ...]]:
    """Return what the log has now, oldest first; its database is read beside the running service."""
    connection = open_place(service.database)
    try:
        return connection.execute(ROWS).fetchall()
    finally:
        connection.close()


def audit(service: Running, query: str = "", client: str = "auditor", **more: str) -> httpx.Response:
    """Search the log as a client."""
    if f"{client} system/AuditEvent.read" not in service.tokens:
        fields = {"grant_type": "client_credentials", "client_id": client, "client_secret": SECRET}
        scope = more.get("scope", "system/AuditEvent.read")
        answer = service.http.post(f"{service.url}/oauth/token", data={**fields, "scope": scope})
        service.tokens[f"{client} system/AuditEvent.read"] = answer.json()["access_token"]
    return service.ask("GET", f"/fhir/R4/AuditEvent{query}", client=client, scope="system/AuditEvent.read")


def test_every_kind_of_access(own_service: Running, base: str) -> None:
    """Reads, searches, writes and operations have one row each, with who, what, which patient, and how it ended.

    N-320.
    """
    service = own_service
    made = service.create(base)["id"]
    other = service.create(base)["id"]
    measured = least("Observation", made, version_of(base))
    observation = service.ask("POST", f"{base}/Observation", json=measured).json()["id"]
    before = len(rows(service))
    # At once in R4; STU3 wants it asked for as a job.
    export, exported = ("POST", 200) if base == "/fhir/R4" else ("GET", 400)
    asked = [
        ("GET", f"Patient/{made}", None, "read", "Patient", made, made, 200),
        ("GET", f"Observation/{observation}", None, "read", "Observation", observation, made, 200),
        ("GET", f"Observation?patient={made}", None, "search-type", "Observation", "", made, 200),
        ("GET", f"Patient?_id={made}", None, "search-type", "Patient", "", made, 200),
        ("GET", f"Patient/{made}/_history", None, "history-instance", "Patient", made, made, 200),
        ("GET", f"Patient/{made}/$everything", None, "everything", "Patient", made, made, 200),
        (export, f"Patient/{made}/$export-ccda", None, "export-ccda", "Patient", made, made, exported),
        ("PUT", f"Patient/{made}", patient(id=made), "update", "Patient", made, made, 0),
        ("POST", "Observation", measured, "create", "Observation", "", made, 0),
        ("GET", "Patient/nobody", None, "read", "Patient", "nobody", "nobody", 404),
        ("POST", "Patient", patient(birthDate=None), "create", "Patient", "", "", 400),
    ]
    for method, path, body, *_ in asked:
        service.ask(method, f"{base}/{path}", **({"json": body} if body else {}))
    found = rows(service)[before:]
    assert len(found) == len(asked)
    for row, (_, _, _, code, type_name, resource_id, who, status) in zip(found, asked, strict=True):
        outcome = "refused" if status >= 400 else "done"
        assert row[:4] == ("riverbend", "physician", "", "physician")
        assert row[4:7] == (code, type_name, resource_id), row
        assert row[7].split() == who.split(), row
        assert row[8:] == (outcome, status)
    service.ask("POST", f"{base}/Patient/$merge", json=merge_body(other, made))
    merged = rows(service)[-1]
    assert (merged[4], set(merged[7].split())) == ("merge", {made, other})


def test_whom_a_merge_by_number_touched(own_service: Running) -> None:
    """N-320: a request that names patients by their numbers has the patients themselves in its row."""
    source, target = (own_service.create(identifier=[record_number(text)]) for text in ("A", "B"))
    numbers = [("https://mrn.riverbend.example", text) for text in ("A", "B")]
    assert own_service.ask("POST", "/fhir/R4/Patient/$merge", json=merge_body(*numbers)).status_code == 200
    assert set(rows(own_service)[-1][7].split()) == {source["id"], target["id"]}


@pytest.mark.parametrize("kind", ["batch", "transaction"])
def test_bundles(own_service: Running, base: str, kind: str) -> None:
    """Each entry of a Bundle has a row tied to the Bundle's own, a write in its own commit; the answer waits for all.

    N-320, N-321.
    """
    shown = own_service.create(base)["id"]
    before = len(rows(own_service))
    entries = [
        {"resource": patient(), "request": {"method": "POST", "url": "Patient"}},
        {"request": {"method": "GET", "url": f"Patient/{shown}"}},
    ]
    bundle = {"resourceType": "Bundle", "type": kind, "entry": entries}
    answer = own_service.ask("POST", base, json=bundle, headers={"x-request-id": "round 7"})
    assert answer.status_code == 200, answer.text
    made = answer.json()["entry"][0]["response"]["location"].rsplit("/", 3)[1]
    written, read, told = rows(own_service)[before:]
    # A write by itself has its row before there is an answer.
    status = 0 if kind == "batch" else 201
    assert (written[4:6], written[7:]) == (("create", "Patient"), (made, "done", status))
    assert read[4:] == ("read", "Patient", shown, shown, "done", 200)
    assert (told[4], set(told[7].split()), told[8:]) == (kind, {made, shown}, ("done", 200))
    assert requests(own_service)[before:] == ["round_7#0", "round_7#1", "round_7"]


def requests(service: Running) -> list[str]:
    """Return the request ids in the log, oldest first."""
    connection = open_place(service.database)
    try:
        return [row[0] for row in connection.execute("SELECT request FROM access ORDER BY seq").fetchall()]
    finally:
        connection.close()


def test_refused_entries_of_a_batch(logged: Outside, base: str) -> None:
    """N-320: what was read, deleted and refused inside a batch is told by the entry, and found by its patient."""
    read, deleted, refused = (logged.create(base)["id"] for _ in range(3))
    measured = least("Observation", refused, version_of(base))
    observation = logged.ask("POST", f"{base}/Observation", json=measured).json()["id"]
    before = len(rows(logged))
    entries = [
        {"request": {"method": "GET", "url": f"Patient/{read}"}},
        {"request": {"method": "DELETE", "url": f"Patient/{deleted}"}},
        {"request": {"method": "GET", "url": f"Observation/{observation}"}},
        {"request": {"method": "GET", "url": "Nonsense"}},
        {"resource": measured, "request": {"method": "POST", "url": "Observation"}},
    ]
    bundle = {"resourceType": "Bundle", "type": "batch", "entry": entries}
    scope = "user/Patient.read user/Patient.write"
    assert logged.ask("POST", base, json=bundle, scope=scope).status_code == 200
    found = {request.partition("#")[2]: row for request, row in zip(requests(logged), rows(logged), strict=True)}
    assert found["0"][4:] == ("read", "Patient", read, read, "done", 200)
    assert found["1"][4:] == ("delete", "Patient", deleted, deleted, "done", 0)
    assert found["2"][4:] == ("read", "Observation", observation, refused, "refused", 403)
    assert found["4"][4:] == ("create", "Observation", "", refused, "refused", 403)
    assert len(rows(logged)) == before + 5
    events = [one["resource"] for one in audit(logged, f"?patient={refused}&outcome=4").json()["entry"]]
    details = [{one["type"]: one["valueString"] for one in event["entity"][0]["detail"]} for event in events]
    assert {(one["entry"], one["status"]) for one in details} == {
        ("Bundle.entry[2]", "403"),
        ("Bundle.entry[4]", "403"),
    }
    assert len({one["request"] for one in details}) == 1


@pytest.mark.parametrize("fault", ["scope", "absent"])
def test_a_refused_transaction(own_service: Running, base: str, fault: str) -> None:
    """N-320: each entry of a transaction that is refused has a row that says so; only the one at fault has a status."""
    first, second = (own_service.create(base)["id"] for _ in range(2))
    measured = least("Observation", second, version_of(base))
    before = len(rows(own_service))
    wrong = {"request": {"method": "GET", "url": "Patient/absent"}}
    if fault == "scope":
        wrong = {"resource": measured, "request": {"method": "POST", "url": "Observation"}}
    entries = [{"resource": patient(id=first), "request": {"method": "PUT", "url": f"Patient/{first}"}}, wrong]
    bundle = {"resourceType": "Bundle", "type": "transaction", "entry": entries}
    status = 403 if fault == "scope" else 404
    scope = "user/Patient.read user/Patient.write"
    assert own_service.ask("POST", base, json=bundle, scope=scope).status_code == status
    put, refused, whole = rows(own_service)[before:]
    assert put[4:] == ("update", "Patient", first, first, "refused", 0)
    named = ("create", "Observation", "", second) if fault == "scope" else ("read", "Patient", "absent", "absent")
    assert refused[4:] == (*named, "refused", status)
    assert (whole[4], whole[8:]) == ("transaction", ("refused", status))
    assert set(whole[7].split()) >= {first}


@pytest.mark.parametrize("named", ["by id", "by a search"])
def test_what_a_transaction_deletes(own_service: Running, base: str, named: str) -> None:
    """N-320: an entry that deletes what does not name its patient any more has the patient in its row."""
    made = own_service.create(base)["id"]
    measured = least("Observation", made, version_of(base))
    observation = own_service.ask("POST", f"{base}/Observation", json=measured).json()["id"]
    before = len(rows(own_service))
    by_id = named == "by id"
    url = f"Observation/{observation}" if by_id else f"Observation?_id={observation}"
    bundle = {"resourceType": "Bundle", "type": "transaction", "entry": [{"request": {"method": "DELETE", "url": url}}]}
    assert own_service.ask("POST", base, json=bundle).status_code == 200
    expected = ("delete", "Observation", observation if by_id else "", made, "done", 204)
    assert rows(own_service)[before][4:] == expected


def test_refusals(own_service: Running, base: str) -> None:
    """Who may not, and what cannot be, is recorded too; who is not known, or asks for nothing there is, is not.

    N-320.
    """
    service = own_service
    made = service.create()["id"]
    before = len(rows(service))
    issue(service.ask("GET", f"{base}/Observation?patient={made}", client="administrative"), 403, "forbidden")
    issue(service.ask("GET", f"{base}/Patient/{made}", client="observation"), 403, "forbidden")
    issue(service.ask("GET", f"{base}/Patient/{made}", client="other"), 404, "not-found")
    found = rows(service)[before:]
    assert [(row[1], *row[7:]) for row in found] == [
        ("administrative", made, "refused", 403),
        ("observation", made, "refused", 403),
        ("other", made, "refused", 404),
    ]
    assert found[2][0] == "lakeside"
    service.http.get(f"{service.url}{base}/Patient/{made}")
    service.ask("GET", f"{base}/metadata")
    service.ask("GET", f"{base}/Nonsense")
    assert len(rows(service)) == before + 3


def test_a_refused_access_names_its_patient(own_service: Running, base: str) -> None:
    """N-320: whoever is named or would be reached stands in the row of a refusal, and the answer tells nothing of it.

    Also where only the body names the patient, or the id of a resource of the chart does.
    """
    service = own_service
    made = service.create(base, identifier=[record_number("RB-7")])["id"]
    measured = least("Observation", made, version_of(base))
    observation = service.ask("POST", f"{base}/Observation", json=measured).json()["id"]
    deleted = service.ask("POST", f"{base}/Observation", json=measured).json()["id"]
    assert service.ask("DELETE", f"{base}/Observation/{deleted}").status_code == 204
    number = ("https://mrn.riverbend.example", "RB-7")
    escaped = orjson.dumps({"resourceType": "Observation", "subject": {"reference": f"Patient/{made}"}})
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", f"Patient/{made}/$everything", {}),
        ("GET", f"Patient/{made}/_history", {}),
        ("GET", f"Patient/{made}/_history/1", {}),
        ("DELETE", f"Patient/{made}", {}),
        ("PUT", f"Patient/{made}", {"json": patient(id=made)}),
        ("GET", f"Patient?_id={made}", {}),
        ("GET", f"Patient?identifier={number[0]}|{number[1]}", {}),
        ("GET", f"Condition?patient=Patient/{made}", {}),
        ("GET", f"Condition?subject:Patient={made}", {}),
        ("GET", f"Condition?patient.identifier={number[0]}|{number[1]}", {}),
        ("GET", f"Patient/{made}/Condition", {}),
        ("DELETE", f"Observation/{observation}", {}),
        ("PUT", f"Observation/{observation}", {"json": {**measured, "id": observation}}),
        ("DELETE", f"Observation/{deleted}", {}),
        ("POST", "Observation", {"json": measured}),
        ("POST", "Observation", {"content": escaped.replace(b"/", b"\\/"), "headers": FHIR}),
        ("POST", "Observation", {"content": escaped, "headers": {"content-type": "text/plain"}}),
        ("POST", "Condition/_search", {"content": f"patient={made}", "headers": FORM}),
        ("POST", "Patient/$merge", {"json": merge_body(made, "x")}),
        ("POST", "Patient/$merge", {"json": merge_body(number, ("urn:other", "x"))}),
    ]
    for method, path, more in asked:
        before = len(rows(service))
        answer = service.ask(method, f"{base}/{path}", client="observation", **more)
        assert answer.status_code in {403, 415}, (method, path)
        row = rows(service)[before]
        assert row[7].split()[:1] == [made], (method, path)
        assert row[8:] == ("refused", answer.status_code)
        absent = service.ask(method, f"{base}/{path.replace(made, '0' * 24)}", client="observation", **more)
        assert absent.content == answer.content, (method, path)


def test_what_does_not_say_whose_it_is(own_service: Running, base: str) -> None:
    """N-320: an answer without the element that names the patient, and one of 304, have the patient in their rows."""
    made = own_service.create(base)["id"]
    measured = least("Observation", made, version_of(base))
    observation = own_service.ask("POST", f"{base}/Observation", json=measured).json()["id"]
    before = len(rows(own_service))
    own_service.ask("GET", f"{base}/Observation/{observation}", headers={"if-none-match": 'W/"1"'})
    own_service.ask("GET", f"{base}/Observation/{observation}?_elements=status")
    assert [row[7:] for row in rows(own_service)[before:]] == [(made, "done", 304), (made, "done", 200)]


def test_a_token_that_is_no_longer_valid(own_service: Running, base: str) -> None:
    """N-320: a request with a known client's expired or revoked token leaves a row; with an unknown one it does not."""
    service = own_service
    made = service.create(base)["id"]
    cancelled, expired = service.pair().access, service.pair().access
    assert service.http.get(f"{service.url}/oauth/cancel", params={"token": cancelled}).status_code == 200
    service.advance(2 * 3600)
    before = len(rows(service))
    for token in (cancelled, expired, "unknown"):
        for path in (f"{base}/Patient/{made}", f"/chart/v1/patients/{made}"):
            headers = {"authorization": f"Bearer {token}"}
            assert service.http.get(f"{service.url}{path}", headers=headers).status_code == 401
    found = rows(service)[before:]
    assert [row[:2] + row[7:] for row in found] == [("riverbend", "physician", made, "refused", 401)] * 4


def test_whom_a_preview_by_number_shows(own_service: Running) -> None:
    """N-320: the preview of a merge by numbers has both patients in its row."""
    source, target = (own_service.create(identifier=[record_number(text)]) for text in ("A", "B"))
    numbers = [("https://mrn.riverbend.example", text) for text in ("A", "B")]
    body = merge_body(*numbers, preview=True)
    assert own_service.ask("POST", "/fhir/R4/Patient/$merge", json=body).status_code == 200
    assert set(rows(own_service)[-1][7].split()) == {source["id"], target["id"]}


def test_a_request_id_of_a_client(own_service: Running) -> None:
    """N-320: a client's request id is kept as it was sent, with _ for what belongs in no id; too long a one is not."""
    made = own_service.create()["id"]
    before = len(rows(own_service))
    sent = ("trace-7:Root=1-67f", "=cmd|x#1 y", "x" * 129)
    for one in sent:
        own_service.ask("GET", f"/fhir/R4/Patient/{made}", headers={"x-request-id": one})
    kept = requests(own_service)[before:]
    assert kept[:2] == ["trace-7:Root=1-67f", "_cmd|x_1_y"]
    assert re.fullmatch("[0-9a-f]{16}", kept[2])


def test_nothing_but_ids(own_service: Running) -> None:
    """N-323: a name, a number or a birth date that a search or a body holds stands nowhere in the log.

    The request id that a client chooses is kept as it was sent.
    """
    service = own_service
    service.create(name=[{"family": "Wintergreen", "given": ["Zelda"]}], identifier=[record_number("RB-9")])
    service.ask("GET", "/fhir/R4/Patient?family=Wintergreen&birthdate=1984-02-29&identifier=RB-9")
    service.ask("GET", "/fhir/R4/Observation?patient=Zelda Wintergreen")
    service.ask("GET", "/fhir/R4/Observation?patient.identifier=urn:x|RB-9", client="read")
    service.ask("GET", "/fhir/R4/Patient?identifier=urn:x|RB-9", client="observation")
    text = str(sqlite3.connect(service.database).execute("SELECT * FROM access").fetchall())
    for secret in ("Wintergreen", "1984-02-29", "RB-9"):
        assert secret not in text


def test_many_at_once(own_service: Running) -> None:
    """N-321, N-322: accesses at one moment share commits, and each has its row in an unbroken chain."""
    made = own_service.create()["id"]
    own_service.token("physician")
    before = len(rows(own_service))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: own_service.ask("GET", f"/fhir/R4/Patient/{made}"), range(64)))
    assert {answer.status_code for answer in answers} == {200}
    assert len(rows(own_service)) == before + 64
    connection = open_known(own_service.database)
    assert list(faults(connection)) == []
    connection.close()


def test_nothing_is_shown_that_cannot_be_recorded(inside: Inside) -> None:
    """N-321: once the log cannot be written, reads are refused as well."""
    made = inside.create()["id"]
    inside.app.service.store._writer.failed = True
    issue(inside.ask("GET", f"/fhir/R4/Patient/{made}"), 500, "exception")


def test_the_chain(own_service: Running) -> None:
    """N-322: a row that was changed, one that was taken out, and one moved in time are found."""
    for _ in range(5):
        own_service.create()
    path = own_service.database
    for sql, seqs in (
        ("UPDATE access SET client='nobody' WHERE seq=2", [2]),
        ("DELETE FROM access WHERE seq=3", [4]),
        ("UPDATE access SET at_ms=at_ms+1 WHERE seq=4", [4]),
    ):
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("BEGIN")
        connection.execute(sql)
        assert [fault.seq for fault in faults(connection)] == seqs
        connection.execute("ROLLBACK")
        assert list(faults(connection)) == []
        connection.close()


def test_as_audit_events(logged: Outside) -> None:
    """N-324: a row is an AuditEvent of R4: who, from where, what, whose, when, how it ended; and it is found."""
    made = logged.create()["id"]
    logged.ask("GET", f"/fhir/R4/Patient/{made}")
    issue(logged.ask("GET", f"/fhir/R4/Patient/{made}", client="observation"), 403, "forbidden")
    bundle = audit(logged, f"?patient={made}").json()
    events = [entry["resource"] for entry in bundle["entry"]]
    assert [(event["subtype"][0]["code"], event["action"], event["outcome"]) for event in events] == [
        ("create", "C", "0"),
        ("read", "R", "0"),
        ("read", "R", "4"),
    ]
    agent = events[1]["agent"][0]
    assert (agent["altId"], agent["requestor"], agent["role"][0]["text"]) == ("physician", True, "physician")
    assert agent["network"] == {"address": "127.0.0.1", "type": "2"}
    assert {"reference": f"Patient/{made}"} in [one.get("what") for one in events[1]["entity"]]
    one = audit(logged, f"/{events[1]['id']}").json()
    assert one == events[1]
    for query, found in {
        "?subtype=read&outcome=4": 1,
        "?altid=observation": 1,
        f"?patient=Patient/{made}&subtype=create": 1,
        f"?date=ge{events[0]['recorded'][:10]}&subtype=create": 1,
        "?date=lt2020": 0,
        f"?_id={events[0]['id']}": 1,
        "?address=127.0.0.1&subtype=create": 1,
        "?patient=nobody": 0,
    }.items():
        assert audit(logged, query).json()["total"] == found, query


def test_pages_of_audit_events(logged: Outside) -> None:
    """N-324: pages are oldest first; reading the log is in the log."""
    for _ in range(3):
        logged.create()
    first = audit(logged, "?subtype=create&_count=2").json()
    assert (first["total"], len(first["entry"])) == (3, 2)
    following = next(link["url"] for link in first["link"] if link["relation"] == "next")
    path = following.removeprefix(logged.url)
    rest = logged.ask("GET", path, client="auditor", scope="system/AuditEvent.read").json()
    ids = [int(entry["resource"]["id"]) for entry in (*first["entry"], *rest["entry"])]
    assert ids == sorted(set(ids))
    assert len(ids) == 3
    mine = rows(logged)[-1]
    assert (mine[1], mine[4], mine[5]) == ("auditor", "search-type", "AuditEvent")


def test_who_reads_the_log(logged: Outside) -> None:
    """N-325: only a system's token whose scope names AuditEvent; no wildcard, no other role, no other tenant."""
    made = logged.create()["id"]
    seq = len(rows(logged))
    issue(logged.ask("GET", "/fhir/R4/AuditEvent", client="system"), 403, "forbidden")
    issue(logged.ask("GET", "/fhir/R4/AuditEvent", client="physician"), 403, "forbidden")
    issue(logged.ask("GET", "/fhir/R4/AuditEvent", client="lax"), 403, "forbidden")
    issue(audit(logged, client="doctor"), 403, "forbidden")
    assert audit(logged, f"?patient={made}", client="other-auditor").json()["total"] == 0
    issue(audit(logged, f"/{seq}", client="other-auditor"), 404, "not-found")
    issue(audit(logged, "/0"), 404, "not-found")
    for query in ("?agent=x", "?_sort=date", "?_elements=id", "?_include=AuditEvent:patient", f"/{seq}?_summary=true"):
        issue(audit(logged, query), 400, "not-supported")
    issue(audit(logged, "?_total=x"), 400, "invalid")
    assert audit(logged, "?_total=accurate&_format=json").status_code == 200
    issue(audit(logged, "?date=ne2020"), 400, "invalid")
    issue(audit(logged, "?subtype=read&subtype=read"), 400, "invalid")
    headers = {"authorization": f"Bearer {logged.token('auditor', 'system/AuditEvent.read')}"}
    assert logged.http.get(f"{logged.url}/fhir/AuditEvent", headers=headers).status_code == 404


@pytest.mark.parametrize("wildcard", ["user/.", "system/*.*", "system/*.read", "system/*.cruds"])
def test_no_wildcard_includes_it(wildcard: str) -> None:
    """N-325: the scope is explicit, in each spelling."""
    assert not covers(wildcard, "system/AuditEvent.read")
    assert not allows((wildcard,), "AuditEvent", "read")
    for scope in ("system/AuditEvent.read", "auditevent.read", "system/AuditEvent.rs"):
        assert allows((scope,), "AuditEvent", "read")


def test_the_statement_names_it(service: Running) -> None:
    """N-324: R4's CapabilityStatement has AuditEvent with its search parameters, STU3's has not."""
    told = {}
    for base in ("/fhir/R4", "/fhir"):
        rest = service.http.get(f"{service.url}{base}/metadata").json()["rest"][0]
        told[base] = {one["type"]: one for one in rest["resource"]}
    event = told["/fhir/R4"]["AuditEvent"]
    assert {one["code"] for one in event["interaction"]} == {"read", "search-type"}
    assert {"date", "patient", "altid"} <= {one["name"] for one in event["searchParam"]}
    assert "AuditEvent" not in told["/fhir"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `adt-engine interchange audit` and return what it said."""
    return ran("interchange", "audit", *arguments)


def test_export_and_verify(own_service: Outside, tmp_path: Path) -> None:
    """The commands work beside the running service: what is exported is what was done, and the chain is whole.

    N-326.
    """
    made = own_service.create()["id"]
    database = address_of(own_service.database)
    proof = run("verify", "--database", database)
    assert proof.returncode == 0
    anchor = re.search(r"last row: (\d+:[0-9a-f]{64})", proof.stdout)
    assert anchor is not None
    assert proof.stdout.startswith(f"{anchor[1].partition(':')[0]} rows, 0 faults\n")
    lines = [json.loads(line) for line in run("export", "--database", database).stdout.splitlines()]
    assert [(one["interaction"], one["patients"]) for one in lines] == [("create", made), ("export", "")]
    file = tmp_path / "log.csv"
    told = run("export", "--format", "csv", "--to", str(file), "--since", "2020-01-01", "--database", database)
    assert told.returncode == 0, told.stderr
    assert [len(row) for row in csv.reader(file.read_text().splitlines())] == [16, 16, 16, 16]
    assert file.stat().st_mode & 0o077 == 0
    assert run("export", "--to", str(file), "--database", database).returncode != 0
    assert run("export", "--until", "2020-01-01", "--database", database).stdout == ""
    assert run("export", "--since", "yesterday", "--database", database).returncode == 2
    assert run("verify", "--anchor", anchor[1], "--database", database).returncode == 0


def test_verify_finds_what_was_done_to_it(own_service: Outside) -> None:
    """N-326: a change, and rows cut off the end where an anchor was kept elsewhere, end with exit 1."""
    for _ in range(3):
        own_service.create()
    database = address_of(own_service.database)
    found = re.search(r"last row: (\S+)", run("verify", "--database", database).stdout)
    assert found is not None
    connection = sqlite3.connect(own_service.database, isolation_level=None)
    connection.execute("DELETE FROM access WHERE seq=(SELECT max(seq) FROM access)")
    assert run("verify", "--database", database).returncode == 0
    cut = run("verify", "--anchor", found[1], "--database", database)
    assert (cut.returncode, "the anchored row is gone" in cut.stdout) == (1, True)
    connection.execute("UPDATE access SET patients='x' WHERE seq=1")
    connection.close()
    changed = run("verify", "--database", database)
    assert (changed.returncode, "row 1: the row, or the one before it, was changed" in changed.stdout) == (1, True)
    assert run("verify", "--anchor", "x", "--database", database).returncode == 2

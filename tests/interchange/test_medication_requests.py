"""MedicationRequest: what a prescriber sends and finds again, what is refused, and who may."""

from typing import Any

import httpx
import pytest

from tests.interchange.kit import Running, issue

NAME = "Lisinopril 10 mg tablet"


def prescription(patient_id: str, **elements: Any) -> dict[str, Any]:
    """Return the specification's example, its five fields; an element given as None is left out."""
    example = {
        "resourceType": "MedicationRequest",
        "status": "active",
        "intent": "order",
        "medicationCodeableConcept": {"text": NAME},
        "subject": {"reference": f"Patient/{patient_id}"},
    }
    return {name: value for name, value in {**example, **elements}.items() if value is not None}


def sent(service: Running, base: str, body: dict[str, Any], **more: Any) -> httpx.Response:
    """Send a prescription to be created."""
    return service.ask("POST", f"{base}/MedicationRequest", json=body, **more)


def found(service: Running, base: str, query: str, **more: Any) -> list[str]:
    """Return the ids that a search for prescriptions finds."""
    answer = service.ask("GET", f"{base}/MedicationRequest?{query}", **more)
    assert answer.status_code == 200, answer.text
    return [entry["resource"]["id"] for entry in answer.json().get("entry", ())]


def test_the_example(service: Running, base: str) -> None:
    """C-385: the five fields are kept as they are: 201, Location without a version, ETag, and the body with its id."""
    body = prescription(service.create(base)["id"])
    answer = sent(service, base, body)
    made = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"{service.url}{base}/MedicationRequest/{made['id']}/_history/1"
    assert (answer.headers["etag"], made["meta"]["versionId"]) == ('W/"1"', "1")
    assert {name: value for name, value in made.items() if name not in {"id", "meta"}} == body


@pytest.mark.parametrize(
    ("elements", "status", "code", "location"),
    [
        ({"status": "draft"}, 422, "invalid", "status"),
        ({"status": "on-hold"}, 422, "invalid", "status"),
        ({"status": "given"}, 422, "invalid", "status"),
        ({"status": None}, 400, "required", "status"),
        ({"intent": None}, 400, "required", "intent"),
        ({"subject": None}, 400, "required", "subject"),
        ({"medicationCodeableConcept": None}, 400, "required", "medication[x]"),
        ({"intent": "wish"}, 422, "invalid", "intent"),
        ({"medicationCodeableConcept": NAME}, 400, "structure", "medicationCodeableConcept"),
        ({"subject": {"reference": "Patient/nobody"}}, 422, "not-found", "subject.reference"),
        ({"subject": {"display": "Somebody"}}, 400, "required", "subject"),
    ],
)
def test_what_is_refused(
    service: Running, base: str, elements: dict[str, Any], status: int, code: str, location: str
) -> None:
    """C-386, C-387: missing 400 required, a wrong status or an unknown patient 422; each is located, none is kept."""
    who = service.create(base)["id"]
    answer = sent(service, base, prescription(who, **elements))
    assert issue(answer, status, code)["location"] == [f"MedicationRequest.{location}"]
    assert found(service, base, f"patient={who}") == []


def test_all_that_is_missing_at_once(service: Running, base: str) -> None:
    """C-386: one answer names every element that is missing."""
    answer = sent(service, base, {"resourceType": "MedicationRequest"})
    issue(answer, 400, "required")
    assert {one["location"][0].partition(".")[2] for one in answer.json()["issue"]} == {
        *("status", "intent", "subject", "medication[x]")
    }


def test_another_tenants_patient(service: Running, base: str) -> None:
    """C-387: who is another tenant's patient is nobody here."""
    answer = sent(service, base, prescription(service.create(base)["id"]), client="other")
    assert issue(answer, 422, "not-found")["location"] == ["MedicationRequest.subject.reference"]


def test_reading_and_searching(service: Running, base: str) -> None:
    """C-388: read by its id, on the other base too, and found by patient, by status and by both together."""
    who, other = service.create(base)["id"], service.create(base)["id"]
    mine = {status: sent(service, base, prescription(who, status=status)).json() for status in ("active", "completed")}
    theirs = sent(service, base, prescription(other)).json()
    for one in mine.values():
        path = f"MedicationRequest/{one['id']}"
        assert service.ask("GET", f"{base}/{path}").json() == one
        for either in ("/fhir/R4", "/fhir"):
            there = service.ask("GET", f"{either}/{path}").json()
            assert (there["medicationCodeableConcept"], there["status"]) == ({"text": NAME}, one["status"])
    assert set(found(service, base, f"patient={who}")) == {one["id"] for one in mine.values()}
    assert found(service, base, f"patient={who}&status=active") == [mine["active"]["id"]]
    assert found(service, base, f"patient=Patient/{who}&status=completed") == [mine["completed"]["id"]]
    assert found(service, base, f"patient={who}&status=stopped") == []
    assert found(service, base, f"patient={other}&status=active,completed") == [theirs["id"]]
    stopped = service.ask(
        "PUT", f"{base}/MedicationRequest/{mine['active']['id']}", json={**mine["active"], "status": "stopped"}
    )
    assert stopped.status_code == 200
    assert found(service, base, f"patient={who}&status=active") == []
    assert found(service, base, f"patient={who}&status=stopped") == [mine["active"]["id"]]


def test_who_may(service: Running, base: str) -> None:
    """C-385, C-388: physicians and integrating systems prescribe, nurses read alone, administrative users neither."""
    who = service.create(base)["id"]
    body = prescription(who)
    made = [sent(service, base, body, client=client) for client in ("physician", "system")]
    assert [answer.status_code for answer in made] == [201, 201]
    for client in ("nurse", "administrative"):
        issue(sent(service, base, body, client=client), 403, "forbidden")
    ids = {answer.json()["id"] for answer in made}
    assert set(found(service, base, f"patient={who}", client="nurse")) == ids
    for path in (f"MedicationRequest?patient={who}", f"MedicationRequest/{made[0].json()['id']}"):
        issue(service.ask("GET", f"{base}/{path}", client="administrative"), 403, "forbidden")


def test_a_refusal_in_a_bundle(service: Running, base: str) -> None:
    """C-386, C-387: a transaction is held to the same, and keeps nothing of what stands beside."""
    who = service.create(base)["id"]
    entries = [prescription(who), prescription(who, status="draft")]
    bundle = {
        "resourceType": "Bundle",
        "type": "transaction",
        "entry": [
            {"fullUrl": f"urn:uuid:0000000{at}-0000-4000-8000-000000000000", "resource": one}
            | {"request": {"method": "POST", "url": "MedicationRequest"}}
            for at, one in enumerate(entries)
        ],
    }
    answer = service.ask("POST", base, json=bundle)
    assert issue(answer, 422, "invalid")["location"][0].endswith("status")
    assert found(service, base, f"patient={who}") == []

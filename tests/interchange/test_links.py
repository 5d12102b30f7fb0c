"""Results and the orders that they are linked to: of one patient, whichever of the two is written last."""

from typing import Any

import httpx
import pytest

from engine.fhir.versions.names import name_in
from tests.interchange.kit import CLIENTS, SECRET, Running, issue, merge_body
from tests.interchange.least import least, version_of

RESULTS = ("DiagnosticReport", "Observation")
# What may be ordered, and what a change of its patient is answered where nothing is linked: an order keeps its own.
ORDERS = {"ServiceRequest": 200, "RequestGroup": 422}


@pytest.fixture
def old(service: Running) -> dict[str, str]:
    """The headers of a token of the REST API version 2023-01-01."""
    fields = {"grant_type": "client_credentials", "client_id": "physician", "client_secret": SECRET}
    fields |= {"scope": CLIENTS["physician"][1][0], "rest_api_version": "2023-01-01"}
    answer = service.http.post(f"{service.url}/oauth/token", data=fields)
    return {"authorization": f"Bearer {answer.json()['access_token']}"}


def order_of(service: Running, base: str, patient_id: str, kind: str = "ServiceRequest") -> str:
    """Create an order of a patient, one test or several, and return a reference to it."""
    version = version_of(base)
    body = least(kind, patient_id, version)
    answer = service.ask("POST", f"{base}/{body['resourceType']}", json=body)
    assert answer.status_code == 201, answer.text
    return f"{name_in(version, kind)}/{answer.json()['id']}"


def result(base: str, kind: str, patient_id: str, *orders: str, **elements: Any) -> dict[str, Any]:
    """Return a result of a patient, linked to orders."""
    links = {"basedOn": [{"reference": order} for order in orders]} if orders else {}
    return least(kind, patient_id, version_of(base), **links, **elements)


def put(service: Running, base: str, kept: dict[str, Any], **more: Any) -> httpx.Response:
    """Replace a resource."""
    return service.ask("PUT", f"{base}/{kept['resourceType']}/{kept['id']}", json=kept, **more)


def made(service: Running, base: str, body: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Create a resource, and return it as it is kept."""
    answer = service.ask("POST", f"{base}/{body['resourceType']}", json=body, **more)
    assert answer.status_code == 201, answer.text
    kept: dict[str, Any] = answer.json()
    return kept


@pytest.mark.parametrize("ordered", ORDERS)
@pytest.mark.parametrize("kind", RESULTS)
def test_a_result_for_another_patients_order(service: Running, base: str, kind: str, ordered: str) -> None:
    """C-424, C-421: a result that is created or changed so that it names another patient's order is 422."""
    mine, other = service.create(base)["id"], service.create(base)["id"]
    own, foreign = order_of(service, base, mine, ordered), order_of(service, base, other, ordered)
    refused = service.ask("POST", f"{base}/{kind}", json=result(base, kind, mine, own, foreign))
    assert issue(refused, 422, "business-rule")["location"] == [f"{kind}.basedOn[1].reference"]
    assert refused.json()["issue"][0]["expression"] == [f"{kind}.basedOn[1].reference"]
    assert service.ask("GET", f"{base}/{kind}?patient={mine}").json()["total"] == 0
    kept = made(service, base, result(base, kind, mine, own))
    issue(put(service, base, {**kept, "basedOn": [{"reference": foreign}]}), 422, "business-rule")
    assert service.ask("GET", f"{base}/{kind}/{kept['id']}").json() == kept
    absent = {**result(base, kind, mine, foreign), "id": f"new-{mine}"}
    issue(put(service, base, absent), 422, "business-rule")
    issue(service.ask("GET", f"{base}/{kind}/new-{mine}"), 404, "not-found")


@pytest.mark.parametrize("ordered", ORDERS)
@pytest.mark.parametrize("kind", RESULTS)
def test_another_subject_afterwards(service: Running, base: str, kind: str, ordered: str) -> None:
    """C-421, C-428: neither the result nor the order that it names goes to another patient while they are linked."""
    mine, other = service.create(base)["id"], service.create(base)["id"]
    order = order_of(service, base, mine, ordered)
    kept = made(service, base, result(base, kind, mine, order))
    subject = {"reference": f"Patient/{other}"}
    refused = put(service, base, {**kept, "subject": subject})
    assert issue(refused, 422, "business-rule")["location"] == [f"{kind}.basedOn[0].reference"]
    request = service.ask("GET", f"{base}/{order}").json()
    refused = put(service, base, {**request, "subject": subject})
    assert issue(refused, 422, "business-rule")["location"] == [f"{order.partition('/')[0]}.subject.reference"]
    unlinked = {name: value for name, value in kept.items() if name != "basedOn"}
    assert put(service, base, unlinked).status_code == 200
    assert put(service, base, {**request, "subject": subject}).status_code == ORDERS[ordered]


@pytest.mark.parametrize("ordered", ORDERS)
@pytest.mark.parametrize("kind", RESULTS)
def test_an_older_api_version(service: Running, base: str, kind: str, ordered: str, old: dict[str, str]) -> None:
    """C-422, C-423: an older version links as before; what it linked can be corrected and unlinked in the new one."""
    mine, other = service.create(base)["id"], service.create(base)["id"]
    foreign, second = order_of(service, base, other, ordered), order_of(service, base, other, ordered)
    kept = made(service, base, result(base, kind, mine, foreign, second), headers=old)
    assert put(service, base, {**kept, "status": "amended"}, headers=old).status_code == 200
    assert put(service, base, {**kept, "status": "corrected"}).status_code == 200
    assert put(service, base, {**kept, "basedOn": kept["basedOn"][1:]}).status_code == 200
    issue(put(service, base, kept), 422, "business-rule")
    request = service.ask("GET", f"{base}/{second}").json()
    third = service.create(base)["id"]
    moved = {**request, "subject": {"reference": f"Patient/{third}"}}
    issue(put(service, base, moved), 422, "business-rule")
    assert put(service, base, moved, headers=old).status_code == ORDERS[ordered]
    # To where it should have been: from then on the two are of one patient.
    right = {**request, "subject": {"reference": f"Patient/{mine}"}}
    assert put(service, base, right).status_code == ORDERS[ordered]
    unlinked = {name: value for name, value in kept.items() if name != "basedOn"}
    assert put(service, base, unlinked).status_code == 200


@pytest.mark.parametrize("ordered", ORDERS)
def test_a_merge_makes_them_one_patient(service: Running, base: str, ordered: str) -> None:
    """C-426: after a merge the order of the one may be named by a result of the other, and finds it."""
    mine, other = service.create(base)["id"], service.create(base)["id"]
    foreign = order_of(service, base, other, ordered)
    issue(
        service.ask("POST", f"{base}/DiagnosticReport", json=result(base, RESULTS[0], mine, foreign)),
        422,
        "business-rule",
    )
    assert service.ask("POST", f"{base}/Patient/$merge", json=merge_body(other, mine)).status_code == 200
    kept = made(service, base, result(base, RESULTS[0], mine, foreign))
    found = service.ask("GET", f"{base}/DiagnosticReport?based-on={foreign}").json()
    assert [one["resource"]["id"] for one in found["entry"]] == [kept["id"]]


@pytest.mark.parametrize("kind", RESULTS)
def test_other_ways_to_name_an_order(service: Running, base: str, kind: str) -> None:
    """C-424, C-428: by an absolute address, by a version, contained in the result, or as the other kinds of orders."""
    mine, other = service.create(base)["id"], service.create(base)["id"]
    version = version_of(base)
    foreign = order_of(service, base, other)
    plan = made(service, base, least("CarePlan", other, version))["id"]
    drug = made(service, base, least("MedicationRequest", other, version))["id"]
    named = [f"{service.url}{base}/{foreign}", f"{foreign}/_history/1", f"CarePlan/{plan}", f"MedicationRequest/{drug}"]
    for reference in named:
        answer = service.ask("POST", f"{base}/{kind}", json=result(base, kind, mine, reference))
        issue(answer, 422, "business-rule")
    for ordered in ORDERS:
        inner = {**least(ordered, other, version), "id": "order"}
        contained = result(base, kind, mine, "#order", contained=[inner])
        issue(service.ask("POST", f"{base}/{kind}", json=contained), 422, "business-rule")
        inner["subject"] = {"reference": f"Patient/{mine}"}
        assert service.ask("POST", f"{base}/{kind}", json=contained).status_code == 201


def test_a_conditional_create(service: Running, base: str) -> None:
    """C-424: one that finds a match writes nothing, one that finds none is judged; $validate says the same."""
    mine, other = service.create(base)["id"], service.create(base)["id"]
    foreign = order_of(service, base, other)
    body = result(base, RESULTS[0], mine, foreign, identifier=[{"system": "urn:x", "value": mine}])
    condition = {"if-none-exist": f"identifier=urn:x|{mine}"}
    issue(service.ask("POST", f"{base}/DiagnosticReport", json=body, headers=condition), 422, "business-rule")
    kept = made(service, base, {name: value for name, value in body.items() if name != "basedOn"})
    answer = service.ask("POST", f"{base}/DiagnosticReport", json=body, headers=condition)
    assert (answer.status_code, answer.json()) == (200, kept)


def test_an_order_that_does_not_exist(service: Running, base: str) -> None:
    """C-425: it is 422 not-found, as any reference to nothing."""
    body = result(base, RESULTS[0], service.create(base)["id"], f"{name_in(version_of(base), 'ServiceRequest')}/none")
    issue(service.ask("POST", f"{base}/DiagnosticReport", json=body), 422, "not-found")

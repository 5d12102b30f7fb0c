"""Results complete orders, and reopen them, whichever way they are written."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.interchange.orders.order import OrderEvent
from tests.interchange.kit import Inside, merge_body, running_inside
from tests.interchange.orders.happening import happen
from tests.interchange.orders.ordering import R4, Clinic, clinic, said, status_of, to


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """A service whose laboratories do what the tests say."""
    with running_inside(tmp_path_factory.mktemp("completing")) as found:
        yield found


def sent(inside: Inside, here: Clinic, *tests: str) -> tuple[str, list[str]]:
    """Return the id of an order that a laboratory has, and the addresses of its tests."""
    order = here.place(*(here.test(code, f"t{number}") for number, code in enumerate(tests)))
    happen(inside, order["id"], OrderEvent.TRANSMITTED)
    return order["id"], [one["resource"]["reference"] for one in order["action"]]


def seen(here: Clinic, order_id: str) -> tuple[str, str, list[str]]:
    """Return what an order is, in both vocabularies, and the statuses of its tests."""
    order = here.read(order_id)
    return status_of(order), order["status"], [test["status"] for test in here.tests_of(order)]


def test_final_results_complete_an_order(inside: Inside, base: str) -> None:
    """C-427: the order is completed once the last of its tests has a final result, and open again without it."""
    here = clinic(inside, base)
    order_id, (first, second) = sent(inside, here, "LI", "TSH")
    here.result(first)
    assert seen(here, order_id) == ("sent", "active", ["completed", "active"])
    report = here.result(second, status="preliminary")
    assert seen(here, order_id) == ("sent", "active", ["completed", "active"])
    assert here.patch(report, {"op": "replace", "path": "/status", "value": "final"}).status_code == 200
    assert seen(here, order_id) == ("completed", "completed", ["completed", "completed"])
    assert here.patch(report, {"op": "remove", "path": "/basedOn"}).status_code == 200
    assert seen(here, order_id) == ("sent", "active", ["completed", "active"])


@pytest.mark.parametrize("status", ["final", "amended", "corrected", "appended"])
def test_a_corrected_result_is_one(inside: Inside, base: str, status: str) -> None:
    """C-427: final, amended, corrected and appended count; cancelled and entered-in-error no longer."""
    here = clinic(inside, base)
    order_id, (test,) = sent(inside, here, "LI")
    report = here.result(test, status=status)
    assert seen(here, order_id)[0] == "completed"
    for other in ("cancelled", status, "entered-in-error"):
        assert here.patch(report, {"op": "replace", "path": "/status", "value": other}).status_code == 200
        assert seen(here, order_id)[0] == ("completed" if other == status else "sent")


def test_a_report_of_the_whole_order(inside: Inside, base: str) -> None:
    """C-427: one that names the order is the result of all its tests."""
    here = clinic(inside, base)
    order_id, _ = sent(inside, here, "LI", "TSH")
    report = here.result(f"RequestGroup/{order_id}")
    assert seen(here, order_id) == ("completed", "completed", ["completed", "completed"])
    assert here.ask("DELETE", report).status_code == 204
    assert seen(here, order_id) == ("sent", "active", ["active", "active"])


def test_a_result_of_an_order_that_is_not_sent_yet(inside: Inside, base: str) -> None:
    """C-427: results may come before the laboratory's answer; those of a draft complete nothing."""
    here = clinic(inside, base)
    order, draft = here.place(), here.draft()
    here.result(order["action"][0]["resource"]["reference"])
    assert seen(here, order["id"])[0] == "completed"
    here.result(draft["action"][0]["resource"]["reference"])
    assert seen(here, draft["id"]) == ("draft", "draft", ["draft"])


def linked_later(here: Clinic, test: str) -> None:
    """Link a report by a patch."""
    value = [to(test)]
    assert here.patch(here.result(), {"op": "add", "path": "/basedOn", "value": value}).status_code == 200


def put(here: Clinic, test: str) -> None:
    """Put a report under an id of its own, and again over one without a link."""
    report = here.result()
    body = here.report(test, id=report.partition("/")[2])
    assert here.ask("PUT", report, body).status_code == 200


def bundled(here: Clinic, test: str) -> None:
    """Send a report in a transaction."""
    entry = {"request": {"method": "POST", "url": "DiagnosticReport"}, "resource": here.report(test)}
    bundle = {"resourceType": "Bundle", "type": "transaction", "entry": [entry]}
    assert here.service.ask("POST", here.base, json=bundle).status_code == 200


def conditional(here: Clinic, test: str) -> None:
    """Put a report by its identifier."""
    number = {"system": "urn:reports", "value": test}
    body = here.report(test, identifier=[number])
    assert here.ask("PUT", f"DiagnosticReport?identifier=urn:reports|{test}", body).status_code == 201


def brought_back(here: Clinic, test: str) -> None:
    """Delete a report, and bring it back."""
    report = here.result(test)
    assert here.ask("DELETE", report).status_code == 204
    order_id = here.ask("GET", test).json()["requisition"]["value"]
    assert seen(here, order_id)[0] == "sent"
    assert here.ask("PUT", report, here.report(test, id=report.partition("/")[2])).status_code == 201


@pytest.mark.parametrize("way", [linked_later, put, bundled, conditional, brought_back])
def test_every_way_of_writing_a_report(inside: Inside, base: str, way: Callable[[Clinic, str], None]) -> None:
    """C-427: create, update, patch, conditional update, transaction, delete and bringing back."""
    here = clinic(inside, base)
    order_id, (test,) = sent(inside, here, "LI")
    way(here, test)
    assert seen(here, order_id)[0] == "completed"


def test_a_result_that_is_linked_elsewhere(inside: Inside, base: str) -> None:
    """C-427: of two orders that a report names one after the other the first is open again, the second completed."""
    here = clinic(inside, base)
    (first, (one,)), (second, (two,)) = sent(inside, here, "LI"), sent(inside, here, "LI")
    report = here.result(one)
    assert (seen(here, first)[0], seen(here, second)[0]) == ("completed", "sent")
    step = {"op": "replace", "path": "/basedOn/0/reference", "value": two}
    assert here.patch(report, step).status_code == 200
    assert (seen(here, first)[0], seen(here, second)[0]) == ("sent", "completed")


def old(here: Clinic, body: dict[str, Any]) -> str:
    """Keep a report as a client of the former API version does, and return its address."""
    fields = {"grant_type": "client_credentials", "client_id": "physician", "rest_api_version": "2023-01-01"}
    fields |= {"client_secret": "a secret of the tests", "scope": "user/."}
    token = here.service.http.post(f"{here.service.url}/oauth/token", data=fields).json()["access_token"]
    headers = {"authorization": f"Bearer {token}"}
    answer = here.ask("POST", "DiagnosticReport", body, headers=headers)
    assert answer.status_code == 201, answer.text
    return f"DiagnosticReport/{answer.json()['id']}"


def test_a_result_of_another_patient_completes_nothing(inside: Inside, base: str) -> None:
    """C-422, C-427: where an older API version links it, until both patients turn out to be one."""
    here = clinic(inside, base)
    other = inside.create()["id"]
    order_id, (test,) = sent(inside, here, "LI")
    old(here, here.report(test, patient=other))
    assert seen(here, order_id)[0] == "sent"
    assert inside.ask("POST", f"{R4}/Patient/$merge", json=merge_body(other, here.patient)).status_code == 200
    assert seen(here, order_id)[0] == "completed"


def test_an_order_that_becomes_that_of_its_result(inside: Inside) -> None:
    """C-427: the same where the order's patient is merged into the report's."""
    here = clinic(inside)
    other = inside.create()["id"]
    order_id, (test,) = sent(inside, here, "LI")
    old(here, here.report(test, patient=other))
    assert inside.ask("POST", f"{R4}/Patient/$merge", json=merge_body(here.patient, other)).status_code == 200
    assert seen(here, order_id)[0] == "completed"


def test_a_failed_order_keeps_its_results(inside: Inside, base: str) -> None:
    """C-409, C-427: a test that has a result keeps it when the order is refused later; the rest goes again."""
    here = clinic(inside, base)
    order_id, (first, second) = sent(inside, here, "LI", "TSH")
    here.result(first)
    happen(inside, order_id, OrderEvent.REFUSED, "Not the second.")
    assert seen(here, order_id) == ("failed", said(base, "on-hold"), ["completed", said(base, "on-hold")])
    assert here.submit(order_id).status_code == 200
    assert seen(here, order_id) == ("pending", "active", ["completed", "active"])
    here.result(second)
    assert seen(here, order_id)[0] == "completed"


def test_an_observation_completes_nothing(inside: Inside, base: str) -> None:
    """C-427, C-428: a result of a test is a report."""
    here = clinic(inside, base)
    order_id, (test,) = sent(inside, here, "LI")
    body = {"resourceType": "Observation", "status": "final", "code": {"text": "x"}, "basedOn": [to(test)]}
    answer = here.ask("POST", "Observation", {**body, "subject": to(f"Patient/{here.patient}")})
    assert answer.status_code == 201, answer.text
    assert seen(here, order_id)[0] == "sent"

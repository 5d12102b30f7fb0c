"""Orders are changed, cancelled and deleted: what may be, in which state, and what stays."""

from collections.abc import Iterator
from typing import Any

import pytest

from engine.interchange.orders.order import OrderEvent, WrongStateError
from engine.interchange.store import transmission
from engine.interchange.store.transmission import TransmissionStatus, find_sent
from tests.interchange.kit import SYSTEM, Inside, issue, merge_body, running_inside
from tests.interchange.orders.happening import happen
from tests.interchange.orders.ordering import R4, Clinic, clinic, codes, id_of_test, said, status_of, to

NOTE = {"op": "add", "path": "/note", "value": [{"text": "as agreed"}]}


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """A service whose laboratories do what the tests say."""
    with running_inside(tmp_path_factory.mktemp("changing")) as found:
        yield found


def standing(inside: Inside, order_id: str) -> TransmissionStatus | None:
    """Return where an order is on its way."""
    found = inside.app.service.store.read("riverbend", lambda one: find_sent(one, order_id))
    return found.standing if found is not None else None


def brought(inside: Inside, here: Clinic, status: str) -> str:
    """Return the id of an order that is in a state."""
    if status == "draft":
        return str(here.draft()["id"])
    order_id = str(here.place()["id"])
    if status in {"sent", "completed"}:
        happen(inside, order_id, OrderEvent.TRANSMITTED)
    if status == "failed":
        happen(inside, order_id, OrderEvent.REFUSED, "The laboratory refused it.")
    if status == "completed":
        here.result(f"RequestGroup/{order_id}")
    if status == "cancelled":
        assert here.cancel(order_id).status_code == 200
    assert status_of(here.read(order_id)) == status
    return order_id


@pytest.mark.parametrize("status", ["draft", "pending", "failed"])
def test_an_order_is_cancelled(inside: Inside, base: str, status: str) -> None:
    """C-410: revoked by a patch it is cancelled with its tests, and never sent; again that changes nothing."""
    here = clinic(inside, base)
    order_id = brought(inside, here, status)
    # In STU3's own word, too.
    answer = here.cancel(order_id, said(base, "revoked"))
    assert answer.status_code == 200, answer.text
    order = answer.json()
    assert (order["status"], status_of(order)) == (said(base, "revoked"), "cancelled")
    assert {test["status"] for test in here.tests_of(order)} == {said(base, "revoked")}
    assert standing(inside, order_id) in {None, TransmissionStatus.WITHDRAWN, TransmissionStatus.REFUSED}
    assert here.cancel(order_id).status_code == 200
    assert issue(here.submit(order_id), 409, "conflict")


@pytest.mark.parametrize("status", ["sent", "completed"])
def test_it_is_too_late(inside: Inside, base: str, status: str) -> None:
    """C-410: what a laboratory has is not cancelled; the answer says what the order is."""
    here = clinic(inside, base)
    order_id = brought(inside, here, status)
    before = here.read(order_id)
    assert issue(here.cancel(order_id), 409, "conflict")["details"]["coding"][0]["code"] == f"order-{status}"
    assert here.read(order_id) == before


def test_it_may_have_it(inside: Inside, base: str) -> None:
    """C-410: an order that is just being sent is pending still, and not cancelled."""
    here = clinic(inside, base)
    order_id = brought(inside, here, "pending")
    store = inside.app.service.store

    def begin(transaction: Any) -> None:
        from_queue = find_sent(transaction, order_id)
        assert from_queue is not None
        transmission.begin(transaction, from_queue, "c-1")

    inside.run(store.write("riverbend", begin))
    assert issue(here.cancel(order_id), 409, "conflict")["details"]["coding"][0]["code"] == "order-transmitted"
    assert status_of(here.read(order_id)) == "pending"
    assert standing(inside, order_id) is TransmissionStatus.SENDING


def test_a_failed_order_says_why_and_goes_again(inside: Inside, base: str) -> None:
    """C-409: refused it fails, on hold, with a note; submitted again it is pending, and the note stays."""
    here = clinic(inside, base)
    order_id = brought(inside, here, "failed")
    order = here.read(order_id)
    assert (order["status"], order["meta"]["versionId"]) == (said(base, "on-hold"), "2")
    assert [one["text"] for one in order["note"]] == ["The laboratory refused it."]
    assert {test["status"] for test in here.tests_of(order)} == {said(base, "on-hold")}
    again = here.submit(order_id)
    assert again.status_code == 200, again.text
    assert (status_of(again.json()), again.json()["note"]) == ("pending", order["note"])
    assert standing(inside, order_id) is TransmissionStatus.WAITING
    happen(inside, order_id, OrderEvent.TRANSMITTED)
    history = here.ask("GET", f"RequestGroup/{order_id}/_history").json()
    assert [status_of(one["resource"]) for one in history["entry"]] == ["sent", "pending", "failed", "pending"]


@pytest.mark.parametrize("status", ["pending", "sent", "completed", "cancelled"])
def test_an_order_on_its_way_does_not_change(inside: Inside, base: str, status: str) -> None:
    """C-410: neither content nor status, by PUT or by patch; what changes nothing is no fault."""
    here = clinic(inside, base)
    order_id = brought(inside, here, status)
    path = f"RequestGroup/{order_id}"
    order = here.read(order_id)
    assert issue(here.patch(path, NOTE), 409, "conflict")["details"]["coding"][0]["code"] == f"order-{status}"
    assert here.ask("PUT", path, {**order, "priority": "stat"}).status_code == 409
    assert here.ask("PUT", path, {**order, "status": "entered-in-error"}).status_code == 409
    assert here.ask("PUT", path, {**order, "status": "draft"}).status_code == 409
    assert here.read(order_id) == order
    same = here.ask("PUT", path, order)
    assert same.status_code == 200, same.text
    assert {**same.json(), "meta": None} == {**order, "meta": None}


@pytest.mark.parametrize("status", ["draft", "failed"])
def test_a_draft_changes(inside: Inside, base: str, status: str) -> None:
    """C-400: its content may change, its tests come and go; its status is the service's, its patient stays."""
    here = clinic(inside, base)
    order_id = brought(inside, here, status)
    path = f"RequestGroup/{order_id}"
    order = here.read(order_id)
    forged = [{**one, "valueCoding": {"code": "sent"}} if "valueCoding" in one else one for one in order["extension"]]
    body = {**order, "extension": forged, "contained": [here.test("TSH", "new")], "priority": "stat"}
    answer = here.ask("PUT", path, {**body, "action": [{"resource": to("#new")}], "status": "active"})
    assert answer.status_code == 200, answer.text
    changed = answer.json()
    assert (status_of(changed), changed["priority"]) == (status, "stat")
    assert id_of_test(changed) == f"{order_id}-TSH"
    [former] = here.tests_of(order)
    [new] = here.tests_of(changed)
    assert (former["status"], new["status"]) == (said(base, "revoked"), order["status"])
    other = inside.create()["id"]
    moved = here.ask("PUT", path, {**changed, "subject": to(f"Patient/{other}")})
    assert moved.status_code == 422
    assert codes(moved) == [("business-rule", "cross-patient-order", "RequestGroup.subject.reference")]
    back = here.ask("PUT", path, {**changed, "action": order["action"]})
    assert [test["status"] for test in here.tests_of(back.json())] == [order["status"]]
    assert here.submit(order_id).status_code == 200


def test_an_order_is_cancelled_by_put_too(inside: Inside, base: str) -> None:
    """C-410: and in a Bundle; with a note that says why."""
    here = clinic(inside, base)
    order_id = brought(inside, here, "pending")
    why = {**here.read(order_id), "status": "revoked", "note": [{"text": "The patient has left."}]}
    steps = [{"request": {"method": "PUT", "url": f"RequestGroup/{order_id}"}, "resource": why}]
    answer = inside.ask("POST", base, json={"resourceType": "Bundle", "type": "transaction", "entry": steps})
    assert answer.status_code == 200, answer.text
    order = here.read(order_id)
    assert (status_of(order), order["note"]) == ("cancelled", why["note"])
    assert standing(inside, order_id) is TransmissionStatus.WITHDRAWN


@pytest.mark.parametrize("status", ["draft", "pending", "sent", "completed", "failed", "cancelled"])
def test_an_order_is_deleted(inside: Inside, base: str, status: str) -> None:
    """C-410: not while a laboratory may act on it, nor with its patient's chart."""
    here = clinic(inside, base)
    order_id = brought(inside, here, status)
    under_way = status in {"pending", "sent"}
    if under_way:
        cascade = inside.ask("DELETE", f"{base}/Patient/{here.patient}?_cascade=delete")
        assert issue(cascade, 409, "conflict")["details"]["coding"][0]["code"] == f"order-{status}"
    answer = here.ask("DELETE", f"RequestGroup/{order_id}")
    # The report of a completed one refers to it.
    assert answer.status_code == (409 if under_way or status == "completed" else 204), answer.text


def test_the_id_of_a_sent_order_is_not_used_again(inside: Inside) -> None:
    """C-403: what a laboratory knows by this number stays what it was, deleted or not."""
    here = clinic(inside)
    order_id = brought(inside, here, "completed")
    [report] = here.ask("GET", f"DiagnosticReport?patient={here.patient}").json()["entry"]
    assert here.ask("DELETE", f"DiagnosticReport/{report['resource']['id']}").status_code == 204
    happen(inside, order_id, OrderEvent.REFUSED)
    assert here.ask("DELETE", f"RequestGroup/{order_id}").status_code == 204
    body = here.order(id=order_id)
    again = here.ask("PUT", f"RequestGroup/{order_id}", body)
    assert again.status_code == 201, again.text
    assert status_of(again.json()) == "pending"
    happen(inside, order_id, OrderEvent.TRANSMITTED)
    here.result(f"ServiceRequest/{id_of_test(again.json())}")
    assert here.ask("DELETE", f"RequestGroup/{order_id}").status_code == 204
    late = here.ask("PUT", f"RequestGroup/{order_id}", body)
    assert issue(late, 409, "conflict")["details"]["coding"][0]["code"] == "order-transmitted"


@pytest.mark.parametrize("status", ["draft", "pending", "sent", "completed", "cancelled"])
def test_what_of_a_test_belongs_to_its_order(inside: Inside, base: str, status: str) -> None:
    """C-415: status, code and patient are the order's to say, the numbers the service's; a note is anybody's."""
    here = clinic(inside, base)
    order = here.read(brought(inside, here, status))
    [test] = here.tests_of(order)
    path = f"{here.test_type}/{test['id']}"
    for changed in ({"status": "entered-in-error"}, {"code": {"coding": [{"system": "urn:x", "code": "OTHER"}]}}):
        answer = here.ask("PUT", path, {**test, **changed})
        assert issue(answer, 409, "conflict")["location"] == [f"{here.test_type}.{next(iter(changed))}"]
    asked = here.patch(path, {"op": "add", "path": "/priority", "value": "stat"})
    assert asked.status_code == (200 if status == "draft" else 409)
    bare = {name: value for name, value in here.ask("GET", path).json().items() if name != "identifier"}
    bare["requisition"] = {"system": f"{SYSTEM}/order-number", "value": "forged"}
    answer = here.ask("PUT", path, {**bare, "note": [{"text": "left arm"}]})
    assert answer.status_code == 200, answer.text
    assert [answer.json()[one] for one in ("identifier", "requisition")] == [test["identifier"], test["requisition"]]
    assert here.ask("DELETE", path).status_code == 409


def test_numbers_are_given_by_the_service_alone(inside: Inside, base: str) -> None:
    """C-415: what a client writes in the systems of orders' numbers is not kept; other numbers are."""
    here = clinic(inside, base)
    own = {"system": "urn:own", "value": "1"}
    forged = {"system": f"{SYSTEM}/placer-order-number", "value": "1"}
    body = {name: value for name, value in here.test().items() if name != "id"}
    body |= {"identifier": [forged, own], "requisition": {"system": f"{SYSTEM}/order-number", "value": "1"}}
    made = here.ask("POST", here.test_type, body).json()
    assert made["identifier"] == [own]
    assert "requisition" not in made
    again = here.ask("PUT", f"{here.test_type}/{made['id']}", {**made, "identifier": [forged]})
    assert "identifier" not in again.json()


def test_a_merge_takes_orders_along(inside: Inside) -> None:
    """C-410, C-427: orders, tests and results become the survivor's together; none of them is reopened by that."""
    here = clinic(inside)
    done, open_ = brought(inside, here, "completed"), brought(inside, here, "sent")
    survivor = inside.create()["id"]
    assert inside.ask("POST", f"{R4}/Patient/$merge", json=merge_body(here.patient, survivor)).status_code == 200
    for order_id, status in ((done, "completed"), (open_, "sent")):
        order = here.read(order_id)
        assert (order["subject"], status_of(order)) == (to(f"Patient/{survivor}"), status)
        assert {test["subject"]["reference"] for test in here.tests_of(order)} == {f"Patient/{survivor}"}


def test_the_table_is_obeyed(inside: Inside) -> None:
    """C-408: what cannot happen to an order raises, and nothing is written."""
    here = clinic(inside)
    order_id = brought(inside, here, "sent")
    before = here.read(order_id)
    with pytest.raises(WrongStateError, match="sent: transmitted"):
        happen(inside, order_id, OrderEvent.TRANSMITTED)
    assert here.read(order_id) == before

"""Orders are submitted: what must hold of them, all of it told at once, and who wins a race."""

import concurrent.futures
from typing import Any

import pytest

from tests.interchange.jobs import ended
from tests.interchange.kit import SYSTEM, Running, issue
from tests.interchange.orders.ordering import ASYNC, R4, Clinic, clinic, codes, extension, status_of, to


def compendium(here: Clinic, *tests: str, questions: dict[str, Any] | None = None) -> None:
    """Keep the laboratory's tests, and the questions of the last one."""
    for code in tests:
        coding = {"coding": [{"system": f"urn:uuid:f:{here.lab}", "code": code}]}
        definition = {
            "resourceType": "ActivityDefinition",
            "status": "active",
            "kind": "ServiceRequest",
            "code": coding,
        }
        assert here.service.ask("POST", f"{R4}/ActivityDefinition", json=definition).status_code == 201
    if questions is not None:
        coding = {"system": f"urn:uuid:f:{here.lab}", "code": tests[-1]}
        asked = {"resourceType": "Questionnaire", "status": "active", "code": [coding], **questions}
        assert here.service.ask("POST", f"{R4}/Questionnaire", json=asked).status_code == 201


def refused(here: Clinic, order_id: str) -> list[tuple[str, str, str]]:
    """Return why an order is not submitted; it stays a draft."""
    before = here.read(order_id)
    answer = here.submit(order_id)
    assert answer.status_code == 422, answer.text
    assert here.read(order_id) == before
    assert status_of(before) == "draft"
    return codes(answer)


def test_an_order_is_submitted_once(service: Running, base: str) -> None:
    """C-404: the second time it is a conflict, with `respond-async` too, and when it is asked for by another base."""
    here = clinic(service, base)
    order = here.draft()
    assert here.submit(order["id"]).status_code == 200
    for headers in ({}, ASYNC):
        assert issue(here.submit(order["id"], headers=headers), 409, "conflict")
    placed = here.place()
    assert issue(here.submit(placed["id"]), 409, "conflict")["details"]["coding"][0]["code"] == "order-pending"
    assert here.read(placed["id"]) == placed


def test_an_order_that_is_not_there(service: Running, base: str) -> None:
    """C-405: 404 for an unknown one and for one of another tenant, 410 for a deleted one."""
    here = clinic(service, base)
    order = here.draft()
    assert issue(here.submit("nothing"), 404, "not-found")
    assert issue(here.submit(order["id"], client="other"), 404, "not-found")
    assert issue(here.submit("nothing", headers=ASYNC), 404, "not-found")
    assert here.ask("DELETE", f"RequestGroup/{order['id']}").status_code == 204
    assert here.submit(order["id"]).status_code == 410


def test_it_takes_no_parameters(service: Running, base: str) -> None:
    """C-401: no body, an empty object or an empty Parameters; nothing else."""
    here = clinic(service, base)
    order = here.draft()
    path = f"RequestGroup/{order['id']}/$submit"
    assert here.ask("POST", path, {"resourceType": "Parameters", "parameter": [{"name": "x"}]}).status_code == 400
    assert here.ask("POST", path, order).status_code == 400
    assert here.ask("POST", f"{path}?x=1").status_code == 400
    assert here.ask("POST", path, headers={"if-match": 'W/"7"'}).status_code == (412 if base == R4 else 409)
    assert here.ask("GET", path).status_code == 405
    assert here.ask("POST", path, {"resourceType": "Parameters"}).status_code == 200


def test_it_is_submitted_later(service: Running, base: str) -> None:
    """C-401: `respond-async` answers 202, and its handle the order, pending."""
    here = clinic(service, base)
    order = here.draft()
    answer = here.submit(order["id"], headers=ASYNC)
    assert answer.status_code == 202
    done = ended(service, answer.headers["location"].removeprefix(service.url))
    assert done.status_code == 200
    assert done.json() == here.read(order["id"])
    assert status_of(done.json()) == "pending"


def test_what_is_wrong_is_told_by_the_handle(service: Running, base: str) -> None:
    """C-406: also where it is found out later: 422, one issue a fault, with its own code and place."""
    here = clinic(service, base)
    order = here.draft(here.test(""), extension=None)
    answer = here.submit(order["id"], headers=ASYNC)
    done = ended(service, answer.headers["location"].removeprefix(service.url))
    assert done.status_code == 422
    assert [code for code, _, _ in codes(done)] == ["required", "required"]


def test_all_faults_at_once(service: Running, base: str) -> None:
    """C-406: missing performer, an account that says nobody pays, no test; each with its place."""
    here = clinic(service, base)
    account = {"resourceType": "Account", "id": "acc", "status": "active", "type": {"coding": [{"code": "uncle"}]}}
    body = {"action": [{"title": "nothing"}], "contained": [account]}
    order = here.draft(**body, extension=[extension("account", valueReference=to("#acc"))])
    assert refused(here, order["id"]) == [
        ("required", "no-performer", "RequestGroup.extension(requestgroup-performer)"),
        ("invalid", "account-type", "RequestGroup.extension(requestgroup-account)"),
        ("required", "no-test", "RequestGroup.action"),
    ]


def test_an_unknown_test(service: Running, base: str) -> None:
    """C-406: where the laboratory's tests are known, no other code is ordered, at once or later; else any is."""
    here = clinic(service, base)
    assert here.submit(here.draft(here.test("ANY"))["id"]).status_code == 200
    compendium(here, "LI")
    order = here.draft(here.test("LI", "t1"), here.test("NO", "t2"))
    assert refused(here, order["id"]) == [("invalid", "unknown-test", "RequestGroup.action[1].resource")]
    answer = here.ask("POST", "RequestGroup", here.order(here.test("LI", "t1"), here.test("NO", "t2")))
    assert answer.status_code == 422
    assert codes(answer) == [("invalid", "unknown-test", "RequestGroup.contained[1].code")]
    assert here.submit(here.draft(here.test("LI"))["id"]).status_code == 200


def test_who_takes_orders(service: Running, base: str) -> None:
    """C-406: a performer is an Organization of this service that is enabled for orders."""
    here = clinic(service, base)
    plain = service.ask("POST", f"{R4}/Organization", json={"resourceType": "Organization", "name": "x"}).json()["id"]
    named = [extension("performer", valueReference=to(f"Organization/{plain}"))]
    test = here.test("X", "t1", "urn:x")
    order = here.draft(test, extension=named)
    place = "RequestGroup.extension(requestgroup-performer)"
    assert refused(here, order["id"]) == [("business-rule", "not-ordering-enabled", place)]


def test_tests_of_several_laboratories(service: Running, base: str) -> None:
    """C-406: the order must be split; the groups are told."""
    here = clinic(service, base)
    order = here.draft(here.test("A", "t1"), here.test("B", "t2"), here.test("C", "t3", "urn:uuid:f:elsewhere"))
    answer = here.submit(order["id"])
    found = issue(answer, 422, "processing")
    assert found["details"]["coding"] == [{"system": f"{SYSTEM}/outcome", "code": "order-splitting-required"}]
    assert "A|B;C" in found["diagnostics"]


FASTING = {
    "item": [
        {"id": "fasting", "linkId": "fasting", "text": "Fasting?", "type": "string", "required": True},
        {
            "id": "site",
            "linkId": "site",
            "text": "Site?",
            "type": "string",
            "extension": [
                {"url": f"{SYSTEM}/fhir/StructureDefinition/questionnaire-requiredwhenspecimen", "valueBoolean": True}
            ],
        },
    ]
}


def response(*answers: str, within: str = "aoe", **more: Any) -> dict[str, Any]:
    """Return a QuestionnaireResponse that an order contains."""
    items = [{"linkId": answer, "answer": [{"valueString": "x"}]} for answer in answers]
    made = {"resourceType": "QuestionnaireResponse", "id": within, "status": "completed", **more}
    return {**made, "item": items} if items else made


def test_questions_are_answered(service: Running, base: str) -> None:
    """C-407: required questions that are unanswered are told, each with the item; answered, the order goes."""
    here = clinic(service, base)
    compendium(here, "LI", questions=FASTING)
    order = here.draft()
    item = "RequestGroup.action[0].resource.item.where(linkId='{}')".format
    assert refused(here, order["id"]) == [("required", "unanswered", item("fasting"))]
    assert issue(here.submit(order["id"]), 422, "required")
    test = f"{here.test_type}/{order['id']}-LI"
    more = [{"op": "add", "path": "/contained", "value": [response("fasting")]}]
    more.append({"op": "add", "path": "/supportingInfo", "value": [to("#aoe")]})
    answered = here.patch(test, *more)
    assert answered.status_code == 200, answered.text
    assert here.submit(order["id"]).status_code == 200
    # A specimen that was taken asks more.
    specimen = {"resourceType": "Specimen", "id": "s", "subject": to(f"Patient/{here.patient}")}
    body = here.test(supportingInfo=[to("#aoe")], specimen=[to("#s")])
    answer = here.ask("POST", "RequestGroup", here.order(body, contained=(response("fasting"), specimen)))
    assert answer.status_code == 422
    assert codes(answer) == [("required", "unanswered", item("site"))]
    fine = here.order(body, contained=(response("fasting", "site"), specimen))
    assert here.ask("POST", "RequestGroup", fine).status_code == 201


def test_answers_of_another_patient(service: Running, base: str) -> None:
    """C-407, C-413: answers that are kept on the service count where they are the patient's."""
    here = clinic(service, base)
    compendium(here, "LI", questions=FASTING)
    other = service.create()["id"]
    made = {}
    for who in (here.patient, other):
        kept = {
            name: value for name, value in response("fasting", subject=to(f"Patient/{who}")).items() if name != "id"
        }
        made[who] = here.ask("POST", "QuestionnaireResponse", kept).json()["id"]
    named = {who: here.test(supportingInfo=[to(f"QuestionnaireResponse/{made[who]}")]) for who in made}
    assert here.place(named[here.patient])
    answer = here.ask("POST", "RequestGroup", here.order(named[other]))
    assert answer.status_code == 422
    assert ("business-rule", "cross-patient-order", "RequestGroup.contained[0]") in codes(answer)


@pytest.mark.parametrize("later", [False, True], ids=["at-once", "later"])
def test_sixteen_submit_and_one_wins(service: Running, later: bool) -> None:
    """C-404: of sixteen that submit at once one does, on whichever base; the order has one more version."""
    here = clinic(service)
    order = here.draft()
    headers = ASYNC if later else {}

    def submit(number: int) -> int:
        path = f"{(R4, '/fhir')[number % 2]}/RequestGroup/{order['id']}/$submit"
        answer = service.ask("POST", path, headers=headers)
        if answer.status_code == 202:
            answer = ended(service, answer.headers["location"].removeprefix(service.url))
        return answer.status_code

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        found = sorted(pool.map(submit, range(16)))
    assert found[0] == 200
    assert set(found[1:]) <= ({409, 422} if later else {409})
    after = here.read(order["id"])
    assert (status_of(after), after["meta"]["versionId"]) == ("pending", "2")

"""Orders are placed: at once or as drafts, with their tests, extensions and numbers, on both bases."""

import pytest

from tests.interchange.jobs import ended
from tests.interchange.kit import SYSTEM, Running, issue
from tests.interchange.orders.ordering import ASYNC, R4, clinic, codes, extension, id_of_test, status_of, to, url


def test_an_order_waits_for_its_submit(service: Running, base: str) -> None:
    """C-400, C-401, C-402: asked for asynchronously it is a draft; $submit makes it pending, and answers 200."""
    here = clinic(service, base)
    answer = here.ask("POST", "RequestGroup", here.order(), headers=ASYNC)
    assert answer.status_code == 202, answer.text
    handle = answer.headers["location"].removeprefix(service.url)
    assert handle.startswith(f"{base}/RequestResult/")
    done = ended(service, handle)
    assert done.status_code == 200, done.text
    draft = done.json()
    assert (draft["resourceType"], draft["status"], status_of(draft)) == ("RequestGroup", "draft", "draft")
    assert {test["status"] for test in here.tests_of(draft)} == {"draft"}
    assert here.read(draft["id"]) == draft

    submitted = here.submit(draft["id"])
    assert submitted.status_code == 200, submitted.text
    order = submitted.json()
    assert (order["status"], status_of(order)) == ("active", "pending")
    [coding] = [one["valueCoding"] for one in order["extension"] if one["url"].endswith("requestgroup-orderStatus")]
    assert coding["display"] == "Pending"
    assert order["meta"]["versionId"] == "2"
    assert submitted.headers["etag"] == 'W/"2"'
    assert {test["status"] for test in here.tests_of(order)} == {"active"}


def test_an_order_is_placed_at_once(service: Running, base: str) -> None:
    """C-403: without Prefer it is 201, and pending."""
    here = clinic(service, base)
    answer = here.ask("POST", "RequestGroup", here.order())
    assert answer.status_code == 201, answer.text
    order = answer.json()
    assert answer.headers["location"] == f"{service.url}{base}/RequestGroup/{order['id']}/_history/1"
    assert (order["status"], status_of(order), order["meta"]["versionId"]) == ("active", "pending", "1")
    assert order["meta"]["profile"] == [url("order")]


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_an_order_that_calls_itself_a_draft(service: Running, base: str, method: str) -> None:
    """C-400, C-403: `status` draft without Prefer is a draft; one that is over or on hold already is no new order."""
    here = clinic(service, base)
    path = "RequestGroup" if method == "POST" else f"RequestGroup/{here.lab}"
    for status, code in (("completed", 422), ("revoked", 422), ("on-hold", 422), ("draft", 201)):
        answer = here.ask(method, path, here.order(status=status, id=here.lab))
        assert answer.status_code == code, (status, answer.text)
    assert status_of(answer.json()) == "draft"


def test_tests_become_resources(service: Running, base: str) -> None:
    """C-415: each action leads to a ServiceRequest (STU3: ProcedureRequest) that is read by itself, and numbered."""
    here = clinic(service, base)
    order = here.place(here.test("LI", "t1"), here.test("HbA1c", "t2"))
    order_id = order["id"]
    assert [one["resource"]["reference"] for one in order["action"]] == [
        f"{here.test_type}/{order_id}-LI",
        f"{here.test_type}/{order_id}-HbA1c",
    ]
    assert "contained" not in order
    assert order["groupIdentifier"] == {"system": f"{SYSTEM}/order-number", "value": order_id}
    for test in here.tests_of(order):
        assert test["resourceType"] == here.test_type
        assert test["requisition"] == {"system": f"{SYSTEM}/order-number", "value": order_id}
        [number] = test["identifier"]
        assert (number["system"], number["value"]) == (f"{SYSTEM}/placer-order-number", test["id"])
        assert number["type"]["coding"][0]["code"] == "PLAC"
        found = here.ask("GET", f"{here.test_type}?identifier={SYSTEM}/placer-order-number|{test['id']}").json()
        assert [one["resource"]["id"] for one in found["entry"]] == [test["id"]]


def test_what_is_contained_goes_where_it_is_named(service: Running, base: str) -> None:
    """C-415: answers go along with their test, an account stays with the order, and what nobody names goes."""
    here = clinic(service, base)
    answers = {
        "resourceType": "QuestionnaireResponse",
        "id": "aoe1",
        "status": "completed",
        "source": to(f"Practitioner/{here.author}"),
        "item": [{"linkId": "fasting", "answer": [{"valueString": "yes"}]}],
    }
    account = {"resourceType": "Account", "id": "acc", "status": "active", "type": {"coding": [{"code": "patient"}]}}
    test = here.test(supportingInfo=[to("#aoe1")])
    body = here.order(test, contained=(answers, account))
    body["extension"].append(extension("account", valueReference=to("#acc")))
    answer = here.ask("POST", "RequestGroup", body)
    assert answer.status_code == 201, answer.text
    order = answer.json()
    assert [(one["resourceType"], one["id"]) for one in order["contained"]] == [("Account", "acc")]
    [kept] = here.tests_of(order)
    assert [(one["resourceType"], one["id"]) for one in kept["contained"]] == [("QuestionnaireResponse", "aoe1")]
    assert kept["supportingInfo"] == [to("#aoe1")]


def test_extensions_come_back(service: Running, base: str) -> None:
    """C-414: performer, requester and account as they were sent, below our own address; the status is ours."""
    here = clinic(service, base)
    account = {"resourceType": "Account", "id": f"acc-{here.lab}", "status": "active"}
    account |= {"type": {"coding": [{"code": "guarantor"}]}, "subject": [to(f"Patient/{here.patient}")]}
    assert service.ask("PUT", f"{R4}/Account/acc-{here.lab}", json=account).status_code == 201
    sent = [
        extension("performer", valueReference=to(f"Organization/{here.lab}")),
        extension(
            "requester",
            extension=[
                {"url": "agent", "valueReference": to(f"Practitioner/{here.author}")},
                {"url": "onBehalfOf", "valueReference": to(f"Organization/{here.lab}")},
            ],
        ),
        extension("account", valueReference=to(f"Account/acc-{here.lab}")),
        extension("deliveryOptions", valueString="fax"),
    ]
    forged = extension("orderStatus", valueCoding={"code": "completed"})
    order = here.place(extension=[*sent, forged])
    assert status_of(order) == "pending"
    assert [one for one in order["extension"] if not one["url"].endswith("orderStatus")] == sent
    assert all(one["url"].startswith(f"{SYSTEM}/fhir/StructureDefinition/requestgroup-") for one in order["extension"])
    other = {"/fhir": R4, R4: "/fhir"}[base]
    seen = service.ask("GET", f"{other}/RequestGroup/{order['id']}").json()
    assert [one for one in seen["extension"] if not one["url"].endswith("orderStatus")] == sent


@pytest.mark.parametrize("missing", ["subject", "author", "action", "intent", "status"])
@pytest.mark.parametrize("headers", [{}, ASYNC], ids=["at-once", "later"])
def test_what_no_order_goes_without(service: Running, base: str, missing: str, headers: dict[str, str]) -> None:
    """C-400: an order without subject, author, action, intent or status is refused at once."""
    here = clinic(service, base)
    answer = here.ask("POST", "RequestGroup", here.order(**{missing: None}), headers=headers)
    assert issue(answer, 400, "required")["location"] == [f"RequestGroup.{missing}"]


@pytest.mark.parametrize("headers", [{}, ASYNC], ids=["at-once", "later"])
def test_references_that_lead_nowhere(service: Running, base: str, headers: dict[str, str]) -> None:
    """C-412: refused at once, before the 202: to nobody here, to nothing within, and to another host."""
    here = clinic(service, base)
    for reference in ("Practitioner/nobody", "#nothing", "https://elsewhere.example/fhir/Practitioner/1"):
        answer = here.ask("POST", "RequestGroup", here.order(author=to(reference)), headers=headers)
        assert issue(answer, 422, "not-found")["location"] == ["RequestGroup.author.reference"]
        body = here.order(action=[{"resource": to(reference.replace("Practitioner", here.test_type))}])
        assert issue(here.ask("POST", "RequestGroup", body, headers=headers), 422, "not-found")
    assert here.ask("GET", f"RequestGroup?patient={here.patient}").json()["total"] == 0


@pytest.mark.parametrize("headers", [{}, ASYNC], ids=["at-once", "later"])
def test_a_test_of_another_patient(service: Running, base: str, headers: dict[str, str]) -> None:
    """C-413: nothing is written to anybody's chart."""
    here = clinic(service, base)
    other = service.create()["id"]
    body = here.order(here.test(), here.test("TSH", "t2", subject=to(f"Patient/{other}")))
    answer = here.ask("POST", "RequestGroup", body, headers=headers)
    assert answer.status_code == 422
    assert codes(answer) == [("business-rule", "cross-patient-order", "RequestGroup.contained[1]")]
    assert here.ask("GET", f"{here.test_type}?patient={other}").json()["total"] == 0


def test_a_test_that_is_there_already(service: Running, base: str) -> None:
    """C-415: a test on the service stays what it is, and gets the order's numbers; another order cannot have it."""
    here = clinic(service, base)
    made = here.ask("POST", here.test_type, {k: v for k, v in here.test().items() if k != "id"}).json()
    actions = [{"resource": to(f"{here.test_type}/{made['id']}")}]
    order = here.place(action=actions)
    [test] = here.tests_of(order)
    assert test["id"] == made["id"]
    assert test["requisition"]["value"] == order["id"]
    assert [one["value"] for one in test["identifier"]] == [made["id"]]
    again = here.ask("POST", "RequestGroup", here.order(action=actions))
    assert again.status_code == 422
    assert codes(again) == [("business-rule", "other-order", "RequestGroup.action[0].resource")]


def test_two_tests_of_one_code(service: Running, base: str) -> None:
    """C-415: each has an id of its own; a code that makes no id gets a generated one."""
    here = clinic(service, base)
    order = here.place(here.test("GLU", "a"), here.test("GLU", "b"), here.test("no id/+", "c"))
    ids = [id_of_test(order, number) for number in range(3)]
    assert ids[:2] == [f"{order['id']}-GLU", f"{order['id']}-GLU-2"]
    assert len(ids[2]) == 24


def test_an_order_is_found_by_either_status(service: Running, base: str) -> None:
    """C-411: by the service's word and by FHIR's."""
    here = clinic(service, base)
    order = here.place()
    for status, total in (("pending", 1), ("active", 1), ("draft", 0), ("sent", 0)):
        found = here.ask("GET", f"RequestGroup?patient={here.patient}&status={status}").json()
        assert found["total"] == total, status
        assert [entry["resource"]["id"] for entry in found.get("entry", ())] == [order["id"]] * total


def test_if_none_exist(service: Running, base: str) -> None:
    """C-400: what is there already is answered, and no second one made; asynchronously, too."""
    here = clinic(service, base)
    mine = {"system": "urn:orders", "value": here.lab}
    condition = {"if-none-exist": f"identifier=urn:orders|{here.lab}"}
    body = here.order(identifier=[mine])
    first = here.ask("POST", "RequestGroup", body, headers={**condition, **ASYNC})
    done = ended(service, first.headers["location"].removeprefix(service.url)).json()
    for headers in (condition, {**condition, **ASYNC}):
        again = here.ask("POST", "RequestGroup", body, headers=headers)
        assert again.status_code == 200
        assert again.json()["id"] == done["id"]


def test_put_creates_a_pending_order(service: Running, base: str) -> None:
    """C-403: PUT of what was not there is a create without Prefer."""
    here = clinic(service, base)
    answer = here.ask("PUT", f"RequestGroup/mine-{here.lab}", here.order(id=f"mine-{here.lab}"), headers=ASYNC)
    assert answer.status_code == 201, answer.text
    assert status_of(answer.json()) == "pending"


@pytest.mark.parametrize("kind", ["batch", "transaction"])
def test_an_order_in_a_bundle(service: Running, base: str, kind: str) -> None:
    """C-403: an entry is a create without Prefer; in a transaction it may name what the Bundle brings."""
    here = clinic(service, base)
    who = {"resourceType": "Practitioner", "name": [{"family": "New"}]}
    entries = [{"request": {"method": "POST", "url": "RequestGroup"}, "resource": here.order()}]
    if kind == "transaction":
        entries[0]["resource"]["author"] = to("urn:uuid:0d7b6c9e-52a4-4f2e-9b57-61d0f0b8a1c2")
        full = "urn:uuid:0d7b6c9e-52a4-4f2e-9b57-61d0f0b8a1c2"
        entries.append({"fullUrl": full, "request": {"method": "POST", "url": "Practitioner"}, "resource": who})
    bundle = {"resourceType": "Bundle", "type": kind, "entry": entries}
    answer = service.ask("POST", base, json=bundle, headers=ASYNC)
    assert answer.status_code == 200, answer.text
    entry = answer.json()["entry"][0]
    assert entry["response"]["status"].startswith("201")
    assert status_of(entry["resource"]) == "pending"


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_an_order_comes_with_all_that_it_names(service: Running, base: str, method: str) -> None:
    """C-403: in one transaction, wherever it stands there, posted or put."""
    here = clinic(service, base)
    enabled = {"url": url("organization-orderingEnabled"), "valueBoolean": True}
    lab = {"resourceType": "Organization", "name": "New", "extension": [enabled]}
    test = {name: value for name, value in here.test().items() if name != "id"}
    test["code"] = {"coding": [{"system": "urn:x", "code": "LI"}]}
    order = here.order(action=[{"resource": to("urn:uuid:0d7b6c9e-52a4-4f2e-9b57-61d0f0b8a1c1")}])
    order["extension"] = [extension("performer", valueReference=to("urn:uuid:0d7b6c9e-52a4-4f2e-9b57-61d0f0b8a1c2"))]
    entries = []
    for number, body in enumerate((order, test, lab)):
        name, target = body["resourceType"], f"{here.lab}-{number}"
        put = {"method": "PUT", "url": f"{name}/{target}"}
        request = put if method == "PUT" and number else {"method": "POST", "url": name}
        resource = {**body, "id": target} if request is put else body
        full = f"urn:uuid:0d7b6c9e-52a4-4f2e-9b57-61d0f0b8a1c{number}"
        entries.append({"fullUrl": full, "request": request, "resource": resource})
    answer = service.ask("POST", base, json={"resourceType": "Bundle", "type": "transaction", "entry": entries})
    assert answer.status_code == 200, answer.text
    kept = answer.json()["entry"][0]["resource"]
    assert status_of(kept) == "pending"
    assert [one["status"] for one in here.tests_of(kept)] == ["active"]


def test_who_may_order(service: Running, base: str) -> None:
    """C-416: physicians, nurses and systems; not the administrative role."""
    here = clinic(service, base)
    for client, status in (("physician", 201), ("nurse", 201), ("system", 201), ("administrative", 403)):
        assert here.ask("POST", "RequestGroup", here.order(), client=client).status_code == status, client
        draft = here.draft()
        submitted = here.submit(draft["id"], client=client)
        assert submitted.status_code == (200 if status == 201 else 403), client


def test_an_order_has_its_bounds(service: Running, base: str) -> None:
    """C-403: so that no other write waits long: not hundreds of tests, nor the same megabyte in each of them."""
    here = clinic(service, base)
    many = [here.test("LI", f"t{number}") for number in range(201)]
    assert issue(here.ask("POST", "RequestGroup", here.order(*many)), 422, "business-rule")
    large = {"resourceType": "QuestionnaireResponse", "id": "aoe", "status": "completed"}
    large["item"] = [{"linkId": "x", "answer": [{"valueString": "x" * 300_000}]}]
    few = [here.test("LI", f"t{number}", supportingInfo=[to("#aoe")]) for number in range(8)]
    answer = here.ask("POST", "RequestGroup", here.order(*few, contained=(large,)))
    assert issue(answer, 422, "business-rule")["location"] == ["RequestGroup.contained"]
    assert here.place(*few[:2], contained=(large,))


def test_a_requisition_of_the_client_stays(service: Running, base: str) -> None:
    """C-415: among the identifiers of its test; so does the group of its order."""
    here = clinic(service, base)
    mine = {"system": "urn:mine", "value": "7"}
    order = here.place(here.test(requisition=mine), groupIdentifier=mine)
    assert mine in order["identifier"]
    assert mine in here.tests_of(order)[0]["identifier"]
    assert here.tests_of(order)[0]["requisition"] == order["groupIdentifier"]

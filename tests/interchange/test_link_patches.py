"""Results linked to orders and unlinked by JSON Patch, once it is known to which order they belong."""

from typing import Any

import httpx
import pytest

from tests.interchange.kit import Running, issue
from tests.interchange.test_links import RESULTS, made, old, order_of, result
from tests.interchange.test_patch import sent

__all__ = ["old"]

STALE = {"/fhir/R4": 412, "/fhir": 409}


def link(service: Running, path: str, *orders: str, **more: Any) -> httpx.Response:
    """Let a result name orders, in place of those that it names."""
    value = [{"reference": order} for order in orders]
    return sent(service, path, {"op": "add", "path": "/basedOn", "value": value}, **more)


def report(service: Running, base: str, patient_id: str, kind: str = "DiagnosticReport", **more: Any) -> str:
    """Create a result that names no order, and return its address."""
    return f"{base}/{kind}/{made(service, base, result(base, kind, patient_id), **more)['id']}"


def found(service: Running, base: str, kind: str, patient_id: str, order: str) -> list[dict[str, Any]]:
    """Return the results of a patient that a search by their order finds."""
    answer = service.ask("GET", f"{base}/{kind}?patient={patient_id}&based-on={order}")
    assert answer.status_code == 200, answer.text
    return [entry["resource"] for entry in answer.json().get("entry", ())]


def based_on(service: Running, path: str) -> list[str]:
    """Return the orders that a result names."""
    return [one["reference"] for one in service.ask("GET", path).json().get("basedOn", ())]


@pytest.mark.parametrize("kind", RESULTS)
def test_a_result_is_linked(service: Running, base: str, kind: str) -> None:
    """C-420, C-426: 200, basedOn set, a second version; found by based-on as soon as it is linked, and not before."""
    who = service.create(base)["id"]
    order, path = order_of(service, base, who), report(service, base, who, kind)
    assert found(service, base, kind, who, order) == []
    answer = link(service, path, order)
    assert (answer.status_code, answer.headers["etag"]) == (200, 'W/"2"'), answer.text
    assert answer.json()["basedOn"] == [{"reference": order}]
    assert answer.json() == service.ask("GET", path).json()
    assert found(service, base, kind, who, order) == [answer.json()]
    if kind == "DiagnosticReport":
        alone = service.ask("GET", f"{base}/{kind}?based-on={order}").json()
        assert [one["resource"] for one in alone["entry"]] == [answer.json()]
    second = order_of(service, base, who)
    assert sent(service, path, {"op": "add", "path": "/basedOn/-", "value": {"reference": second}}).status_code == 200
    assert based_on(service, path) == [order, second]
    assert len(found(service, base, kind, who, second)) == 1


@pytest.mark.parametrize("kind", RESULTS)
def test_another_patients_order(service: Running, base: str, kind: str) -> None:
    """C-421: 422 business-rule with its place, and the report stays as it was, with the link that it had."""
    mine, other = service.create(base)["id"], service.create(base)["id"]
    own, foreign = order_of(service, base, mine), order_of(service, base, other)
    path = report(service, base, mine, kind)
    refused = issue(link(service, path, foreign), 422, "business-rule")
    assert refused["location"] == [f"{kind}.basedOn[0].reference"]
    assert "details" in refused
    assert link(service, path, own).status_code == 200
    before = service.ask("GET", path).json()
    added = sent(service, path, {"op": "add", "path": "/basedOn/-", "value": {"reference": foreign}})
    assert issue(added, 422, "business-rule")["location"] == [f"{kind}.basedOn[1].reference"]
    issue(
        sent(service, path, {"op": "replace", "path": "/basedOn/0/reference", "value": foreign}), 422, "business-rule"
    )
    assert service.ask("GET", path).json() == before
    assert found(service, base, kind, mine, foreign) == []


@pytest.mark.parametrize("where", ["/basedOn", "/basedOn/0"])
@pytest.mark.parametrize("kind", RESULTS)
def test_unlinking(service: Running, base: str, kind: str, where: str, old: dict[str, str]) -> None:
    """C-422, C-423: an older version links another patient's order; either unlinks it, wherever the patch points."""
    mine, other = service.create(base)["id"], service.create(base)["id"]
    foreign = order_of(service, base, other)
    for version in (old, {}):
        path = report(service, base, mine, kind)
        assert link(service, path, foreign, headers=old).status_code == 200
        assert based_on(service, path) == [foreign]
        answer = sent(service, path, {"op": "remove", "path": where}, headers=version)
        assert answer.status_code == 200, answer.text
        assert based_on(service, path) == []
        assert found(service, base, kind, mine, foreign) == []
        issue(link(service, path, foreign), 422, "business-rule")


def test_one_link_of_two_is_removed(service: Running, base: str) -> None:
    """C-423: the other one stays, though it too names an order of another patient."""
    mine, other = service.create(base)["id"], service.create(base)["id"]
    own, foreign = order_of(service, base, mine), order_of(service, base, other)
    path = report(service, base, mine)
    assert link(service, path, own).status_code == 200
    assert sent(service, path, {"op": "remove", "path": "/basedOn/0"}).status_code == 200
    assert link(service, path, own, own).status_code == 200
    assert sent(service, path, {"op": "remove", "path": "/basedOn/1"}).json()["basedOn"] == [{"reference": own}]
    issue(sent(service, path, {"op": "remove", "path": "/basedOn/1"}), 422, "invalid")
    issue(link(service, path, foreign), 422, "business-rule")


def test_a_test_that_fails(service: Running, base: str) -> None:
    """C-420: a patch may test what it changes: 409 where that is not so, and nothing of the patch is done."""
    who = service.create(base)["id"]
    order, path = order_of(service, base, who), report(service, base, who)
    add = {"op": "add", "path": "/basedOn", "value": [{"reference": order}]}
    issue(sent(service, path, add, {"op": "test", "path": "/status", "value": "preliminary"}), 409, "conflict")
    assert based_on(service, path) == []
    assert sent(service, path, {"op": "test", "path": "/status", "value": "final"}, add).status_code == 200
    assert based_on(service, path) == [order]


def test_if_match(service: Running, base: str) -> None:
    """C-420: a stale If-Match changes nothing: 412, in STU3 409; the current version's links."""
    who = service.create(base)["id"]
    order, path = order_of(service, base, who), report(service, base, who)
    issue(link(service, path, order, headers={"if-match": 'W/"2"'}), STALE[base], "conflict")
    assert based_on(service, path) == []
    assert link(service, path, order, headers={"if-match": 'W/"1"'}).status_code == 200
    unlink = {"op": "remove", "path": "/basedOn"}
    issue(sent(service, path, unlink, headers={"if-match": 'W/"1"'}), STALE[base], "conflict")
    assert based_on(service, path) == [order]


MALFORMED = {
    "no list": ({"op": "add", "path": "/basedOn", "value": []}, 400, "structure"),
    "no JSON": (b'[{"op": "add"', 400, "structure"),
    "no op": ([{"path": "/basedOn"}], 400, "invalid"),
    "unknown op": ([{"op": "link", "path": "/basedOn"}], 400, "invalid"),
    "no value": ([{"op": "add", "path": "/basedOn"}], 400, "required"),
    "no pointer": ([{"op": "remove", "path": "basedOn"}], 400, "invalid"),
    "no list of references": ([{"op": "add", "path": "/basedOn", "value": {"reference": "x"}}], 400, "structure"),
    "a text": ([{"op": "add", "path": "/basedOn", "value": "ServiceRequest/1"}], 400, "structure"),
    "an empty list": ([{"op": "add", "path": "/basedOn", "value": []}], 400, "structure"),
    "nothing to remove": ([{"op": "remove", "path": "/basedOn"}], 422, "invalid"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_patches(service: Running, base: str, name: str) -> None:
    """C-425: what is no patch, or makes no report, is 400, and one that finds nothing at its place 422."""
    body, status, code = MALFORMED[name]
    path = report(service, base, service.create(base)["id"])
    sending = {"content": body} if isinstance(body, bytes) else {"json": body}
    answer = service.ask("PATCH", path, headers={"content-type": "application/json-patch+json"}, **sending)
    refused = issue(answer, status, code)
    assert refused["location"][0].startswith(("http.body", "DiagnosticReport.basedOn"))
    assert service.ask("GET", path).headers["etag"] == 'W/"1"'


@pytest.mark.parametrize("kind", RESULTS)
def test_an_order_that_is_not_there(service: Running, base: str, kind: str) -> None:
    """C-425: an order that does not exist, or is another tenant's, or was deleted, is 422 not-found with its place."""
    who = service.create(base)["id"]
    path = report(service, base, who, kind)
    gone = order_of(service, base, who)
    assert service.ask("DELETE", f"{base}/{gone}").status_code == 204
    for nowhere in (f"{gone.partition('/')[0]}/none", gone):
        refused = issue(link(service, path, nowhere), 422, "not-found")
        assert refused["location"] == [f"{kind}.basedOn[0].reference"]
    assert based_on(service, path) == []


def test_who_may_link(service: Running, base: str) -> None:
    """C-420: nurses and systems link as physicians do; who may only read, and administrative users, do not."""
    who = service.create(base)["id"]
    order = order_of(service, base, who)
    for client in ("nurse", "system"):
        assert link(service, report(service, base, who), order, client=client).status_code == 200
    path = report(service, base, who)
    for client in ("read", "administrative"):
        issue(link(service, path, order, client=client), 403, "forbidden")
    assert based_on(service, path) == []

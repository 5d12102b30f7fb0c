"""Batch and transaction: a Bundle of requests, each for itself, or all in one commit."""

import base64
from itertools import count
from typing import Any

import orjson
import pytest

from engine.fhir.versions.names import name_in
from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.verify import verify
from tests.interchange.kit import MRN, Running, issue, merge_body, patient, record_number
from tests.interchange.least import least, version_of
from tests.interchange.parallel import at_once, statuses

FRESH = count(1)
ALWAYS = {"prefer": "create-always"}


def entry(method: str, url: str, resource: Any = None, full_url: str = "", **conditions: str) -> dict[str, Any]:
    """Return one entry of a Bundle."""
    made: dict[str, Any] = {"request": {"method": method, "url": url, **conditions}}
    if full_url:
        made["fullUrl"] = full_url
    return {**made, "resource": resource} if resource is not None else made


def urn() -> str:
    """Return a URN that nothing else has."""
    return f"urn:uuid:00000000-0000-4000-8000-{next(FRESH):012}"


def bundle(kind: str, *entries: dict[str, Any]) -> dict[str, Any]:
    """Return a Bundle of some entries."""
    return {"resourceType": "Bundle", "type": kind, "entry": list(entries)}


def send(service: Running, base: str, kind: str, *entries: dict[str, Any], **more: Any) -> Any:
    """Send a Bundle."""
    headers = {**ALWAYS, **more.pop("headers", {})}
    return service.ask("POST", base, json=bundle(kind, *entries), headers=headers, **more)


def done(service: Running, base: str, *entries: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """Send a transaction that must be taken, and return its entries."""
    answer = send(service, base, "transaction", *entries, **more)
    assert answer.status_code == 200, answer.text
    assert answer.json()["type"] == "transaction-response"
    return answer.json()["entry"]


def ids(entries: list[dict[str, Any]]) -> list[str]:
    """Return the ids of what was written."""
    return [one["response"]["location"].rsplit("/", 3)[1] for one in entries]


def told(entries: list[dict[str, Any]]) -> list[str]:
    """Return the statuses of the entries."""
    return [one["response"]["status"] for one in entries]


def test_a_visit_in_one_transaction(service: Running, base: str) -> None:
    """N-150: entries refer to each other in whatever order and in a circle; the answer is in theirs."""
    who, visit, cause, place = urn(), urn(), urn(), urn()
    version = version_of(base)
    encounter = {
        **least("Encounter", "x", version),
        "subject": {"reference": who},
        "location": [{"location": {"reference": place}}],
        "diagnosis": [{"condition": {"reference": cause}}],
    }
    element = "encounter" if base == "/fhir/R4" else "context"
    condition = {**least("Condition", "x", version), "subject": {"reference": who}, element: {"reference": visit}}
    entries = done(
        service,
        base,
        entry("POST", "Encounter", encounter, visit),
        entry("POST", "Condition", condition, cause),
        entry("POST", "Patient", patient(), who),
        entry("POST", "Location", least("Location", ""), place),
    )
    assert told(entries) == ["201 Created"] * 4
    made = ids(entries)
    kept = service.ask("GET", f"{base}/Encounter/{made[0]}").json()
    assert kept == entries[0]["resource"]
    assert kept["subject"]["reference"] == f"Patient/{made[2]}"
    assert kept["location"][0]["location"]["reference"] == f"Location/{made[3]}"
    assert kept["diagnosis"][0]["condition"]["reference"] == f"Condition/{made[1]}"
    assert entries[0]["response"]["etag"] == 'W/"1"'
    assert entries[0]["response"]["location"] == f"{service.url}{base}/Encounter/{made[0]}/_history/1"
    assert entries[0]["fullUrl"] == f"{service.url}{base}/Encounter/{made[0]}"
    assert service.ask("GET", f"{base}/Condition?patient={made[2]}").json()["total"] == 1


def test_every_method(service: Running, base: str) -> None:
    """N-151: DELETE, POST, PUT, PATCH and GET, carried out in this order whatever theirs is."""
    version = version_of(base)
    owner, other = service.create(base), service.create(base)
    gone = service.ask("POST", f"{base}/Condition", json=least("Condition", owner["id"], version)).json()["id"]
    new = f"new-{next(FRESH)}"
    patch = base64.b64encode(orjson.dumps([{"op": "add", "path": "/language", "value": "en"}])).decode()
    steps = [
        entry("GET", f"Condition?patient={owner['id']}"),
        entry("GET", f"Patient/{other['id']}", ifNoneMatch='W/"2"'),
        entry("PUT", f"Location/{new}", {**least("Location", ""), "id": new}),
        entry("PUT", f"Patient/{other['id']}", {**other, "birthDate": "1990"}, ifMatch='W/"1"'),
        entry("POST", "Condition", least("Condition", owner["id"], version)),
        entry("DELETE", f"Condition/{gone}"),
    ]
    if base == "/fhir/R4":
        binary = {"resourceType": "Binary", "contentType": "application/json-patch+json", "data": patch}
        steps.append(entry("PATCH", f"Patient/{owner['id']}", binary))
    entries = done(service, base, *steps)
    assert told(entries)[:6] == ["200 OK", "304 Not Modified", "201 Created", "200 OK", "201 Created", "204 No Content"]
    assert entries[0]["resource"]["total"] == 1
    assert entries[0]["resource"]["entry"][0]["resource"]["id"] == ids(entries[4:5])[0]
    assert service.ask("GET", f"{base}/Condition/{gone}").status_code == 410
    if base == "/fhir/R4":
        assert (told(entries)[6], entries[6]["resource"]["language"]) == ("200 OK", "en")


def test_all_or_nothing(service: Running, base: str) -> None:
    """N-152: one entry that is refused refuses all; its place is told, and nothing is written or deleted."""
    owner, tag = service.create(base)["id"], f"none-{next(FRESH)}"
    named = patient(meta={"tag": [{"system": "urn:b", "code": tag}]})
    wrong = {**least("Condition", owner, version_of(base)), "subject": {"reference": "Patient/nobody"}}
    bad: list[tuple[dict[str, Any], int, str, str]] = [
        (entry("POST", "Condition", wrong), 422, "not-found", ".resource.subject.reference"),
        (entry("POST", "Patient", patient(gender="f")), 422, "invalid", ".resource.gender"),
        (entry("POST", "Patient", patient(gender=None)), 400, "required", ".resource.gender"),
        (entry("PUT", f"Patient/{owner}", patient(id=owner), ifMatch='"9"'), *stale(base), ".request"),
        (entry("DELETE", "Nonsense/1"), 404, "not-supported", ".request"),
        (entry("GET", "Patient/nobody"), 404, "not-found", ".request"),
        (entry("POST", "Patient/$merge", {}), 400, "not-supported", ".request"),
        (entry("POST", f"Patient/{owner}", {}), 405, "not-supported", ".request"),
        (entry("POST", "Condition"), 400, "structure", ".resource"),
        (entry("PUT", "Patient", patient()), 400, "required", ".request"),
        (entry("DELETE", f"Patient/{owner}?foo=1"), 400, "not-supported", ".request"),
    ]
    for step, status, code, place in bad:
        told_of = issue(send(service, base, "transaction", entry("POST", "Patient", named), step), status, code)
        assert told_of["location"] == [f"Bundle.entry[1]{place}"], told_of
    assert service.ask("GET", f"{base}/Patient?_tag=urn:b%7C{tag}").json()["total"] == 0
    assert service.ask("GET", f"{base}/Patient/{owner}").headers["etag"] == 'W/"1"'


def stale(base: str) -> tuple[int, str]:
    """Return how a base answers a stale If-Match."""
    return (412, "conflict") if base == "/fhir/R4" else (409, "conflict")


@pytest.mark.parametrize(
    ("body", "code", "location"),
    [
        ([], "structure", "Bundle"),
        ({"resourceType": "Patient"}, "structure", "Bundle"),
        ({"resourceType": "Bundle", "type": "collection"}, "invalid", "Bundle.type"),
        ({"resourceType": "Bundle"}, "invalid", "Bundle.type"),
        ({"resourceType": "Bundle", "type": []}, "invalid", "Bundle.type"),
        ({"resourceType": "Bundle", "type": "batch", "entry": {}}, "structure", "Bundle.entry"),
        (bundle("batch", {}), "required", "Bundle.entry[0].request"),
        (bundle("batch", {"request": {"method": "GET"}}), "required", "Bundle.entry[0].request.url"),
        (bundle("transaction", {"request": {"url": "x"}}), "required", "Bundle.entry[0].request.method"),
        (bundle("batch", entry("GET", "x", ifMatch=1)), "structure", "Bundle.entry[0]"),  # type: ignore[arg-type]
        (bundle("batch", *[entry("GET", "Patient/x")] * 1001), "too-costly", "Bundle.entry"),
    ],
)
def test_bundles_that_are_none(service: Running, base: str, body: Any, code: str, location: str) -> None:
    """N-153: what is no Bundle of requests is 400, with its place."""
    assert issue(service.ask("POST", base, json=body), 400, code)["location"] == [location]


def test_who_sends_it(service: Running, base: str) -> None:
    """N-154: without a token 401; scopes and roles are each entry's own, and one that fails refuses a transaction."""
    owner = service.create(base)["id"]
    answer = service.http.post(service.url + base, json=bundle("batch"))
    issue(answer, 401, "login")
    drug = entry("POST", "MedicationRequest", least("MedicationRequest", owner, version_of(base)))
    seen = entry("GET", f"Patient/{owner}")
    for client in ("nurse", "administrative", "read"):
        issue(send(service, base, "transaction", seen, drug, client=client), 403, "forbidden")
        found = send(service, base, "batch", seen, drug, client=client).json()["entry"]
        assert told(found) == ["200 OK", "403 Forbidden"]
        assert found[1]["response"]["outcome"]["issue"][0]["code"] == "forbidden"
    issue(send(service, base, "transaction", entry("GET", f"Patient/{owner}"), client="other"), 404, "not-found")


def test_a_batch(service: Running, base: str) -> None:
    """N-155: each entry for itself: those that are refused say why, the others are done."""
    owner = service.create(base)["id"]
    answer = send(
        service,
        base,
        "batch",
        entry("GET", "Patient/nobody"),
        entry("POST", "Condition", least("Condition", owner, version_of(base))),
        entry("POST", "Condition", {"resourceType": "Condition"}),
        entry("GET", f"Condition?patient={owner}"),
        entry("DELETE", "Condition/never"),
    )
    assert (answer.status_code, answer.json()["type"]) == (200, "batch-response")
    found = answer.json()["entry"]
    assert told(found) == ["404 Not Found", "201 Created", "400 Bad Request", "200 OK", "204 No Content"]
    assert found[0]["response"]["outcome"]["issue"][0]["code"] == "not-found"
    assert found[3]["resource"]["total"] == 1
    assert send(service, base, "batch").json().get("entry") is None


@pytest.mark.parametrize("kind", ["batch", "transaction"])
def test_what_is_returned_has_its_address(service: Running, base: str, kind: str) -> None:
    """N-155: each resource in the answer has its fullUrl, read or written; a Bundle that was searched for has none."""
    owner, family = service.create(base)["id"], f"Bundled{next(FRESH):05}x"
    named = patient(name=[{"family": family, "given": ["A"]}])
    steps = [
        entry("GET", f"Patient/{owner}"),
        entry("GET", f"{service.url}{base}/Patient/{owner}/_history/1"),
        entry("GET", f"Patient?family={family}"),
        entry("GET", f"Patient/{owner}/_history"),
        entry("GET", f"Patient/{owner}/Condition"),
        entry("GET", f"Patient/{owner}", ifNoneMatch='W/"1"'),
        entry("POST", "Patient", named),
    ]
    found = send(service, base, kind, *steps).json()["entry"]
    address = f"{service.url}{base}/Patient"
    assert told(found)[5] == "304 Not Modified"
    assert [one.get("fullUrl") for one in found[:6]] == [f"{address}/{owner}"] * 2 + [None] * 4
    assert found[6]["fullUrl"] == f"{address}/{found[6]['resource']['id']}"


def test_conditions(service: Running, base: str) -> None:
    """N-156: ifNoneExist, conditional updates and deletes; what they match is what other entries refer to."""
    version, family = version_of(base), f"Bundled{next(FRESH):05}x"
    number = f"bundled-{next(FRESH)}"
    body = patient(name=[{"family": family, "given": ["A"]}], identifier=[record_number(number)])
    criteria = f"family={family}&given=A"

    def visit(who: str) -> dict[str, Any]:
        return {**least("Condition", "x", version), "subject": {"reference": who}}

    made = []
    for status in ("201 Created", "200 OK"):
        who = urn()
        entries = done(
            service,
            base,
            entry("POST", "Condition", visit(who)),
            entry("POST", "Patient", body, who, ifNoneExist=criteria),
        )
        assert told(entries) == ["201 Created", status]
        made.append(ids(entries)[1])
        assert entries[0]["resource"]["subject"]["reference"] == f"Patient/{made[-1]}"
    assert made[0] == made[1]
    who, query = urn(), f"identifier={MRN}%7C{number}"
    entries = done(
        service,
        base,
        entry("POST", "Condition", visit(who)),
        entry("PUT", f"Patient?{query}", {**body, "birthDate": "1990"}, who),
        entry("POST", "Condition", visit(f"Patient?{query}")),
    )
    assert told(entries) == ["201 Created", "200 OK", "201 Created"]
    assert {one["resource"].get("subject", {}).get("reference") for one in (entries[0], entries[2])} == {
        f"Patient/{made[0]}"
    }
    entries = done(service, base, entry("DELETE", f"Patient?{query}&_cascade=delete"), entry("POST", "Patient", body))
    assert told(entries) == ["204 No Content", "201 Created"]


def test_conditional_references(service: Running, base: str) -> None:
    """N-157: none and several are refused with their place, and so is a type that the token may not search."""
    family = f"Twice{next(FRESH):05}x"
    for _ in range(2):
        service.create(base, name=[{"family": family, "given": ["A"]}])

    def about(who: str) -> dict[str, Any]:
        body = {**least("Condition", "x", version_of(base)), "subject": {"reference": who}}
        return entry("POST", "Condition", body)

    for who, status, code in (
        ("Patient?identifier=urn:none%7C1", 422, "not-found"),
        (f"Patient?family={family}", 422, "multiple-matches" if base == "/fhir/R4" else "duplicate"),
        ("Patient?foo=1", 400, "not-supported"),
        ("Patient?", 400, "invalid"),
        (urn(), 422, "not-found"),
    ):
        assert "Bundle.entry[0]" in issue(send(service, base, "transaction", about(who)), status, code)["location"][0]
    one = about(f"Patient?family={family}")
    issue(send(service, base, "transaction", one, scope="user/Condition.write"), 403, "forbidden")


def test_entries_that_collide(service: Running, base: str) -> None:
    """N-158: two entries for one resource, one fullUrl, or one condition are refused: their order would decide."""
    made = service.create(base)
    path, name = f"Patient/{made['id']}", urn()
    family = f"Collides{next(FRESH):05}x"
    body = patient(name=[{"family": family, "given": ["A"]}])
    for steps, status in (
        ([entry("PUT", path, made), entry("DELETE", path)], 400),
        ([entry("PUT", path, made), entry("PUT", path, made)], 400),
        ([entry("POST", "Patient", body, name), entry("POST", "Patient", body, name)], 400),
        (
            [entry("POST", "Patient", body, urn(), ifNoneExist=f"family={family}&given=A")] * 1
            + [entry("POST", "Patient", body, urn(), ifNoneExist=f"family={family}")],
            412,
        ),
    ):
        assert send(service, base, "transaction", *steps).status_code == status
    assert service.ask("GET", f"{base}/Patient?family={family}").json()["total"] == 0
    assert service.ask("GET", f"{base}/{path}").headers["etag"] == 'W/"1"'


@pytest.mark.parametrize("beside", [True, False], ids=["which an entry writes", "alone"])
def test_references_to_who_was_merged_away(service: Running, base: str, beside: bool) -> None:
    """Nothing is written that names a merged-away patient, although an entry of the same transaction writes it."""
    gone, stays = service.create(base)["id"], service.create(base)["id"]
    merge = service.ask("POST", f"{base}/Patient/$merge", json=merge_body(gone, stays))
    assert merge.status_code == 200
    seen = {**least("Observation", version_of(base)), "subject": {"reference": f"Patient/{gone}"}}
    writes = [entry("PUT", f"Patient/{gone}", patient(id=gone))] if beside else []
    answer = send(service, base, "transaction", *writes, entry("POST", "Observation", seen))
    assert answer.status_code == 422, answer.text
    assert "was merged into" in answer.json()["issue"][0]["diagnostics"]
    for one in (gone, stays):
        assert service.ask("GET", f"{base}/Observation?patient={one}&_summary=count").json()["total"] == 0


def test_searches_beside_writes(service: Running, base: str) -> None:
    """N-151: searches and histories see what was committed; one that is refused says so, and the writes stand."""
    tag = f"beside-{next(FRESH)}"
    marked = {**least("Location", ""), "meta": {"tag": [{"system": "urn:b", "code": tag}]}}
    entries = done(
        service,
        base,
        entry("GET", f"Location?_tag=urn:b%7C{tag}"),
        entry("GET", "Location?foo=1"),
        entry("GET", "Location/_history?_count=1"),
        entry("POST", "Location", marked),
    )
    assert told(entries) == ["200 OK", "400 Bad Request", "200 OK", "201 Created"]
    assert entries[0]["resource"]["total"] == 1
    assert entries[1]["response"]["outcome"]["issue"][0]["code"] == "not-supported"


def test_a_patient_and_the_chart_deleted_together(service: Running, base: str) -> None:
    """N-159: a delete waits for the deletes of what refers to it; others that refer to it refuse all."""
    version = version_of(base)
    owner = service.create(base)["id"]
    chart = [
        service.ask("POST", f"{base}/Condition", json=least("Condition", owner, version)).json()["id"] for _ in "ab"
    ]
    some = [entry("DELETE", f"Patient/{owner}"), entry("DELETE", f"Condition/{chart[0]}")]
    issue(send(service, base, "transaction", *some), 409, "conflict")
    assert service.ask("GET", f"{base}/Condition/{chart[0]}").status_code == 200
    assert told(done(service, base, *some, entry("DELETE", f"Condition/{chart[1]}"))) == ["204 No Content"] * 3


def test_links_within_a_transaction(service: Running, base: str) -> None:
    """N-160: a result and the order of another patient are not linked, in whatever order and way they come."""
    version = version_of(base)
    mine, theirs = service.create(base)["id"], service.create(base)["id"]
    name, link, new = name_in(version, "ServiceRequest"), urn(), f"order-{next(FRESH)}"

    def report(order: str) -> dict[str, Any]:
        body = least("DiagnosticReport", mine, version)
        return entry("POST", "DiagnosticReport", {**body, "basedOn": [{"reference": order}]})

    for owner, status in ((theirs, 422), (mine, 200)):
        order = least("ServiceRequest", owner, version)
        put = entry("PUT", f"{name}/{new}-{owner}", {**order, "id": f"{new}-{owner}"})
        for steps in (
            [report(link), entry("POST", name, order, link)],
            [report(f"{name}/{new}-{owner}"), put],
        ):
            assert send(service, base, "transaction", *steps).status_code == status


def test_preferences(service: Running, base: str) -> None:
    """N-161: `Prefer: return` holds for each entry."""
    minimal = done(
        service, base, entry("POST", "Patient", patient()), headers={"prefer": "return=minimal,create-always"}
    )
    assert "resource" not in minimal[0]
    preferred = {"prefer": "return=OperationOutcome,create-always"}
    outcome = done(service, base, entry("POST", "Patient", patient()), headers=preferred)
    assert outcome[0]["response"]["outcome"]["issue"][0]["severity"] == "information"


def test_no_patch_in_stu3(service: Running) -> None:
    """N-162: STU3 has no PATCH in Bundles; in R4 it is a Binary of a JSON Patch and nothing else."""
    made = service.create()["id"]
    binary = {"resourceType": "Binary", "contentType": "application/json-patch+json", "data": "W10="}
    for kind in ("batch", "transaction"):
        answer = send(service, "/fhir", kind, entry("PATCH", f"Patient/{made}", binary))
        assert issue(answer, 400, "not-supported")["location"] == ["Bundle.entry[0].request.method"]
    for wrong in ({**binary, "contentType": "text/plain"}, {**binary, "data": "?"}, {**binary, "data": "e30"}, None):
        answer = send(service, "/fhir/R4", "transaction", entry("PATCH", f"Patient/{made}", wrong))
        issue(answer, 400, "structure")
    assert told(done(service, "/fhir/R4", entry("PATCH", f"Patient/{made}", binary))) == ["200 OK"]


def test_transactions_at_once(service: Running, base: str) -> None:
    """N-163: of 8 transactions on one number one is taken; of 8 on one If-Match too; the others change nothing."""
    for _ in range(5):
        number = record_number(f"at-once-{next(FRESH)}")
        tag = f"at-once-{next(FRESH)}"
        marked = {**least("Location", ""), "meta": {"tag": [{"system": "urn:b", "code": tag}]}}
        body = patient(identifier=[number])
        calls = [
            (
                "POST",
                base,
                bundle("transaction", entry("POST", "Location", marked), entry("POST", "Patient", body)),
                ALWAYS,
            )
        ] * 8
        answers = at_once(service, calls)
        assert statuses(answers) == [200] + [409] * 7
        assert service.ask("GET", f"{base}/Location?_tag=urn:b%7C{tag}").json()["total"] == 1
        made = next(answer for answer in answers if answer.status_code == 200).json()["entry"][1]["resource"]
        put = entry("PUT", f"Patient/{made['id']}", made, ifMatch='W/"1"')
        calls = [("POST", base, bundle("transaction", entry("POST", "Location", marked), put), ALWAYS)] * 8
        assert statuses(at_once(service, calls)) == [200] + [stale(base)[0]] * 7
        assert service.ask("GET", f"{base}/Location?_tag=urn:b%7C{tag}").json()["total"] == 2


def test_a_thousand_entries(service: Running, base: str) -> None:
    """N-164: as many as there may be, in one commit, all of them referring to the first."""
    who, version = urn(), version_of(base)
    condition = {**least("Condition", "x", version), "subject": {"reference": who}}
    steps = [entry("POST", "Patient", patient(), who), *(entry("POST", "Condition", condition) for _ in range(999))]
    entries = done(service, base, *steps, headers={"prefer": "return=minimal,create-always"})
    assert set(told(entries)) == {"201 Created"}
    assert service.ask("GET", f"{base}/Condition?patient={ids(entries)[0]}&_count=0").json()["total"] == 999
    assert verify(service.database, INDEXERS).faults == {}


def test_it_is_told_of(service: Running, base: str) -> None:
    """N-150: the CapabilityStatement names batch and transaction."""
    rest = service.ask("GET", f"{base}/metadata").json()["rest"][0]
    assert [one["code"] for one in rest["interaction"]] == ["transaction", "batch"]

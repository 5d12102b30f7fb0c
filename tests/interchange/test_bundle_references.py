"""References between the entries of a transaction, wherever they stand, and what only looks like one."""

import base64
from itertools import count
from typing import Any

import orjson
import pytest

from tests.interchange.kit import MRN, Running, issue, merge_body, patient, record_number
from tests.interchange.least import least, version_of
from tests.interchange.parallel import at_once, statuses
from tests.interchange.test_bundles import ALWAYS, bundle, done, entry, ids, send, told, urn

FRESH = count(1)
DIV = '<div xmlns="http://www.w3.org/1999/xhtml"><a href="{who}">who</a></div>'


def about(base: str, who: str, **more: Any) -> dict[str, Any]:
    """Return a condition of somebody."""
    return {**least("Condition", "x", version_of(base)), "subject": {"reference": who}, **more}


def test_references_wherever_they_stand(service: Running, base: str) -> None:
    """N-157: in lists, extensions, extensions of primitives and contained resources an entry's address is its id."""
    who, doctor = urn(), urn()
    reference = {"reference": doctor, "display": "Dr. Osei"}
    body = about(
        base,
        who,
        id="x",
        extension=[
            {"url": "urn:model:by", "valueReference": reference},
            {"url": "urn:model:in", "extension": [{"url": "who", "valueReference": {"reference": who}}]},
        ],
        contained=[least("Observation", "x", version_of(base), id="o", subject={"reference": who})],
        evidence=[{"detail": [{"reference": "#o"}]}],
        recordedDate="2026-01-01",
        _recordedDate={"extension": [{"url": "urn:model:by", "valueReference": reference}]},
    )
    if base == "/fhir":
        body["assertedDate"], body["_assertedDate"] = body.pop("recordedDate"), body.pop("_recordedDate")
    entries = done(
        service,
        base,
        entry("POST", "Condition", body),
        entry("POST", "Patient", patient(), who),
        entry("POST", "Practitioner", least("Practitioner", ""), doctor),
    )
    made = ids(entries)
    kept = service.ask("GET", f"{base}/Condition/{made[0]}").json()
    by = {"reference": f"Practitioner/{made[2]}", "display": "Dr. Osei"}
    assert kept["subject"] == {"reference": f"Patient/{made[1]}"}
    assert kept["extension"][0]["valueReference"] == by
    assert kept["extension"][1]["extension"][0]["valueReference"] == {"reference": f"Patient/{made[1]}"}
    assert kept["contained"][0]["subject"] == {"reference": f"Patient/{made[1]}"}
    assert kept["evidence"] == [{"detail": [{"reference": "#o"}]}]
    primitive = kept["_recordedDate" if base == "/fhir/R4" else "_assertedDate"]
    assert primitive["extension"][0]["valueReference"] == by
    assert "urn:uuid" not in str(kept)
    # They are followed: who is referred to by an extension alone is not deleted either.
    issue(service.ask("DELETE", f"{base}/Practitioner/{made[2]}"), 409, "conflict")


def test_what_is_no_reference_stays(service: Running, base: str) -> None:
    """N-157: identifiers of references, URIs, texts and the narrative are the client's, and stay as they are."""
    who = urn()
    identifier = {"system": "urn:ietf:rfc:3986", "value": who}
    body = about(
        base,
        who,
        text={"status": "generated", "div": DIV.format(who=who)},
        identifier=[identifier],
        note=[{"text": who}],
        extension=[
            {"url": "urn:model:uri", "valueUri": who},
            {"url": "urn:model:text", "valueString": "Patient?identifier=1"},
            {"url": "urn:model:named", "valueReference": {"identifier": identifier, "display": who}},
        ],
    )
    body["subject"]["identifier"] = identifier
    entries = done(service, base, entry("POST", "Condition", body), entry("POST", "Patient", patient(), who))
    kept = service.ask("GET", f"{base}/Condition/{ids(entries)[0]}").json()
    assert {name: kept[name] for name in ("text", "identifier", "note", "extension")} == {
        name: body[name] for name in ("text", "identifier", "note", "extension")
    }
    assert kept["subject"] == {"reference": f"Patient/{ids(entries)[1]}", "identifier": identifier}


def test_conditional_references_wherever_they_stand(service: Running, base: str) -> None:
    """N-157: they are searches in extensions and contained resources, too, and with the address of the base."""
    number = f"referred-{next(FRESH)}"
    made = service.create(base, identifier=[record_number(number)])["id"]
    criteria = f"Patient?identifier={MRN}%7C{number}"
    body = about(
        base,
        criteria,
        extension=[{"url": "urn:model:by", "valueReference": {"reference": f"{service.url}{base}/{criteria}"}}],
        contained=[least("Observation", "x", version_of(base), id="o", subject={"reference": criteria})],
        evidence=[{"detail": [{"reference": "#o"}]}],
    )
    kept = done(service, base, entry("POST", "Condition", body))[0]["resource"]
    found = {"reference": f"Patient/{made}"}
    assert [kept["subject"], kept["extension"][0]["valueReference"], kept["contained"][0]["subject"]] == [found] * 3
    body["contained"][0]["subject"] = {"reference": f"{criteria}-none"}
    issue(send(service, base, "transaction", entry("POST", "Condition", body)), 422, "not-found")


def test_what_another_entry_makes_is_no_match(service: Running, base: str) -> None:
    """N-157: a conditional reference finds what was deleted in the transaction no more, and what it makes."""
    number = f"made-{next(FRESH)}"
    criteria = f"Patient?identifier={MRN}%7C{number}"
    new = patient(identifier=[record_number(number)])
    entries = done(service, base, entry("POST", "Condition", about(base, criteria)), entry("POST", "Patient", new))
    made = ids(entries)
    assert entries[0]["resource"]["subject"] == {"reference": f"Patient/{made[1]}"}
    gone = [entry("DELETE", f"Condition/{made[0]}"), entry("DELETE", f"Patient/{made[1]}")]
    answer = send(service, base, "transaction", *gone, entry("POST", "Condition", about(base, criteria)))
    issue(answer, 422, "not-found")
    assert service.ask("GET", f"{base}/Patient/{made[1]}").status_code == 200


def test_a_merge_among_transactions(service: Running, base: str) -> None:
    """N-169: what a transaction adds to a chart goes along with a merge, or all of it is refused."""
    for _ in range(5):
        source, target = service.create(base)["id"], service.create(base)["id"]
        steps = [entry("POST", "Condition", about(base, f"Patient/{source}")) for _ in range(3)]
        calls: list[Any] = [("POST", base, bundle("transaction", *steps), ALWAYS)] * 6
        calls.insert(3, ("POST", f"{base}/Patient/$merge", merge_body(source, target), {}))
        answers = at_once(service, calls)
        assert answers.pop(3).status_code == 200
        assert set(statuses(answers)) <= {200, 422}
        taken = statuses(answers).count(200)
        for who in (source, target):
            assert service.ask("GET", f"{base}/Condition?patient={who}&_count=0").json()["total"] == 3 * taken


def test_a_delete_among_transactions(service: Running, base: str) -> None:
    """N-169: a transaction that refers to somebody and the delete of that one never both stand."""
    for _ in range(5):
        owner = service.create(base)["id"]
        steps = [entry("POST", "Condition", about(base, f"Patient/{owner}")) for _ in range(2)]
        calls: list[Any] = [("POST", base, bundle("transaction", *steps), ALWAYS)] * 3
        answers = at_once(service, [*calls, ("DELETE", f"{base}/Patient/{owner}", None, {})])
        deleted = answers.pop().status_code
        assert (deleted, statuses(answers)) == (204, [422] * 3) or (deleted == 409 and set(statuses(answers)) == {200})


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_conditions_among_transactions(service: Running, base: str, method: str) -> None:
    """N-169: of 12 at once that ask for one patient one makes it, and all refer to that one."""
    for _ in range(5):
        number, who = f"once-{next(FRESH)}", urn()
        body = patient(name=[{"family": f"Once{next(FRESH):05}x", "given": ["A"]}], identifier=[record_number(number)])
        if method == "POST":
            step = entry("POST", "Patient", body, who, ifNoneExist=f"family={body['name'][0]['family']}")
        else:
            step = entry("PUT", f"Patient?identifier={MRN}%7C{number}", body, who)
        steps = [entry("POST", "Condition", about(base, who)), step]
        answers = at_once(service, [("POST", base, bundle("transaction", *steps), ALWAYS)] * 12)
        assert statuses(answers) == [200] * 12
        entries = [answer.json()["entry"] for answer in answers]
        assert sorted(told(one)[1] for one in entries) == ["200 OK"] * 11 + ["201 Created"]
        (made,) = {ids(one)[1] for one in entries}
        assert service.ask("GET", f"{base}/Condition?patient={made}&_count=0").json()["total"] == 12


def test_patches_among_transactions(service: Running) -> None:
    """N-169: patches of one patient in transactions at once all stand, without a version to match."""
    made = service.create(telecom=[{"system": "phone", "value": "0"}])["id"]
    calls: list[Any] = []
    for number in range(1, 13):
        patch = [{"op": "add", "path": "/telecom/-", "value": {"system": "phone", "value": str(number)}}]
        data = base64.b64encode(orjson.dumps(patch)).decode()
        binary = {"resourceType": "Binary", "contentType": "application/json-patch+json", "data": data}
        calls.append(("POST", "/fhir/R4", bundle("transaction", entry("PATCH", f"Patient/{made}", binary)), ALWAYS))
    assert statuses(at_once(service, calls)) == [200] * 12
    kept = service.ask("GET", f"/fhir/R4/Patient/{made}").json()
    assert {one["value"] for one in kept["telecom"]} == {str(number) for number in range(13)}
    assert kept["meta"]["versionId"] == "13"

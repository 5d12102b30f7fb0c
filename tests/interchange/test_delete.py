"""Delete: what is gone is gone from every answer but its history, and nothing that stays refers to nothing."""

from typing import Any

import pytest

from engine.fhir.versions.names import name_in
from engine.interchange.rest.resource.catalogue import INDEXERS, KEPT
from engine.interchange.store.verify import verify
from tests.interchange.kit import MRN, SYSTEM, Running, issue, merge_body, patient, record_number
from tests.interchange.least import least, version_of
from tests.interchange.parallel import at_once, statuses

ALWAYS = {"prefer": "create-always"}
IN_CHART = sorted(name for name, one in KEPT.items() if one.patient)


def charted(service: Running, base: str, owner: str, type_name: str, **more: Any) -> str:
    """Create a resource of a patient and return its address below the base."""
    body = least(type_name, owner, version_of(base), **more)
    answer = service.ask("POST", f"{base}/{body['resourceType']}", json=body)
    assert answer.status_code == 201, answer.text
    return f"{body['resourceType']}/{answer.json()['id']}"


def gone(service: Running, base: str, path: str) -> None:
    """Hold that a resource is deleted."""
    issue(service.ask("GET", f"{base}/{path}"), 410, "deleted" if base == "/fhir/R4" else "not-found")


@pytest.mark.parametrize("type_name", KEPT)
def test_delete_of_every_type(service: Running, base: str, type_name: str) -> None:
    """N-120, N-121: 204, 410, vread and history; a second time 204; a PUT brings it back as the next version."""
    name, owner = name_in(version_of(base), type_name), service.create(base)["id"]
    body = patient() if type_name == "Patient" else least(type_name, owner, version_of(base))
    told = {"prefer": "create-always"}
    made = service.ask("POST", f"{base}/{name}", json=body, headers=told).json()
    path = f"{name}/{made['id']}"
    for _ in range(2):
        answer = service.ask("DELETE", f"{base}/{path}")
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (204, b"", 'W/"2"')
    gone(service, base, path)
    gone(service, base, f"{path}/_history/2")
    assert service.ask("GET", f"{base}/{path}/_history/1").json() == made
    entry = service.ask("GET", f"{base}/{path}/_history").json()["entry"]
    assert [one["request"]["method"] for one in entry] == ["DELETE", "POST"]
    assert ("resource" in entry[0], entry[0]["response"]["status"]) == (False, "204")
    back = service.ask("PUT", f"{base}/{path}", json=made, headers=told)
    assert (back.status_code, back.headers["etag"]) == (201, 'W/"3"'), back.text
    assert back.headers["location"] == f"{service.url}{base}/{path}/_history/3"
    assert service.ask("GET", f"{base}/{path}").json() == back.json()
    entry = service.ask("GET", f"{base}/{path}/_history").json()["entry"]
    assert [(one["request"]["method"], one["response"]["status"]) for one in entry] == [
        ("PUT", "201"),
        ("DELETE", "204"),
        ("POST", "201"),
    ]
    found = service.ask("GET", f"{base}/{name}?_id={made['id']}" + f"&patient={owner}" * bool(KEPT[type_name].patient))
    assert found.json()["total"] == 1


def test_nothing_to_delete(service: Running, base: str) -> None:
    """N-120: what never was is not there afterwards either: 204, without a version; parameters are refused."""
    answer = service.ask("DELETE", f"{base}/Patient/nobody")
    assert (answer.status_code, "etag" in answer.headers) == (204, False)
    issue(service.ask("GET", f"{base}/Patient/nobody"), 404, "not-found")
    made = service.create(base)["id"]
    issue(service.ask("DELETE", f"{base}/Patient/{made}?foo=1"), 400, "not-supported")
    issue(service.ask("DELETE", f"{base}/Patient/{made}?_cascade=none"), 400, "invalid")
    issue(service.ask("DELETE", f"{base}/Observation/x?_cascade=delete"), 400, "invalid")
    assert service.ask("GET", f"{base}/Patient/{made}").status_code == 200


def test_it_is_found_nowhere(service: Running, base: str) -> None:
    """N-124: no search, no $everything, no conditional create, no merge finds it, and its number is free (C-518)."""
    number = record_number(f"gone-{base.count('/')}")
    name = [{"family": f"Gone{base.count('/')}", "given": ["A"]}]
    made = service.create(base, identifier=[number], name=name)["id"]
    other = service.create(base)["id"]
    assert service.ask("DELETE", f"{base}/Patient/{made}").status_code == 204
    for query in (f"_id={made}", f"identifier={MRN}|{number['value']}", f"family={name[0]['family']}"):
        assert service.ask("GET", f"{base}/Patient?{query}").json()["total"] == 0
    issue(
        service.ask("GET", f"{base}/Patient/{made}/$everything"), 410, "deleted" if base == "/fhir/R4" else "not-found"
    )
    for pair in ((made, other), (other, made)):
        answer = service.ask("POST", f"{base}/Patient/$merge", json=merge_body(*pair))
        assert "deleted" in issue(answer, 422, "business-rule")["diagnostics"]
    condition = {"if-none-exist": f"family={name[0]['family']}"}
    again = service.ask("POST", f"{base}/Patient", json=patient(identifier=[number], name=name), headers=condition)
    assert again.status_code == 201, again.text
    answer = service.ask("POST", f"{base}/Condition", json=least("Condition", made, version_of(base)))
    issue(answer, 422, "not-found")
    back = service.ask("PUT", f"{base}/Patient/{made}", json=patient(id=made, identifier=[number]))
    issue(back, 409, "duplicate")
    assert service.ask("GET", f"{base}/Condition?patient={made}").json()["total"] == 0


def test_what_others_refer_to(service: Running, base: str) -> None:
    """N-122: 409 tells how many resources of which types refer to it, and nothing is changed."""
    owner = service.create(base)["id"]
    visit = charted(service, base, owner, "Encounter")
    for _ in range(2):
        charted(service, base, owner, "Condition")
    told = issue(service.ask("DELETE", f"{base}/Patient/{owner}"), 409, "conflict")["diagnostics"]
    assert told == "Other resources refer to it: 2 Condition, 1 Encounter."
    seen = charted(
        service, base, owner, "Observation", **{"encounter" if base == "/fhir/R4" else "context": {"reference": visit}}
    )
    issue(service.ask("DELETE", f"{base}/{visit}"), 409, "conflict")
    for path in (seen, visit):
        assert service.ask("DELETE", f"{base}/{path}").status_code == 204
    assert service.ask("GET", f"{base}/Patient/{owner}").headers["etag"] == 'W/"1"'


def test_a_cascade(service: Running, base: str) -> None:
    """N-123: the patient and all that is the patient's; Provenance and other patients stay, and can be changed."""
    owner, friend = service.create(base)["id"], service.create(base)["id"]
    link = [{"other": {"reference": f"Patient/{owner}"}, "type": "seealso"}]
    friend_body = {**service.ask("GET", f"{base}/Patient/{friend}").json(), "link": link}
    assert service.ask("PUT", f"{base}/Patient/{friend}", json=friend_body).status_code == 200
    chart = [charted(service, base, owner, name) for name in IN_CHART]
    proof = charted(service, base, owner, "Provenance")
    foreign = charted(service, base, friend, "Condition")
    issue(service.ask("DELETE", f"{base}/Patient/{owner}"), 409, "conflict")
    answer = service.ask("DELETE", f"{base}/Patient/{owner}?_cascade=delete")
    assert (answer.status_code, answer.headers["etag"]) == (204, 'W/"2"')
    for path in (f"Patient/{owner}", *chart):
        gone(service, base, path)
    for path in (f"Patient/{friend}", proof, foreign):
        kept = service.ask("GET", f"{base}/{path}")
        assert kept.status_code == 200
        again = service.ask("PUT", f"{base}/{path}", json=kept.json())
        assert again.status_code == 200, again.text
    new = service.ask("PUT", f"{base}/Patient/new-link", json=patient(id="new-link", link=link), headers=ALWAYS)
    issue(new, 422, "not-found")


def test_a_cascade_is_stated(service: Running, base: str) -> None:
    """The CapabilityStatement says of Patient alone that it goes with the chart, by an extension of ours."""
    resources = service.ask("GET", f"{base}/metadata").json()["rest"][0]["resource"]
    said = {resource["type"]: resource["extension"] for resource in resources if "extension" in resource}
    url = f"{SYSTEM}/fhir/StructureDefinition/cascade-delete"
    assert said == {"Patient": [{"url": url, "valueBoolean": True}]}


def test_a_cascade_stops_at_what_is_not_the_patients(service: Running, base: str) -> None:
    """N-123: what another patient's resource refers to stays, and so does all the rest: one commit."""
    owner, friend = service.create(base)["id"], service.create(base)["id"]
    visit = charted(service, base, owner, "Encounter")
    charted(
        service, base, friend, "Observation", **{"encounter" if base == "/fhir/R4" else "context": {"reference": visit}}
    )
    told = issue(service.ask("DELETE", f"{base}/Patient/{owner}?_cascade=delete"), 409, "conflict")
    assert told["diagnostics"] == "Other resources refer to it: 1 Observation."
    for path in (f"Patient/{owner}", visit):
        assert service.ask("GET", f"{base}/{path}").headers["etag"] == 'W/"1"'


def test_a_cascade_needs_a_right_to_each_type(service: Running, base: str) -> None:
    """N-123: a token that may delete the patient and not all that is the patient's deletes nothing."""
    owner = service.create(base)["id"]
    charted(service, base, owner, "Condition")
    charted(service, base, owner, "Observation")
    path = f"{base}/Patient/{owner}?_cascade=delete"
    told = issue(service.ask("DELETE", path, scope="user/Patient.write user/Condition.write"), 403, "forbidden")
    assert "Observation" in told["diagnostics"]
    scope = "user/Patient.d user/Condition.write user/Observation.cud"
    assert service.ask("DELETE", path, scope=scope).status_code == 204


def test_a_merged_record(service: Running, base: str) -> None:
    """N-122, N-124: a merged-away record goes after its survivor; then both numbers are free, and stay so."""
    numbers = [record_number(f"merged-{base.count('/')}-{one}") for one in range(2)]
    source, target = (service.create(base, identifier=[number])["id"] for number in numbers)
    assert service.ask("POST", f"{base}/Patient/$merge", json=merge_body(source, target)).status_code == 200
    told = issue(service.ask("DELETE", f"{base}/Patient/{source}?_cascade=delete"), 422, "business-rule")
    assert target in told["diagnostics"]
    kept = service.ask("GET", f"{base}/Patient/{target}").json()
    issue(service.ask("DELETE", f"{base}/Patient/{target}", headers={"if-match": 'W/"1"'}), *stale(base))
    assert service.ask("DELETE", f"{base}/Patient/{target}").status_code == 204
    assert service.ask("GET", f"{base}/Patient/{source}").json()["active"] is False
    assert service.create(base, identifier=[numbers[0]])["id"]
    assert service.ask("PUT", f"{base}/Patient/{target}", json=kept, headers=ALWAYS).status_code == 201
    assert service.ask("DELETE", f"{base}/Patient/{target}").status_code == 204
    assert service.ask("DELETE", f"{base}/Patient/{source}").status_code == 204
    gone(service, base, f"Patient/{source}")
    assert verify(service.database, INDEXERS).faults == {}


def stale(base: str) -> tuple[int, str]:
    """Return how a base answers a stale If-Match."""
    return (412, "conflict") if base == "/fhir/R4" else (409, "conflict")


def test_if_match(service: Running, base: str) -> None:
    """N-126: a delete may ask for a version; what is gone is none."""
    made = service.create(base)["id"]
    path = f"{base}/Patient/{made}"
    for tag in ('W/"2"', '"7", W/"9"'):
        issue(service.ask("DELETE", path, headers={"if-match": tag}), *stale(base))
    assert service.ask("DELETE", path, headers={"if-match": 'W/"1"'}).status_code == 204
    for tag in ('W/"2"', "*"):
        issue(service.ask("DELETE", path, headers={"if-match": tag}), *stale(base))
        issue(service.ask("PUT", path, json=patient(id=made), headers={"if-match": tag}), *stale(base))
    assert service.ask("PUT", path, json=patient(id=made), headers={**ALWAYS, "if-none-match": "*"}).status_code == 201


@pytest.mark.parametrize(
    ("client", "status"), [("physician", 204), ("system", 204), ("nurse", 403), ("administrative", 403)]
)
def test_roles(service: Running, base: str, client: str, status: int) -> None:
    """N-125: a nurse and an administrative user delete nothing; a nurse brings back no medication request."""
    owner = service.create(base)["id"]
    drug = charted(service, base, owner, "MedicationRequest")
    for path in (drug, f"Patient/{owner}"):
        assert service.ask("DELETE", f"{base}/{path}", client=client).status_code == status
    if status == 204:
        service.create(base)
        body = {**service.ask("GET", f"{base}/{drug}/_history/1").json()}
        issue(service.ask("PUT", f"{base}/{drug}", json=body, client="nurse"), 403, "forbidden")
        gone(service, base, drug)


def test_deletes_and_updates_at_once(service: Running, base: str) -> None:
    """N-126: of 16 deletes with one If-Match one is told 204; with updates among them no version is made twice."""
    for _ in range(5):
        made = service.create(base)
        path = f"{base}/Patient/{made['id']}"
        told = {"if-match": 'W/"1"'}
        answers = at_once(service, [("DELETE", path, None, told)] * 8 + [("PUT", path, made, told)] * 8)
        assert sum(answer.status_code < 300 for answer in answers) == 1, statuses(answers)
        total = service.ask("GET", f"{path}/_history").json()["total"]
        answers = at_once(service, [("DELETE", path, None, {})] * 4 + [("PUT", path, made, ALWAYS)] * 4)
        assert {answer.status_code for answer in answers} <= {200, 201, 204}
        entry = service.ask("GET", f"{path}/_history").json()["entry"]
        told_of = [one["response"]["etag"] for one in entry]
        assert told_of == [f'W/"{number}"' for number in range(len(entry), 0, -1)]
        assert len(entry) > total


def test_a_reference_and_a_delete_at_once(service: Running, base: str) -> None:
    """N-122: a resource and the delete of what it refers to never both stand."""
    for _ in range(10):
        owner = service.create(base)["id"]
        body = least("Condition", owner, version_of(base))
        made, deleted = at_once(
            service, [("POST", f"{base}/Condition", body, {}), ("DELETE", f"{base}/Patient/{owner}", None, {})]
        )
        assert (made.status_code, deleted.status_code) in {(201, 409), (422, 204)}


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ({"if-modified-since": "Fri, 01 Jan 2100 00:00:00 GMT"}, 304),
        ({"if-modified-since": "Fri, 01 Jan 2010 00:00:00 GMT"}, 200),
        ({"if-modified-since": "yesterday"}, 200),
        ({"if-modified-since": "Fri, 01 Jan 2100 00:00:00 GMT", "if-none-match": '"9"'}, 200),
        ({"if-modified-since": "Fri, 01 Jan 2010 00:00:00 GMT", "if-none-match": '"1"'}, 304),
    ],
)
def test_if_modified_since(service: Running, base: str, header: dict[str, str], status: int) -> None:
    """N-110: by moment only where no version is named; its own Last-Modified is known."""
    made = service.create(base)["id"]
    for path in (f"{base}/Patient/{made}", f"{base}/Patient/{made}/_history/1"):
        answer = service.ask("GET", path, headers=header)
        assert (answer.status_code, bool(answer.content)) == (status, status == 200)
        known = {"if-modified-since": answer.headers["last-modified"]}
        assert service.ask("GET", path, headers=known).status_code == 304


def test_a_roster_holds_no_patient_back(service: Running, base: str) -> None:
    """A patient who stands on a Group goes with all that is the patient's; the roster stays, as it is of others too."""
    gone, other = service.create()["id"], service.create()["id"]
    members = [{"entity": {"reference": f"Patient/{one}"}} for one in (gone, other)]
    roster = {"resourceType": "Group", "type": "person", "actual": True, "name": "Ward 4", "member": members}
    made = service.ask("POST", f"{base}/Group", json=roster).json()
    found = service.ask("GET", f"{base}/Group?member=Patient/{gone}&name=ward").json()
    assert [one["resource"]["id"] for one in found["entry"]] == [made["id"]]
    issue(service.ask("DELETE", f"{base}/Patient/{gone}"), 409, "conflict")
    assert service.ask("DELETE", f"{base}/Patient/{gone}?_cascade=delete").status_code == 204
    kept = service.ask("GET", f"{base}/Group/{made['id']}").json()
    assert kept == made
    assert service.ask("PUT", f"{base}/Group/{made['id']}", json=kept).status_code == 200

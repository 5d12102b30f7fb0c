"""Patient update and optimistic locking (points G)."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.interchange.kit import MRN, Running, issue, merge_body, patient, record_number


def test_update_replaces(service: Running, base: str) -> None:
    """C-150, C-156, C-159: a new version with the new values; what is left out is gone."""
    made = service.create(base, telecom=[{"system": "phone", "value": "1"}])
    body = patient(id=made["id"], gender="other")
    answer = service.ask("PUT", f"{base}/Patient/{made['id']}", json=body)
    assert answer.status_code == 200
    assert answer.headers["etag"] == 'W/"2"'
    assert "location" not in answer.headers
    kept = service.ask("GET", f"{base}/Patient/{made['id']}").json()
    assert kept == answer.json()
    assert (kept["meta"]["versionId"], kept["gender"]) == ("2", "other")
    assert "telecom" not in kept
    assert kept["identifier"] == made["identifier"]


def test_update_is_searchable(service: Running, base: str) -> None:
    """A search finds the new values and no longer the old ones."""
    made = service.create(base, name=[{"family": "Beforehand", "given": ["A"]}], identifier=[record_number(f"B{base}")])
    renamed = patient(id=made["id"], name=[{"family": "Afterwards", "given": ["A"]}], birthDate="1990-05-05")
    assert service.ask("PUT", f"{base}/Patient/{made['id']}", json=renamed).status_code == 200
    one = f"_id={made['id']}"
    assert service.ask("GET", f"{base}/Patient?{one}&family=Afterwards&birthdate=1990-05-05").json()["total"] == 1
    assert service.ask("GET", f"{base}/Patient?{one}&family=Beforehand").json()["total"] == 0
    assert service.ask("GET", f"{base}/Patient?identifier={MRN}|B{base}").json()["total"] == 0
    assert service.create(base, identifier=[record_number(f"B{base}")])


def test_update_creates(service: Running, base: str) -> None:
    """C-151: an id that does not exist is created, 201 with Location."""
    name = f"own-id-{base.count('/')}"
    answer = service.ask("PUT", f"{base}/Patient/{name}", json=patient(id=name), headers={"prefer": "create-always"})
    assert answer.status_code == 201
    assert answer.headers["location"] == f"{service.url}{base}/Patient/{name}/_history/1"
    assert service.ask("GET", f"{base}/Patient/{name}").json()["meta"]["versionId"] == "1"


@pytest.mark.parametrize(("base_path", "status"), [("/fhir/R4", 412), ("/fhir", 409)])
def test_if_match(service: Running, base_path: str, status: int) -> None:
    """C-152, C-153, C-154: the current version passes; a stale one, or one of nothing, is 412 (STU3: 409)."""
    made = service.create(base_path)
    path, body = f"{base_path}/Patient/{made['id']}", patient(id=made["id"])
    assert service.ask("PUT", path, json=body, headers={"if-match": 'W/"1"'}).status_code == 200
    issue(
        service.ask("PUT", path, json=patient(id=made["id"], gender="male"), headers={"if-match": 'W/"1"'}),
        status,
        "conflict",
    )
    kept = service.ask("GET", path).json()
    assert (kept["meta"]["versionId"], kept["gender"]) == ("2", "female")
    absent = service.ask("PUT", f"{base_path}/Patient/absent", json=patient(id="absent"), headers={"if-match": 'W/"1"'})
    issue(absent, status, "conflict")


def test_if_none_match(service: Running, base: str) -> None:
    """RFC 9110, 13.1.2: `*` creates and never replaces, a version that is the kept one is refused: 412."""
    made = service.create(base)
    path, body = f"{base}/Patient/{made['id']}", patient(id=made["id"], gender="male")
    for header in ("*", 'W/"1"', 'W/"7", "1"'):
        issue(service.ask("PUT", path, json=body, headers={"if-none-match": header}), 412, "conflict")
    assert service.ask("GET", path).json() == made
    assert service.ask("PUT", path, json=body, headers={"if-none-match": 'W/"7"'}).status_code == 200
    new = f"unmatched-{base.count('/')}"
    headers = {"if-none-match": "*", "prefer": "create-always"}
    assert service.ask("PUT", f"{base}/Patient/{new}", json=patient(id=new), headers=headers).status_code == 201
    place = {"resourceType": "Location", "id": new, "name": "Ward"}
    for status in (201, 412):
        answer = service.ask("PUT", f"{base}/Location/{new}", json=place, headers={"if-none-match": "*"})
        assert answer.status_code == status


def test_ids_must_agree(service: Running, base: str) -> None:
    """C-155: the body's id is the address's, and one that a resource may have."""
    made = service.create(base)
    issue(service.ask("PUT", f"{base}/Patient/{made['id']}", json=patient(id="other")), 400, "invalid")
    issue(service.ask("PUT", f"{base}/Patient/{made['id']}", json=patient()), 400, "invalid")
    issue(service.ask("PUT", f"{base}/Patient/under_score", json=patient(id="under_score")), 400, "invalid")


def test_incomplete_update(service: Running, base: str) -> None:
    """C-157: an update that lacks a required element changes nothing."""
    made = service.create(base)
    issue(
        service.ask("PUT", f"{base}/Patient/{made['id']}", json=patient(id=made["id"], birthDate=None)), 400, "required"
    )
    assert service.ask("GET", f"{base}/Patient/{made['id']}").json() == made


def test_update_cannot_take_a_record_number(service: Running, base: str) -> None:
    """C-123: the MRN of another patient is 409, and nothing changes; one's own may stay."""
    number = record_number(f"T{base}")
    owner, other = service.create(base, identifier=[number]), service.create(base)
    taken = service.ask("PUT", f"{base}/Patient/{other['id']}", json=patient(id=other["id"], identifier=[number]))
    assert issue(taken, 409, "duplicate")["details"]["coding"][0]["code"] == "duplicate-mrn"
    assert service.ask("GET", f"{base}/Patient/{other['id']}").json() == other
    own = service.ask("PUT", f"{base}/Patient/{owner['id']}", json=patient(id=owner["id"], identifier=[number]))
    assert own.status_code == 200


def test_update_of_a_merged_patient(service: Running, base: str) -> None:
    """C-158: 422, naming the survivor; also where the record is sent as it was read, with its record number."""
    source, target = service.create(base, identifier=[record_number(f"Merged{base}")]), service.create(base)
    assert service.ask("POST", f"{base}/Patient/$merge", json=merge_body(source["id"], target["id"])).status_code == 200
    path = f"{base}/Patient/{source['id']}"
    for body in (patient(id=source["id"]), service.ask("GET", path).json()):
        assert target["id"] in issue(service.ask("PUT", path, json=body), 422, "business-rule")["diagnostics"]


def test_one_of_many_updates_wins(service: Running) -> None:
    """Of 16 updates at once with the same If-Match exactly one is taken."""
    made = service.create()
    path, body = f"/fhir/R4/Patient/{made['id']}", patient(id=made["id"])
    with ThreadPoolExecutor(16) as pool:
        work = [pool.submit(service.ask, "PUT", path, json=body, headers={"if-match": 'W/"1"'}) for _ in range(16)]
        codes = sorted(one.result().status_code for one in work)
    assert codes == [200] + [412] * 15
    assert service.ask("GET", path).json()["meta"]["versionId"] == "2"


def test_a_forged_replacement(service: Running, base: str) -> None:
    """C-162: only $merge says of a record that another took its place; of a live one nobody else may."""
    survivor = service.create(base)["id"]
    link = [{"other": {"reference": f"Patient/{survivor}"}, "type": "replaced-by"}]
    made = service.create(base)
    for body in (patient(link=link), patient(link=link, active=False)):
        refused = service.ask("POST", f"{base}/Patient", json=body, headers={"prefer": "create-always"})
        assert issue(refused, 422, "business-rule")["location"] == ["Patient.link[0].type"]
        path = f"{base}/Patient/{made['id']}"
        issue(service.ask("PUT", path, json={**body, "id": made["id"]}), 422, "business-rule")
        new = {"json": {**body, "id": "forged"}, "headers": {"prefer": "create-always"}}
        issue(service.ask("PUT", f"{base}/Patient/forged", **new), 422, "business-rule")
    assert service.ask("GET", f"{base}/Patient/{made['id']}").json() == made
    for kind in ("seealso", "refer"):
        other = [{"other": {"reference": f"Patient/{survivor}"}, "type": kind}]
        assert service.ask("PUT", f"{base}/Patient/{made['id']}", json={**made, "link": other}).status_code == 200

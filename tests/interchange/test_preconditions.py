"""Conditions in headers and addresses, in every form that clients send: obeyed, or refused, and never passed over."""

from typing import Any

import pytest

from engine.fhir.versions.names import name_in
from tests.interchange.kit import Running, issue, merge_body, patient
from tests.interchange.least import least, version_of


@pytest.mark.parametrize(
    ("tag", "status"),
    [
        pytest.param('W/"2"', 304, id="weak"),
        pytest.param('"2"', 304, id="strong"),
        pytest.param('W/"1", W/"2"', 304, id="list"),
        pytest.param('"1","2" , W/"7"', 304, id="list of both"),
        pytest.param("*", 304, id="any"),
        pytest.param('W/"1"', 200, id="another"),
        pytest.param('W/"22"', 200, id="longer"),
        pytest.param('W/"1", "3"', 200, id="list of others"),
        pytest.param("2", 200, id="no tag"),
    ],
)
def test_if_none_match_on_reads(service: Running, base: str, tag: str, status: int) -> None:
    """C-116: a read whose If-None-Match names the version, in any form of RFC 9110, is 304 without a body."""
    made = service.create(base)
    path = f"{base}/Patient/{made['id']}"
    assert service.ask("PUT", path, json=made).status_code == 200
    answer = service.ask("GET", path, headers={"if-none-match": tag})
    assert (answer.status_code, bool(answer.content)) == (status, status == 200)
    assert answer.headers["etag"] == 'W/"2"'


@pytest.mark.parametrize(
    ("tag", "taken"),
    [
        pytest.param('W/"2"', True, id="weak"),
        pytest.param('"2"', True, id="strong"),
        pytest.param('W/"1", W/"2"', True, id="list"),
        pytest.param('"9" ,"2"', True, id="list of strong ones"),
        pytest.param("*", True, id="any"),
        pytest.param('W/"1"', False, id="another"),
        pytest.param('W/"1", "3"', False, id="list of others"),
    ],
)
def test_if_match_on_writes(service: Running, base: str, tag: str, taken: bool) -> None:
    """C-160: If-Match names one version, several, or any; where none is the kept one, the update is refused."""
    made = service.create(base)
    path = f"{base}/Patient/{made['id']}"
    assert service.ask("PUT", path, json=made).status_code == 200
    answer = service.ask("PUT", path, json=made, headers={"if-match": tag})
    if taken:
        assert answer.headers["etag"] == 'W/"3"'
    else:
        issue(answer, 412 if base == "/fhir/R4" else 409, "conflict")


def test_if_match_of_any_where_there_is_none(service: Running, base: str) -> None:
    """C-160: `*` says that there is one: it creates nothing."""
    for kind, body in (
        ("Patient", patient(id="not-there")),
        ("Location", {**least("Location", ""), "id": "not-there"}),
    ):
        answer = service.ask("PUT", f"{base}/{kind}/not-there", json=body, headers={"if-match": "*"})
        issue(answer, 412 if base == "/fhir/R4" else 409, "conflict")
        issue(service.ask("GET", f"{base}/{kind}/not-there"), 404, "not-found")


@pytest.mark.parametrize("header", ["if-match", "if-none-match"])
@pytest.mark.parametrize("tag", ["1", "W/1", "", '"1', '"1" "2"', '*, "1"', "w/x", '"1",', "''"])
def test_a_condition_that_cannot_be_read(service: Running, base: str, header: str, tag: str) -> None:
    """C-160: a write whose condition is none is 400, for passing it over might overwrite."""
    made = service.create(base)
    answer = service.ask("PUT", f"{base}/Patient/{made['id']}", json=made, headers={header: tag})
    assert issue(answer, 400, "invalid")["location"] == [
        f"http.{'If-Match' if header == 'if-match' else 'If-None-Match'}"
    ]
    assert service.ask("GET", f"{base}/Patient/{made['id']}").headers["etag"] == 'W/"1"'


def test_content_location(service: Running, base: str) -> None:
    """C-161: an update says by Content-Location what its body is, a create by Location where it is, by version."""
    for kind, body in (("Patient", patient()), ("Location", least("Location", ""))):
        made = service.ask("POST", f"{base}/{kind}", json=body, headers={"prefer": "create-always"})
        address = f"{service.url}{base}/{kind}/{made.json()['id']}"
        assert (made.headers["location"], "content-location" in made.headers) == (f"{address}/_history/1", False)
        changed = service.ask("PUT", f"{base}/{kind}/{made.json()['id']}", json=made.json())
        told = (changed.headers["content-location"], "location" in changed.headers)
        assert told == (f"{address}/_history/2", False)
        new = service.ask(
            "PUT",
            f"{base}/{kind}/new-{made.json()['id']}",
            json={**made.json(), "id": f"new-{made.json()['id']}"},
            headers={"prefer": "create-always"},
        )
        assert (new.status_code, "content-location" in new.headers) == (201, False)


@pytest.mark.parametrize(
    "form", ["{query}", "?{query}", "Patient?{query}", "/Patient?{query}", "{base}/Patient?{query}"]
)
def test_if_none_exist_with_an_address(service: Running, base: str, form: str) -> None:
    """C-146: the criteria are the same alone, and behind the type or its address, as HAPI's client sends them."""
    family = f"Condition{abs(hash((base, form)))}"
    body = patient(name=[{"family": family, "given": ["A"]}])
    header = form.format(query=f"family={family}&birthdate=1984-02-29", base=service.url + base)
    answers = [service.ask("POST", f"{base}/Patient", json=body, headers={"if-none-exist": header}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200]
    assert answers[0].json()["id"] == answers[1].json()["id"]


def test_if_none_exist_of_another_type(service: Running, base: str) -> None:
    """C-146: of any type, by its name in the version; a question mark within a value is no address."""
    owner = service.create(base)["id"]
    name = name_in(version_of(base), "ServiceRequest")
    body = least("ServiceRequest", owner, version_of(base), identifier=[{"system": "urn:x", "value": "a?b"}])
    for header in (f"{name}?identifier=urn:x|a%3Fb&patient={owner}", f"patient={owner}&identifier=urn:x|a?b"):
        answer = service.ask("POST", f"{base}/{name}", json=body, headers={"if-none-exist": header})
        assert answer.status_code in {200, 201}, answer.text
    assert service.ask("GET", f"{base}/{name}?patient={owner}").json()["total"] == 1


@pytest.mark.parametrize(
    "address",
    [
        "Observation",
        "https://elsewhere.example/fhir/R4/Patient",
        "http://127.0.0.1:1/fhir/Patient",
        "patient",
        "Patient/1",
    ],
)
def test_if_none_exist_of_something_else(service: Running, base: str, address: str) -> None:
    """C-146: criteria of another type or server are 400: what they find is not what is to be created."""
    headers = {"if-none-exist": f"{address}?family=Quintero"}
    issue(service.ask("POST", f"{base}/Patient", json=patient(), headers=headers), 400, "invalid")


@pytest.mark.parametrize("query", ["foo=1", "_sort=name", "_summary=count", "family=x", "_count=1", "_since=2024"])
def test_parameters_that_no_read_has(service: Running, base: str, query: str) -> None:
    """C-117: what a read or an update does not know is refused, not passed over."""
    made = service.create(base)
    path = f"{base}/Patient/{made['id']}"
    assert issue(service.ask("GET", f"{path}?{query}"), 400, "not-supported")["location"] == [
        f"http.{query.partition('=')[0]}"
    ]
    issue(service.ask("PUT", f"{path}?{query}", json=made), 400, "not-supported")
    assert service.ask("GET", f"{path}?_format=json&_pretty=true").headers["etag"] == 'W/"1"'
    assert service.ask("PUT", f"{path}?_format=json", json=made).status_code == 200


def test_parameters_that_no_operation_has(service: Running, base: str) -> None:
    """C-117: `$merge?preview=true` merges nothing: its parameters stand in the body."""
    source, target = service.create(base)["id"], service.create(base)["id"]
    answer = service.ask("POST", f"{base}/Patient/$merge?preview=true", json=merge_body(source, target))
    issue(answer, 400, "not-supported")
    kept: dict[str, Any] = service.ask("GET", f"{base}/Patient/{source}").json()
    assert "link" not in kept

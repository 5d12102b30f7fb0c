"""What of a search is answered and in which order: `_elements`, `_summary`, `_total`, `_sort`, lenient handling."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fhir.schema import FhirVersion, definitions
from engine.fhir.versions.names import name_in
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.projection import SUMMARY, base_of
from tests.interchange.kit import Running, issue, running
from tests.interchange.least import least, version_of

WHOLE: dict[str, Any] = {
    "text": {"status": "generated", "div": '<div xmlns="http://www.w3.org/1999/xhtml">x</div>'},
    "active": False,
    "maritalStatus": {"text": "m"},
    "multipleBirthInteger": 2,
    "deceasedDateTime": "2025-07-01",
    "telecom": [{"system": "phone", "value": "5"}],
    "contact": [{"name": {"family": "C"}}],
    "meta": {"tag": [{"system": "urn:t", "code": "x"}]},
}
ALWAYS = {"resourceType", "id", "meta"}
MODIFIERS = {"active", "deceasedDateTime"}
PARTS = {
    "_elements=name": {"name"},
    "_elements=birthDate,deceased,multipleBirth": {"birthDate", "multipleBirthInteger"},
    "_elements=Patient.gender": {"gender"},
    "_elements=id,resourceType,name": {"name"},
    "_summary=true": {"identifier", "name", "telecom", "gender", "birthDate"},
    "_summary=text": {"text"},
}


@pytest.mark.parametrize("query", PARTS)
def test_parts(service: Running, base: str, query: str) -> None:
    """N-220: a read, a search and a history show the part that is asked for, what changes its meaning, and say so."""
    made = service.create(base, **WHOLE)
    system = f"http://{'terminology.hl7.org/CodeSystem/v3-' if base.endswith('R4') else 'hl7.org/fhir/v3/'}"
    one = f"Patient/{made['id']}"
    for path in (one, f"{one}/_history/1", f"{one}/_history", f"Patient?_id={made['id']}"):
        told = service.ask("GET", f"{base}/{path}{'&' if '?' in path else '?'}{query}").json()
        part = told if "entry" not in told else told["entry"][0]["resource"]
        assert set(part) == ALWAYS | MODIFIERS | PARTS[query]
        assert {key: part[key] for key in PARTS[query]} == {key: made[key] for key in PARTS[query]}
        tag = {"system": f"{system}ObservationValue", "code": "SUBSETTED"}
        assert part["meta"] == {**made["meta"], "tag": [*WHOLE["meta"]["tag"], tag]}


def test_data_and_whole(service: Running, base: str) -> None:
    """N-220: `data` is all but the narrative; `false` is all, and no part."""
    made = service.create(base, **WHOLE)
    path = f"{base}/Patient/{made['id']}"
    assert service.ask("GET", f"{path}?_summary=false").json() == made
    data = service.ask("GET", f"{path}?_summary=data").json()
    assert {**data, "meta": 0} == {**{key: value for key, value in made.items() if key != "text"}, "meta": 0}
    assert service.ask("GET", f"{path}?_summary=data&_format=json").headers["etag"] == 'W/"1"'


@pytest.mark.parametrize("type_name", sorted(KEPT))
def test_no_part_is_invalid(service: Running, base: str, type_name: str) -> None:
    """N-220: whatever of a type is left out, what remains is a valid resource (the kit holds it to HL7's models)."""
    version = version_of(base)
    body = least(type_name, service.create()["id"], version) if type_name != "Patient" else service.create(base)
    made = service.ask("POST", f"{base}/{body['resourceType']}", json=body, headers={"prefer": "create-always"}).json()
    for query in ("_elements=id", "_summary=true", "_summary=text", "_summary=data"):
        answer = service.ask("GET", f"{base}/{body['resourceType']}/{made['id']}?{query}")
        assert answer.status_code == 200, answer.text
        assert answer.json()["meta"]["tag"][-1]["code"] == "SUBSETTED"
        whose = KEPT[type_name].patient
        assert answer.json().get(whose) == made.get(whose)


def test_the_summaries_name_elements() -> None:
    """N-220: each kept type has its summary, of elements that R4 or STU3 has."""
    assert set(SUMMARY) == set(KEPT)
    for name, text in SUMMARY.items():
        known = {
            base_of(element, name, version)
            for version in FhirVersion
            for element in definitions(version)[name_in(version, name)]
        }
        assert set(text.split()) <= known


def test_choices_are_known_by_their_base() -> None:
    """N-220: an element that only begins like another one is no choice of it."""
    for name, base in (("deceasedBoolean", "deceased"), ("_deceasedDateTime", "deceased"), ("birthDate", "birthDate")):
        assert base_of(name, "Patient", FhirVersion.R4) == base
    assert base_of("statusReason", "Procedure", FhirVersion.R4) == "statusReason"


def test_a_part_is_not_written_back(service: Running, base: str) -> None:
    """N-225: what was read in part replaces nothing: what the client did not read would be lost."""
    made = service.create(base, **WHOLE)
    path = f"{base}/Patient/{made['id']}"
    part = service.ask("GET", f"{path}?_summary=data").json()
    told = issue(service.ask("PUT", path, json=part), 422, "business-rule")
    assert told["location"] == ["Patient.meta.tag"]
    issue(service.ask("POST", f"{base}/Patient", json=part, headers={"prefer": "create-always"}), 422, "business-rule")
    assert service.ask("GET", path).json() == made
    assert service.ask("PUT", path, json=made).status_code == 200


REFUSED = ["_elements=", "_elements=foo", "_elements=name.family", "_elements=name,,id", "_summary=", "_summary=yes"]
REFUSED += ["_summary=true&_elements=id", "_elements=id&_elements=name", "_elements=deceasedBoolean.x"]


@pytest.mark.parametrize("query", REFUSED)
def test_refused_parts(service: Running, base: str, query: str) -> None:
    """N-220: what is no part is refused, on reads as on searches."""
    one = f"Patient/{service.create()['id']}"
    for path in (one, f"{one}/_history/1", f"{one}/_history", "Patient/_history", "Patient"):
        issue(service.ask("GET", f"{base}/{path}?{query}"), 400, "invalid")


@pytest.mark.parametrize("query", ["_summary=count", "_sort=family", "_total=none", "foo=1", "_include=Patient:link"])
def test_what_a_read_does_not_take(service: Running, base: str, query: str) -> None:
    """N-220: what belongs to searches only is refused on a read, of a version too."""
    one = f"{base}/Patient/{service.create()['id']}"
    for path in (one, f"{one}/_history/1"):
        issue(service.ask("GET", f"{path}?{query}"), 400, "not-supported")
    if query != "_summary=count":
        issue(service.ask("GET", f"{one}/_history?{query}"), 400, "not-supported")


def test_parts_of_a_history(service: Running, base: str) -> None:
    """N-220: each page of a history shows the part that was asked for; a count is all that `_summary=count` tells."""
    made = service.create(base, **WHOLE)
    path = f"{base}/Patient/{made['id']}"
    assert service.ask("PUT", path, json={**made, "birthDate": "1984"}).status_code == 200
    assert service.ask("DELETE", path).status_code == 204
    pages = [service.ask("GET", f"{path}/_history?_elements=birthDate&_count=1").json()]
    while following := [one["url"] for one in pages[-1]["link"] if one["relation"] == "next"]:
        pages.append(service.ask("GET", following[0].removeprefix(service.url)).json())
    entries = [entry for page in pages for entry in page["entry"]]
    parts = [entry.get("resource") for entry in entries]
    assert [part and part["birthDate"] for part in parts] == [None, "1984", made["birthDate"]]
    assert all(part is None or set(part) == ALWAYS | MODIFIERS | {"birthDate"} for part in parts)
    issue(service.ask("GET", f"{path}/_history?_elements=birthDate&_elements=name"), 400, "invalid")
    for of in (path, f"{base}/Patient"):
        told = service.ask("GET", f"{of}/_history?_summary=count").json()
        assert told["total"] >= 3
        assert ("entry" in told, [one["relation"] for one in told["link"]]) == (False, ["self"])


def test_parts_within_a_bundle(service: Running, base: str) -> None:
    """N-220, N-155: reads of a batch and of a transaction show the part that their address asks for."""
    made = service.create(base, **WHOLE)
    one = f"Patient/{made['id']}"
    paths = (f"{one}?_elements=gender", f"{one}/_history/1?_elements=gender", f"Patient?_id={made['id']}&_summary=text")
    requests = [{"request": {"method": "GET", "url": path}} for path in (*paths, f"{one}?_elements=foo")]
    for kind, wanted in (("batch", requests), ("transaction", requests[:3])):
        answer = service.ask("POST", base, json={"resourceType": "Bundle", "type": kind, "entry": wanted})
        assert answer.status_code == 200, answer.text
        read, version, found, *refused = answer.json()["entry"]
        assert set(read["resource"]) == set(version["resource"]) == ALWAYS | MODIFIERS | {"gender"}
        assert set(found["resource"]["entry"][0]["resource"]) == ALWAYS | MODIFIERS | {"text"}
        assert [one["response"]["status"] for one in refused] == ["400 Bad Request"] * len(refused)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A service with patients in no order, and who they are by id."""
    with running(tmp_path_factory.mktemp("crowd")) as service:
        made = {}
        for family, given_name, birth, died in PEOPLE:
            body = {"name": [{"family": one, "given": [given_name]} for one in family.split("+")], "birthDate": birth}
            made[service.create(**body, deceasedDateTime=died or None)["id"]] = (family, given_name, birth, died)
        yield service, made


PEOPLE = (
    ("Zeta", "A", "1990", ""),
    ("alpha", "B", "1990-05-01", "2020-01-01"),
    ("Beta+Zulu", "C", "1980-02", ""),
    ("Beta", "A", "1980-02-03", "2021"),
    ("Ähre", "A", "2001-01-01", ""),
    ("Gamma", "D", "1970-01-01", "2020-01-01"),
)


def walked(service: Running, path: str) -> list[dict[str, Any]]:
    """Return all entries of a search, page by page."""
    entries: list[dict[str, Any]] = []
    while path:
        bundle = service.ask("GET", path).json()
        entries += bundle["entry"]
        path = next((one["url"] for one in bundle["link"] if one["relation"] == "next"), "").removeprefix(service.url)
    return entries


ORDERS = {
    "family": ["Ähre", "alpha", "Beta", "Beta", "Gamma", "Zeta"],
    "-family": ["Zulu", "Zeta", "Gamma", "Beta", "alpha", "Ähre"],
    "birthdate": ["1970-01-01", "1980-02", "1980-02-03", "1990", "1990-05-01", "2001-01-01"],
    "-birthdate": ["2001-01-01", "1990", "1990-05-01", "1980-02", "1980-02-03", "1970-01-01"],
    "given,-birthdate": ["2001-01-01", "1990", "1980-02-03", "1990-05-01", "1980-02", "1970-01-01"],
    "death-date,family": ["alpha", "Gamma", "Beta", "Ähre", "Beta", "Zeta"],
    "-death-date,-family": ["Beta", "Gamma", "alpha", "Zulu", "Zeta", "Ähre"],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("count", [1, 2, 6])
def test_order(crowd: Any, base: str, order: str, count: int) -> None:
    """N-222: matches come in the order asked for, what has no value last, page by page without repeats."""
    service, people = crowd
    found = walked(service, f"{base}/Patient?_sort={order}&_count={count}")
    ids = [entry["resource"]["id"] for entry in found]
    assert sorted(ids) == sorted(people)
    by = 2 if "birthdate" in order else 0
    names = [people[one][by] for one in ids]
    part = -1 if order.startswith("-") else 0
    assert [name.split("+")[part] for name in names] == ORDERS[order]


@pytest.mark.parametrize("direction", ["", "-"])
def test_ties_are_ordered_by_id(crowd: Any, base: str, direction: str) -> None:
    """N-222: who is equal comes by id, so that no page repeats a row."""
    service, people = crowd
    ids = [entry["resource"]["id"] for entry in walked(service, f"{base}/Patient?_sort={direction}gender&_count=1")]
    assert ids == sorted(people)
    ids = [entry["resource"]["id"] for entry in walked(service, f"{base}/Patient?_sort={direction}_id&_count=4")]
    assert ids == sorted(people, reverse=bool(direction))
    ids = [entry["resource"]["id"] for entry in walked(service, f"{base}/Patient?_sort={direction}_lastUpdated")]
    assert ids == list(people)[:: -1 if direction else 1]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("_sort=family&_paging=cursor", "invalid"),
        ("_sort=", "not-supported"),
        ("_sort=foo", "not-supported"),
        ("_sort=identifier", "not-supported"),
        ("_sort=organization", "not-supported"),
        ("_sort=family,family", "invalid"),
        ("_sort=family,-family", "invalid"),
        ("_sort=family,given,birthdate,gender,_id,_lastUpdated", "invalid"),
        ("_sort=family&_sort=given", "invalid"),
        ("_total=all", "invalid"),
        ("_total=none&_total=none", "invalid"),
    ],
)
def test_refused_orders(crowd: Any, base: str, query: str, code: str) -> None:
    """N-222, N-221: what has no order, and what a cursor cannot keep, is refused."""
    issue(crowd[0].ask("GET", f"{base}/Patient?{query}"), 400, code)


def test_totals(crowd: Any, base: str) -> None:
    """N-221: a total is exact or left out; a count is all that `_summary=count` tells."""
    service, people = crowd
    for total in ("accurate", "estimate"):
        assert service.ask("GET", f"{base}/Patient?_total={total}&_count=2").json()["total"] == len(people)
    none = service.ask("GET", f"{base}/Patient?_total=none&_count=2").json()
    assert ("total" not in none, len(none["entry"]), len(none["link"])) == (True, 2, 2)
    assert "_total=none" in none["link"][1]["url"]
    for query in ("_summary=count", "_summary=count&_total=none&_count=2", "_count=0&_total=none"):
        bundle = service.ask("GET", f"{base}/Patient?{query}").json()
        assert (bundle["total"], bundle["entry"], len(bundle["link"])) == (len(people), [], 1)


def test_lenient(crowd: Any, base: str) -> None:
    """N-223: unknown parameters are left out and named where the client prefers that; strict stays the default."""
    service, _ = crowd
    lenient = {"prefer": "handling=lenient"}
    bundle = service.ask("GET", f"{base}/Patient?foo=1&family=beta&bar:exact=x", headers=lenient).json()
    *matches, told = bundle["entry"]
    assert ([match["search"]["mode"] for match in matches], bundle["total"]) == (["match", "match"], 2)
    assert told["search"] == {"mode": "outcome"}
    assert UUID(told["fullUrl"].removeprefix("urn:uuid:")).version == 4
    assert [(one["severity"], one["code"]) for one in told["resource"]["issue"]] == [("warning", "not-supported")] * 2
    assert [one["location"] for one in told["resource"]["issue"]] == [["http.foo"], ["http.bar:exact"]]
    assert "foo" not in bundle["link"][0]["url"]
    issue(service.ask("GET", f"{base}/Patient?foo=1", headers={"prefer": "handling=strict"}), 400, "not-supported")
    issue(service.ask("GET", f"{base}/Patient?family:not=1", headers=lenient), 400, "not-supported")
    issue(service.ask("GET", f"{base}/Observation?pateint=1", headers=lenient), 400, "required")
    assert len(service.ask("GET", f"{base}/Patient?family=beta", headers=lenient).json()["entry"]) == 2


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_order_is_a_permutation(crowd: Any, data: st.DataObject) -> None:
    """N-222: in whatever order and in pages of whatever size, everybody comes once."""
    service, people = crowd
    names = ["family", "given", "name", "birthdate", "gender", "deceased", "death-date", "_id", "_lastUpdated"]
    keys = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True))
    order = ",".join(data.draw(st.sampled_from(["", "-"])) + key for key in keys)
    count = data.draw(st.integers(1, 4))
    found = walked(service, f"/fhir/R4/Patient?_sort={order}&_count={count}")
    assert sorted(entry["resource"]["id"] for entry in found) == sorted(people)

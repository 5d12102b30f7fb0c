"""The Chart API's clinical tests, over HTTP (points Y)."""

import pytest

from tests.interchange.chart import put, to
from tests.interchange.chart_api.charts import LOINC, chart, concept, items, lipids
from tests.interchange.kit import Running, issue, merge_body


def test_a_report_with_its_observations(service: Running) -> None:
    """C-535, C-536, C-537, C-538, C-540: LOINC at test and observation, who ordered it, what it means, where from."""
    patient = service.create()["id"]
    report = lipids(service, patient).partition("/")[2]
    answer = chart(service, f"patients/{patient}/clinical-tests")
    assert answer.headers["content-type"] == "application/json"
    found = answer.json()
    assert found["total"] == 1
    [item] = found["items"]
    observations = item.pop("observations")
    assert item == {
        "id": report,
        "test": {"code": "57698-3", "codeSystem": LOINC, "display": "Lipid panel"},
        "status": "final",
        "effective": "2025-06-30T14:05:00Z",
        "interpretation": {"code": "N", "display": "Normal"},
        "orderingProvider": {"name": "Ama Osei, MD", "npi": "1659999990"},
        "resourceChannelType": "INTERNAL",
    }
    assert [observation["code"] for observation in observations] == ["2093-3", "2085-9"]
    assert observations[0] == {
        "code": "2093-3",
        "codeSystem": LOINC,
        "display": "Cholesterol",
        "value": "182",
        "unit": "mg/dL",
        "interpretation": {"code": "N", "display": "Normal"},
        "referenceRange": "≥ 40 mg/dL",
        "status": "final",
        "effective": "2025-06-30T14:05:00Z",
    }


def test_a_report_that_says_little(service: Running) -> None:
    """C-538: nothing is made up: no code, no orderer, no meaning where results differ or say none."""
    patient = service.create()["id"]
    put(service, "DiagnosticReport", patient)
    [item] = items(service, f"patients/{patient}/clinical-tests")
    assert {name: item[name] for name in item if name != "id"} == {
        "test": {"display": "x"},
        "status": "final",
        "resourceChannelType": "INTERNAL",
    }
    values = [
        put(service, "Observation", patient, interpretation=[concept(code, code, "urn:x")]) for code in ("H", "N")
    ]
    put(service, "DiagnosticReport", patient, result=[to(value) for value in values], effectiveDateTime="2025-01-01")
    item = items(service, f"patients/{patient}/clinical-tests")[0]
    assert "interpretation" not in item
    assert [one["interpretation"]["code"] for one in item["observations"]] == ["H", "N"]


def test_words_categories_and_units_of_the_author(service: Running) -> None:
    """The author's words where they are not the display, categories, and the UCUM code of a unit."""
    patient = service.create()["id"]
    code = {**concept("6690-2", "Leukocytes [#/volume] in Blood"), "text": "White cells"}
    category = {"category": [concept("laboratory", "Laboratory", "urn:x")]}
    quantity = {"value": 7, "unit": "K/uL", "system": "http://unitsofmeasure.org", "code": "10*3/uL"}
    result = put(service, "Observation", patient, code=code, valueQuantity=quantity, **category)
    same = {**quantity, "unit": "10*3/uL"}
    other = put(service, "Observation", patient, code={"text": "Cells"}, valueQuantity=same)
    put(service, "DiagnosticReport", patient, code=code, result=[to(result), to(other)], **category)
    [item] = items(service, f"patients/{patient}/clinical-tests")
    named = {"code": "laboratory", "codeSystem": "urn:x", "display": "Laboratory"}
    first, second = item["observations"]
    for part in (item, first):
        assert part["categories"] == [named]
    assert item["test"]["text"] == first["text"] == "White cells"
    assert (first["unit"], first["unitCode"]) == ("K/uL", "10*3/uL")
    assert (second["unit"], second["unitCode"]) == ("10*3/uL", "10*3/uL")
    assert {"text", "categories"}.isdisjoint(second)


def test_newest_first_a_part_at_a_time(service: Running) -> None:
    """C-535: newest first, what is undated last; `limit` and `offset` lead through all, once each."""
    patient = service.create()["id"]
    days = ("2025-02-01", "2025-03", "2024", "2025-02-01T10:00:00Z")
    made = {day: put(service, "DiagnosticReport", patient, effectiveDateTime=day) for day in days}
    undated = put(service, "DiagnosticReport", patient)
    path = f"patients/{patient}/clinical-tests"
    # A day lasts to its end, so that the morning of the same day is older.
    order = [made["2025-03"], made["2025-02-01"], made["2025-02-01T10:00:00Z"], made["2024"], undated]
    assert [f"DiagnosticReport/{item['id']}" for item in items(service, path)] == order
    parts = [chart(service, f"{path}?limit=2&offset={offset}").json() for offset in (0, 2, 4, 6)]
    assert {one["total"] for one in parts} == {5}
    assert [f"DiagnosticReport/{one['id']}" for part in parts for one in part["items"]] == order
    assert [len(one["items"]) for one in parts] == [2, 2, 1, 0]


def test_twenty_unless_more_are_asked_for(service: Running) -> None:
    """C-535: 20 items where nothing is asked, 100 at most."""
    patient = service.create()["id"]
    for _ in range(21):
        put(service, "DiagnosticReport", patient)
    path = f"patients/{patient}/clinical-tests"
    assert len(items(service, path)) == 20
    assert len(items(service, f"{path}?limit=100")) == 21


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=101",
        "limit=-1",
        "limit=x",
        "limit=",
        "offset=-1",
        "offset=1.5",
        "offset=%D9%A1",
        "limit=1&limit=1",
    ],
)
def test_nonsense_is_refused(service: Running, query: str) -> None:
    """A limit or offset that is none is 400, and so is a parameter that nobody knows."""
    patient = service.create()["id"]
    issue(chart(service, f"patients/{patient}/clinical-tests?{query}"), 400, "invalid")
    issue(chart(service, f"patients/{patient}/clinical-tests?_count=5"), 400, "not-supported")


def test_who_may_not(service: Running) -> None:
    """C-539: no token 401, unknown 404, deleted 410, administrative 403, another tenant 404."""
    patient = service.create()["id"]
    path = f"patients/{patient}/clinical-tests"
    answer = service.http.get(f"{service.url}/chart/v1/{path}")
    issue(answer, 401, "login")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    issue(chart(service, "patients/nobody/clinical-tests"), 404, "not-found")
    issue(chart(service, path, "administrative"), 403, "forbidden")
    issue(chart(service, path, "other"), 404, "not-found")
    for scope in ("user/Patient.read", "user/DiagnosticReport.read", "user/Observation.read"):
        issue(chart(service, path, scope=scope), 403, "forbidden")
    for client in ("nurse", "system", "read", "pread", "patient360"):
        assert chart(service, path, client).status_code == 200, client
    assert service.ask("DELETE", f"/fhir/R4/Patient/{patient}").status_code == 204
    issue(chart(service, path), 410, "deleted")


def test_other_addresses(service: Running) -> None:
    """What is not there is 404, what is not offered 405 and says what is."""
    patient = service.create()["id"]
    for path in ("", "patients/x/y/z", f"patients/{patient}/nonsense", f"patients/{patient}/clinical-tests/", "people"):
        issue(chart(service, path), 404, "not-supported")
    issue(chart(service, "patients/../clinical-tests".replace("..", "%2E%2E")), 404, "not-found")
    answer = service.ask("POST", f"/chart/v1/patients/{patient}/clinical-tests", json={})
    issue(answer, 405, "not-supported")
    assert answer.headers["allow"] == "GET, HEAD"


def test_a_merged_patient_has_the_survivors_chart(service: Running) -> None:
    """As searches have it: who asks for a merged-away record is shown the survivor's chart."""
    source, target = service.create()["id"], service.create()["id"]
    lipids(service, source)
    assert service.ask("POST", "/fhir/R4/Patient/$merge", json=merge_body(source, target)).status_code == 200
    by_source, by_target = (items(service, f"patients/{one}/clinical-tests") for one in (source, target))
    assert len(by_source) == 1
    assert by_source == by_target
    assert by_source[0]["orderingProvider"]["name"] == "Ama Osei, MD"


def test_nothing_of_another_patient(service: Running) -> None:
    """C-539: a panel that names another patient's result shows its own, and nothing of that."""
    mine, other = service.create()["id"], service.create()["id"]
    theirs = put(service, "Observation", other, code=concept("2093-3", "Cholesterol"))
    own = put(service, "Observation", mine, code=concept("2085-9", "HDL"))
    panel = put(service, "Observation", mine, code=concept("57698-3", "Lipids"), hasMember=[to(theirs), to(own)])
    put(service, "DiagnosticReport", mine, result=[to(panel)])
    [item] = items(service, f"patients/{mine}/clinical-tests")
    assert [one["display"] for one in item["observations"]] == ["Lipids", "HDL"]

"""The lists of the chart pages: what is in force first, short names with their codes, filters, and pages."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interchange.chart import put, to
from tests.interchange.chart_api.charts import LOINC, MEANING, concept
from tests.interchange.kit import Inside, record_number
from tests.interchange.viewer.people import Person, pages

SNOMED = "http://snomed.info/sct"
UCUM = "http://unitsofmeasure.org"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """A service whose chart pages are open."""
    with pages(tmp_path_factory.mktemp("lists")) as found:
        yield found


def state(code: str, kind: str = "condition-clinical") -> dict[str, Any]:
    """Return a clinical or verification status."""
    return concept(code, code, f"http://terminology.hl7.org/CodeSystem/{kind}")


def page(site: Inside, patient: str, path: str = "") -> str:
    """Return the text of a page of a chart."""
    answer = Person(site).open(f"/chart/patients/{patient}{path}")
    assert answer.status_code == 200, answer.text
    return answer.text


def in_order(text: str, *parts: str) -> bool:
    """Say whether a text holds these parts, each behind the one before."""
    places = [text.index(part) for part in parts]
    return places == sorted(places)


def test_problems_and_allergies_in_force_come_first(site: Inside) -> None:
    """Active before resolved before refuted, whatever their dates; an allergy of high risk leads; states are words."""
    patient = site.create()["id"]
    put(site, "Condition", patient, code={"text": "Fever"}, clinicalStatus=state("resolved"), recordedDate="2025-06-01")
    refuted = state("refuted", "condition-ver-status")
    put(site, "Condition", patient, code={"text": "Sepsis"}, verificationStatus=refuted, recordedDate="2025-07-01")
    put(site, "Condition", patient, code={"text": "Asthma"}, clinicalStatus=state("active"), recordedDate="2019-03-01")
    kind = "allergyintolerance-clinical"
    for name, code, more in (
        ("Eggs", "resolved", {}),
        ("Latex", "active", {}),
        ("Penicillin", "active", {"criticality": "high"}),
    ):
        put(site, "AllergyIntolerance", patient, code={"text": name}, clinicalStatus=state(code, kind), **more)
    text = page(site, patient)
    assert in_order(text, "Penicillin", "Latex", "Eggs", "Asthma", "Fever", "Sepsis")
    problems = text[text.index('id="problems"') : text.index('id="medications"')]
    assert in_order(problems, ">active<", ">resolved<", ">refuted<")


def test_medications_that_are_taken_come_first(site: Inside) -> None:
    """Current before completed before entered in error, whatever their dates."""
    patient = site.create()["id"]
    for name, code, day in (("Old", "completed", "2025-07-01"), ("Now", "active", "2020-01-01")):
        concept = {"text": name}
        put(site, "MedicationRequest", patient, status=code, medicationCodeableConcept=concept, authoredOn=day)
    wrong = {"status": "entered-in-error", "medicationCodeableConcept": {"text": "Wrong"}}
    put(site, "MedicationStatement", patient, effectiveDateTime="2025-08-01", **wrong)
    text = page(site, patient)
    assert in_order(text, "Now", ">active<", "Old", ">completed<", "Wrong", ">entered in error<")


def test_visits_in_progress_are_on_top(site: Inside) -> None:
    """Then the newest first, by their start."""
    patient = site.create()["id"]
    for reason, code, period in (
        ("First", "finished", {"start": "2025-01-01", "end": "2025-12-31"}),
        ("Stay", "in-progress", {"start": "2025-02-01"}),
        ("Last", "finished", {"start": "2025-03-01", "end": "2025-03-02"}),
    ):
        put(site, "Encounter", patient, status=code, period=period, reasonCode=[{"text": reason}])
    text = page(site, patient, "/visits").partition('<ul class="plain list">')[2]
    assert in_order(text, ">in progress<", "since 2025-02-01", "Stay", ">finished<", "Last", "First")


def test_more_than_a_hundred_records(site: Inside) -> None:
    """The oldest problem of 101 leads where it alone is active: no list is cut before it is ordered."""
    patient = site.create()["id"]
    put(site, "Condition", patient, code={"text": "Oldest"}, clinicalStatus=state("active"), recordedDate="2001-01-01")
    for _ in range(100):
        put(site, "Condition", patient, code={"text": "Newer"}, clinicalStatus=state("resolved"))
    assert in_order(page(site, patient), "Oldest", "Newer")


def test_short_names_with_their_codes_on_demand(site: Inside) -> None:
    """The author's words, else a display without what people leave out; full name, code and system are in details."""
    patient = site.create()["id"]
    put(site, "Condition", patient, code=concept("195967001", "Asthma (disorder)", SNOMED))
    diabetes = concept("E11.9", "Type 2 diabetes mellitus without complications", "http://hl7.org/fhir/sid/icd-10-cm")
    put(site, "Condition", patient, code={**diabetes, "text": "Type 2 diabetes"})
    put(site, "Condition", patient, code=concept("X1", "Local", "urn:local:codes"))
    text = page(site, patient)
    for name, detail in (
        ("Asthma", "Asthma (disorder) · SNOMED CT 195967001"),
        ("Type 2 diabetes", "Type 2 diabetes mellitus without complications · ICD-10-CM E11.9"),
        ("Local", "urn:local:codes X1"),
    ):
        summary = f'<summary><bdi>{name}</bdi></summary> <span class="soft"><bdi>{detail}</bdi></span></details>'
        assert summary in text, name


def leukocytes(site: Inside, patient: str, day: str, value: float, **more: Any) -> None:
    """Keep a report of one white cell count."""
    code = concept("6690-2", "Leukocytes [#/volume] in Blood by Automated count")
    unit = {"unit": "10*3/uL", "system": UCUM, "code": "10*3/uL"}
    result = put(
        site,
        "Observation",
        patient,
        code=code,
        valueQuantity={"value": value, **unit},
        referenceRange=[{"low": {"value": 4.5, **unit}, "high": {"value": 11, **unit}}],
        interpretation=[concept("H", "High", MEANING) if value > 11 else concept("N", "Normal", MEANING)],
        effectiveDateTime=day,
        category=[concept("laboratory", "Laboratory", "urn:c")],
    )
    put(site, "DiagnosticReport", patient, code={"text": "Count"}, result=[to(result)], effectiveDateTime=day, **more)


def test_the_flowsheet(site: Inside) -> None:
    """Tests by times with unit, range, flag and trend; the UCUM code is a title, and in the details of the test."""
    patient = site.create()["id"]
    for day, value in (("2025-01-01", 7.1), ("2025-01-02", 12.5)):
        leukocytes(site, patient, day, value)
    text = page(site, patient, "/results")
    sheet = text[text.index("<thead>") : text.index("</tbody>")]
    assert in_order(sheet, "2025-01-02", "2025-01-01", ">Leukocytes</bdi>", ">12.5<", 'class="bad">High<', ">7.1<")
    assert "Leukocytes [#/volume] in Blood by Automated count · LOINC 6690-2 · UCUM 10*3/uL" in sheet
    assert '<abbr title="UCUM 10*3/uL">×10³/µL</abbr>, usual 4.5 to 11<' in sheet
    assert 'aria-label="Trend of 2 values"' in sheet


def test_values_of_any_kind(site: Inside) -> None:
    """A text, a value that is absent, parts without a unit, and a unit of no system, as they are."""
    patient = site.create()["id"]
    parts = [
        {"code": {"text": "Systolic"}, "valueQuantity": {"value": 120, "unit": "mm[Hg]"}},
        {"code": {"text": "Position"}, "valueString": "sitting"},
    ]
    made = [
        put(site, "Observation", patient, code={"text": "Culture"}, valueString="no growth"),
        put(site, "Observation", patient, code={"text": "Potassium"}, dataAbsentReason={"text": "hemolyzed"}),
        put(site, "Observation", patient, code={"text": "Pressure"}, component=parts),
    ]
    put(site, "DiagnosticReport", patient, result=[to(one) for one in made])
    text = page(site, patient, "/results")
    sheet, _, reports = text.partition("</table>")
    assert in_order(sheet, "no time", ">Culture<", ">no growth<", ">Potassium<", ">hemolyzed<", ">Systolic<", ">120<")
    assert in_order(reports, "no growth", "hemolyzed", "Systolic: 120", "Position: sitting")
    assert '<abbr title="unit mm[Hg]">mmHg</abbr>' in sheet


def test_times_of_a_flowsheet_a_page_at_a_time(site: Inside) -> None:
    """Eight times a page, and how many there are; the links keep the filter."""
    patient = site.create()["id"]
    for day in range(1, 12):
        leukocytes(site, patient, f"2025-01-{day:02}", day)
    first = page(site, patient, "/results?test=leuko")
    assert "Times 1 to 8 of 11" in first
    assert "Reports 1 to 10 of 11" in first
    assert f'href="/chart/patients/{patient}/results?test=leuko&amp;page=2">Older times<' in first
    second = page(site, patient, "/results?test=leuko&page=2")
    assert "Times 9 to 11 of 11" in second
    sheet = second[second.index("<thead>") : second.index("</thead>")]
    assert ("2025-01-03" in sheet, "2025-01-04" in sheet) == (True, False)
    assert "Trend of 11 values" in second


def test_void_results_are_in_no_flowsheet(site: Inside) -> None:
    """What was entered in error is listed as such among the reports, and is no value of the flowsheet."""
    patient = site.create()["id"]
    leukocytes(site, patient, "2025-01-01", 99, status="entered-in-error")
    text = page(site, patient, "/results")
    assert "<table" not in text
    assert in_order(text, ">entered in error<", "<bdi>99</bdi>")


@pytest.mark.parametrize(
    ("query", "matching"),
    [
        ("test=LEUKOCYTES", {"Leukocytes", "Count"}),
        ("test=6690", {"Leukocytes", "Count"}),
        ("test=x-ray", {"X-ray"}),
        ("category=laboratory", {"Leukocytes", "Count"}),
        ("from=2025-02-01", {"X-ray"}),
        ("to=2025-01-31", {"Leukocytes", "Count"}),
        ("from=2025-01-01&to=2025-12-31&test=&category=", {"Leukocytes", "Count", "X-ray"}),
        ("test=ferritin", set()),
    ],
)
def test_results_of_a_test_a_category_and_a_period(site: Inside, query: str, matching: set[str]) -> None:
    """The filter narrows flowsheet and reports, says what it matched, and offers all again."""
    patient = site.create()["id"]
    leukocytes(site, patient, "2025-01-15", 7)
    put(site, "DiagnosticReport", patient, code={"text": "X-ray"}, effectiveDateTime="2025-02-15")
    text = page(site, patient, f"/results?{query}")
    assert {name for name in ("Leukocytes", "Count", "X-ray") if f"<bdi>{name}</bdi>" in text} == matching
    assert "of 2 reports match" in text
    assert f'href="/chart/patients/{patient}/results">Show all' in text
    assert ("No reports match." in text) == (not matching)


@pytest.mark.parametrize(
    ("query", "matching"),
    [
        ("state=finished", {"Ended"}),
        ("state=in-progress", {"Ongoing"}),
        ("from=2025-02-01&state=", {"Ongoing"}),
        ("from=2025-01-04&to=2025-01-05", {"Ended"}),
        ("from=2025-01-03&to=2025-01-03", {"Ended", "Short"}),
        ("from=2025-01-02&to=2025-01-02", {"Ended"}),
        ("to=2024-12-31", set()),
    ],
)
def test_visits_of_a_state_and_a_period(site: Inside, query: str, matching: set[str]) -> None:
    """A visit is in each period that it touches, by the days it is written with; one in progress goes on."""
    patient = site.create()["id"]
    for reason, code, period in (
        ("Ended", "finished", {"start": "2025-01-02", "end": "2025-01-05"}),
        ("Ongoing", "in-progress", {"start": "2025-01-20"}),
        ("Short", "cancelled", {"start": "2025-01-03T23:30:00-05:00"}),
    ):
        put(site, "Encounter", patient, status=code, period=period, reasonCode=[{"text": reason}])
    text = page(site, patient, f"/visits?{query}")
    assert {name for name in ("Ended", "Ongoing", "Short") if f"<bdi>{name}</bdi>" in text} == matching
    assert f"{len(matching)} of 3 visits match" in text


def test_documents_of_a_kind(site: Inside) -> None:
    """By the code of the kind; a kind that is a text alone goes into no address."""
    patient = site.create()["id"]
    for kind in (concept("18842-5", "Discharge summary"), {"text": "Letter about Marisol"}):
        put(site, "DocumentReference", patient, type=kind)
    text = page(site, patient, "/documents")
    assert '<option value="18842-5">Discharge summary</option>' in text
    assert 'value="Letter' not in text
    narrowed = page(site, patient, "/documents?kind=18842-5")
    assert "1 of 2 documents match: <bdi>kind Discharge summary</bdi>" in narrowed
    assert narrowed.count('<li class="card">') == 1
    [other] = [one.partition('"')[0] for one in text.split('<option value="')[2:] if "Letter" in one]
    assert page(site, patient, f"/documents?kind={other}").count("<h2><a") == 1


@pytest.mark.parametrize("query", ["from=yesterday", "to=2025-13-01", "from=2025-01-01T00:00:00Z"])
def test_a_period_that_is_none(site: Inside, query: str) -> None:
    """What is no day is said, and no list is shown as if it were filtered."""
    patient = site.create()["id"]
    for path in ("results", "visits"):
        answer = Person(site).open(f"/chart/patients/{patient}/{path}?{query}")
        assert (answer.status_code, "Dates are written as" in answer.text) == (400, True)


def test_search_by_name_and_birth_date(site: Inside) -> None:
    """Hits are in the order of name and birth date, family name first, with their number."""
    for given, family, day in (
        ("Zoe", "Adler", "1970-01-01"),
        ("Ben", "Adlerson", "1980-01-01"),
        ("Ada", "Adler", "1990-01-01"),
        ("Ada", "Adler", "1950-01-01"),
    ):
        site.create(name=[{"family": family, "given": [given]}], birthDate=day)
    text = Person(site).send("/chart", name="adler").text
    assert "4 patients match." in text
    assert in_order(text, "1950-01-01", "1990-01-01", "Adler, Zoe", "Adlerson, Ben")
    assert "Adler, Ada" in text


def test_what_was_searched_for_without_a_match(site: Inside) -> None:
    """Nothing found: the page repeats what was entered, as text."""
    found = Person(site).send("/chart", name="Nobody<b>", birthdate="1984-02-29", identifier="RB-1")
    assert str(found.url) == f"{site.url}/chart"
    for part in (
        "No patients match name <bdi>“Nobody&lt;b&gt;”</bdi>, date of birth <bdi>“1984-02-29”</bdi>",
        "record number <bdi>“RB-1”</bdi>",
    ):
        assert part in found.text, part
    assert LOINC not in found.text


def test_on_paper(site: Inside) -> None:
    """The page for paper has who, born when, the MRN, when and by whom it was printed; no navigation and no form."""
    patient = site.create(identifier=[record_number("paper-1")])["id"]
    put(site, "Encounter", patient, status="finished", period={"start": "2025-01-02", "end": "2025-01-03"})
    person = Person(site)
    text = person.open(f"/chart/patients/{patient}/visits?state=finished").text
    link = f"/chart/patients/{patient}/visits?state=finished&print=1"
    assert f'href="{link.replace("&", "&amp;")}">Print<' in text
    paper = person.open(link).text
    for part in ("Marisol Ines Quintero", "1984-02-29", "paper-1", " UTC by <bdi>Ama Osei</bdi>", "2025-01-02"):
        assert part in paper, part
    for part in ("<nav", "<form", "Sign out", "Find a patient"):
        assert part not in paper, part
    assert f'href="/chart/patients/{patient}/visits?state=finished">Back to the chart<' in paper

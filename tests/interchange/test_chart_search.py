"""Search of the types of a chart: patients, codes, dates, references (points J)."""

from typing import Any

import pytest

from engine.fhir.schema import FhirVersion
from engine.interchange.rest.resource.catalogue import KEPT
from tests.interchange.kit import Running, issue, merge_body, record_number, running
from tests.interchange.least import least

CATEGORIES = "http://terminology.hl7.org/CodeSystem/observation-category"
LOINC = "http://loinc.org"


def concept(code: str, system: str) -> dict[str, Any]:
    """Return a CodeableConcept of one code."""
    return {"coding": [{"system": system, "code": code}]}


def to(reference: str) -> dict[str, str]:
    """Return a reference; names in braces are put in once they are known."""
    return {"reference": reference}


# In order of creation: name, type, patient, elements. `{name}` stands for the id of one before.
CHART: list[tuple[str, str, str, dict[str, Any]]] = [
    ("org", "Organization", "", {"name": "Riverbend"}),
    (
        "visit",
        "Encounter",
        "one",
        {
            "status": "finished",
            "type": [concept("acute", "urn:t")],
            "identifier": [{"system": "urn:visit", "value": "V1"}],
            "period": {"start": "2025-07-01T10:00:00+02:00", "end": "2025-07-03T12:00:00Z"},
        },
    ),
    ("open", "Encounter", "one", {"status": "in-progress", "period": {"start": "2025-08-01"}}),
    ("ended", "Encounter", "one", {"status": "finished", "period": {"end": "2025-01-31"}}),
    ("undated", "Encounter", "one", {"status": "planned"}),
    ("order", "ServiceRequest", "one", {"category": [concept("lab", "urn:c")]}),
    (
        "day",
        "Observation",
        "one",
        {
            "effectiveDateTime": "2025-07-01",
            "category": [concept("laboratory", CATEGORIES)],
            "code": concept("A", LOINC),
        },
    ),
    (
        "second",
        "Observation",
        "one",
        {
            "status": "preliminary",
            "effectiveDateTime": "2025-07-02T01:30:00+02:00",
            "category": [concept("vital-signs", CATEGORIES)],
            "code": concept("B", LOINC),
            "encounter": to("Encounter/{visit}"),
            "meta": {"tag": [{"system": "urn:t", "code": "x"}, {"system": "urn:t", "code": "y"}]},
        },
    ),
    (
        "period",
        "Observation",
        "one",
        {
            "effectivePeriod": {"start": "2025-06-15", "end": "2025-08-15"},
            "code": concept("A", "urn:other"),
            "meta": {"tag": [{"system": "urn:t", "code": "x"}]},
        },
    ),
    ("month", "Observation", "one", {"effectiveDateTime": "2025-07", "code": {"text": "words only"}}),
    ("theirs", "Observation", "two", {"effectiveDateTime": "2025-07-01", "code": concept("A", LOINC)}),
    (
        "old report",
        "DiagnosticReport",
        "one",
        {
            "effectiveDateTime": "2020-01-05",
            "basedOn": [to("ServiceRequest/{order}")],
            "category": [concept("LAB", "urn:c")],
            "code": concept("panel", LOINC),
            "encounter": to("Encounter/{visit}"),
            "identifier": [{"system": "urn:acc", "value": "1"}],
        },
    ),
    ("report", "DiagnosticReport", "two", {"effectiveDateTime": "2025-07-01", "status": "partial"}),
    (
        "letter",
        "DocumentReference",
        "one",
        {
            "date": "2025-07-01T10:00:00Z",
            "type": concept("letter", "urn:d"),
            "category": [concept("clinical", "urn:d")],
            "custodian": to("Organization/{org}"),
            "context": {"period": {"start": "2025-06-28", "end": "2025-06-30"}},
        },
    ),
    ("note", "DocumentReference", "one", {"date": "2025-07-05T10:00:00Z"}),
    ("summary", "DocumentReference", "two", {"date": "2025-08-01T10:00:00Z", "status": "superseded"}),
    ("asthma", "Condition", "one", {"code": concept("J45", "urn:icd"), "encounter": to("Encounter/{visit}")}),
    ("gout", "Condition", "one", {"code": concept("M10", "urn:icd")}),
    ("flu", "Condition", "two", {"code": concept("J45", "urn:icd")}),
    ("pills", "MedicationRequest", "one", {"status": "active"}),
    ("drops", "MedicationRequest", "one", {"status": "completed"}),
    ("taken", "MedicationStatement", "one", {"context": to("Encounter/{visit}")}),
    ("suture", "Procedure", "one", {"encounter": to("Encounter/{visit}")}),
    ("plan", "CarePlan", "one", {"category": [concept("assess-plan", "urn:c")]}),
    ("cover", "Coverage", "one", {}),
]

Charts = tuple[Running, dict[str, str]]


def filled(value: Any, ids: dict[str, str]) -> Any:
    """Return a value with the ids put in."""
    if isinstance(value, dict):
        return {key: filled(item, ids) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, ids) for item in value]
    return value.format(**ids) if isinstance(value, str) and "/{" in value else value


@pytest.fixture(scope="module")
def charts(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A service with two charts, and the ids of all that is in them by name."""
    with running(tmp_path_factory.mktemp("charts")) as service:
        ids = {name: service.create()["id"] for name in ("one", "two", "nobody's")}
        for name, type_name, patient, elements in CHART:
            made = {**least(type_name, ids.get(patient, "")), **filled(elements, ids)}
            answer = service.ask("POST", f"/fhir/R4/{type_name}", json=made)
            assert answer.status_code == 201, answer.text
            ids[name] = answer.json()["id"]
        yield service, ids


def found(charts: Charts, path: str, base: str = "/fhir/R4") -> set[str]:
    """Return the names of what a search finds; `{name}` in the path stands for an id."""
    service, ids = charts
    answer = service.ask("GET", f"{base}/{path.format(**ids, url=service.url)}")
    assert answer.status_code == 200, answer.text
    bundle = answer.json()
    assert bundle["total"] == len(bundle["entry"])
    names = {value: name for name, value in ids.items()}
    return {names[entry["resource"]["id"]] for entry in bundle["entry"]}


MINE = {"day", "second", "period", "month"}

SEARCHES = [
    pytest.param("Condition?patient={one}", {"asthma", "gout"}, id="C-230 id"),
    pytest.param("Condition?patient=Patient/{one}", {"asthma", "gout"}, id="C-230 reference"),
    pytest.param("Condition?patient={url}/fhir/R4/Patient/{one}", {"asthma", "gout"}, id="C-230 absolute, R4"),
    pytest.param("Condition?patient={url}/fhir/Patient/{one}", {"asthma", "gout"}, id="C-230 absolute, STU3"),
    pytest.param("Condition?patient={one},{two}", {"asthma", "gout", "flu"}, id="patients in OR"),
    pytest.param("DiagnosticReport", {"old report", "report"}, id="C-232 DiagnosticReport"),
    pytest.param("DocumentReference", {"letter", "note", "summary"}, id="C-232 DocumentReference"),
    pytest.param("Observation?patient={one}&code=A,B", {"day", "second", "period"}, id="C-233"),
    pytest.param("Observation?patient={one}&code=http://loinc.org|A,B", {"day", "second"}, id="C-233 with a system"),
    pytest.param("Observation?patient={one}&code=urn:other|", {"period"}, id="any code of a system"),
    pytest.param("Observation?patient={one}&code=a", set(), id="codes have case"),
    pytest.param("Observation?patient={one}&status=final", {"day", "period", "month"}, id="C-243 status"),
    pytest.param("Observation?patient={one}&status=final,preliminary", MINE, id="C-243 statuses"),
    pytest.param(
        "Observation?patient={one}&status=http://hl7.org/fhir/observation-status|final",
        {"day", "period", "month"},
        id="C-243 status, with the system that its element implies",
    ),
    pytest.param("Observation?patient={one}&status=urn:x|final", set(), id="C-243 status of another system"),
    pytest.param("Observation?patient={one}&status=|final", {"day", "period", "month"}, id="C-243 status, no system"),
    pytest.param("Observation?patient={one}&category=laboratory", {"day"}, id="C-243 category"),
    pytest.param(f"Observation?patient={{one}}&category={CATEGORIES}|laboratory", {"day"}, id="C-243 category, system"),
    pytest.param("Observation?patient={one}&category=urn:x|laboratory", set(), id="C-243 other system"),
    pytest.param("Observation?patient=unknown", set(), id="C-246"),
    pytest.param("Observation?patient={nobody's}", set(), id="an empty chart"),
    pytest.param("Observation?patient={one}&_tag=x&_tag=y", {"second"}, id="C-248"),
    pytest.param("Observation?patient={one}&_tag=x,y", {"second", "period"}, id="tags in OR"),
    pytest.param("Observation?patient={one}&encounter={visit}", {"second"}, id="encounter"),
    pytest.param("Observation?patient={one}&encounter=Encounter/{visit}", {"second"}, id="encounter by reference"),
    pytest.param("Observation?patient={one}&encounter=Encounter/{open}", set(), id="another encounter"),
    pytest.param("Encounter?patient={one}&identifier=urn:visit|V1", {"visit"}, id="identifier"),
    pytest.param("Encounter?patient={one}&type=acute", {"visit"}, id="type"),
    pytest.param("DiagnosticReport?code=panel&status=final", {"old report"}, id="report by code and status"),
    pytest.param("DiagnosticReport?category=LAB&encounter={visit}", {"old report"}, id="report by category"),
    pytest.param("DiagnosticReport?identifier=urn:acc|1", {"old report"}, id="report by identifier"),
    pytest.param("DiagnosticReport?based-on=ServiceRequest/{order}", {"old report"}, id="based-on"),
    pytest.param("DiagnosticReport?based-on={order}", {"old report"}, id="based-on by id"),
    pytest.param("DiagnosticReport?date=lt2020-06&_lastUpdated=gt2020-06", {"old report"}, id="C-247"),
    pytest.param("DiagnosticReport?date=gt2020-06", {"report"}, id="C-247 by the clinical date"),
    pytest.param("DiagnosticReport?_lastUpdated=lt2020-06", set(), id="C-247 by the update"),
    pytest.param("DocumentReference?patient={one}&type=letter&status=current", {"letter"}, id="document by type"),
    pytest.param("DocumentReference?custodian={org}", {"letter"}, id="custodian"),
    pytest.param("Condition?patient={one}&code=J45&encounter={visit}", {"asthma"}, id="condition"),
    pytest.param("MedicationRequest?patient={one}&status=active", {"pills"}, id="prescription"),
    pytest.param("MedicationStatement?patient={one}&encounter={visit}", {"taken"}, id="medication statement"),
    pytest.param("Procedure?patient={one}&encounter={visit}", {"suture"}, id="procedure"),
    pytest.param("CarePlan?patient={one}&category=urn:c|assess-plan", {"plan"}, id="care plan"),
    pytest.param("Coverage?patient={one}", {"cover"}, id="coverage by patient"),
    pytest.param("Coverage?beneficiary={one}", {"cover"}, id="coverage by beneficiary"),
    pytest.param("Observation?patient={one}&category:missing=true", {"period", "month"}, id="code missing"),
    pytest.param("Observation?patient={one}&category:missing=false", {"day", "second"}, id="code there"),
    pytest.param("Observation?patient={one}&encounter:missing=true", MINE - {"second"}, id="reference missing"),
    pytest.param("Observation?patient={one}&encounter:missing=false", {"second"}, id="reference there"),
    pytest.param("Observation?patient={one}&_tag:missing=true", {"day", "month"}, id="tag missing"),
    pytest.param("Encounter?patient={one}&date:missing=true", {"undated"}, id="date missing"),
    pytest.param("Encounter?patient={one}&date:missing=false", {"visit", "open", "ended"}, id="date there"),
    pytest.param("Encounter?patient={one}&identifier:missing=false", {"visit"}, id="identifier there"),
    pytest.param("DocumentReference?custodian:missing=true", {"note", "summary"}, id="missing alone"),
    pytest.param("DocumentReference?patient:missing=true", set(), id="patient missing"),
    pytest.param("DiagnosticReport?_id:missing=true", set(), id="_id missing"),
    pytest.param("DiagnosticReport?_lastUpdated:missing=false", {"old report", "report"}, id="_lastUpdated there"),
]


@pytest.mark.parametrize(("path", "expected"), SEARCHES)
def test_search(charts: Charts, base: str, path: str, expected: set[str]) -> None:
    """Each search of a chart finds exactly what it names, on both bases."""
    assert found(charts, path, base) == expected


# Dates in the address have their plus sign escaped.
DATES = [
    pytest.param("2025-07-01", {"day", "second"}, id="C-235 day"),
    pytest.param("eq2025-07-01", {"day", "second"}, id="C-235 eq"),
    pytest.param("2025-07", {"day", "second", "month"}, id="C-235 month"),
    pytest.param("2025", MINE, id="C-235 year"),
    pytest.param("2025-07-01T23:30:00Z", {"second"}, id="C-235 second"),
    pytest.param("2025-07-02T01:30:00%2B02:00", {"second"}, id="C-235 another time zone"),
    pytest.param("2025-07-02T01:30%2B02:00", {"second"}, id="C-235 minute"),
    pytest.param("2025-07-02", set(), id="C-235 the day there is not the day here"),
    pytest.param("ge2025-07-01", MINE, id="C-235 ge"),
    pytest.param("ge2025-07-02", {"period", "month"}, id="C-235 ge the next day"),
    pytest.param("gt2025-07-01", {"period", "month"}, id="C-235 gt"),
    pytest.param("gt2025-07-01T23:30:00Z", {"day", "period", "month"}, id="C-235 gt second"),
    pytest.param("gt2025-07", {"period"}, id="C-235 gt month"),
    pytest.param("le2025-07-01", MINE, id="C-235 le"),
    pytest.param("le2025-06", {"period"}, id="C-235 le month"),
    pytest.param("lt2025-07-01", {"period"}, id="C-235 lt"),
    pytest.param("lt2025-07-01T23:30:00Z", {"day", "period", "month"}, id="C-235 lt second"),
    pytest.param("lt2025-06-15", set(), id="C-235 lt the first day"),
    pytest.param("2025-07-01T23:30:00Z,gt2025-08", {"second"}, id="C-235 in OR"),
    pytest.param("le9999-12-31", MINE, id="C-235 the end of all calendars"),
]


@pytest.mark.parametrize(("value", "expected"), DATES)
def test_dates_of_observations(charts: Charts, value: str, expected: set[str]) -> None:
    """C-235: prefixes, partial dates, time zones and periods of the clinical date."""
    assert found(charts, f"Observation?patient={{one}}&date={value}") == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("2025-07", {"visit"}, id="within"),
        pytest.param("2025-07-02", set(), id="a day of it"),
        pytest.param("le2025-07-01", {"visit", "ended"}, id="le"),
        pytest.param("lt2025-07-01", {"ended"}, id="lt"),
        pytest.param("lt2025-07-01T08:00:01Z", {"visit", "ended"}, id="lt its first second"),
        pytest.param("ge2025-07-03", {"visit", "open"}, id="ge"),
        pytest.param("gt2025-07-03", {"open"}, id="gt"),
        pytest.param("gt2999", {"open"}, id="an open end"),
        pytest.param("lt0100", {"ended"}, id="an open start"),
    ],
)
def test_dates_of_encounters(charts: Charts, value: str, expected: set[str]) -> None:
    """C-235 on Encounter: periods, also those open at an end."""
    assert found(charts, f"Encounter?patient={{one}}&date={value}") == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("date=2025-07-05", {"note"}, id="C-239 eq"),
        pytest.param("date=ne2025-07-05", {"note"}, id="C-239 ne"),
        pytest.param("date=ge2025-07-05", {"note", "summary"}, id="C-239 ge"),
        pytest.param("date=sa2025-07-05", {"note", "summary"}, id="C-239 sa"),
        pytest.param("date=le2025-07-05", {"letter", "note"}, id="C-239 le"),
        pytest.param("date=eb2025-07-05", {"letter", "note"}, id="C-239 eb"),
        pytest.param("date=ge2025-07-02&date=le2025-07-31", {"note"}, id="C-240"),
        pytest.param("date=ge2025-07-01&date=le2025-07-31&patient={one}", {"letter", "note"}, id="C-240 in a chart"),
        pytest.param("date=ge2025-07-01&date=lt2025-07-01", set(), id="C-240 nothing between"),
        pytest.param("date=sa2025-07-05&date=eb2025-07-31", {"note"}, id="C-240 with prefixes that count as others"),
        pytest.param("date=ge2025-07-01&date=le2025-07-31&date=2025-07-05", {"note"}, id="C-240 three"),
        pytest.param("date=2025-07-01,2025-08-01", {"letter", "summary"}, id="one date or the other"),
        pytest.param("date=ge2025-07-05,2025-07-01&date=lt2025-08", {"letter", "note"}, id="one or the other, and"),
        pytest.param("date=gt2025-07-05T10:00:00Z", {"summary"}, id="after an instant"),
        pytest.param("period=2025-06", {"letter"}, id="C-239 period"),
        pytest.param("period=ne2025-06", {"letter"}, id="C-239 period ne"),
        pytest.param("period=sa2025-06-30", {"letter"}, id="C-239 period sa"),
        pytest.param("period=eb2025-06-27", set(), id="C-239 period eb"),
        pytest.param("period=ge2025-06&date=lt2025-07-05&patient={one}", {"letter"}, id="period and date"),
        pytest.param("_lastUpdated=sa2020&date=2025-07-05", {"note"}, id="C-239 _lastUpdated"),
    ],
)
def test_dates_of_documents(charts: Charts, base: str, query: str, expected: set[str]) -> None:
    """C-239, C-240: three prefixes count as others, and two dates make a range."""
    assert found(charts, f"DocumentReference?{query}", base) == expected


REFUSED = [
    *(
        pytest.param(f"{name}?patient={{one}}&date={prefix}2025-07-01", "not-supported", id=f"{point} {name} {prefix}")
        for name, point in (("Observation", "C-236"), ("Encounter", "C-237"), ("DiagnosticReport", "C-237"))
        for prefix in ("ne", "sa", "eb", "ap")
    ),
    pytest.param("DocumentReference?date=ap2025", "not-supported", id="C-238"),
    pytest.param("DocumentReference?date=ge2025&date=ap2025", "not-supported", id="C-238 beside another"),
    pytest.param("DocumentReference?date=2025,ap2025", "not-supported", id="C-238 in a list"),
    pytest.param("DocumentReference?period=ap2025", "not-supported", id="C-238 period"),
    pytest.param("DocumentReference?_lastUpdated=ap2025", "not-supported", id="C-238 _lastUpdated"),
    pytest.param("DocumentReference?period=ge2025&period=le2025", "invalid", id="C-241 period"),
    pytest.param("Observation?patient={one}&code=A&code=B", "invalid", id="C-234"),
    pytest.param("Observation?patient={one}&date=ge2025&date=le2026", "invalid", id="C-241"),
    pytest.param("Observation?patient={one}&patient={two}", "invalid", id="two patients"),
    pytest.param("Observation?patient={one}&value-quantity=gt5", "not-supported", id="C-242"),
    pytest.param("Observation?patient={one}&status:not=final", "not-supported", id="C-244"),
    pytest.param("Observation?patient={one}&status:exact=final", "not-supported", id="C-245"),
    pytest.param("Observation?patient={one}&code:text=a", "not-supported", id="other modifier"),
    pytest.param("Observation?patient:Patient={one}", "not-supported", id="typed reference"),
    pytest.param("Observation?patient={one}&encounter.patient.name=x", "not-supported", id="a chain of two links"),
    pytest.param("Observation?patient:identifier=urn:a|1", "not-supported", id="reference by identifier"),
    pytest.param("Observation?patient=https://else.example/fhir/Patient/1", "invalid", id="another host"),
    pytest.param("Observation?patient=", "invalid", id="no value"),
    pytest.param("Observation?patient=Patient/", "invalid", id="no id"),
    pytest.param("Observation?patient=/{one}", "invalid", id="no type"),
    pytest.param("Observation?patient={one},Patient/", "invalid", id="no second id"),
    pytest.param("Observation?patient=Patient/{one}/_history/1", "invalid", id="version of a patient"),
    pytest.param("Observation?patient=fhir/R4/Patient/{one}", "invalid", id="path"),
    pytest.param("Observation?patient={one}&date=2025-13", "invalid", id="no month"),
    pytest.param("Observation?patient={one}&date=2025-07-01T10:00:00 02:00", "invalid", id="a plus not escaped"),
    pytest.param("Observation?patient={one}&date=%D9%A2%D9%A0%D9%A2%D9%A5", "invalid", id="digits of another script"),
    pytest.param("Observation?patient={one}&category:missing=maybe", "invalid", id="missing maybe"),
    pytest.param("Observation?patient={one}&category:missing=true,false", "invalid", id="missing both"),
    pytest.param("Observation?patient={one}&category:missing", "invalid", id="missing what"),
    pytest.param("Observation?patient={one}&category=a&category:missing=true", "invalid", id="missing again"),
    pytest.param("Observation?patient={one}&_sort=based-on", "not-supported", id="_sort"),
    pytest.param("Observation?patient={one}&_include=Condition:patient", "invalid", id="_include"),
    pytest.param("Observation?patient={one}&_revinclude:iterate=Provenance:target", "not-supported", id="_revinclude"),
    pytest.param("Observation?patient={one}&_elements=name", "invalid", id="_elements"),
    pytest.param("Observation?patient={one}&_summary=True", "invalid", id="_summary"),
    pytest.param("Observation?patient={one}&_has:Provenance:agent:_id=1", "not-supported", id="_has"),
    pytest.param("Observation?patient={one}&derived-from={one}", "not-supported", id="a name that is not listed"),
    pytest.param("Observation?patient={one}&date=2025&=1", "not-supported", id="no name"),
]


@pytest.mark.parametrize(("path", "code"), REFUSED)
def test_refused_searches(charts: Charts, base: str, path: str, code: str) -> None:
    """What a search cannot mean is 400 and never silently ignored."""
    service, ids = charts
    issue(service.ask("GET", f"{base}/{path.format(**ids)}"), 400, code)


SCOPED = [
    "AllergyIntolerance",
    "CarePlan",
    "Condition",
    "Coverage",
    "Encounter",
    "FamilyMemberHistory",
    "Goal",
    "Immunization",
]
SCOPED += ["MedicationRequest", "MedicationStatement", "Observation", "Procedure", "ServiceRequest"]
BY_SUBJECT = {name for name in SCOPED if any(parameter.name == "subject" for parameter in KEPT[name].parameters)}
OPTIONAL = ["DiagnosticReport", "DocumentReference", "Organization", "Practitioner", "PractitionerRole", "Location"]


@pytest.mark.parametrize("type_name", SCOPED)
def test_charts_are_searched_by_patient(charts: Charts, base: str, type_name: str) -> None:
    """C-231: without a patient, or with one that is only said to be there, a search is 400 required."""
    service, _ = charts
    name = "ProcedureRequest" if type_name == "ServiceRequest" and base == "/fhir" else type_name
    for query in ("", "?subject:missing=false", "?patient:missing=false", "?_lastUpdated=gt2020"):
        if "subject" in query and type_name not in BY_SUBJECT:
            continue
        told = issue(service.ask("GET", f"{base}/{name}{query}"), 400, "required")
        assert told["location"] == ["http.patient"]
        assert f" {name} " in told["diagnostics"]


@pytest.mark.parametrize("type_name", SCOPED)
def test_charts_are_searched_by_id(charts: Charts, base: str, type_name: str) -> None:
    """N-205: what names the resource itself, its id or an identifier, needs no patient beside it."""
    service, _ = charts
    name = "ProcedureRequest" if type_name == "ServiceRequest" and base == "/fhir" else type_name
    for query in ("_id=x", "identifier=urn:none|x", *(["subject=x"] if type_name in BY_SUBJECT else [])):
        answer = service.ask("GET", f"{base}/{name}?{query}")
        assert (answer.status_code, answer.json()["total"]) == (200, 0)


@pytest.mark.parametrize("type_name", OPTIONAL)
def test_other_types_are_searched_without_a_patient(charts: Charts, base: str, type_name: str) -> None:
    """C-232: reports, documents and directories are searched without a patient."""
    service, _ = charts
    assert service.ask("GET", f"{base}/{type_name}").status_code == 200


def test_names_of_stu3(charts: Charts) -> None:
    """Section 6.2: STU3 calls a document's category class, and a service request procedure request."""
    service, ids = charts
    assert found(charts, "DocumentReference?class=clinical", "/fhir") == {"letter"}
    issue(service.ask("GET", "/fhir/DocumentReference?category=clinical"), 400, "not-supported")
    issue(service.ask("GET", "/fhir/R4/DocumentReference?class=clinical"), 400, "not-supported")
    assert found(charts, "ProcedureRequest?patient={one}&category=lab", "/fhir") == {"order"}
    assert found(charts, "DiagnosticReport?based-on=ProcedureRequest/{order}", "/fhir") == {"old report"}
    answer = service.ask("GET", f"/fhir/ProcedureRequest?patient={ids['one']}").json()
    assert answer["entry"][0]["fullUrl"] == f"{service.url}/fhir/ProcedureRequest/{ids['order']}"
    assert answer["link"][0]["url"].startswith(f"{service.url}/fhir/ProcedureRequest?patient=")


def test_a_chart_is_found_by_its_old_patient(own_service: Running, base: str) -> None:
    """Section 6A: who asks for a merged-away patient gets the chart of the survivor, over several merges."""
    ids = [own_service.create(identifier=[record_number(f"RB-{number}")])["id"] for number in range(3)]
    for patient_id in ids:
        answer = own_service.ask("POST", "/fhir/R4/Observation", json=least("Observation", patient_id))
        assert answer.status_code == 201
    for source, target in ((0, 1), (1, 2)):
        merged = own_service.ask("POST", "/fhir/R4/Patient/$merge", json=merge_body(ids[source], ids[target]))
        assert merged.status_code == 200, merged.text
    for patient_id in ids:
        for named in (patient_id, f"Patient/{patient_id}", f"{own_service.url}{base}/Patient/{patient_id}"):
            bundle = own_service.ask("GET", f"{base}/Observation?patient={named}").json()
            subjects = {entry["resource"]["subject"]["reference"] for entry in bundle["entry"]}
            assert (bundle["total"], subjects) == (3, {f"Patient/{ids[2]}"})


def test_many_values(charts: Charts) -> None:
    """A client may ask for as many ids as an address holds; more values than a query can have are 400."""
    service, ids = charts
    many = ",".join([ids["report"], ids["old report"], *(f"{number:024x}" for number in range(300))])
    assert found(charts, f"DiagnosticReport?_id={many}") == {"report", "old report"}
    path = f"DiagnosticReport?patient={ids['one']}&"
    for name in ("_id", "code", "identifier", "encounter", "date"):
        value = "2020" if name == "date" else "a"
        assert service.ask("GET", f"/fhir/R4/{path}{name}={','.join([value] * 400)}").status_code == 200
        issue(service.ask("GET", f"/fhir/R4/{path}{name}={','.join([value] * 401)}"), 400, "too-costly")


def test_bundles_of_charts(charts: Charts, base: str) -> None:
    """Section 6.3: self says what was asked, entry is there when empty, and every address is whole."""
    service, ids = charts
    bundle = service.ask("GET", f"{base}/Observation?patient={ids['one']}&code=A,B&_count=2").json()
    urls = {link["relation"]: link["url"] for link in bundle["link"]}
    address = f"{service.url}{base}/Observation"
    assert urls["self"] == f"{address}?patient={ids['one']}&code=A,B&_count=2"
    assert urls["next"] == f"{urls['self']}&_offset=2"
    assert [entry["fullUrl"] for entry in bundle["entry"]] == [f"{address}/{ids[name]}" for name in ("day", "second")]
    empty = service.ask("GET", f"{base}/Observation?patient={ids['one']}&code=none").json()
    assert (empty["entry"], empty["total"], len(empty["link"])) == ([], 0, 1)


def test_shapes_of_each_version(charts: Charts) -> None:
    """C-249: what a search returns has the shape of the base that was asked."""
    service, ids = charts
    path = f"DiagnosticReport?patient={ids['one']}"
    r4, stu3 = (service.ask("GET", f"{base}/{path}").json()["entry"][0]["resource"] for base in ("/fhir/R4", "/fhir"))
    assert r4["category"] == [concept("LAB", "urn:c")]
    assert stu3["category"] == concept("LAB", "urn:c")
    assert (r4["basedOn"], stu3["basedOn"]) == (
        [to(f"ServiceRequest/{ids['order']}")],
        [to(f"ProcedureRequest/{ids['order']}")],
    )
    assert (r4["encounter"], "encounter" in stu3) == (to(f"Encounter/{ids['visit']}"), False)
    order = service.ask("GET", f"/fhir/ProcedureRequest?patient={ids['one']}").json()["entry"][0]["resource"]
    assert order["resourceType"] == "ProcedureRequest"


def test_codes_of_stu3(own_service: Running) -> None:
    """C-249, C-243: what STU3 shows of a code and its system finds it there, and on R4 by either address."""
    patient_id = own_service.create()["id"]
    lab = {"coding": [{"system": "http://hl7.org/fhir/v2/0074", "code": "LAB"}]}
    report = {**least("DiagnosticReport", patient_id, FhirVersion.STU3), "category": lab}
    assert own_service.ask("POST", "/fhir/DiagnosticReport", json=report).status_code == 201
    order = {**least("ServiceRequest", patient_id, FhirVersion.STU3), "status": "suspended"}
    assert own_service.ask("POST", "/fhir/ProcedureRequest", json=order).status_code == 201
    scope = f"?patient={patient_id}&"
    for path, total in (
        (f"/fhir/DiagnosticReport{scope}category=http://hl7.org/fhir/v2/0074|LAB", 1),
        (f"/fhir/DiagnosticReport{scope}category=http://hl7.org/fhir/v2/0074|", 1),
        (f"/fhir/DiagnosticReport{scope}category=http://hl7.org/fhir/v2/0075|LAB", 0),
        (f"/fhir/R4/DiagnosticReport{scope}category=http://terminology.hl7.org/CodeSystem/v2-0074|LAB", 1),
        (f"/fhir/R4/DiagnosticReport{scope}category=http://hl7.org/fhir/v2/0074|LAB", 1),
        (f"/fhir/ProcedureRequest{scope}status=suspended", 1),
        (f"/fhir/R4/ServiceRequest{scope}status=on-hold", 1),
        (f"/fhir/R4/ServiceRequest{scope}status=suspended", 0),
    ):
        assert own_service.ask("GET", path).json()["total"] == total, path
    condition = f"patient={patient_id}&category=http://hl7.org/fhir/v2/0074|LAB"
    headers = {"if-none-exist": condition}
    assert own_service.ask("POST", "/fhir/DiagnosticReport", json=report, headers=headers).status_code == 200

"""The search parameters that FHIR clients and US Core ask for, on both bases."""

from typing import Any

import pytest

from engine.fhir.schema import FhirVersion
from engine.interchange.rest.resource.catalogue import KEPT
from tests.interchange.kit import Running, issue, merge_body, running
from tests.interchange.least import least

SPOKEN = "urn:ietf:bcp:47"
PEOPLE: dict[str, dict[str, Any]] = {
    "quintero": {
        "name": [{"family": "Quintero", "given": ["Marisol", "Ines"], "prefix": ["Dra."], "suffix": ["III"]}],
        "telecom": [
            {"system": "phone", "value": "+1 (503) 555-0142", "use": "home"},
            {"system": "email", "value": "M.Quintero@Mail.example"},
        ],
        "address": [
            {
                "line": ["12 Alder Way", "Apt 3"],
                "city": "Keswick",
                "state": "OR",
                "postalCode": "97301",
                "country": "US",
            }
        ],
        "active": True,
        "communication": [{"language": {"coding": [{"system": SPOKEN, "code": "es"}]}}],
        "managingOrganization": {"reference": "Organization/{org}"},
        "generalPractitioner": [{"reference": "Practitioner/{doctor}"}],
    },
    "vance": {
        "name": [{"family": "Vance", "given": ["Elisabeth"], "text": "Lady Elisabeth Vance"}],
        "telecom": [{"system": "fax", "value": "503.555.0142"}, {"value": "5035550142"}],
        "address": [{"text": "Keswick Road 1, Salem", "city": "Salem", "district": "Marion"}],
        "active": False,
        "deceasedBoolean": False,
    },
    "dead": {"name": [{"family": "Tod", "given": ["Al"]}], "deceasedDateTime": "2024-05-06T07:08:00Z"},
    "gone": {"name": [{"family": "Gone", "given": ["Bo"]}], "deceasedBoolean": True},
}


def concept(code: str, system: str = "urn:c") -> dict[str, Any]:
    """Return a CodeableConcept of one code."""
    return {"coding": [{"system": system, "code": code}]}


def filled(value: Any, ids: dict[str, str]) -> Any:
    """Return a value with the ids put in."""
    if isinstance(value, dict):
        return {key: filled(item, ids) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, ids) for item in value]
    return value.format(**ids) if isinstance(value, str) and "/{" in value else value


ADDRESS = {"line": ["1 Alder Way"], "city": "Keswick", "state": "OR", "postalCode": "97301", "country": "US"}
CODING = {"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB"}
# By name: type and elements; each of its type with a second one of the least, which no search below may find.
CHART: dict[str, tuple[str, dict[str, Any]]] = {
    "ward": ("Location", {"name": "4 East", "address": ADDRESS, "partOf": {"reference": "Location/{site}"}}),
    "role": (
        "PractitionerRole",
        {
            "practitioner": {"reference": "Practitioner/{doctor}"},
            "specialty": [concept("cardio")],
            "location": [{"reference": "Location/{site}"}],
        },
    ),
    "visit": (
        "Encounter",
        {
            "class": CODING,
            "identifier": [{"system": "urn:visit", "value": "V1"}],
            "location": [{"location": {"reference": "Location/{site}"}}],
            "participant": [{"individual": {"reference": "Practitioner/{doctor}"}}],
            "serviceProvider": {"reference": "Organization/{org}"},
        },
    ),
    "asthma": (
        "Condition",
        {"category": [concept("problem-list-item")], "clinicalStatus": concept("active", "urn:s")},
    ),
    "nuts": ("AllergyIntolerance", {"code": concept("nuts"), "clinicalStatus": concept("active", "urn:s")}),
    "pills": ("MedicationRequest", {"intent": "plan", "authoredOn": "2025-07-01", "status": "completed"}),
    "suture": ("Procedure", {"performedDateTime": "2025-07-01", "status": "stopped", "code": concept("s")}),
    "shot": ("Immunization", {"occurrenceDateTime": "2024-01-02", "status": "not-done"}),
    "order": ("ServiceRequest", {"code": concept("cbc"), "category": [concept("lab")], "authoredOn": "2025-07-01"}),
    "letter": ("DocumentReference", {"context": {"period": {"start": "2025-07-01", "end": "2025-07-02"}}}),
    "plan": ("CarePlan", {"period": {"start": "2025-07-01", "end": "2025-07-02"}, "status": "on-hold"}),
    "goal": ("Goal", {"lifecycleStatus": "on-hold", "target": [{"dueDate": "2025-07-01"}]}),
    "wife": ("RelatedPerson", {"name": [{"family": "Quintero", "given": ["Ana"]}]}),
}

Kept = tuple[Running, dict[str, str]]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A service with four patients, a directory and a chart, and the ids of all by name."""
    with running(tmp_path_factory.mktemp("parameters")) as service:
        ids: dict[str, str] = {}

        def make(name: str, type_name: str, body: dict[str, Any]) -> None:
            answer = service.ask("POST", f"/fhir/R4/{type_name}", json=filled(body, ids))
            assert answer.status_code == 201, answer.text
            ids[name] = answer.json()["id"]

        make("org", "Organization", {"resourceType": "Organization", "name": "Riverbend", "address": [ADDRESS]})
        make("site", "Location", {"resourceType": "Location", "name": "Main"})
        names = [{"family": "Osei", "given": ["Ama"], "prefix": ["Dr"]}]
        make("doctor", "Practitioner", {"resourceType": "Practitioner", "name": names})
        for name, elements in PEOPLE.items():
            ids[name] = service.create(**filled(elements, ids))["id"]
        for name, (type_name, elements) in CHART.items():
            make(name, type_name, {**least(type_name, ids["quintero"]), **elements})
            make(f"another {type_name}", type_name, least(type_name, ids["quintero"]))
        yield service, ids


def found(kept: Kept, path: str, base: str) -> set[str]:
    """Return the names of what a search finds; `{name}` in the path stands for an id."""
    service, ids = kept
    answer = service.ask("GET", f"{base}/{path.format(**ids)}")
    assert answer.status_code == 200, answer.text
    bundle = answer.json()
    assert bundle["total"] == len(bundle["entry"])
    names = {value: name for name, value in ids.items()}
    return {names[entry["resource"]["id"]] for entry in bundle["entry"]}


OF_PATIENT = {
    "N-200 name, a family name": ("name=quint", {"quintero"}),
    "N-200 name, a given name": ("name=ines", {"quintero"}),
    "N-200 name, a text": ("name=lady", {"vance"}),
    "N-200 name, a prefix": ("name=dra", {"quintero"}),
    "N-200 name, a suffix": ("name:exact=III", {"quintero"}),
    "N-200 name, in the middle": ("name:contains=lisa", {"vance"}),
    "N-200 name, several": ("name=tod,bo", {"dead", "gone"}),
    "N-200 name missing": ("name:missing=true", set()),
    "N-201 phone, its digits": ("phone=%2B15035550142", {"quintero"}),
    "N-201 phone, as it is written": ("phone=%2B1+503-555.0142", {"quintero"}),
    "N-201 phone is no fax": ("phone=5035550142", set()),
    "N-201 phone missing": ("phone:missing=false", {"quintero"}),
    "N-201 email": ("email=m.quintero@mail.EXAMPLE", {"quintero"}),
    "N-201 email, its system": ("email=email|m.quintero@mail.example", {"quintero"}),
    "N-201 telecom": ("telecom=(503)555-0142", {"vance"}),
    "N-201 telecom, of a system": ("telecom=fax|5035550142", {"vance"}),
    "N-201 telecom, any of a system": ("telecom=phone|,fax|", {"quintero", "vance"}),
    "N-202 address, a line": ("address=12 alder", {"quintero"}),
    "N-202 address, a city": ("address=keswick", {"quintero", "vance"}),
    "N-202 address, a district": ("address=marion", {"vance"}),
    "N-202 address-city": ("address-city=keswick", {"quintero"}),
    "N-202 address-state": ("address-state:exact=OR", {"quintero"}),
    "N-202 address-country": ("address-country=us", {"quintero"}),
    "N-202 address missing": ("address:missing=true", {"dead", "gone"}),
    "N-203 active": ("active=true", {"quintero"}),
    "N-203 inactive": ("active=false", {"vance"}),
    "N-203 active missing": ("active:missing=true", {"dead", "gone"}),
    "N-203 deceased": ("deceased=true", {"dead", "gone"}),
    "N-203 alive": ("deceased=false", {"quintero", "vance"}),
    "N-203 death-date": ("death-date=2024-05", {"dead"}),
    "N-203 death-date, a bound": ("death-date=lt2024-05-06", set()),
    "N-203 language": (f"language={SPOKEN}|es", {"quintero"}),
    "N-204 organization": ("organization={org}", {"quintero"}),
    "N-204 general-practitioner": ("general-practitioner=Practitioner/{doctor}", {"quintero"}),
    "N-204 ids": ("_id={quintero},{dead},none", {"quintero", "dead"}),
}


@pytest.mark.parametrize(("query", "expected"), OF_PATIENT.values(), ids=OF_PATIENT)
def test_patients(kept: Kept, base: str, query: str, expected: set[str]) -> None:
    """N-200 to N-204: each parameter of a Patient finds those it names, and nobody else."""
    assert found(kept, f"Patient?{query}", base) == expected


OF_CHARTS = {
    "N-206 Condition by category": ("Condition?subject={quintero}&category=problem-list-item", "asthma"),
    "N-206 Condition by clinical-status": ("Condition?patient={quintero}&clinical-status=active", "asthma"),
    "N-206 AllergyIntolerance by code": ("AllergyIntolerance?patient={quintero}&code=nuts", "nuts"),
    "N-206 AllergyIntolerance, active": ("AllergyIntolerance?patient={quintero}&clinical-status=active", "nuts"),
    "N-206 MedicationRequest by intent": ("MedicationRequest?subject={quintero}&intent=plan&status=completed", "pills"),
    "N-206 MedicationRequest by date": ("MedicationRequest?patient={quintero}&authoredon=ge2025-07", "pills"),
    "N-206 Procedure by date": ("Procedure?subject={quintero}&date=2025-07-01", "suture"),
    "N-206 Procedure by code and status": ("Procedure?patient={quintero}&code=urn:c|s&status=stopped", "suture"),
    "N-206 Immunization by date": ("Immunization?patient={quintero}&date=lt2024-02", "shot"),
    "N-206 Immunization by status": ("Immunization?patient={quintero}&status=not-done", "shot"),
    "N-206 DocumentReference by period": ("DocumentReference?patient={quintero}&period=2025-07", "letter"),
    "N-206 CarePlan by date and status": ("CarePlan?patient={quintero}&date=ge2025-07&status:missing=false", "plan"),
    "N-206 Goal by date": ("Goal?patient={quintero}&target-date=2025-07-01", "goal"),
    "N-206 Encounter by identifier": ("Encounter?identifier=urn:visit|V1", "visit"),
    "N-206 Encounter by class": ("Encounter?patient={quintero}&class=AMB", "visit"),
    "N-206 Encounter by place": ("Encounter?patient={quintero}&location={site}", "visit"),
    "N-206 Encounter by people": ("Encounter?subject=Patient/{quintero}&participant={doctor}", "visit"),
    "N-206 Encounter by provider": ("Encounter?subject={quintero}&service-provider={org}", "visit"),
    "N-206 Location by address": ("Location?address=alder&name=4", set[str]()),
    "N-206 Location by its line": ("Location?address=1 alder", "ward"),
    "N-206 Location by city": ("Location?address-city=kes&address=or", "ward"),
    "N-206 Location within": ("Location?partof={site}", "ward"),
    "N-206 Organization by address": ("Organization?address=keswick", "org"),
    "N-206 Organization by country": ("Organization?address-country=us", "org"),
    "N-206 Practitioner by family": ("Practitioner?family=osei&given=ama", "doctor"),
    "N-206 Practitioner by name": ("Practitioner?name=dr&name:missing=true", None),
    "N-206 Practitioner by any name": ("Practitioner?name=dr", "doctor"),
    "N-206 PractitionerRole by specialty": ("PractitionerRole?specialty=urn:c|cardio", "role"),
    "N-206 PractitionerRole by person": ("PractitionerRole?practitioner={doctor}", "role"),
    "N-206 PractitionerRole by place": ("PractitionerRole?location={site}", "role"),
    "N-206 RelatedPerson by name": ("RelatedPerson?patient={quintero}&name=ana", "wife"),
}


@pytest.mark.parametrize(("path", "expected"), OF_CHARTS.values(), ids=OF_CHARTS)
def test_charts(kept: Kept, base: str, path: str, expected: Any) -> None:
    """N-206: what US Core asks of each type finds the one that it names."""
    if expected is None:
        issue(kept[0].ask("GET", f"{base}/{path}"), 400, "invalid")
    else:
        assert found(kept, path, base) == ({expected} if isinstance(expected, str) else expected)


def test_orders(kept: Kept) -> None:
    """N-206: orders by code, and by category and date, under the name of each version."""
    for path in ("fhir/R4/ServiceRequest", "fhir/ProcedureRequest"):
        base, _, name = f"/{path}".rpartition("/")
        for query in ("code=cbc", "category=lab&authored=2025-07-01"):
            if "category" not in query or name == "ServiceRequest":
                assert found(kept, f"{name}?patient={{quintero}}&{query}", base) == {"order"}
    assert found(kept, "Goal?patient={quintero}&lifecycle-status=on-hold", "/fhir/R4") == {"goal"}
    assert found(kept, "Goal?patient={quintero}&status=on-hold", "/fhir") == {"goal"}


@pytest.mark.parametrize(
    "query",
    ["phone=fax|5035550142", "phone=a|b|c", "email=|", "telecom=", "active=yes", "deceased=1", "phone:exact=5"],
)
def test_refused(kept: Kept, base: str, query: str) -> None:
    """N-201, N-203: what cannot be meant is refused."""
    assert kept[0].ask("GET", f"{base}/Patient?{query}").status_code == 400


def test_links(service: Running, base: str) -> None:
    """N-204: `link` finds the survivor by the record whose place it took."""
    source, target = service.create()["id"], service.create()["id"]
    assert service.ask("POST", "/fhir/R4/Patient/$merge", json=merge_body(source, target)).status_code == 200
    for value in (source, f"Patient/{source}"):
        answer = service.ask("GET", f"{base}/Patient?link={value}").json()
        assert [entry["resource"]["id"] for entry in answer["entry"]] == [target]


@pytest.mark.parametrize("version", list(FhirVersion))
def test_each_parameter_is_declared(kept: Kept, version: FhirVersion) -> None:
    """N-207: the CapabilityStatement names each parameter with its type, and HL7's definition where there is one."""
    base = "/fhir/R4" if version is FhirVersion.R4 else "/fhir"
    rest = kept[0].http.get(f"{kept[0].url}{base}/metadata").json()["rest"][0]
    said = {one["type"]: {each["name"]: each for each in one["searchParam"]} for one in rest["resource"]}
    for name, definition in KEPT.items():
        if name != "ServiceRequest":
            assert set(said[name]) == set(definition.search_parameters(version))
    start = "http://hl7.org/fhir/SearchParameter/"
    assert said["Patient"]["phone"] == {"name": "phone", "type": "token", "definition": f"{start}individual-phone"}
    assert said["Condition"]["code"]["definition"] == f"{start}clinical-code"
    assert said["Location"]["address"]["definition"] == f"{start}Location-address"
    assert said["Patient"]["_id"]["definition"] == f"{start}Resource-id"
    assert "definition" not in said["Organization"]["ordering-enabled"]

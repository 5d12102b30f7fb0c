"""What US Core 6.1 asks of searches, by type: each parameter and each combination, on both bases."""

from typing import Any

import pytest

from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in
from engine.interchange.rest.resource.catalogue import KEPT
from tests.interchange.kit import Running
from tests.interchange.least import least, version_of

# US Core 6.1.0, CapabilityStatement us-core-server: what it says of searches of the types that are served, by what is
# asked for at once. CareTeam, Device and MedicationDispense are not served.
SHALL = {
    "AllergyIntolerance": ("patient",),
    "CarePlan": ("patient category",),
    "Condition": ("patient", "patient category"),
    "Coverage": ("patient",),
    "DiagnosticReport": ("patient", "patient category", "patient category date", "patient code"),
    "DocumentReference": ("_id", "patient", "patient category", "patient category date", "patient type"),
    "Encounter": ("_id", "patient", "date patient"),
    "Goal": ("patient",),
    "Immunization": ("patient",),
    "Location": ("address", "name"),
    "MedicationRequest": ("patient intent", "patient intent status"),
    "Observation": ("patient category", "patient category date", "patient code"),
    "Organization": ("address", "name"),
    "Patient": ("_id", "identifier", "name", "birthdate name", "gender name"),
    "Practitioner": ("identifier", "name"),
    "PractitionerRole": ("practitioner", "specialty", "practitioner.identifier", "practitioner.name"),
    "Procedure": ("patient", "patient date"),
    "QuestionnaireResponse": ("_id", "patient"),
    "RelatedPerson": ("_id",),
    "ServiceRequest": ("_id", "patient", "patient category", "patient category authored", "patient code"),
    "Specimen": ("_id",),
}
SHOULD = {
    "AllergyIntolerance": ("patient clinical-status",),
    "CarePlan": ("patient category date", "patient category status", "patient category status date"),
    "Condition": (
        *("patient abatement-date", "patient onset-date", "patient recorded-date", "patient code"),
        *("patient category clinical-status", "patient category encounter", "patient clinical-status"),
    ),
    "DiagnosticReport": ("patient code date", "patient status"),
    "DocumentReference": ("patient status", "patient type period"),
    "Encounter": (
        *("class patient", "identifier", "patient discharge-disposition", "patient location", "patient status"),
        "patient type",
    ),
    "Goal": ("patient description", "patient lifecycle-status", "patient target-date"),
    "Immunization": ("patient date", "patient status"),
    "Location": ("address-city", "address-postalcode", "address-state"),
    "MedicationRequest": ("patient intent authoredon", "patient intent encounter"),
    "Observation": ("patient category status", "patient code date"),
    "Patient": ("birthdate family", "death-date family", "family gender"),
    "Practitioner": ("_id",),
    "Procedure": ("patient code date", "patient status"),
    "QuestionnaireResponse": ("patient authored", "patient questionnaire", "patient status"),
    "RelatedPerson": ("patient", "name", "patient name"),
    "ServiceRequest": ("patient code authored", "patient status"),
    "Specimen": ("patient",),
}
# What it says beside: comparators of all dates but a Patient's, several statuses, and these.
DATES = {"abatement-date", "authored", "authoredon", "date", "onset-date", "period", "recorded-date", "target-date"}
INCLUDED = {"PractitionerRole": "PractitionerRole:practitioner"}
CODES = ("category", "class", "code", "description", "discharge-disposition", "intent", "specialty", "type")
VALUES = {
    **dict.fromkeys(DATES, "2025-07"),
    **dict.fromkeys(CODES, "urn:c|x"),
    **dict.fromkeys(("encounter", "location", "practitioner"), "none"),
    **dict.fromkeys(("birthdate", "death-date"), "1984-02-29"),
    "gender": "female",
}


def asked(definition: Any, version: FhirVersion, combination: str, who: str, **values: str) -> str:
    """Return the query of a combination, under the names of a version; `values` stand for the usual ones."""
    names = {one.name: one.stu3 if version is FhirVersion.STU3 and one.stu3 else one.name for one in definition}
    pairs = []
    for name in combination.split():
        head, dot, rest = name.partition(".")
        value = who if name == "patient" else values.get(name, VALUES.get(name, "x"))
        pairs.append(f"{names[head]}{dot}{rest}={value}")
    return "&".join(pairs)


@pytest.mark.parametrize("type_name", sorted(SHALL))
def test_each_search_is_answered(service: Running, base: str, type_name: str) -> None:
    """N-209, N-206: each parameter is declared, each combination is answered, and a date by each comparator."""
    version, definition = version_of(base), KEPT[type_name].parameters
    name, who = name_in(version, type_name), service.create()["id"]
    rest = service.http.get(f"{service.url}{base}/metadata").json()["rest"][0]
    declared = {
        one["type"]: {each["name"] for each in one["searchParam"]} | {*one.get("searchRevInclude", [])}
        for one in rest["resource"]
    }[name]
    for combination in (*SHALL[type_name], *SHOULD.get(type_name, ())):
        query = asked(definition, version, combination, who)
        assert {pair.partition("=")[0].partition(".")[0] for pair in query.split("&")} <= declared
        answer = service.ask("GET", f"{base}/{name}?{query}")
        assert answer.status_code == 200, (query, answer.text)
        assert "total" in answer.json()
        for date in DATES & {*combination.split()}:
            for comparator in ("gt", "ge", "lt", "le"):
                query = asked(definition, version, combination, who, **{date: f"{comparator}2025-07-01"})
                assert service.ask("GET", f"{base}/{name}?{query}").status_code == 200, query
        for status in {"status", "lifecycle-status"} & {*combination.split()}:
            query = asked(definition, version, combination, who, **{status: "active,completed"})
            assert service.ask("GET", f"{base}/{name}?{query}").status_code == 200, query
    assert "Provenance:target" in declared
    if type_name in INCLUDED:
        path = f"{base}/{name}?practitioner=none&_include={INCLUDED[type_name]}"
        assert service.ask("GET", path).status_code == 200


def test_what_the_dates_of_a_condition_find(service: Running, base: str) -> None:
    """N-209: onset, end and recording of a condition, each by its own name; an age or a text is no date."""
    version, who = version_of(base), service.create()["id"]
    recorded = "recordedDate" if version is FhirVersion.R4 else "assertedDate"
    given: dict[str, dict[str, Any]] = {
        "dated": {"onsetDateTime": "2020-05", "abatementDateTime": "2021-06-07", recorded: "2022-08-09"},
        "period": {"onsetPeriod": {"start": "2019", "end": "2020-06"}},
        "old": {"onsetAge": {"value": 7, "unit": "a", "system": "http://unitsofmeasure.org", "code": "a"}},
    }
    ids = {}
    for name, elements in given.items():
        body = least("Condition", who, version, **elements)
        answer = service.ask("POST", f"{base}/Condition", json=body)
        assert answer.status_code == 201, answer.text
        ids[answer.json()["id"]] = name
    when = "recorded-date" if version is FhirVersion.R4 else "asserted-date"
    wanted = {
        "onset-date=2020": {"dated"},
        "onset-date=ge2020-05-31": {"dated", "period"},
        "onset-date:missing=true": {"old"},
        "abatement-date=lt2022": {"dated"},
        f"{when}=2022-08": {"dated"},
        f"{when}=gt2022-08-09": set(),
    }
    for query, names in wanted.items():
        bundle = service.ask("GET", f"{base}/Condition?patient={who}&{query}").json()
        assert {ids[one["resource"]["id"]] for one in bundle["entry"]} == names, query


def test_discharges_goals_and_uses_of_addresses(service: Running, base: str) -> None:
    """N-209, N-202: a way of discharge, what a goal is about, and what an address is for find what has them."""
    version = version_of(base)
    who = service.create(base, address=[{"use": "temp", "city": "Keswick"}])["id"]
    concept = {"coding": [{"system": "urn:c", "code": "home"}]}
    hospital = {"dischargeDisposition": concept}
    bodies = {
        "Encounter?discharge-disposition=urn:c|home": least("Encounter", who, version, hospitalization=hospital),
        "Goal?description=home": least("Goal", who, version, description=concept),
    }
    for query, body in bodies.items():
        made = service.ask("POST", f"{base}/{body['resourceType']}", json=body)
        assert made.status_code == 201, made.text
        found = service.ask("GET", f"{base}/{query}&patient={who}").json()
        assert [one["resource"]["id"] for one in found["entry"]] == [made.json()["id"]]
        assert service.ask("GET", f"{base}/{query}x&patient={who}").json()["total"] == 0
    for use, total in (("temp", 1), ("http://hl7.org/fhir/address-use|temp", 1), ("home", 0)):
        assert service.ask("GET", f"{base}/Patient?_id={who}&address-use={use}").json()["total"] == total
    for name in ("Organization", "Location"):
        address = {"use": "work", "city": "Keswick"}
        body = {"resourceType": name, "name": "By use", "address": [address] if name == "Organization" else address}
        made = service.ask("POST", f"{base}/{name}", json=body).json()["id"]
        assert service.ask("GET", f"{base}/{name}?_id={made}&address-use=work").json()["total"] == 1
        assert service.ask("GET", f"{base}/{name}?_id={made}&address-use=old").json()["total"] == 0

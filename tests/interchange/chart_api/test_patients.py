"""The Chart API's patients: found, and read, with the external MRN and no other number."""

import pytest

from tests.interchange.chart import put, to
from tests.interchange.chart_api.charts import NPI, chart, concept, items
from tests.interchange.kit import MRN, Running, issue, merge_body, record_number

RACE = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race"


def test_demographics(service: Running) -> None:
    """C-540: who it is, with the external MRN; other identifiers of elsewhere are not shown."""
    doctor = put(service, "Practitioner", name=[{"given": ["Ama"], "family": "Osei"}])
    made = service.create(
        identifier=[record_number("demo-1"), {"system": "http://hl7.org/fhir/sid/us-ssn", "value": "999-12-3456"}],
        telecom=[{"system": "phone", "value": "555-0100", "use": "home"}],
        address=[{"use": "home", "line": ["1 Elm St"], "city": "Riverbend", "state": "OR", "postalCode": "97001"}],
        communication=[{"language": concept("es", "Spanish", "urn:ietf:bcp:47"), "preferred": True}],
        extension=[{"url": RACE, "extension": [{"url": "text", "valueString": "Asian"}]}],
        generalPractitioner=[to(doctor)],
        deceasedDateTime="2025-01-02",
        active=True,
    )
    answer = chart(service, f"patients/{made['id']}")
    assert "999-12-3456" not in answer.text
    assert answer.json() == {
        "id": made["id"],
        "name": "Marisol Ines Quintero",
        "birthDate": "1984-02-29",
        "gender": "female",
        "externalMrns": [{"system": MRN, "value": "demo-1"}],
        "active": True,
        "deceased": True,
        "names": [{"use": "official", "family": "Quintero", "given": ["Marisol", "Ines"]}],
        "deceasedAt": "2025-01-02",
        "contacts": [{"system": "phone", "value": "555-0100", "use": "home"}],
        "addresses": [
            {"use": "home", "lines": ["1 Elm St"], "city": "Riverbend", "state": "OR", "postalCode": "97001"}
        ],
        "languages": [
            {"language": {"code": "es", "codeSystem": "urn:ietf:bcp:47", "display": "Spanish"}, "preferred": True}
        ],
        "race": "Asian",
        "generalPractitioners": [{"name": "Ama Osei"}],
        "resourceChannelType": "INTERNAL",
    }


def test_found(service: Running) -> None:
    """By name, day of birth and number, as FHIR finds them; the first twenty unless more are asked for."""
    family = "Okonkwo"
    made = [
        service.create(name=[{"family": family, "given": [given]}], birthDate=day, identifier=[record_number(number)])
        for given, day, number in (("Ada", "1970-01-01", "found-1"), ("Ben", "1980-02-02", "found-2"))
    ]
    ids = [one["id"] for one in made]
    assert [item["id"] for item in items(service, f"patients?name={family}")] == ids
    assert [item["id"] for item in items(service, f"patients?family={family}&birthdate=1980-02-02")] == ids[1:]
    assert [item["id"] for item in items(service, f"patients?identifier={MRN}|found-1")] == ids[:1]
    assert items(service, f"patients?name={family}&gender=male") == []
    part = chart(service, f"patients?name={family}&limit=1&offset=1").json()
    assert (part["total"], [one["id"] for one in part["items"]]) == (2, ids[1:])
    assert part["items"][0] == {
        "id": ids[1],
        "name": "Ben Okonkwo",
        "names": [{"family": "Okonkwo", "given": ["Ben"]}],
        "birthDate": "1980-02-02",
        "gender": "female",
        "externalMrns": [{"system": MRN, "value": "found-2"}],
        "resourceChannelType": "INTERNAL",
    }


def test_sorted_by_name(service: Running) -> None:
    """`sort=name`: by family name, given name and birth date, over all pages; without it in order of creation."""
    family = f"Adeyemi{service.create()['id'][:6]}"
    people = (("Zoe", "1970-01-01"), ("Ada", "1990-05-05"), ("Ada", "1950-05-05"))
    made = [service.create(name=[{"family": family, "given": [who]}], birthDate=day)["id"] for who, day in people]
    assert [item["id"] for item in items(service, f"patients?name={family}")] == made
    ordered = [made[2], made[1], made[0]]
    assert [item["id"] for item in items(service, f"patients?name={family}&sort=name")] == ordered
    assert [item["id"] for item in items(service, f"patients?name={family}&sort=name&offset=1")] == ordered[1:]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("sort=family", "invalid"),
        ("_id=1", "not-supported"),
        ("_include=Patient:link", "not-supported"),
        ("_sort=family", "not-supported"),
        ("_format=json", "not-supported"),
        ("general-practitioner=1", "not-supported"),
        ("birthdate=yesterday", "invalid"),
        ("limit=0", "invalid"),
        ("name=a&name=b", "invalid"),
        ("limit=100&offset=9999", "too-costly"),
    ],
)
def test_what_is_not_searched_for(service: Running, query: str, code: str) -> None:
    """A parameter that is not among those of the API, or nonsense, is 400."""
    issue(chart(service, f"patients?{query}"), 400, code)


def test_merged_and_gone(service: Running) -> None:
    """As FHIR reads it: a merged-away record is shown, with its survivor; a deleted one is 410; nobody is 404."""
    source, target = service.create()["id"], service.create()["id"]
    assert service.ask("POST", "/fhir/R4/Patient/$merge", json=merge_body(source, target)).status_code == 200
    shown = chart(service, f"patients/{source}").json()
    assert (shown["id"], shown["active"], shown["mergedInto"]) == (source, False, target)
    assert service.ask("DELETE", f"/fhir/R4/Patient/{target}").status_code == 204
    issue(chart(service, f"patients/{target}"), 410, "deleted")
    issue(chart(service, "patients/nobody"), 404, "not-found")
    issue(chart(service, f"patients/{target}?limit=1"), 400, "not-supported")


def test_the_care_team(service: Running) -> None:
    """Who cares for the patient, each once: the general practitioner, then who took part in visits, latest first."""
    family = put(service, "Practitioner", name=[{"text": "Gene Practice"}])
    attending = put(
        service, "Practitioner", name=[{"text": "Att Ending"}], identifier=[{"system": NPI, "value": "1659999990"}]
    )
    patient = service.create(generalPractitioner=[to(family)])["id"]
    role = concept("ATND", "attender", "http://terminology.hl7.org/CodeSystem/v3-ParticipationType")
    for day, people in (
        ("2024-01-01", [{"individual": to(attending)}]),
        ("2025-01-01", [{"individual": to(attending), "type": [role]}, {"individual": {"display": "A nurse"}}]),
        ("2023-01-01", [{"individual": {"display": "A nurse"}}, {"type": [role]}]),
    ):
        put(service, "Encounter", patient, period={"start": day, "end": day}, participant=people)
    found = items(service, f"patients/{patient}/care-teams/members")
    assert [one["name"] for one in found] == ["Gene Practice", "Att Ending", "A nurse"]
    assert found[0]["roles"] == [{"display": "General practitioner"}]
    assert found[1] == {
        "id": attending.partition("/")[2],
        "name": "Att Ending",
        "npi": "1659999990",
        "roles": [
            {
                "code": "ATND",
                "codeSystem": "http://terminology.hl7.org/CodeSystem/v3-ParticipationType",
                "display": "attender",
            }
        ],
        "lastSeen": "2025-01-01",
        "resourceChannelType": "INTERNAL",
    }
    part = chart(service, f"patients/{patient}/care-teams/members?limit=1&offset=2").json()
    assert (part["total"], [one["name"] for one in part["items"]]) == (3, ["A nurse"])

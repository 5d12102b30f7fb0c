"""References in what is written: ours made relative, unknown and foreign ones refused, and those to merged-away."""

from typing import Any

import pytest

from engine.fhir.versions.names import name_in
from engine.interchange.rest.resource.catalogue import KEPT
from tests.interchange.kit import Running, issue, merge_body, patient
from tests.interchange.least import LEAST, least, version_of

OF_A_PATIENT = sorted(name for name in LEAST if KEPT[name].patient)


def observation(patient_id: str, **more: Any) -> dict[str, Any]:
    """Return an Observation of a patient."""
    return least("Observation", patient_id, **more)


def tombstone(service: Running) -> tuple[str, str]:
    """Merge two new patients, and return the ids of the one that is gone and of the survivor."""
    gone, survivor = service.create()["id"], service.create()["id"]
    assert service.ask("POST", "/fhir/R4/Patient/$merge", json=merge_body(gone, survivor)).status_code == 200
    return gone, survivor


@pytest.mark.parametrize(
    "reference",
    [
        pytest.param("Practitioner/nobody", id="unknown"),
        pytest.param("Practitioner/", id="no id"),
        pytest.param("Practitioner", id="only a type"),
        pytest.param("/Practitioner/x", id="from the root"),
        pytest.param("practitioner/x", id="letter case"),
        pytest.param("Medication/x", id="a type that is not kept"),
        pytest.param("Nonsense/x", id="no type"),
        pytest.param("#x", id="nothing contained"),
        pytest.param("urn:uuid:2f4c7a52-6f56-4a5e-9a53-9ad1a5b8c6a0", id="URN"),
        pytest.param("https://elsewhere.example/fhir/Practitioner/x", id="other host"),
        pytest.param("//elsewhere.example/fhir/Practitioner/x", id="no scheme"),
    ],
)
def test_references_that_lead_nowhere(service: Running, base: str, reference: str) -> None:
    """C-387 for every reference: one that does not resolve here is 422 at its path, wherever it stands."""
    patient_id = service.create()["id"]
    for elements, location in (
        ({"performer": [{"reference": reference}]}, "Observation.performer[0].reference"),
        (
            {"extension": [{"url": "https://x.example", "valueReference": {"reference": reference}}]},
            "Observation.extension[0].valueReference.reference",
        ),
    ):
        answer = service.ask("POST", f"{base}/Observation", json=observation(patient_id, **elements))
        assert issue(answer, 422, "not-found")["location"] == [location]


def test_very_many_references_that_lead_nowhere(service: Running, base: str) -> None:
    """The first hundred issues are told: the answer to a large body is no larger one."""
    nobody = [{"reference": f"Practitioner/nobody-{number}"} for number in range(500)]
    answer = service.ask("POST", f"{base}/Observation", json=observation(service.create()["id"], performer=nobody))
    issue(answer, 422, "not-found")
    assert len(answer.json()["issue"]) == 100


def test_two_references_that_lead_nowhere(service: Running, base: str) -> None:
    """Each reference that does not resolve is an issue of its own."""
    body = observation("nobody", performer=[{"reference": "Practitioner/nobody"}])
    answer = service.ask("POST", f"{base}/Observation", json=body)
    assert [one["location"][0] for one in answer.json()["issue"]] == [
        "Observation.subject.reference",
        "Observation.performer[0].reference",
    ]


def test_another_tenants_resource_does_not_exist(service: Running, base: str) -> None:
    """C-014: a reference to what another tenant has is answered as one to nothing."""
    theirs, nobody = service.create(client="other", birthDate="1931-01-01")["id"], "0" * 24
    answers = [service.ask("POST", f"{base}/Observation", json=observation(one)) for one in (theirs, nobody)]
    for answer in answers:
        issue(answer, 422, "not-found")
    assert answers[0].json() == answers[1].json()


def test_own_addresses_become_relative(service: Running, base: str) -> None:
    """Section 1: absolute references under either base are kept as Type/id, deep in the resource too."""
    patient_id = service.create()["id"]
    organization = service.ask("POST", f"{base}/Organization", json={"resourceType": "Organization", "name": "A"})
    organization_id = organization.json()["id"]
    body = observation(
        f"{patient_id}/_history/1",
        performer=[{"reference": f"{service.url}/fhir/Organization/{organization_id}"}],
        extension=[
            {
                "url": "https://x.example",
                "extension": [
                    {"url": "a", "valueReference": {"reference": f"{service.url}/fhir/R4/Patient/{patient_id}"}}
                ],
            }
        ],
        contained=[
            {
                "resourceType": "Specimen",
                "id": "s",
                "subject": {"reference": f"{service.url}{base}/Patient/{patient_id}"},
            }
        ],
        specimen={"reference": "#s"},
    )
    made = service.ask("POST", f"{base}/Observation", json=body)
    assert made.status_code == 201, made.text
    kept = made.json()
    assert kept["subject"]["reference"] == f"Patient/{patient_id}/_history/1"
    assert kept["performer"][0]["reference"] == f"Organization/{organization_id}"
    assert kept["extension"][0]["extension"][0]["valueReference"]["reference"] == f"Patient/{patient_id}"
    assert kept["contained"][0]["subject"]["reference"] == f"Patient/{patient_id}"
    assert kept["specimen"] == {"reference": "#s"}
    found = service.ask("GET", f"{base}/Observation?patient={patient_id}").json()
    assert [entry["resource"]["id"] for entry in found["entry"]] == [kept["id"]]


def test_an_order_is_named_as_its_version_names_it(service: Running) -> None:
    """Section 18: ProcedureRequest/x is what R4 calls ServiceRequest/x, in paths of refusals too."""
    patient_id = service.create()["id"]
    body = least("ServiceRequest", patient_id, version_of("/fhir"))
    made = service.ask("POST", "/fhir/ProcedureRequest", json=body, headers={"prefer": "return=OperationOutcome"})
    order_id = made.headers["location"].removeprefix(f"{service.url}/fhir/ProcedureRequest/").partition("/_history/")[0]
    assert "ProcedureRequest/" in made.json()["issue"][0]["diagnostics"]
    report = least("DiagnosticReport", patient_id, version_of("/fhir"))
    report["basedOn"] = [{"reference": f"{service.url}/fhir/ProcedureRequest/{order_id}"}]
    kept = service.ask("POST", "/fhir/DiagnosticReport", json=report).json()
    r4 = service.ask("GET", f"/fhir/R4/DiagnosticReport/{kept['id']}").json()
    assert r4["basedOn"] == [{"reference": f"ServiceRequest/{order_id}"}]
    refused = service.ask("POST", "/fhir/ProcedureRequest", json={**body, "subject": {"reference": "Patient/nobody"}})
    assert issue(refused, 422, "not-found")["location"] == ["ProcedureRequest.subject.reference"]


@pytest.mark.parametrize("type_name", OF_A_PATIENT)
def test_nothing_new_for_a_merged_away_patient(service: Running, base: str, type_name: str) -> None:
    """Section 6A: a resource that names a merged-away patient is 422, created or updated, and names the survivor."""
    gone, survivor = tombstone(service)
    version = version_of(base)
    name = name_in(version, type_name)
    refused = service.ask("POST", f"{base}/{name}", json=least(type_name, gone, version))
    assert f"Patient/{survivor}" in issue(refused, 422, "business-rule")["diagnostics"]
    made = service.ask("POST", f"{base}/{name}", json=least(type_name, survivor, version)).json()
    moved = least(type_name, gone, version, id=made["id"])
    issue(service.ask("PUT", f"{base}/{name}/{made['id']}", json=moved), 422, "business-rule")
    assert service.ask("GET", f"{base}/{name}/{made['id']}").json() == made


def test_no_reference_at_all_to_a_merged_away_patient(service: Running, base: str) -> None:
    """Section 6A: elsewhere in a resource too, for nobody would find it; a survivor keeps its own link."""
    gone, survivor = tombstone(service)
    body = observation(survivor, performer=[{"reference": f"Patient/{gone}"}])
    found = issue(service.ask("POST", f"{base}/Observation", json=body), 422, "business-rule")
    assert found["location"] == ["Observation.performer[0].reference"]
    link = [{"other": {"reference": f"Patient/{gone}"}, "type": "seealso"}]
    bystander = patient(link=link)
    issue(
        service.ask("POST", f"{base}/Patient", json=bystander, headers={"prefer": "create-always"}),
        422,
        "business-rule",
    )
    read = service.ask("GET", f"{base}/Patient/{survivor}").json()
    assert service.ask("PUT", f"{base}/Patient/{survivor}", json=read).json()["link"] == read["link"]


@pytest.mark.parametrize("wrong", ["{id}%20", "%20{id}", "{id}%0a", "{id}%09", "Patient/{id}%20", "Observation/{id}"])
@pytest.mark.parametrize("name", ["patient", "subject", "_id"])
def test_a_search_by_what_is_no_patient(service: Running, base: str, name: str, wrong: str) -> None:
    """A value that names no patient is 400, in a search and in a condition: it looked like an empty chart."""
    made = service.create()["id"]
    body = least("Observation", made, version_of(base))
    service.ask("POST", f"{base}/Observation", json=body)
    value = wrong.format(id=made)
    if name == "subject" and wrong.startswith("Observation"):
        return
    kind = "Patient" if name == "_id" else "Observation"
    issue(service.ask("GET", f"{base}/{kind}?{name}={value}"), 400, "invalid")
    if name != "_id":
        condition = {"if-none-exist": f"{name}={value}&code=x"}
        issue(service.ask("POST", f"{base}/Observation", json=body, headers=condition), 400, "invalid")
        issue(service.ask("GET", f"{base}/Bundle?patient={value}", client="system"), 400, "invalid")


@pytest.mark.parametrize(
    "query",
    [
        *(
            "Patient?identifier=%20",
            "Patient?identifier=%20x",
            "Patient?identifier=x%0a",
            "Patient?identifier=urn:x|%20x",
        ),
        *("Patient?identifier=urn:%20x|1", "Patient?identifier=urn:x%20|", "Patient?identifier=x,%20y"),
        *("Patient?gender=%20male", "Patient?_tag=urn:x|a%09b", "Patient?_id=Patient/x", "Patient?_id=%20x"),
        *("Observation?patient=x&code=%20a", "Observation?patient=x&code=urn:%20x|a", "Observation?patient=%20"),
        *("Observation?patient.identifier=%20x", "Questionnaire?url=urn:x%20", "Bundle?_id=%20x", "Bundle?_id="),
    ],
)
def test_a_search_by_what_no_value_can_be(service: Running, base: str, query: str) -> None:
    """Blanks around a code, an identifier or an id, and any in an address, are 400: they found nothing, silently."""
    issue(service.ask("GET", f"{base}/{query}", client="system"), 400, "invalid")


def test_an_identifier_may_have_blanks_within(service: Running, base: str) -> None:
    """Only those around it are refused."""
    made = service.create(identifier=[{"system": "urn:x", "value": "12 34\t5"}])["id"]
    for value in ("12%2034%095", "urn:x|12%2034%095"):
        found = service.ask("GET", f"{base}/Patient?identifier={value}").json()
        assert made in {one["resource"]["id"] for one in found["entry"]}


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (
            "Observation?patient=x&date=ge2024-05-01&date=le2024-05-31T10:00:00Z",
            "$everything?_type=Observation&start=2024-05-01&end=2024-05-31",
        ),
        ("Patient?birthdate=ge1984-02-01&birthdate=lt1984-03", "birthdate once, with a month or a year"),
        ("Observation?patient=x&code=a&code=b", "code=a,b"),
    ],
)
def test_a_repeated_parameter_is_told_the_way(service: Running, base: str, query: str, told: str) -> None:
    """The specification's rule 7 stands: its refusal says which may be repeated, and how to write the one at hand."""
    text = issue(service.ask("GET", f"{base}/{query}"), 400, "invalid")["diagnostics"]
    assert told in text
    assert "date of DocumentReference" in text
    assert "1984" not in text

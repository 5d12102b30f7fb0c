"""Each category of the Chart API: what it says of a record, and that it says it as the OpenAPI document does."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from engine.interchange.web.chart.category import CATEGORIES
from engine.interchange.web.chart.operation import LISTINGS
from tests.interchange.chart import put, rich_chart, to
from tests.interchange.chart_api.charts import chart, concept, items, lipids
from tests.interchange.kit import Running, issue

Json = Any
ICD, RXNORM, CVX = "http://hl7.org/fhir/sid/icd-10-cm", "http://www.nlm.nih.gov/research/umls/rxnorm", "urn:cvx"
CLINICAL = "http://terminology.hl7.org/CodeSystem/{}-clinical"
DIABETES = {"code": "E11.9", "codeSystem": ICD, "display": "Type 2 diabetes"}
PENICILLIN = {"code": "7980", "codeSystem": RXNORM, "display": "Penicillin"}

# By category: type, elements, and what the item says beside its id and channel.
SAID: dict[str, tuple[str, dict[str, Json], dict[str, Json]]] = {
    "problems": (
        "Condition",
        {
            "code": concept("E11.9", "Type 2 diabetes", ICD),
            "clinicalStatus": concept("active", "Active", CLINICAL.format("condition")),
            "onsetDateTime": "2019-03",
            "abatementPeriod": {"start": "2020", "end": "2021"},
            "recordedDate": "2019-04-01",
            "recorder": {"display": "Ama Osei"},
            "note": [{"text": "By diet"}],
        },
        {
            "problem": DIABETES,
            "clinicalStatus": "active",
            "onset": "2019-03",
            "abatement": "2020",
            "recorded": "2019-04-01",
            "recorder": {"name": "Ama Osei"},
            "note": "By diet",
        },
    ),
    "allergies": (
        "AllergyIntolerance",
        {
            "code": concept("7980", "Penicillin", RXNORM),
            "clinicalStatus": concept("active", "Active", CLINICAL.format("allergyintolerance")),
            "category": ["medication"],
            "criticality": "high",
            "reaction": [{"manifestation": [{"text": "Hives"}], "severity": "mild"}],
        },
        {
            "allergy": PENICILLIN,
            "categories": ["medication"],
            "criticality": "high",
            "clinicalStatus": "active",
            "reactions": [{"manifestations": [{"display": "Hives"}], "severity": "mild"}],
        },
    ),
    "medications": (
        "MedicationRequest",
        {
            "medicationCodeableConcept": concept("7980", "Penicillin", RXNORM),
            "authoredOn": "2025-05-01",
            "dosageInstruction": [{"text": "One a day"}],
            "requester": {"display": "Ama Osei"},
        },
        {
            "kind": "ordered",
            "medication": PENICILLIN,
            "status": "active",
            "intent": "order",
            "date": "2025-05-01",
            "dosages": ["One a day"],
            "prescriber": {"name": "Ama Osei"},
        },
    ),
    "immunizations": (
        "Immunization",
        {
            "vaccineCode": concept("207", "Spikevax", CVX),
            "lotNumber": "A1",
            "doseQuantity": {"value": 0.5, "unit": "mL"},
            "manufacturer": {"display": "Moderna"},
            "performer": [{"actor": {"display": "A nurse"}}],
        },
        {
            "vaccine": {"code": "207", "codeSystem": CVX, "display": "Spikevax"},
            "status": "completed",
            "occurrence": "2025-07-01",
            "lotNumber": "A1",
            "manufacturer": "Moderna",
            "dose": "0.5 mL",
            "performer": {"name": "A nurse"},
        },
    ),
    "encounters": (
        "Encounter",
        {
            "period": {"start": "2025-07-01T10:00:00Z", "end": "2025-07-02T10:00:00Z"},
            "type": [{"text": "Checkup"}],
            "reasonCode": [{"text": "Cough"}],
            "location": [{"location": {"display": "4 East"}}],
            "participant": [{"individual": {"display": "Ama Osei"}}],
            "serviceProvider": {"display": "Riverbend"},
            "hospitalization": {"dischargeDisposition": {"text": "Home"}},
        },
        {
            "status": "finished",
            "class": {"code": "IMP", "display": "IMP"},
            "types": [{"display": "Checkup"}],
            "start": "2025-07-01T10:00:00Z",
            "end": "2025-07-02T10:00:00Z",
            "reasons": [{"display": "Cough"}],
            "participants": [{"provider": {"name": "Ama Osei"}}],
            "locations": ["4 East"],
            "organization": "Riverbend",
            "dischargeDisposition": {"display": "Home"},
        },
    ),
    "documents": (
        "DocumentReference",
        {
            "type": concept("34133-9", "Summary"),
            "date": "2025-07-01T10:00:00Z",
            "author": [{"display": "Ama Osei"}],
            "custodian": {"display": "Riverbend"},
            "content": [{"attachment": {"contentType": "text/plain", "title": "Letter", "url": "https://x.example/1"}}],
        },
        {
            "title": "Letter",
            "type": {"code": "34133-9", "codeSystem": "http://loinc.org", "display": "Summary"},
            "status": "current",
            "date": "2025-07-01T10:00:00Z",
            "authors": ["Ama Osei"],
            "custodian": "Riverbend",
            "attachments": [{"contentType": "text/plain", "title": "Letter", "url": "https://x.example/1"}],
        },
    ),
}


@pytest.mark.parametrize("path", SAID)
def test_what_is_said(service: Running, path: str) -> None:
    """C-540: an item says what its record does in plain words, with its codes, and from where it came."""
    type_name, elements, said = SAID[path]
    patient = service.create()["id"]
    made = put(service, type_name, patient, **elements)
    [item] = items(service, f"patients/{patient}/{path}")
    assert item == {"id": made.partition("/")[2], **said, "resourceChannelType": "INTERNAL"}


def test_medications_of_both_kinds(service: Running) -> None:
    """Ordered and stated medications are one list, newest first, also a part of it at a time."""
    patient = service.create()["id"]
    for type_name, element, day in (
        ("MedicationRequest", "authoredOn", "2025-01-01"),
        ("MedicationStatement", "effectiveDateTime", "2025-02-01"),
        ("MedicationRequest", "authoredOn", "2025-03-01"),
    ):
        put(service, type_name, patient, **{element: day})
    path = f"patients/{patient}/medications"
    assert [item["kind"] for item in items(service, path)] == ["ordered", "stated", "ordered"]
    assert [item["date"] for item in items(service, f"{path}?limit=2&offset=1")] == ["2025-02-01", "2025-01-01"]


def test_where_a_document_is_read(service: Running) -> None:
    """What the service keeps has its address here; the token opens it there too."""
    patient = service.create()["id"]
    binary = put(service, "Binary", securityContext=to(f"Patient/{patient}"))
    put(service, "DocumentReference", patient, content=[{"attachment": {"url": binary, "title": "Letter"}}])
    [item] = items(service, f"patients/{patient}/documents")
    [attachment] = item["attachments"]
    assert attachment["url"].endswith(f"/fhir/R4/{binary}")
    answer = service.ask("GET", attachment["url"].partition("/fhir")[1] + attachment["url"].partition("/fhir")[2])
    assert answer.status_code == 200


@pytest.fixture(scope="module")
def document(service: Running) -> Json:
    """The OpenAPI document, asked for without a token."""
    answer = service.http.get(f"{service.url}/chart/v1/openapi.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    return answer.json()


def closed(schema: Json) -> Json:
    """Return schemas in which no object has a field that is not told of."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(value) for name, value in schema.items()}
    return {**made, "unevaluatedProperties": False} if "allOf" in made else made


def test_the_document_is_valid(document: Json) -> None:
    """It is OpenAPI 3.1, and names each category that is served and no other."""
    OpenAPIV31SpecValidator(document).validate()
    served = {"/patients", "/patients/{id}", *(f"/patients/{{id}}/{one.path}" for one in CATEGORIES)}
    assert set(document["paths"]) == served
    assert set(LISTINGS) == {one.path for one in CATEGORIES}
    schemas = document["components"]["schemas"]
    assert all(schema.get("properties") for name, schema in schemas.items() if name != "OperationOutcome")


def test_the_document_is_for_everybody(service: Running) -> None:
    """Without a token, to read only."""
    answer = service.http.post(f"{service.url}/chart/v1/openapi.json")
    issue(answer, 405, "not-supported")
    answer = service.http.get(f"{service.url}/chart/v1/openapi.json", headers={"origin": "https://x.example"})
    assert answer.headers["access-control-allow-origin"] == "*"


def operations(document: Json) -> Iterator[tuple[str, Json]]:
    """Yield each address with the schema of its answer."""
    for path, methods in document["paths"].items():
        answer = methods["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        yield path, {**closed(answer), "components": closed(document["components"])}


def test_every_answer_is_as_the_document_says(service: Running, document: Json) -> None:
    """The answers for a chart of every type have the fields of the document, and none that it does not tell of."""
    patient, _ = rich_chart(service)
    lipids(service, patient)
    for type_name, elements, _ in SAID.values():
        put(service, type_name, patient, **elements)
    for path, schema in operations(document):
        answer = chart(service, path.removeprefix("/").replace("{id}", patient))
        assert answer.status_code == 200, path
        assert path == "/patients/{id}" or answer.json()["items"], path
        jsonschema_rs.Draft202012Validator(schema).validate(answer.json())

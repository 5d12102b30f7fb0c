"""Searches of what orders are made of, on both bases: by the parameters that HL7 defines, and by ours."""

from collections.abc import Iterator
from typing import Any

import pytest

from engine.interchange.tokens.role import Role
from tests.interchange.kit import Running, issue, running
from tests.interchange.least import least, version_of

SIS = "https://cdis.example"
LABORATORY = "urn:uuid:f:lab-1"
CODE = {"coding": [{"system": LABORATORY, "code": "LI", "display": "Lipid panel"}]}
FORM = "http://example.org/Questionnaire/aoe"

Kept = tuple[Running, dict[str, str]]


def to(reference: str) -> dict[str, str]:
    """Return a reference."""
    return {"reference": reference}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    """A service with one of each, beside one of the least of each that no search below may find; ids by name."""
    with running(tmp_path_factory.mktemp("ordering")) as service:
        ids: dict[str, str] = {}

        def make(name: str, body: dict[str, Any], **more: Any) -> None:
            answer = service.ask("POST", f"/fhir/R4/{body['resourceType']}", json={**body, **more})
            assert answer.status_code == 201, answer.text
            ids[name] = answer.json()["id"]

        for name in ("p", "other"):
            ids[name] = service.create()["id"]
        make("doctor", least("Practitioner", ""))
        make("lab", least("Organization", "", name="Riverbend Laboratory"))
        make("visit", least("Encounter", ids["p"]))
        make("plan", least("CarePlan", ids["p"]))
        for type_name in ("RequestGroup", "QuestionnaireResponse", "Specimen", "ServiceRequest"):
            make(f"another {type_name}", least(type_name, ids["other"]))
        for type_name in ("Questionnaire", "ActivityDefinition"):
            make(f"another {type_name}", least(type_name, "", status="retired"))
        patient, doctor = to(f"Patient/{ids['p']}"), to(f"Practitioner/{ids['doctor']}")
        performer = {"url": f"{SIS}/fhir/StructureDefinition/requestgroup-performer"}
        make(
            "order",
            least(
                "RequestGroup",
                ids["p"],
                identifier=[{"system": "urn:clinic", "value": "4711"}],
                author=doctor,
                authoredOn="2025-07-01T09:31:00Z",
                encounter=to(f"Encounter/{ids['visit']}"),
                priority="urgent",
                code={"text": "x", "coding": [{"system": "urn:c", "code": "labs"}]},
                extension=[{**performer, "valueReference": to(f"Organization/{ids['lab']}")}],
            ),
        )
        make(
            "test",
            least(
                "ServiceRequest",
                ids["p"],
                requisition={"system": "urn:numbers", "value": "R-1"},
                performer=[to(f"Organization/{ids['lab']}")],
                basedOn=[to(f"CarePlan/{ids['plan']}")],
            ),
        )
        make(
            "questions",
            least(
                "Questionnaire",
                "",
                url=FORM,
                name="AoeLipids",
                title="Lipid panel: questions",
                publisher="Riverbend Laboratory",
                identifier=[{"system": "urn:q", "value": "Q1"}],
                code=CODE["coding"],
            ),
            version="2",
        )
        make(
            "answers",
            least(
                "QuestionnaireResponse",
                ids["p"],
                identifier={"system": "urn:r", "value": "R1"},
                questionnaire=f"{FORM}|2",
                basedOn=[to(f"ServiceRequest/{ids['test']}")],
                authored="2025-07-01T09:30:00Z",
                author=doctor,
                encounter=to(f"Encounter/{ids['visit']}"),
                status="amended",
            ),
        )
        make(
            "definition",
            least(
                "ActivityDefinition",
                "",
                url="http://example.org/ActivityDefinition/LI",
                name="LI",
                title="Lipid panel, fasting",
                publisher="Riverbend Laboratory",
                identifier=[{"system": "urn:a", "value": "A1"}],
                kind="ServiceRequest",
                code=CODE,
                topic=[{"coding": [{"system": "urn:c", "code": "chemistry"}]}],
            ),
            version="7",
        )
        make(
            "serum",
            least(
                "Specimen",
                ids["p"],
                identifier=[{"system": "urn:s", "value": "S1"}],
                accessionIdentifier={"system": "urn:accessions", "value": "A-23"},
                type={"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0487", "code": "SER"}]},
                status="available",
                collection={"collectedDateTime": "2025-07-01T09:40:00Z"},
                subject=patient,
            ),
        )
        yield service, ids


OF_ORDERS = {
    "order": (
        *("patient={p}", "subject=Patient/{p}", "identifier=urn:clinic|4711", "author={doctor}", "performer={lab}"),
        *("authored=2025-07-01", "authored=ge2025-07&patient={p}", "priority=urgent", "code=urn:c|labs"),
        *("status=draft&patient={p}", "patient={p}&intent=order", "group-identifier={order}"),
        *(
            f"status={SIS}/order-status|draft&patient={{p}}",
            "status=http://hl7.org/fhir/request-status|draft&patient={p}",
        ),
        *("performer.name=river", "author=Practitioner/{doctor}"),
    ),
    "questions": (
        *(f"code={LABORATORY}|LI", "code=LI", f"url={FORM}", "version=2", "name=aoe", "title=lipid panel"),
        *("title:contains=questions", "publisher=river", "status=active", "identifier=urn:q|Q1"),
        f"url={FORM},urn:x&status=http://hl7.org/fhir/publication-status|active",
    ),
    "answers": (
        *("patient={p}", "subject={p}", "identifier=R1", "status=amended&patient={p}", "author={doctor}"),
        *(f"questionnaire={FORM}", f"questionnaire={FORM}\\|2", f"patient={{p}}&questionnaire={FORM}"),
        *("authored=2025-07-01&patient={p}", "based-on={test}"),
    ),
    "definition": (
        *(f"code={LABORATORY}|LI", "url=http://example.org/ActivityDefinition/LI", "version=7", "name=li"),
        *("title=lipid", "title:contains=FASTING", "publisher=riverbend", "status=active", "identifier=A1"),
        *("topic=chemistry", "title:exact=Lipid panel, fasting".replace(",", "\\,")),
    ),
    "serum": (
        *("patient={p}", "subject=Patient/{p}", "identifier=urn:s|S1", "accession=urn:accessions|A-23"),
        *("type=SER", "status=available", "collected=2025-07-01&patient={p}"),
    ),
    "test": ("patient={p}&performer={lab}", "requisition=urn:numbers|R-1&patient={p}", "patient={p}&based-on={plan}"),
}
TYPES = {
    "order": "RequestGroup",
    "questions": "Questionnaire",
    "answers": "QuestionnaireResponse",
    "definition": "ActivityDefinition",
    "serum": "Specimen",
    "test": "ServiceRequest",
}


def asked(kept: Kept, base: str, path: str) -> Any:
    """Return the answer to a search."""
    return kept[0].ask(
        "GET", f"{base}/{path.replace('ServiceRequest?', 'ProcedureRequest?') if base == '/fhir' else path}"
    )


def found(kept: Kept, base: str, path: str) -> list[str]:
    """Return the ids that a search finds."""
    answer = asked(kept, base, path)
    assert answer.status_code == 200, (path, answer.text)
    return [one["resource"]["id"] for one in answer.json()["entry"]]


@pytest.mark.parametrize("name", OF_ORDERS)
def test_each_parameter(kept: Kept, base: str, name: str) -> None:
    """C-411, C-430: each parameter finds the one that it names, and not the other one."""
    for query in OF_ORDERS[name]:
        assert found(kept, base, f"{TYPES[name]}?{query.format(**kept[1])}") == [kept[1][name]], query


def test_by_visit(kept: Kept, base: str) -> None:
    """C-411: what an order and its answers were made in, under the name of each version."""
    name = "encounter" if base == "/fhir/R4" else "context"
    for one in ("order", "answers"):
        assert found(kept, base, f"{TYPES[one]}?{name}={kept[1]['visit']}") == [kept[1][one]]


def test_what_comes_along(kept: Kept, base: str) -> None:
    """C-426: who wrote an order, who performs it, and the tests that a result is based on."""
    for include, name in (("RequestGroup:performer", "lab"), ("RequestGroup:author", "doctor")):
        assert found(kept, base, f"RequestGroup?patient={kept[1]['p']}&_include={include}") == [
            kept[1]["order"],
            kept[1][name],
        ]


def test_a_cancelled_order(kept: Kept, base: str) -> None:
    """C-411: its status has three names: the service's, R4's and STU3's, of which each base knows two."""
    service, ids = kept
    made = service.ask("POST", f"{base}/RequestGroup", json=least("RequestGroup", ids["p"], version_of(base))).json()
    body = {**made, "status": "revoked" if base == "/fhir/R4" else "cancelled"}
    assert service.ask("PUT", f"{base}/RequestGroup/{made['id']}", json=body).status_code == 200
    names = {"/fhir/R4": ("revoked", "cancelled"), "/fhir": ("cancelled",)}[base]
    for value in (*names, f"{SIS}/order-status|cancelled", f"http://hl7.org/fhir/request-status|{names[0]}"):
        assert made["id"] in found(kept, base, f"RequestGroup?patient={ids['p']}&status={value}"), value
    assert made["id"] not in found(kept, base, f"RequestGroup?patient={ids['p']}&status={SIS}/order-status|revoked")
    assert service.ask("DELETE", f"{base}/RequestGroup/{made['id']}").status_code == 204


def test_answers_to_a_questionnaire_of_this_service(kept: Kept, base: str) -> None:
    """C-430: answers name it by its address here, of either base, or as STU3 refers to it; each way finds all."""
    service, ids = kept
    made = []
    here = f"Questionnaire/{ids['questions']}"
    for written, value in (
        ("/fhir/R4", f"{service.url}/fhir/R4/{here}"),
        ("/fhir/R4", here),
        ("/fhir", to(here)),
        ("/fhir", to(f"{service.url}/fhir/{here}")),
    ):
        body = least("QuestionnaireResponse", ids["other"], version_of(written), questionnaire=value)
        answer = service.ask("POST", f"{written}/QuestionnaireResponse", json=body)
        assert answer.status_code == 201, answer.text
        made.append(answer.json()["id"])
    for value in (ids["questions"], here, f"{service.url}/fhir/R4/{here}"):
        assert found(kept, base, f"QuestionnaireResponse?questionnaire={value}") == made
    for one in made:
        assert service.ask("DELETE", f"/fhir/R4/QuestionnaireResponse/{one}").status_code == 204


def test_definitions_elsewhere(kept: Kept) -> None:
    """C-432: what R4 names by an address STU3 refers to, on whatever host; a reference to nothing here is 422."""
    service, ids = kept
    read = service.ask("GET", f"/fhir/QuestionnaireResponse/{ids['answers']}").json()
    assert read["questionnaire"] == to(f"{FORM}|2")
    assert service.ask("PUT", f"/fhir/QuestionnaireResponse/{ids['answers']}", json=read).status_code == 200
    wrong = {**read, "questionnaire": to("Questionnaire/none")}
    issue(service.ask("PUT", f"/fhir/QuestionnaireResponse/{ids['answers']}", json=wrong), 422, "not-found")
    wrong = {**read, "subject": to("http://elsewhere.example/fhir/Patient/1")}
    issue(service.ask("PUT", f"/fhir/QuestionnaireResponse/{ids['answers']}", json=wrong), 422, "not-found")


def test_orders_go_with_their_patient(service: Running, base: str) -> None:
    """C-415: orders, answers and specimens are in the chart of the survivor after a merge, and go with the patient."""
    mine, other = service.create()["id"], service.create()["id"]
    made: dict[str, str] = {}
    for name in ("RequestGroup", "QuestionnaireResponse", "Specimen"):
        body = least(name, other, version_of(base))
        made[name] = service.ask("POST", f"{base}/{name}", json=body).json()["id"]
    merge = {"resourceType": "Parameters", "parameter": []}
    for name, value in (("source-patient", other), ("target-patient", mine)):
        merge["parameter"].append({"name": name, "valueReference": to(f"Patient/{value}")})
    assert service.ask("POST", f"{base}/Patient/$merge", json=merge).status_code == 200
    for name, key in made.items():
        one = service.ask("GET", f"{base}/{name}?patient={mine}").json()["entry"][0]["resource"]
        assert (one["id"], one["subject"]["reference"]) == (key, f"Patient/{mine}")
    everything = service.ask("GET", f"{base}/Patient/{mine}/$everything").json()
    assert {one["resource"]["resourceType"] for one in everything["entry"]}.isdisjoint(made)
    assert service.ask("DELETE", f"{base}/Patient/{mine}?_cascade=delete").status_code == 204
    for name, key in made.items():
        issue(service.ask("GET", f"{base}/{name}/{key}"), 410, "deleted" if base == "/fhir/R4" else "not-found")


@pytest.mark.parametrize("role", [role.value for role in Role])
def test_without_a_patient(kept: Kept, role: str) -> None:
    """C-411, C-416: whoever reads charts finds the tenant's orders by their status alone; others are refused."""
    client = {"Physician": "physician", "Nurse": "nurse", "Administrative": "administrative"}.get(role, "system")
    answer = kept[0].ask("GET", "/fhir/R4/RequestGroup?status=draft", client=client)
    assert answer.status_code == (403 if client == "administrative" else 200)

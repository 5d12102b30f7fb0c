"""From where a record came (`resourceChannelType`): written here, imported, of a laboratory, or both."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.interchange.network.patient360.retrieve import KIND, retrieval
from tests.interchange.chart import put, to
from tests.interchange.chart_api.charts import items
from tests.interchange.jobs import until
from tests.interchange.kit import Inside, merge_body, running_inside
from tests.interchange.laboratory.bench import bench
from tests.interchange.laboratory.orders import ordered
from tests.interchange.patient360.papers import ADDRESS, Shelf, paper, read_paper
from tests.interchange.patient360.test_deduplicate import drug, problem, visit
from tests.interchange.patient360.test_importing import PENICILLIN, PINE
from tests.interchange.patient360.test_retrieval import retrieved

Json = Any
DOCTOR = [{"individual": {"display": "Ama Osei"}}]


@pytest.fixture
def shelved(tmp_path: Path) -> Iterator[Inside]:
    """A service with a source that has a problem, a prescription, an allergy and a visit of a patient."""
    document = paper(PINE, problem(), drug(), PENICILLIN, visit("2024-03-05", participant=DOCTOR))
    work = retrieval(lambda _service, _tenant: [Shelf("pine", [document])], read_paper)
    with running_inside(tmp_path, {KIND: work}) as found:
        yield found


def channels(service: Inside, patient: str, category: str) -> list[str]:
    """Return from where the items of a category came, newest first."""
    return [item["resourceChannelType"] for item in items(service, f"patients/{patient}/{category}")]


def test_imported_written_here_and_both(shelved: Inside) -> None:
    """C-540: EXTERNAL from an import, INTERNAL from a client; BOTH what was here too, or was changed."""
    patient = shelved.create(address=ADDRESS)["id"]
    own = {name: value for name, value in problem().items() if name != "resourceType"}
    put(shelved, "Condition", patient, **own)
    put(shelved, "Condition", patient, code={"text": "Only here"}, onsetDateTime="2024")
    retrieved(shelved, patient)
    assert channels(shelved, patient, "problems") == ["INTERNAL", "BOTH"]
    assert channels(shelved, patient, "allergies") == ["EXTERNAL"]
    assert channels(shelved, patient, "documents") == ["EXTERNAL"]
    assert channels(shelved, patient, "medications") == ["EXTERNAL"]
    [entry] = shelved.ask("GET", f"/fhir/R4/MedicationRequest?patient={patient}").json()["entry"]
    resource = {**entry["resource"], "status": "completed"}
    answer = shelved.ask("PUT", f"/fhir/R4/MedicationRequest/{resource['id']}", json=resource)
    assert answer.status_code == 200, answer.text
    assert channels(shelved, patient, "medications") == ["BOTH"]


def test_a_merge_changes_nothing_of_it(shelved: Inside) -> None:
    """C-540: what a merge of patients moved is as external as it was."""
    source, target = shelved.create(address=ADDRESS)["id"], shelved.create(address=ADDRESS)["id"]
    retrieved(shelved, source)
    assert shelved.ask("POST", "/fhir/R4/Patient/$merge", json=merge_body(source, target)).status_code == 200
    assert channels(shelved, target, "allergies") == ["EXTERNAL"]


def test_members_of_both(shelved: Inside) -> None:
    """C-540: who is named by a visit here and by one of elsewhere is known from both."""
    patient = shelved.create(address=ADDRESS)["id"]
    retrieved(shelved, patient)
    assert channels(shelved, patient, "care-teams/members") == ["EXTERNAL"]
    put(shelved, "Encounter", patient, period={"start": "2025-01-01"}, participant=DOCTOR)
    assert channels(shelved, patient, "care-teams/members") == ["BOTH"]
    put(shelved, "Encounter", patient, participant=[{"individual": {"display": "A nurse"}}])
    assert channels(shelved, patient, "care-teams/members") == ["BOTH", "INTERNAL"]


def test_results_of_a_laboratory(tmp_path: Path) -> None:
    """C-537, C-540: results of an order that a laboratory was sent are EXTERNAL, with who ordered it."""
    with bench(tmp_path) as service:
        service.place(resources=ordered())
        put(service.inside, "DiagnosticReport", "p1", basedOn=[to("ServiceRequest/o1-GL")], status="preliminary")
        assert channels(service.inside, "p1", "clinical-tests") == ["INTERNAL"]
        assert service.hook("accept")[0] == 200
        assert service.hook("complete")[0] == 200
        until(lambda: len(items(service.inside, "patients/p1/clinical-tests")) == 3)
        found = items(service.inside, "patients/p1/clinical-tests")
        assert {one["resourceChannelType"] for one in found} == {"EXTERNAL"}
        assert {one["orderingProvider"]["npi"] for one in found} == {"1659999990"}
        assert all(one["observations"] for one in found if one["status"] == "final")

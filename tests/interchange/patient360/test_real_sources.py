"""A retrieval from real sources: a second instance of the service over HTTP, and a folder with a C-CDA document."""

from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from engine.config.service import Tenant
from engine.interchange.clinical.ccda.document import DocumentChart, write_ccd
from engine.interchange.clinical.ccda.record import Custodian
from engine.interchange.clinical.synthetic.chart import END, synthetic_chart, transaction
from tests.interchange.jobs import ended
from tests.interchange.kit import MRN, Outside, Running, record_number, running
from tests.interchange.patient360.sources import settings
from tests.interchange.patient360.test_directory_source import lay

NUMBER = "RB-77"
# What a C-CDA document tells as fully as FHIR does.
ONCE = (
    "Observation",
    "Condition",
    "MedicationRequest",
    "AllergyIntolerance",
    "Immunization",
    "Procedure",
    "Encounter",
    "FamilyMemberHistory",
)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    """A second instance of the service, which knows the person by the same number."""
    with running(tmp_path_factory.mktemp("other")) as found:
        yield found


def chart() -> list[dict[str, object]]:
    """Return an invented chart whose patient has the number."""
    made = synthetic_chart("real sources", facts=40)
    made[0]["identifier"] = [record_number(NUMBER)]
    return made


def retrieved(service: Running, patient: str) -> dict[str, object]:
    """Let the service retrieve, and return its counters."""
    path = f"/fhir/DocumentReference/$p360-retrieve?patient={patient}"
    asked = {"resourceType": "Parameters"}
    answer = service.ask("POST", path, json=asked, headers={"prefer": "respond-async"})
    assert answer.status_code == 202, answer.text
    result = ended(service, answer.headers["location"].removeprefix(service.url)).json()
    return {
        one["name"]: next((value for key, value in one.items() if key != "name"), None) for one in result["parameter"]
    }


def held(service: Running, patient: str) -> Counter[str]:
    """Count what a chart holds, by type."""
    entries = service.ask("GET", f"/fhir/R4/Patient/{patient}/$everything?_count=500").json()["entry"]
    return Counter(entry["resource"]["resourceType"] for entry in entries)


@pytest.mark.parametrize("version", ["R4", "STU3"])
def test_a_retrieval_over_http(other: Outside, tmp_path: Path, version: str) -> None:
    """C-358, C-355: what another service and a folder have of the patient comes into the chart, each fact once.

    Documents are kept with their content, which is read as it came.
    """
    known = chart()
    known[0]["identifier"] = [record_number(f"{NUMBER}-{version}")]
    written = other.ask("POST", "/fhir/R4", json=transaction(known), headers={"prefer": "create-always"})
    assert written.status_code == 200, written.text
    patient, *facts = known
    custodian = Custodian("Pine Ridge", "https://pine-ridge.example")
    ccd = write_ccd(DocumentChart(patient, facts), document_id="one", at=END, zone=ZoneInfo("UTC"), custodian=custodian)
    lay(tmp_path / "drop" / f"{NUMBER}-{version}" / "ccd.xml", ccd)
    base = {"R4": "/fhir/R4", "STU3": "/fhir"}[version]
    file = str(other.database.parent / "secret")
    auth = {"token_url": f"{other.url}/oauth/token", "client_id": "physician", "client_secret": {"file": file}}
    sources = {
        "lakeside": settings(type="fhir", url=other.url + base, version=version, auth=auth),
        "gateway": settings(type="directory", folder=str(tmp_path / "drop"), identifier_system=MRN),
    }
    tenants = {"riverbend": Tenant(network_mode="real", connectors=sources), "lakeside": Tenant(), "lax": Tenant()}
    with running(tmp_path, tenants=tenants) as service:
        own = {name: value for name, value in patient.items() if name != "id"}
        mine = service.ask("POST", "/fhir/R4/Patient", json=own).json()["id"]
        told = retrieved(service, mine)
        assert (told["status"], told["documentsImported"], told["documentsFailed"]) == ("completed", 2, 0), told
        there = next(one["response"]["location"].rsplit("/", 3)[1] for one in written.json()["entry"][:1])
        wanted, found = held(other, there), held(service, mine)
        assert {name: found[name] for name in ONCE} == {name: wanted[name] for name in ONCE}
        assert wanted.keys() <= found.keys()
        documents = service.ask("GET", f"/fhir/R4/DocumentReference?patient={mine}&_count=100").json()["entry"]
        contents = {}
        for document in documents:
            attached = document["resource"]["content"][0]["attachment"]
            if attached.get("url", "").startswith("Binary/"):
                read = service.ask("GET", f"/fhir/R4/{attached['url']}", headers={"accept": attached["contentType"]})
                assert read.headers["content-type"] == attached["contentType"]
                contents[sha256(read.content).hexdigest()] = attached
        assert sha256(ccd).hexdigest() in contents
        assert len(contents) == 2
        assert retrieved(service, mine)["documentsImported"] == 0
        assert held(service, mine) == found
        assert service.http.get(f"{service.url}/_test/outbound").json()["connections"] >= 1

"""$p360-retrieve over HTTP: who may, for whom, from which sources, and what the chart shows then."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.config.service import Tenant
from engine.interchange.network.patient360 import retrieve
from engine.interchange.network.patient360.connectors.connector import RequestedPatient, RetrievedDocument, SourceError
from engine.interchange.network.patient360.retrieve import KIND, retrieval
from tests.interchange.chart import everything
from tests.interchange.jobs import Bench, ended, until
from tests.interchange.kit import Inside, Running, issue, merge_body, running_inside
from tests.interchange.patient360.papers import ADDRESS, MARISOL, Shelf, paper, read_paper
from tests.interchange.patient360.test_deduplicate import drug, problem, result
from tests.interchange.patient360.test_importing import HILL, LAKE, PENICILLIN, PINE

Json = Any
PATH = f"/fhir/DocumentReference/${KIND}"
ASYNC = {"prefer": "respond-async"}


def call(service: Running, patient_id: str, method: str = "POST", **more: Any) -> httpx.Response:
    """Ask for a retrieval as a client does."""
    return service.ask(method, f"{PATH}?patient={patient_id}", headers=ASYNC, **more)


def retrieved(service: Running, patient_id: str) -> Json:
    """Return what a retrieval comes to."""
    answer = call(service, patient_id)
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == answer.headers["content-location"]
    done = ended(service, answer.headers["location"].removeprefix(service.url))
    assert done.status_code == 200, done.text
    return done.json()


def told(parameters: Json) -> dict[str, Any]:
    """Return the simple parameters of a result by their names."""
    found = {}
    for one in parameters["parameter"]:
        values = [value for name, value in one.items() if name.startswith("value")]
        assert len(values) + ("part" in one) == 1
        if values:
            found[one["name"]] = values[0]
    return found


def parts(parameters: Json, name: str) -> list[dict[str, Any]]:
    """Return the parts of the parameters of a name."""
    return [told({"parameter": one["part"]}) for one in parameters["parameter"] if one["name"] == name]


@pytest.fixture
def shelves() -> list[Shelf]:
    """Three sources that overlap."""
    old, new = paper(PINE, result(), problem(), PENICILLIN), paper(LAKE, problem(), drug(), at="2024-04-01")
    return [
        Shelf("pine", [old]),
        Shelf("lake", [new, paper(LAKE, PENICILLIN, name="2")]),
        Shelf("hill", [paper(HILL, result())]),
    ]


@pytest.fixture
def shelved(tmp_path: Path, shelves: list[Shelf]) -> Iterator[Inside]:
    """A service of the test's own with these sources."""
    work = retrieval(lambda _service, _tenant: shelves, read_paper)
    with running_inside(tmp_path, {KIND: work}) as found:
        yield found


def test_one_chart_of_three_sources(shelved: Inside) -> None:
    """C-350, C-354, C-355, C-356, C-321: one chart, each fact once, behind each its sources; again adds nothing."""
    who = shelved.create(address=ADDRESS)["id"]
    first = told(retrieved(shelved, who))
    counted = {name: first[name] for name in ("documentsFound", "documentsImported", "factsAdded", "factsKnown")}
    assert counted == {"documentsFound": 4, "documentsImported": 4, "factsAdded": 4, "factsKnown": 3}
    assert (first["status"], first["patient"]["reference"]) == ("completed", f"Patient/{who}")
    assert first["organizationsTotal"] == 3
    for base in ("/fhir/R4", "/fhir"):
        names = [name.partition("/")[0] for name in everything(shelved, base, who)]
        facts = ["Condition", "Observation", "MedicationRequest", "AllergyIntolerance"]
        assert sorted(names) == sorted(["Patient", *facts, *["DocumentReference"] * 4])
        for name, behind in zip(facts, ({PINE, LAKE}, {PINE, HILL}, {LAKE}, {PINE, LAKE}), strict=True):
            query = f"patient={who}&_revinclude=Provenance:target"
            entries = shelved.ask("GET", f"{base}/{name}?{query}").json()["entry"]
            matches = [entry["resource"] for entry in entries if entry["search"]["mode"] == "match"]
            sources = [entry["resource"] for entry in entries if entry["search"]["mode"] == "include"]
            assert len(matches) == 1
            assert {agent(source) for source in sources} == behind
            found = shelved.ask("GET", f"{base}/Provenance?target={name}/{matches[0]['id']}").json()
            assert found["total"] == len(sources)
    exported = shelved.ask("POST", f"/fhir/R4/Patient/{who}/$export-ccda", json={"resourceType": "Parameters"})
    assert exported.status_code == 200, exported.text
    for code in ("44054006", "2345-7", "197361", "7980"):  # problem, result, medication, allergy
        assert f'code="{code}"' in exported.text
    before = everything(shelved, "/fhir/R4", who)
    second = told(retrieved(shelved, who))
    assert (second["documentsSkipped"], second["documentsImported"], second["factsAdded"]) == (4, 0, 0)
    assert everything(shelved, "/fhir/R4", who) == before


def agent(provenance: Json) -> str:
    """Return the organization that a Provenance names, in either version."""
    one = provenance["agent"][0]
    return str((one.get("who") or one["whoReference"])["display"])


def test_a_patient_goes_with_what_was_retrieved(shelved: Inside) -> None:
    """A patient is deleted with the imported chart and its Binaries; Provenance stays and says what there was."""
    who = shelved.create(address=ADDRESS)["id"]
    retrieved(shelved, who)
    documents = shelved.ask("GET", f"/fhir/R4/DocumentReference?patient={who}").json()["entry"]
    binary = documents[0]["resource"]["content"][0]["attachment"]["url"]
    assert shelved.ask("DELETE", f"/fhir/R4/Patient/{who}?_cascade=delete").status_code == 204
    assert shelved.ask("GET", f"/fhir/R4/{binary}").status_code == 410


def test_by_each_source(shelved: Inside, shelves: list[Shelf]) -> None:
    """The result says for each organization what became of its documents, and why."""
    stranger = MARISOL.__class__(("Ana",), "Quintero", "1984-02-29", "female")
    shelves[2].documents = [paper(HILL, result(), identity=stranger), paper(HILL, problem(), name="2")]
    parameters = retrieved(shelved, shelved.create(address=ADDRESS)["id"])
    (hill,) = [part for part in parts(parameters, "organization") if part["name"] == HILL]
    assert (hill["documentsFound"], hill["documentsImported"], hill["documentsFailed"]) == (2, 1, 1)
    assert "patient-mismatch" in str(parameters)


def test_a_source_that_fails(shelved: Inside, shelves: list[Shelf]) -> None:
    """C-359: what one source cannot give makes the result partial; where none can, the handle is 422, repeatable."""
    shelves[0].error = SourceError("pine does not answer; look at its log.")
    shelves[1].error = RuntimeError("a secret")
    who = shelved.create(address=ADDRESS)["id"]
    parameters = retrieved(shelved, who)
    assert told(parameters)["status"] == "partial"
    failed = {part["name"]: part["text"] for part in parts(parameters, "source")}
    assert failed["pine"] == "pine does not answer; look at its log."
    assert "a secret" not in failed["lake"]
    assert len(everything(shelved, "/fhir/R4", who)) == 9  # what came before they failed
    for shelve in shelves:
        shelve.documents, shelve.error = [], SourceError(f"{shelve.name} does not answer.")
    handle = call(shelved, who).headers["location"].removeprefix(shelved.url)
    for _ in range(2):
        assert issue(ended(shelved, handle), 422, "processing")["diagnostics"] == "pine does not answer."


def test_a_source_that_takes_too_long(tmp_path: Path, shelves: list[Shelf], monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that hangs fails alone once its time is over."""
    monkeypatch.setattr(retrieve, "SOURCE_SECONDS", 0.2)
    shelves[0] = Hanging("pine")
    work = retrieval(lambda _service, _tenant: shelves, read_paper)
    with running_inside(tmp_path, {KIND: work}) as service:
        parameters = retrieved(service, service.create(address=ADDRESS)["id"])
    assert told(parameters)["status"] == "partial"
    assert [part["name"] for part in parts(parameters, "source")] == ["pine"]


class Hanging(Shelf):
    """A source that never answers."""

    async def retrieve(self, _subject: RequestedPatient) -> AsyncIterator[RetrievedDocument]:
        """Wait for ever."""
        await asyncio.Event().wait()
        yield paper(PINE, result())


def test_no_source_at_all(tmp_path: Path) -> None:
    """C-358: in real mode the sources are asked; where none is configured the job fails and says what to do."""
    tenants = {"riverbend": Tenant(network_mode="real"), "lakeside": Tenant(), "lax": Tenant()}
    with running_inside(tmp_path, tenants=tenants) as service:
        handle = call(service, service.create(address=ADDRESS)["id"]).headers["location"].removeprefix(service.url)
        assert "network_mode" in issue(ended(service, handle), 422, "processing")["diagnostics"]


def test_a_sandbox_invents(service: Running) -> None:
    """C-357, C-364: a sandbox retrieves invented documents and opens no connection; each fact is coded and ours."""
    who = service.create(address=ADDRESS)["id"]
    first = told(retrieved(service, who))
    assert first["status"] == "completed"
    assert first["organizationsTotal"] == 3
    assert first["documentsImported"] == 3
    assert first["documentsSkipped"] == 1
    assert (first["documentsFailed"], first["factsInvalid"]) == (0, 0)
    assert first["factsKnown"] > 0
    found = everything(service, "/fhir/R4", who)
    second = told(retrieved(service, who))
    assert (second["documentsImported"], second["factsAdded"]) == (0, 0)
    assert everything(service, "/fhir/R4", who) == found
    opened = service.http.get(f"{service.url}/_test/outbound")
    assert opened.json() == {"connections": 0}
    for one in service.ask("GET", f"/fhir/R4/Observation?patient={who}&_count=100").json()["entry"]:
        resource = one["resource"]
        assert resource["subject"] == {"reference": f"Patient/{who}"}
        assert all(coding["system"] and coding["code"] for coding in resource["code"]["coding"])


def test_the_patient_in_the_body(shelved: Inside) -> None:
    """C-351: a Parameters body names the patient as well; another one than the address names is refused."""
    who = shelved.create(address=ADDRESS)["id"]

    def body(reference: str) -> Json:
        named = {"name": "patient", "valueReference": {"reference": reference}}
        return {"resourceType": "Parameters", "parameter": [named]}

    for reference in (f"Patient/{who}", f"{shelved.url}/fhir/Patient/{who}"):
        assert shelved.ask("POST", PATH, headers=ASYNC, json=body(reference)).status_code == 202
    assert call(shelved, f"Patient/{who}", json=body(f"Patient/{who}")).status_code == 202
    issue(call(shelved, who, json=body("Patient/other")), 400, "invalid")
    issue(shelved.ask("POST", PATH, headers=ASYNC, json={"resourceType": "Patient"}), 400, "invalid")
    issue(shelved.ask("POST", PATH, headers=ASYNC), 400, "required")
    issue(shelved.ask("POST", f"{PATH}?patient={who}&tz=UTC", headers=ASYNC), 400, "not-supported")
    assert call(shelved, who, "GET").status_code == 202


def test_it_is_asynchronous_and_of_stu3(shelved: Inside) -> None:
    """C-352, C-353: without respond-async it is a 400, and R4 has no such operation."""
    who = shelved.create(address=ADDRESS)["id"]
    issue(shelved.ask("POST", f"{PATH}?patient={who}"), 400, "not-supported")
    answer = shelved.ask("POST", f"/fhir/R4/DocumentReference/${KIND}?patient={who}", headers=ASYNC)
    issue(answer, 404, "not-supported")


def test_too_little_is_known(shelved: Inside) -> None:
    """C-360: without an address that can be compared it is a 422 that names the place."""
    for address in (None, [{"city": "Riverbend"}]):
        found = issue(call(shelved, shelved.create(address=address)["id"]), 422, "required")
        assert found["location"] == ["Patient.address"]
    assert call(shelved, shelved.create(address=[{"city": "Riverbend", "state": "OR"}])["id"]).status_code == 202


def test_who_is_not_here(shelved: Inside) -> None:
    """C-361: an unknown patient is a 404, also to another tenant; one who is merged away or deleted a 410."""
    issue(call(shelved, "nobody"), 404, "not-found")
    source, target = (shelved.create(address=ADDRESS)["id"] for _ in range(2))
    issue(call(shelved, target, client="other"), 404, "not-found")
    assert shelved.ask("POST", "/fhir/Patient/$merge", json=merge_body(source, target)).status_code == 200
    gone = call(shelved, source)
    assert gone.status_code == 410
    assert f"Patient/{target}" in gone.text
    assert shelved.ask("DELETE", f"/fhir/Patient/{target}").status_code == 204
    assert call(shelved, target).status_code == 410


def test_who_may(shelved: Inside) -> None:
    """C-074: patient.write may; patient.read, patient360 and a scope of the type alone do not, nor do office staff."""
    who = shelved.create(address=ADDRESS)["id"]
    for client in ("pwrite", "physician", "nurse", "system"):
        assert call(shelved, who, client=client).status_code == 202, client
    for client in ("read", "pread", "patient360", "administrative"):
        issue(call(shelved, who, client=client), 403, "forbidden")
    for scope, status in (
        ("user/DocumentReference.write", 403),
        ("documentreference.write", 403),
        ("user/Patient.read", 403),
        ("patient/*.read", 403),
        ("patient/*.write", 202),
        ("system/*.*", 202),
        ("patient360 patient.write", 202),
    ):
        client = "system" if scope.startswith("system") else "physician"
        assert call(shelved, who, client=client, scope=scope).status_code == status, scope


def test_the_same_handle_while_it_goes_on(tmp_path: Path) -> None:
    """C-362: who asks again meanwhile gets the same handle, by GET too; afterwards a new one."""
    bench = Bench()
    with running_inside(tmp_path, {KIND: bench.work}) as service:
        who = service.create(address=ADDRESS)["id"]
        handles = {call(service, who, method).headers["location"] for method in ("POST", "POST", "GET")}
        assert len(handles) == 1
        bench.go.set()
        ended(service, handles.copy().pop().removeprefix(service.url))
        assert call(service, who).headers["location"] not in handles


def test_cancelled_between_documents(tmp_path: Path, shelves: list[Shelf]) -> None:
    """A retrieval that is cancelled leaves what it has imported whole; the next one imports the rest."""
    stopped = Stopping("lake", shelves[1].documents)
    work = retrieval(lambda _service, _tenant: [stopped], read_paper)
    with running_inside(tmp_path, {KIND: work}) as service:
        who = service.create(address=ADDRESS)["id"]
        handle = call(service, who).headers["location"].removeprefix(service.url)
        until(lambda: len(everything(service, "/fhir/R4", who)) == 4)
        assert service.ask("DELETE", handle).status_code == 202
        service.loop.call_soon_threadsafe(stopped.goes.set)
        second = told(retrieved(service, who))
        assert (second["documentsImported"], second["documentsSkipped"]) == (1, 1)
        assert (second["factsAdded"], second["factsKnown"]) == (1, 0)


class Stopping(Shelf):
    """A source that waits after each document until it may go on."""

    def __init__(self, name: str, documents: list[RetrievedDocument]) -> None:
        super().__init__(name, documents)
        self.goes = asyncio.Event()

    async def retrieve(self, subject: RequestedPatient) -> AsyncIterator[RetrievedDocument]:
        """Yield one document, and the others later."""
        async for one in super().retrieve(subject):
            yield one
            await self.goes.wait()


def test_merged_away_meanwhile(tmp_path: Path, shelves: list[Shelf]) -> None:
    """A patient who is merged away while it goes on ends it with a text that names the survivor."""
    stopped = Stopping("lake", shelves[1].documents)
    work = retrieval(lambda _service, _tenant: [stopped], read_paper)
    with running_inside(tmp_path, {KIND: work}) as service:
        who, other = (service.create(address=ADDRESS)["id"] for _ in range(2))
        handle = call(service, who).headers["location"].removeprefix(service.url)
        until(lambda: len(everything(service, "/fhir/R4", who)) == 4)
        assert service.ask("POST", "/fhir/Patient/$merge", json=merge_body(who, other)).status_code == 200
        service.loop.call_soon_threadsafe(stopped.goes.set)
        assert f"Patient/{other}" in issue(ended(service, handle), 422, "processing")["diagnostics"]
        assert len(everything(service, "/fhir/R4", other)) == 4

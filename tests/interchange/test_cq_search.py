"""$cq-search: documents of other sources, at once or by a handle, of which nothing is kept."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.config.connector import Connector
from engine.config.service import DocumentSearch, Tenant
from tests.interchange.browser import USERS
from tests.interchange.jobs import ended
from tests.interchange.kit import BASES, Outside, Running, configuration, issue, running, running_inside, secret_file
from tests.interchange.least import least, version_of
from tests.interchange.patient360.sources import ADDRESS, bundle, fhir, scripted, settings
from tests.interchange.patient360.test_directory_source import CCDA, lay
from tests.interchange.test_patient_context import App, clients

ASYNC = {"prefer": "respond-async"}
PATH = "DocumentReference/$cq-search"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    """A sandbox that invents, although a source is named that no search may come to; and an app for one patient."""
    folder: Path = tmp_path_factory.mktemp("sandbox")
    known = {**configuration(secret_file(folder)).clients, "portal": clients(folder)["portal"]}
    with Trap() as trap:
        tenants = tenanted(trap.url, mode="mocked")
        waits = DocumentSearch(sync_wait_s=50)  # by default 2, in which a busy machine may not answer
        with running(folder, clients=known, users=USERS, tenants=tenants, cq=waits) as found:
            yield found
        assert trap.taken == 0


class Trap:
    """A port that counts who comes, and says nothing; `keeps` lets them wait."""

    def __enter__(self) -> "Trap":
        """Listen."""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/fhir"
        self.taken = 0
        self.keeps = False
        self._thread = threading.Thread(target=self._take)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take what has come until now, then end."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()

    def _take(self) -> None:
        held: list[socket.socket] = []
        while True:
            try:
                taken = self._listening.accept()[0]
            except OSError:
                break
            self.taken += 1
            held.append(taken)
            if not self.keeps:
                taken.close()
        for one in held:
            one.close()


def tenanted(url: str = "", mode: str = "real", **connectors: Connector) -> dict[str, Tenant]:
    """Return the kit's tenants, the first with sources."""
    named = {"other": settings(type="fhir", url=url), **connectors} if url else connectors
    first = Tenant(network_mode=mode, connectors=named)  # type: ignore[arg-type]
    return {"riverbend": first, "lakeside": Tenant(), "lax": Tenant(scope_enforcement="off")}


def outbound(service: Running) -> int:
    """Return how many connections the service has opened."""
    return int(service.http.get(f"{service.url}/_test/outbound").json()["connections"])


def documents(answer: httpx.Response) -> list[dict[str, Any]]:
    """Return the documents of an answer, each of which is nowhere else."""
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["resourceType"], found["type"]) == ("Bundle", "searchset")
    own = [one["resource"] for one in found["entry"] if one["search"]["mode"] == "match"]
    assert found["total"] == len(own)
    assert all("id" not in one for one in own)
    return own


def test_at_once(sandbox: Running, base: str) -> None:
    """C-377, C-357: a fast source answers at once, with what nobody keeps; nothing is asked outside."""
    patient = sandbox.create(address=ADDRESS)["id"]
    answer = sandbox.ask("GET", f"{base}/{PATH}?patient={patient}")
    found = documents(answer)
    assert len(found) == 3
    organizations = {one["custodian"]["display"] for one in found}
    assert len(organizations) == 3
    for one in found:
        assert (one["status"], one["subject"]) == ("current", {"reference": f"Patient/{patient}"})
        assert one["content"][0]["attachment"]["size"] > 1000
    kept = sandbox.ask("GET", f"{base}/DocumentReference?patient={patient}").json()
    assert kept["total"] == 0
    again = documents(sandbox.ask("GET", f"{base}/{PATH}?patient=Patient/{patient}"))
    assert [one["masterIdentifier"] for one in again] == [one["masterIdentifier"] for one in found]
    assert outbound(sandbox) == 0


def test_by_a_handle(sandbox: Running, base: str) -> None:
    """C-375, C-376: 202 with a handle where that is preferred, which comes to the Bundle."""
    patient = sandbox.create(address=ADDRESS)["id"]
    answer = sandbox.ask("GET", f"{base}/{PATH}?patient={patient}", headers=ASYNC)
    assert (answer.status_code, answer.content) == (202, b"")
    assert answer.headers["location"] == answer.headers["content-location"]
    assert answer.headers["location"].startswith(f"{sandbox.url}{base}/RequestResult/")
    handle = answer.headers["location"].removeprefix(sandbox.url)
    assert len(documents(ended(sandbox, handle))) == 3
    assert len(documents(ended(sandbox, handle))) == 3


def test_every_way_to_ask(sandbox: Running, base: str) -> None:
    """C-375: of the type and of one, of documents and patients, by GET and by POST, it is the same."""
    patient = sandbox.create(address=ADDRESS)["id"]
    made = least("DocumentReference", patient, version_of(base))
    document = sandbox.ask("POST", f"{base}/DocumentReference", json=made).json()["id"]
    reference = {"name": "patient", "valueReference": {"reference": f"Patient/{patient}"}}
    text = {"name": "patient", "valueString": patient}
    ways: list[tuple[str, str, Any]] = [
        ("GET", f"Patient/$cq-search?patient={patient}", None),
        ("GET", f"Patient/{patient}/$cq-search", None),
        ("GET", f"DocumentReference/{document}/$cq-search", None),
        ("POST", f"Patient/{patient}/$cq-search", {"resourceType": "Parameters"}),
        ("POST", f"DocumentReference/{document}/$cq-search", {"resourceType": "Parameters"}),
        ("POST", PATH, {"resourceType": "Parameters", "parameter": [reference]}),
        ("POST", f"{PATH}?patient={patient}", {"resourceType": "Parameters", "parameter": [text]}),
        ("POST", "Patient/$cq-search", {"resourceType": "Parameters", "parameter": [text]}),
    ]
    wanted = documents(sandbox.ask("GET", f"{base}/{PATH}?patient={patient}"))
    for method, path, body in ways:
        answer = sandbox.ask(method, f"{base}/{path}", **({"json": body} if body else {}))
        assert documents(answer) == wanted, path


def test_whose_they_are(sandbox: Running, base: str) -> None:
    """C-378: nobody named is 400, nobody there 404, deleted and merged-away patients are 410, two named are 400."""
    issue(sandbox.ask("GET", f"{base}/{PATH}"), 400, "required")
    issue(sandbox.ask("POST", f"{base}/{PATH}", json={"resourceType": "Parameters"}), 400, "required")
    issue(sandbox.ask("GET", f"{base}/{PATH}?patient=nobody"), 404, "not-found")
    issue(sandbox.ask("GET", f"{base}/Patient/nobody/$cq-search"), 404, "not-found")
    issue(sandbox.ask("GET", f"{base}/DocumentReference/nothing/$cq-search"), 404, "not-found")
    one, two = sandbox.create()["id"], sandbox.create()["id"]
    issue(sandbox.ask("GET", f"{base}/Patient/{one}/$cq-search?patient={two}"), 400, "invalid")
    for bad in ("Observation/x", "Patient/", "https://elsewhere.example/fhir/Patient/x"):
        issue(sandbox.ask("GET", f"{base}/{PATH}?patient={bad}"), 400, "invalid")
    issue(sandbox.ask("GET", f"{base}/{PATH}?patient={one}&type=x"), 400, "not-supported")
    for body in ([], {"resourceType": "Patient"}, {"resourceType": "Parameters", "parameter": [{"name": "x"}]}):
        issue(sandbox.ask("POST", f"{base}/{PATH}?patient={one}", json=body), 400, "invalid")
    issue(sandbox.ask("GET", f"{base}/{PATH}?patient={one}", client="other"), 404, "not-found")
    parts = [
        {"name": f"{side}-patient", "valueReference": {"reference": f"Patient/{who}"}}
        for side, who in (("source", one), ("target", two))
    ]
    sandbox.ask("POST", f"{base}/Patient/$merge", json={"resourceType": "Parameters", "parameter": parts})
    told = issue(
        sandbox.ask("GET", f"{base}/{PATH}?patient={one}"), 410, "deleted" if base == BASES["R4"] else "not-found"
    )
    assert two in told["diagnostics"]
    sandbox.ask("DELETE", f"{base}/Patient/{two}")
    assert sandbox.ask("GET", f"{base}/{PATH}?patient={two}").status_code == 410


def test_a_token_for_one_patient(sandbox: Running, base: str) -> None:
    """N-168: it searches for that patient's documents, however it names them, and for nobody else's."""
    mine, other = sandbox.create(address=ADDRESS)["id"], sandbox.create(address=ADDRESS)["id"]
    app = App(sandbox, mine)
    for path in (f"{PATH}?patient={mine}", f"Patient/{mine}/$cq-search"):
        assert len(documents(app.ask("GET", f"{base}/{path}"))) == 3
    for path in (f"{PATH}?patient={other}", f"Patient/{other}/$cq-search", f"Patient/$cq-search?patient={other}"):
        issue(app.ask("GET", f"{base}/{path}"), 403, "forbidden")
    handle = sandbox.ask("GET", f"{base}/{PATH}?patient={other}", headers=ASYNC).headers["location"]
    issue(app.ask("GET", handle.removeprefix(sandbox.url)), 403, "forbidden")


def test_a_slow_source(tmp_path: Path) -> None:
    """C-376: who has not answered within cq.sync_wait_s is waited for by a handle; a silent one ends by timeout_s."""
    go = threading.Event()

    def slow(_method: str, _path: str) -> Any:
        go.wait(10)
        return fhir(bundle())

    with (
        scripted(slow) as source,
        running_inside(
            tmp_path,
            tenants=tenanted(silent=settings(type="fhir", url=source.url, timeout_s=5)),
            cq=DocumentSearch(sync_wait_s=0.05),
        ) as service,
    ):
        patient = service.create(address=ADDRESS)["id"]
        answer = service.ask("GET", f"/fhir/R4/{PATH}?patient={patient}")
        assert answer.status_code == 202
        handle = answer.headers["location"].removeprefix(service.url)
        assert (
            service.ask("GET", f"/fhir/R4/{PATH}?patient={patient}").headers["location"] == answer.headers["location"]
        )
        go.set()
        assert documents(ended(service, handle)) == []
        assert outbound(service) >= 1


def test_a_silent_source(tmp_path: Path) -> None:
    """C-376: a source that never answers ends by its timeout_s, and the job with it."""
    with Trap() as trap:
        silent = settings(type="fhir", url=trap.url, timeout_s=0.2)
        trap.keeps = True
        with running_inside(tmp_path, tenants=tenanted(silent=silent), cq=DocumentSearch(sync_wait_s=20)) as service:
            patient = service.create(address=ADDRESS)["id"]
            told = issue(service.ask("GET", f"/fhir/R4/{PATH}?patient={patient}"), 422, "processing")
            assert told["diagnostics"].startswith("The source silent ")
    assert trap.taken >= 1


def test_one_source_that_fails(tmp_path: Path) -> None:
    """C-358: the tenant's own sources are asked; what one has is shown, and which failed is told."""
    drop = tmp_path / "drop"
    lay(drop / "mine.xml", CCDA.format(given="Marisol"))
    lay(drop / "other.xml", CCDA.format(given="Ana"))
    lay(drop / "RB-1" / "wrong.xml", CCDA.format(given="Ana"))
    folder = settings(type="directory", folder=str(drop), organization="Pine Ridge")
    gone = settings(type="fhir", url="http://127.0.0.1:1/fhir")
    with running_inside(
        tmp_path, tenants=tenanted(drop=folder, gone=gone), cq=DocumentSearch(sync_wait_s=20)
    ) as service:
        person = {
            "name": [{"family": "Quintero", "given": ["Marisol"]}],
            "identifier": [{"system": "urn:n", "value": "RB-1"}],
        }
        patient = service.create(address=ADDRESS, **person)["id"]
        answer = service.ask("GET", f"/fhir/R4/{PATH}?patient={patient}")
        [document] = documents(answer)
        assert document["custodian"]["display"] == "Pine Ridge"
        assert document["content"][0]["format"]["code"] == "urn:hl7-org:sdwg:ccda-structuredBody:2.1"
        [told] = [one["resource"] for one in answer.json()["entry"] if one["search"]["mode"] == "outcome"]
        assert told["issue"][0]["diagnostics"].startswith("The source gone cannot be reached")


@pytest.mark.parametrize("connectors", [{}, {"gone": settings(type="fhir", url="http://127.0.0.1:1/fhir")}])
def test_nobody_to_ask(tmp_path: Path, connectors: dict[str, Connector]) -> None:
    """C-343: without a source, and where all have failed, the job ends and says so; its handle says it again."""
    with running_inside(tmp_path, tenants=tenanted(**connectors), cq=DocumentSearch(sync_wait_s=20)) as service:
        patient = service.create(address=ADDRESS)["id"]
        told = issue(service.ask("GET", f"/fhir/R4/{PATH}?patient={patient}"), 422, "processing")
        assert ("The source gone" if connectors else "has no source") in told["diagnostics"]
        answer = service.ask("GET", f"/fhir/R4/{PATH}?patient={patient}", headers=ASYNC)
        for _ in range(2):
            issue(ended(service, answer.headers["location"].removeprefix(service.url)), 422, "processing")

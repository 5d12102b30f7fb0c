"""A retrieval whose process is killed between its steps: the next one goes on, and nothing is there twice."""

import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from engine.clock import now
from engine.config.service import ServiceConfiguration
from engine.interchange.app.application import new_token
from engine.interchange.network.patient360.deduplicate import FACTS, Key, key_of
from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.verify import verify
from engine.interchange.tokens.vault import issue_locally
from tests.interchange.kit import configuration, patient, secret_file
from tests.interchange.patient360.papers import ADDRESS
from tests.interchange.patient360.test_retrieval import ASYNC, PATH, told
from tests.interchange.places import DATABASE
from tests.interchange.process import FORKED, Process, started

pytestmark = pytest.mark.process

KILLED = -9


class Life:
    """A service in a folder that is killed and started again, and a client of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings: ServiceConfiguration = configuration(secret_file(folder))

    def run(self, armed: str = "") -> Any:
        """Start it, with a fault armed."""
        return started(self.folder, self.settings, FORKED, armed)

    def ask(self, process: Process, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request with a token of its own."""
        token = issue_locally(self.settings, self.folder / DATABASE, "physician", "user/.", now, new_token).access
        headers = {
            "authorization": f"Bearer {token}",
            "content-type": "application/fhir+json",
            **more.pop("headers", {}),
        }
        return httpx.request(method, process.url + path, headers=headers, trust_env=False, timeout=60, **more)

    def ended(self, process: Process, handle: str) -> dict[str, Any]:
        """Wait for the end of a job, and return what it comes to."""
        while (answer := self.ask(process, "GET", handle)).status_code == 202:
            time.sleep(0.02)
        assert answer.status_code == 200, answer.text
        return told(answer.json())

    def resources(self, process: Process, patient_id: str) -> list[dict[str, Any]]:
        """Return the chart, and the Provenance of its documents."""
        path = f"/fhir/R4/Patient/{patient_id}/$everything?_count=500"
        chart = [one["resource"] for one in self.ask(process, "GET", path).json()["entry"]]
        sources = self.ask(process, "GET", "/fhir/R4/Provenance?_count=100").json()["entry"]
        return [*chart, *(source["resource"] for source in sources)]


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a service that knows a patient."""
    life = Life(tmp_path_factory.mktemp("former"))
    body = orjson.dumps(patient(id="p1", address=ADDRESS))
    with life.run() as process:
        assert life.ask(process, "PUT", "/fhir/R4/Patient/p1", content=body).status_code == 201
    return life.folder


def keys(found: list[dict[str, Any]]) -> Counter[Key]:
    """Return the keys of the facts, with how often each is there; of documents but the number."""
    named = Counter(key_of(one) for one in found if one["resourceType"] in FACTS.keys() - {"DocumentReference"})
    documents = (one for one in found if one["resourceType"] == "DocumentReference")
    return named + Counter(Key("DocumentReference", "", "", number_of(document)) for document in documents)


def number_of(document: dict[str, Any]) -> str:
    """Return the number of a document, or its description."""
    return str(document.get("masterIdentifier", {}).get("value") or key_of(document).value)


@pytest.fixture(scope="module")
def undisturbed(former: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Counter[Key]]:
    """What the same retrieval comes to where nothing happens."""
    folder = tmp_path_factory.mktemp("undisturbed")
    shutil.copy(former / DATABASE, folder)
    life = Life(folder)
    with life.run() as process:
        answer = life.ask(process, "POST", f"{PATH}?patient=p1", headers=ASYNC)
        result = life.ended(process, answer.headers["location"].partition(process.url)[2])
        return result, keys(life.resources(process, "p1"))


@pytest.mark.parametrize("point", ["F35:kill:2", "F36:kill", "F36:kill:4"])
def test_nothing_twice(
    former: Path, tmp_path: Path, undisturbed: tuple[dict[str, Any], Counter[Key]], point: str
) -> None:
    """Killed between batches (F35) or before a document is noted (F36): no document or fact twice, counters right."""
    shutil.copy(former / DATABASE, tmp_path)
    life = Life(tmp_path)
    with life.run(point) as process:
        handle = life.ask(process, "POST", f"{PATH}?patient=p1", headers=ASYNC).headers["location"]
        assert process.run.wait(60) == KILLED
        path = handle.partition(process.url)[2]
    assert verify(tmp_path / DATABASE, INDEXERS).faults == {}
    with life.run() as process:
        result = life.ended(process, path)
        found = life.resources(process, "p1")
        again = life.ask(process, "POST", f"{PATH}?patient=p1", headers=ASYNC).headers["location"]
        second = life.ended(process, again.partition(process.url)[2])
        assert len(life.resources(process, "p1")) == len(found)
    assert (result, keys(found)) == undisturbed
    assert set(keys(found).values()) == {1}
    assert (second["documentsImported"], second["factsAdded"], second["factsUpdated"], second["factsKept"]) == (
        0,
        0,
        0,
        0,
    )
    documents = [one["masterIdentifier"]["value"] for one in found if "masterIdentifier" in one]
    assert len(documents) == len(set(documents))
    sources = [one for one in found if one["resourceType"] == "Provenance"]
    assert [source for source in sources if len(source["meta"]["tag"]) > 1] == []  # none is importing any more
    assert sorted(source["agent"][0]["who"]["display"] for source in sources) == [
        "Lakeshore Clinic",
        "Northgate Laboratory",
        "Pine Ridge Hospital",
    ]

"""What subscribers are told when a job has come to its end: `Patient.P360`, and `OperationOutcome?async=true`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from engine.config.service import Webhooks
from engine.interchange.network.patient360.connectors.connector import SourceError
from engine.interchange.network.patient360.retrieve import KIND, retrieval
from tests.interchange import jobs
from tests.interchange.jobs import Bench, ask_for, ended, handle_of
from tests.interchange.kit import Inside, Running, running_inside
from tests.interchange.patient360.papers import ADDRESS, Shelf, paper, read_paper
from tests.interchange.patient360.test_deduplicate import problem
from tests.interchange.patient360.test_importing import PINE
from tests.interchange.patient360.test_retrieval import call, told
from tests.interchange.subscriptions.subscribing import owed, subscribe
from tests.interchange.webhooks.conftest import HERE
from tests.interchange.webhooks.receiver import Receiver, trusted

P360 = "Patient.P360"
ASYNC = "OperationOutcome?async=true"


@pytest.fixture
def shelves() -> list[Shelf]:
    """Two sources, one of them empty."""
    return [Shelf("pine", [paper(PINE, problem())]), Shelf("lake", [])]


@pytest.fixture
def retrieving(tmp_path: Path, authority: trustme.CA, shelves: list[Shelf]) -> Iterator[Inside]:
    """A service that retrieves from these sources and sends webhooks to this machine."""
    works = {KIND: retrieval(lambda _service, _tenant: shelves, read_paper)}
    tenants = {"riverbend": HERE, "lakeside": HERE, "lax": HERE}
    with running_inside(tmp_path, works, tenants=tenants, webhooks=Webhooks(**trusted(tmp_path, authority))) as found:
        yield found


def retrieved(service: Running, patient_id: str) -> tuple[Any, str]:
    """Return how a retrieval was answered in the end, and the address of its handle."""
    handle = call(service, patient_id).headers["location"]
    return ended(service, handle.removeprefix(service.url)), handle


@pytest.mark.parametrize(("fails", "status"), [([], "completed"), (["lake"], "partial"), (["pine", "lake"], "failed")])
def test_a_retrieval_is_told_however_it_ends(
    retrieving: Inside, hook: Receiver, base: str, shelves: list[Shelf], fails: list[str], status: str
) -> None:
    """C-363: one POST of Parameters with status, patient, event and handle, by R4 and STU3 subscriptions."""
    for shelf in shelves:
        shelf.error = SourceError("It does not answer.") if shelf.name in fails else None
    subscribe(retrieving, P360, base, channel={"endpoint": hook.url})
    who = retrieving.create(address=ADDRESS)["id"]
    answer, handle = retrieved(retrieving, who)
    [post] = hook.wait(1)
    found = told({"parameter": [one for one in post.body["parameter"] if "part" not in one]})
    assert found["status"] == status
    assert found["patient"] == {"reference": f"Patient/{who}"}
    assert (found["event"], found["result"]) == ("patient360-complete", handle)
    assert post.event == "patient360-complete"
    assert answer.status_code == (422 if status == "failed" else 200)
    if status == "failed":
        assert found["issue"] in {one["diagnostics"] for one in answer.json()["issue"]}
    else:
        assert post.body["parameter"][:-2] == answer.json()["parameter"]


def test_the_end_of_any_job(retrieving: Inside, hook: Receiver) -> None:
    """Criteria of all jobs: an OperationOutcome that names the handle, of those that failed too, of this tenant."""
    here = subscribe(retrieving, ASYNC, channel={"endpoint": hook.url})["id"]
    elsewhere = subscribe(retrieving, ASYNC, client="other", channel={"endpoint": hook.url})["id"]
    beside = subscribe(retrieving, P360, channel={"endpoint": hook.url}, status="off")["id"]
    who = retrieving.create(address=ADDRESS)["id"]
    document = retrieving.ask("POST", f"/fhir/R4/Patient/{who}/$export-ccda", headers={"prefer": "respond-async"})
    assert document.status_code == 202, document.text
    _, handle = retrieved(retrieving, who)
    posts = hook.wait(2)
    assert {post.event for post in posts} == {"async-complete"}
    assert [post.body["issue"][0]["severity"] for post in posts] == ["information"] * 2
    texts = {post.body["issue"][0]["diagnostics"] for post in posts}
    assert texts == {
        f"The job export-ccda is done: {document.headers['location']}",
        f"The job {KIND} is done: {handle}",
    }
    assert (len(owed(retrieving, here)), owed(retrieving, elsewhere), owed(retrieving, beside)) == (2, [], [])


def test_a_cancelled_job_is_not_told(tmp_path: Path, authority: trustme.CA, hook: Receiver) -> None:
    """Who cancelled it knows, and its handle leads nowhere: of two jobs the one that is done is told."""
    bench = Bench()
    tenants = {"riverbend": HERE, "lakeside": HERE, "lax": HERE}
    webhooks = Webhooks(**trusted(tmp_path, authority))
    with running_inside(tmp_path, {jobs.KIND: bench.work}, tenants=tenants, webhooks=webhooks) as service:
        mine = subscribe(service, ASYNC, channel={"endpoint": hook.url})["id"]
        cancelled, done = (handle_of(ask_for(service, service.create()["id"]), service) for _ in range(2))
        bench.begun.acquire()
        assert service.ask("DELETE", cancelled).status_code == 202
        bench.go.set()
        assert ended(service, done).status_code == 200
        [post] = hook.wait(1)
        assert post.body["issue"][0]["diagnostics"].endswith(done)
        assert len(owed(service, mine)) == 1

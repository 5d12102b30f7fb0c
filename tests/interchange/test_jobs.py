"""Jobs: the handle that is promised, what it tells until its job has ended and afterwards, and how one is cancelled."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.fhir.schema import FhirVersion
from tests.interchange.jobs import DONE, KIND, Bench, ask_for, ended, handle_of
from tests.interchange.kit import Inside, issue, running_inside


@pytest.fixture
def bench() -> Bench:
    """A work that waits for the test."""
    return Bench()


@pytest.fixture
def worked(tmp_path: Path, bench: Bench) -> Iterator[Inside]:
    """A service of the test's own that does such work."""
    with running_inside(tmp_path, {KIND: bench.work}) as found:
        yield found
        bench.go.set()


@pytest.mark.parametrize("version", FhirVersion)
def test_a_handle_tells_how_far_it_is_then_the_result(worked: Inside, bench: Bench, version: FhirVersion) -> None:
    """C-331: 202 with X-Progress and Retry-After while it is worked on, then 200 with the result, again and again."""
    handle = handle_of(ask_for(worked, "p1", {"tz": "UTC"}, version=version), worked)
    assert handle.startswith("/fhir/R4/RequestResult/" if version is FhirVersion.R4 else "/fhir/RequestResult/")
    assert bench.begun.acquire(timeout=10)
    assert bench.jobs[0].asked == {"tz": "UTC"}
    while (told := worked.ask("GET", handle)).headers["x-progress"] == "in progress":
        assert told.status_code == 202
    assert told.headers["x-progress"] == "in progress: organizations total 4, documents found 1"
    assert int(told.headers["retry-after"]) > 0
    bench.go.set()
    assert ended(worked, handle).json() == DONE
    assert ended(worked, handle).json() == DONE
    assert bench.done == 1


def test_a_cancelled_job_is_gone(worked: Inside, bench: Bench) -> None:
    """C-342: DELETE answers 202 and ends the work; the handle is then as absent as one that there never was."""
    handle = handle_of(ask_for(worked, "p1"), worked)
    assert bench.begun.acquire(timeout=10)
    issue(worked.ask("GET", handle, client="other"), 404, "not-found")
    issue(worked.ask("DELETE", handle, client="other"), 404, "not-found")
    assert worked.ask("DELETE", handle).status_code == 202
    for method in ("GET", "DELETE"):
        issue(worked.ask(method, handle), 404, "not-found")
    issue(worked.ask("GET", "/fhir/R4/RequestResult/nothing"), 404, "not-found")
    again = handle_of(ask_for(worked, "p1"), worked)
    assert again != handle
    bench.go.set()
    assert ended(worked, again).json() == DONE
    assert bench.done == 1

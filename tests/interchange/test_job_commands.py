"""`adt-engine interchange jobs`: what it shows of jobs, and that a running service hears of what it cancels."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.interchange.core.service import Service
from engine.interchange.jobs.job import JobFailedError, JobResult, Report
from engine.interchange.kernel.outcome import Issue
from engine.interchange.store.job import AsyncJob
from tests.interchange.jobs import KIND, Bench, ask_for, ended, handle_of, until
from tests.interchange.kit import Inside, issue, running_inside
from tests.interchange.nursery import ran
from tests.interchange.places import address_of
from tests.interchange.test_access_log import ROWS
from tests.interchange.test_jobs import selected
from tests.interchange.test_operations import metrics

SHOWN = {"id", "tenant", "kind", "patient", "base", "state", "progress", "client", "user", "attempts", "crashes"}
SHOWN |= {"asked_at", "started_at", "ended_at", "reasons"}


async def failing(_service: Service, _job: AsyncJob, _report: Report) -> JobResult:
    """Fail."""
    raise JobFailedError(Issue("No source is configured.", "http.path"))


@pytest.fixture
def bench() -> Bench:
    """A work that waits for the test."""
    return Bench()


@pytest.fixture
def worked(tmp_path: Path, bench: Bench) -> Iterator[Inside]:
    """A service of the test's own that does such work."""
    with running_inside(tmp_path, {KIND: bench.work, "merge": failing}) as found:
        yield found


def jobs(service: Inside, *arguments: str, code: int = 0) -> Any:
    """Run a command on the database of a service, and return what it prints as JSON, or what it says of an error."""
    done = ran("interchange", "jobs", *arguments, "--json", "--database", address_of(service.database))
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if not code else done.stderr


def test_jobs_are_listed_and_shown(worked: Inside, bench: Bench) -> None:
    """Each job with its ids, state and moments, by tenant and state; neither what was asked nor what came of it."""
    mine = handle_of(ask_for(worked, "p1", {"secret": "Quintero"}), worked).rpartition("/")[2]
    other = handle_of(ask_for(worked, "p2", client="other"), worked).rpartition("/")[2]
    failed = handle_of(ask_for(worked, "p3", kind="merge"), worked)
    assert bench.begun.acquire(timeout=30)
    issue(ended(worked, failed), 422, "processing")
    listed = jobs(worked, "list")
    assert [one["id"] for one in listed] == [mine, other, failed.rpartition("/")[2]]
    assert [one["state"] for one in listed] == ["running", "running", "failed"]
    assert {frozenset(one) for one in listed} == {frozenset(SHOWN)}
    assert [job["id"] for job in jobs(worked, "list", "--tenant", "lakeside")] == [other]
    assert [job["patient"] for job in jobs(worked, "list", "--state", "failed")] == ["p3"]
    shown = jobs(worked, "show", mine)
    assert (shown["tenant"], shown["kind"], shown["base"], shown["attempts"]) == ("riverbend", KIND, "R4", 1)
    assert shown["asked_at"] <= shown["started_at"]
    assert shown["ended_at"] == ""
    assert jobs(worked, "show", listed[2]["id"])["reasons"] == ["No source is configured."]
    assert "there is no job" in jobs(worked, "show", "nothing", code=2)
    assert "there is no job" in jobs(worked, "show", mine, "--tenant", "lakeside", code=2)
    printed = ran("interchange", "jobs", "list", "--database", address_of(worked.database)).stdout
    assert mine in printed
    assert "Quintero" not in printed + json.dumps(listed)


def test_a_job_is_cancelled_at_the_machine(worked: Inside, bench: Bench) -> None:
    """A running service stops the work of a job that the command cancelled; the log of accesses names who did."""
    handle = handle_of(ask_for(worked, "p1"), worked)
    job = handle.rpartition("/")[2]
    assert bench.begun.acquire(timeout=30)
    assert "there is no job" in jobs(worked, "cancel", job, "--tenant", "lakeside", code=2)
    assert jobs(worked, "cancel", job)["state"] == "cancelled"
    assert bench.over.acquire(timeout=30)
    assert bench.done == 0
    issue(worked.ask("GET", handle), 404, "not-found")
    until(lambda: metrics(worked).get(f'adt_interchange_jobs_ended_total{{kind="{KIND}",state="cancelled"}}') == 1)
    assert "has ended already: cancelled" in jobs(worked, "cancel", job, code=2)
    found = [row for row in selected(worked, ROWS) if row[1] == "adt-engine"]
    assert [(row[0], *row[4:]) for row in found] == [
        ("riverbend", "delete", "RequestResult", job, "p1", "done", 0),
    ]
    done = ran("interchange", "audit", "verify", "--database", address_of(worked.database))
    assert done.returncode == 0, done.stdout


def test_what_waits_is_cancelled_without_a_service(tmp_path: Path) -> None:
    """A job that is cancelled while no service runs is not taken up by the next one."""
    first, second = Bench(), Bench()
    with running_inside(tmp_path, {KIND: first.work}) as service:
        kept, gone = (handle_of(ask_for(service, one), service) for one in ("p1", "p2"))
    assert jobs(service, "cancel", gone.rpartition("/")[2])["state"] == "cancelled"
    second.go.set()
    with running_inside(tmp_path, {KIND: second.work}) as service:
        assert ended(service, kept).status_code == 200
        issue(service.ask("GET", gone), 404, "not-found")
    assert [job.patient for job in second.jobs] == ["p1"]

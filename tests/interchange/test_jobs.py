"""Jobs: the handle that is promised, what it tells until its job has ended and afterwards, and how one is cancelled."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest

from engine.config.service import Jobs, Tenant
from engine.fhir.schema import FhirVersion
from engine.interchange.core.negotiation import prefer
from engine.interchange.core.service import Service
from engine.interchange.jobs.job import JobFailedError, JobResult, Report, delete_expired_jobs, subject
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import Category, Issue, RefusedError, refuse
from engine.interchange.store.job import AsyncJob
from engine.interchange.store.sqlite import connect
from engine.interchange.store.transaction import Transaction
from engine.interchange.store.writer import StoreBusyError
from tests.interchange.jobs import DONE, KIND, Bench, ask_for, ended, handle_of, until
from tests.interchange.kit import Inside, Running, issue, merge_body, running_inside
from tests.interchange.places import DATABASE
from tests.interchange.test_access_log import ROWS
from tests.interchange.test_operations import metrics


@pytest.fixture
def bench() -> Bench:
    """A work that waits for the test."""
    return Bench()


@pytest.fixture
def worked(tmp_path: Path, bench: Bench) -> Iterator[Inside]:
    """A service of the test's own that does such work."""
    with running_inside(tmp_path, {KIND: bench.work, "merge": bench.work}) as found:
        yield found
        bench.go.set()


@pytest.mark.parametrize("version", FhirVersion)
def test_a_handle_tells_how_far_it_is_then_the_result(worked: Inside, bench: Bench, version: FhirVersion) -> None:
    """C-331: 202 with X-Progress and Retry-After while it is worked on, then 200 with the result, again and again."""
    handle = handle_of(ask_for(worked, "p1", {"tz": "UTC"}, version=version), worked)
    assert handle.startswith("/fhir/R4/RequestResult/" if version is FhirVersion.R4 else "/fhir/RequestResult/")
    assert bench.begun.acquire(timeout=30)
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
    assert bench.begun.acquire(timeout=30)
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


def test_the_same_handle_while_it_is_unfinished(worked: Inside, bench: Bench) -> None:
    """Who asks again for a kind and patient gets the handle that is under way; what is asked otherwise is a 409."""
    first = handle_of(ask_for(worked, "p1", {"tz": "UTC"}), worked)
    assert handle_of(ask_for(worked, "p1", {"tz": "UTC"}, client="nurse"), worked) == first
    with pytest.raises(RefusedError) as refused:
        ask_for(worked, "p1", {"tz": "Z"})
    assert refused.value.category is Category.CONFLICT
    others = {
        handle_of(ask_for(worked, "p1", version=FhirVersion.STU3), worked),
        handle_of(ask_for(worked, "p2"), worked),
        handle_of(ask_for(worked, "p1", client="other"), worked),
        handle_of(ask_for(worked, "p1", kind="merge"), worked),
        handle_of(ask_for(worked, ""), worked),
        handle_of(ask_for(worked, ""), worked),
    }
    assert len(others | {first}) == 7
    bench.go.set()
    assert ended(worked, first).status_code == 200
    assert handle_of(ask_for(worked, "p1", {"tz": "Z"}), worked) != first


def test_what_ends_at_once_is_answered_at_once(worked: Inside, bench: Bench) -> None:
    """An interaction may wait a while for the end, and answers then as the handle would."""
    answer = ask_for(worked, "p1", wait_seconds=0.05)
    assert answer.status == 202
    bench.go.set()
    again = ask_for(worked, "p2", wait_seconds=30)
    assert (again.status, again.body) == (200, bench.result.body)


def later(service: Running, seconds: float) -> None:
    """Put the clock forward, by so much that tokens end."""
    service.advance(seconds)
    service.tokens.clear()


def test_a_result_is_kept_for_a_day(worked: Inside, bench: Bench) -> None:
    """A result is told for 24 hours after the end, then it is absent, and in the end it is gone from the database."""
    bench.go.set()
    handles = [handle_of(ask_for(worked, f"p{number}"), worked) for number in range(45)]
    for handle in handles:
        assert ended(worked, handle).status_code == 200
    later(worked, 24 * 3600 - 60)
    assert ended(worked, handles[0]).json() == DONE
    assert worked.run(delete_expired_jobs(worked.app.service)) == 0
    later(worked, 61)
    waiting = handle_of(ask_for(worked, "p"), worked)
    issue(worked.ask("GET", handles[0]), 404, "not-found")
    assert worked.run(delete_expired_jobs(worked.app.service)) == len(handles)
    assert ended(worked, waiting).status_code == 200


FAILURES = {
    "told": JobFailedError(Issue("No source is configured.", "http.path"), Issue("And more.", "", "more")),
    "refused": refuse(Category.NOT_FOUND, "No source is configured.", location="http.path"),
    "unforeseen": ValueError("Quintero 1984-02-29"),
    "by-keep": KeyError("Quintero"),
    "silent": JobFailedError(),
    "unknown": None,
}


async def failing(_service: Service, job: AsyncJob, _report: Report) -> JobResult:
    """Fail as the job asks for it, in its end where that is asked for."""
    error = FAILURES[job.asked["how"]]
    assert error is not None

    def keep(transaction: Transaction) -> None:
        transaction.create("Organization", "kept", {"resourceType": "Organization", "name": "x"})
        raise error

    if job.asked["how"] == "by-keep":
        return JobResult(b"{}", keep)
    raise error


@pytest.mark.parametrize("how", FAILURES)
def test_a_failed_job(tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    """C-343: 422 processing with what its work told, again and again; what nobody foresaw shows nothing of itself."""
    with running_inside(tmp_path, {KIND: failing}) as service:
        kind = "history-type" if how == "unknown" else KIND
        handle = handle_of(ask_for(service, "p1", {"how": how}, kind=kind), service)
        for _ in range(2):
            told = issue(ended(service, handle), 422, "processing")
            if how in {"told", "refused"}:
                assert (told["diagnostics"], told["location"]) == ("No source is configured.", ["http.path"])
            elif how == "unknown":
                assert told["diagnostics"] == "The service no longer does this (history-type)."
            else:
                assert told["diagnostics"] == "The service had an internal error while it did this."
        assert metrics(service)[f'adt_interchange_jobs_ended_total{{kind="{kind}",state="failed"}}'] == 1
        issue(service.ask("GET", "/fhir/R4/Organization/kept"), 404, "not-found")
    said = capsys.readouterr().out
    assert "Quintero" not in said
    assert ("job failed" in said) == (how in {"unforeseen", "by-keep"})
    if how == "unforeseen":
        assert "error=ValueError" in said
        assert "file=test_jobs:" in said


def keeping(name: str) -> JobResult:
    """Return a result that goes with an Organization."""
    made = {"resourceType": "Organization", "name": name}
    return JobResult(write_json(DONE), lambda transaction: transaction.create("Organization", name, made) and None)


def test_a_result_and_what_goes_with_it(worked: Inside, bench: Bench) -> None:
    """What `keep` writes is there when the handle says done."""
    bench.result = keeping("kept")
    bench.go.set()
    assert ended(worked, handle_of(ask_for(worked, "p1"), worked)).status_code == 200
    assert worked.ask("GET", "/fhir/R4/Organization/kept").status_code == 200


def test_what_goes_with_a_cancelled_job_is_not_kept(worked: Inside, bench: Bench) -> None:
    """A job that was cancelled while its work came to its end keeps nothing of it, whoever was first to know."""
    bench.result = keeping("kept")
    handle = handle_of(ask_for(worked, "p1"), worked)
    assert bench.begun.acquire(timeout=30)
    until(lambda: selected(worked, "SELECT count(*) FROM job WHERE progress<>''") == [(1,)])
    # Cancelled in the database alone, as by the command, and the work ends before the runner looks.
    beside = connect(worked.database)
    beside.execute("UPDATE job SET state='cancelled', ended_ms=0")
    beside.close()
    bench.go.set()
    assert bench.over.acquire(timeout=30)
    issue(worked.ask("GET", handle), 404, "not-found")
    bench.result = JobResult(write_json(DONE))
    assert ended(worked, handle_of(ask_for(worked, "p2"), worked)).status_code == 200
    issue(worked.ask("GET", "/fhir/R4/Organization/kept"), 404, "not-found")


async def deaf(_service: Service, _job: AsyncJob, report: Report) -> JobResult:
    """Go on although it was cancelled, until it is told so."""
    for number in range(10_000):
        with contextlib.suppress(asyncio.CancelledError):
            await report({"number": number})
            await asyncio.sleep(0.001)
    raise AssertionError("it was never told")


async def confused(_service: Service, _job: AsyncJob, _report: Report) -> JobResult:
    """Wait for something that somebody else cancelled."""
    waited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waited.cancel()
    await waited
    return JobResult(b"{}")


def test_works_that_take_cancelling_wrong(tmp_path: Path) -> None:
    """One that goes on is told by its next report; one that is cancelled by nobody has failed."""
    with running_inside(tmp_path, {KIND: deaf, "merge": confused}) as service:
        handle = handle_of(ask_for(service, "p1"), service)
        while service.ask("GET", handle).headers["x-progress"] in {"waiting", "in progress"}:
            pass
        assert service.ask("DELETE", handle).status_code == 202
        until(lambda: metrics(service).get(f'adt_interchange_jobs_ended_total{{kind="{KIND}",state="cancelled"}}') == 1)
        issue(ended(service, handle_of(ask_for(service, "p1", kind="merge"), service)), 422, "processing")


def selected(service: Inside, sql: str) -> list[tuple[Any, ...]]:
    """Return what a query finds; by the service's own library, as two of them in a process undo each other's locks."""
    return service.app.service.store.reader().execute(sql).fetchall()


def test_progress_is_on_disk(worked: Inside, bench: Bench) -> None:
    """What a work reports first is on disk at once, and what it reports within the second a second later."""
    handle_of(ask_for(worked, "p1"), worked)
    assert bench.begun.acquire(timeout=30)
    first, second = ([(orjson.dumps(one).decode(),)] for one in bench.progress)
    until(lambda: selected(worked, "SELECT progress FROM job") == first)
    bench.say.set()
    until(lambda: selected(worked, "SELECT progress FROM job") == second)


def test_what_progress_a_header_shows(worked: Inside, bench: Bench) -> None:
    """X-Progress has less than 100 characters of ASCII, whatever a work tells."""
    bench.progress = ({"Zoë\r\nSet-Cookie": "a\0b", **{f"number{n}": 10**9 for n in range(20)}}, {})
    handle = handle_of(ask_for(worked, "p1"), worked)
    assert bench.begun.acquire(timeout=30)
    while (told := worked.ask("GET", handle).headers["x-progress"]) in {"waiting", "in progress"}:
        pass
    assert told.startswith("in progress: zoset-cookie ab, number0 1000000000")
    assert len(told) < 100


def test_the_log_of_accesses_names_the_patient(worked: Inside) -> None:
    """N-320: who reads or cancels a handle is recorded with the patient of the job, refused ones too."""
    handle = handle_of(ask_for(worked, "p1"), worked)
    job = handle.rpartition("/")[2]
    before = len(selected(worked, ROWS))
    worked.ask("GET", handle)
    worked.ask("GET", handle, client="administrative")
    worked.ask("GET", handle, client="other")
    worked.ask("DELETE", handle)
    found = [row[1:2] + row[4:] for row in selected(worked, ROWS)[before:]]
    assert found == [
        ("physician", "read", "RequestResult", job, "p1", "done", 202),
        ("administrative", "read", "RequestResult", job, "p1", "refused", 403),
        ("other", "read", "RequestResult", job, "", "refused", 404),
        ("physician", "delete", "RequestResult", job, "p1", "done", 0),
    ]


def test_a_queue_that_is_full(tmp_path: Path, bench: Bench) -> None:
    """More than the tenant may have waiting are refused with 429 and when to come back; other tenants are not."""
    limits = Jobs(at_once=1, at_once_per_tenant=1, waiting_per_tenant=2)
    with running_inside(tmp_path, {KIND: bench.work}, jobs=limits) as service:
        ask_for(service, "p0")
        assert bench.begun.acquire(timeout=30)
        waiting = [handle_of(ask_for(service, f"p{number}"), service) for number in (1, 2)]
        with pytest.raises(RefusedError) as refused:
            ask_for(service, "p3")
        assert refused.value.category is Category.THROTTLED
        assert int(dict(refused.value.headers)["retry-after"]) > 0
        assert handle_of(ask_for(service, "p2"), service) == waiting[1]
        ask_for(service, "p3", client="other")
        told = metrics(service)
        assert told[f'adt_interchange_jobs{{kind="{KIND}",state="waiting"}}'] == 3
        assert told[f'adt_interchange_jobs{{kind="{KIND}",state="running"}}'] == 1
        assert service.ask("GET", waiting[0]).headers["x-progress"] == "waiting"
        assert service.ask("DELETE", waiting[0]).status_code == 202
        ask_for(service, "p3")
        bench.go.set()
        assert ended(service, waiting[1]).status_code == 200
        # Tenants take turns: of those that waited, the other one's was first.
        assert [job.patient for job in bench.jobs[:3]] == ["p0", "p3", "p2"]
        assert bench.jobs[1].tenant == "lakeside"
        until(lambda: metrics(service).get(f'adt_interchange_job_seconds_count{{kind="{KIND}"}}') == 5)
        told = metrics(service)
        assert told[f'adt_interchange_jobs_ended_total{{kind="{KIND}",state="done"}}'] == 4
        assert told[f'adt_interchange_jobs_ended_total{{kind="{KIND}",state="cancelled"}}'] == 1


def test_so_many_at_once(tmp_path: Path, bench: Bench) -> None:
    """As many jobs are worked on at a time as are allowed in all, and of one tenant; a reload changes how many.

    No kind has the last place of a tenant, or of all.
    """
    limits = Jobs(at_once=5, at_once_per_tenant=3)
    with running_inside(tmp_path, {KIND: bench.work, "merge": bench.work}, jobs=limits) as service:
        for number in range(4):
            for client in ("physician", "other"):
                ask_for(service, f"p{number}", client=client)
        until(lambda: len(bench.jobs) == 4)
        assert Counter(job.tenant for job in bench.jobs) == {"lakeside": 2, "riverbend": 2}
        ask_for(service, "p1", kind="merge")
        until(lambda: len(bench.jobs) == 5)
        assert (bench.jobs[4].tenant, bench.jobs[4].kind) == ("riverbend", "merge")
        of = service.app.service
        of.configuration = of.configuration.model_copy(update={"jobs": Jobs(at_once=9, at_once_per_tenant=4)})
        until(lambda: len(bench.jobs) == 7)
        assert Counter((job.tenant, job.kind) for job in bench.jobs) == {
            ("lakeside", KIND): 3,
            ("riverbend", KIND): 3,
            ("riverbend", "merge"): 1,
        }
        bench.go.set()
        until(lambda: bench.done == 9)


def test_a_patient_who_is_gone(tmp_path: Path) -> None:
    """A work that looks for its patient again refuses one who was merged away or deleted since: 422 with the reason."""

    async def work(service: Service, job: AsyncJob, _report: Report) -> JobResult:
        found = service.store.read(job.tenant, lambda transaction: subject(transaction, job))
        return JobResult(found.body)

    with running_inside(tmp_path, {KIND: work}) as service:
        here, gone, merged = (service.create()["id"] for _ in range(3))
        assert service.ask("DELETE", f"/fhir/R4/Patient/{gone}").status_code == 204
        assert service.ask("POST", "/fhir/R4/Patient/$merge", json=merge_body(merged, here)).status_code == 200
        answers = {one: ended(service, handle_of(ask_for(service, one), service)) for one in (here, gone, merged)}
        assert answers[here].json()["id"] == here
        assert "was deleted" in issue(answers[gone], 422, "processing")["diagnostics"]
        told = issue(answers[merged], 422, "processing")
        assert f"merged into Patient/{here}" in told["diagnostics"]
        assert told["details"]["coding"][0]["code"] == "already-merged"


def test_a_stop_leaves_the_rest_for_the_next_start(tmp_path: Path) -> None:
    """C-562: what waits and what is worked on when the service stops is done after its next start, each job once."""
    first, second = Bench(), Bench()
    with running_inside(tmp_path, {KIND: first.work}) as service:
        handles = [handle_of(ask_for(service, f"p{number}"), service) for number in range(3)]
        assert first.begun.acquire(timeout=30)
        assert first.begun.acquire(timeout=30)
    kept = connect(tmp_path / DATABASE)
    states = kept.execute("SELECT state, attempts, crashes FROM job ORDER BY number").fetchall()
    kept.close()
    assert states == [("waiting", 1, 0), ("waiting", 1, 0), ("waiting", 0, 0)]
    assert first.done == 0
    second.go.set()
    with running_inside(tmp_path, {KIND: second.work}) as service:
        for handle in handles:
            assert ended(service, handle).json() == DONE
    assert second.done == 3
    assert [job.attempts for job in second.jobs] == [2, 2, 1]


def test_a_tenant_that_is_no_longer_configured(tmp_path: Path) -> None:
    """Its jobs wait until it is again, and keep nobody else's from being done."""
    bench = Bench()
    with running_inside(tmp_path, {KIND: bench.work}) as service:
        waiting = handle_of(ask_for(service, "p1", client="other"), service)
        assert bench.begun.acquire(timeout=30)
    bench.go.set()
    mine = {name: one for name, one in service.settings.clients.items() if one.tenant == "riverbend"}
    with running_inside(tmp_path, {KIND: bench.work}, tenants={"riverbend": Tenant()}, clients=mine) as service:
        assert ended(service, handle_of(ask_for(service, "p1"), service)).status_code == 200
        assert bench.done == 1
    with running_inside(tmp_path, {KIND: bench.work}) as service:
        assert ended(service, waiting, client="other").status_code == 200
    assert [job.tenant for job in bench.jobs] == ["lakeside", "riverbend", "lakeside"]


def test_what_is_asked_the_same_in_other_words(worked: Inside) -> None:
    """Lists and tuples, and keys in another order, are the same question."""
    first = handle_of(ask_for(worked, "p1", {"a": (1, 2), "b": ""}), worked)
    assert handle_of(ask_for(worked, "p1", {"b": "", "a": [1, 2]}), worked) == first


async def upset(_service: Service, _job: AsyncJob, report: Report) -> JobResult:
    """Say of a cancellation that it has failed."""
    await report({"step": 1})
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError as error:
        raise JobFailedError(Issue("It was interrupted.")) from error
    raise AssertionError("it was not interrupted")


def test_a_stop_fails_no_job(tmp_path: Path) -> None:
    """A work that fails because the service stops is done again after the next start; cancelled, it is cancelled."""
    bench = Bench()
    bench.go.set()
    with running_inside(tmp_path, {KIND: upset}) as service:
        kept, gone = (handle_of(ask_for(service, one), service) for one in ("p1", "p2"))
        until(lambda: selected(service, "SELECT count(*) FROM job WHERE progress<>''") == [(2,)])
        assert service.ask("DELETE", gone).status_code == 202
        until(lambda: metrics(service).get(f'adt_interchange_jobs_ended_total{{kind="{KIND}",state="cancelled"}}') == 1)
    with running_inside(tmp_path, {KIND: bench.work}) as service:
        assert ended(service, kept).json() == DONE
        issue(service.ask("GET", gone), 404, "not-found")


def test_a_store_that_is_busy_at_the_end(worked: Inside, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job whose end the store does not take for now is put back and done again; what it keeps is kept once."""
    bench.result = keeping("kept")
    handle = handle_of(ask_for(worked, "p1"), worked)
    assert bench.begun.acquire(timeout=30)
    worked.token("physician")
    store, refused = worked.app.service.store, count()
    write, write_raw = store.write, store.write_raw

    async def busy(*arguments: Any) -> Any:
        """Be busy for the end of the job, and for putting it back."""
        if next(refused) < 2:
            raise StoreBusyError
        return await (write if len(arguments) > 1 else write_raw)(*arguments)

    monkeypatch.setattr(store, "write", busy)
    monkeypatch.setattr(store, "write_raw", busy)
    bench.go.set()
    assert ended(worked, handle).status_code == 200
    assert [job.attempts for job in bench.jobs] == [1, 2]
    assert selected(worked, "SELECT count(*) FROM resource WHERE type='Organization'") == [(1,)]
    assert selected(worked, "SELECT crashes FROM job") == [(0,)]


def test_prefer_is_read() -> None:
    """`Prefer: respond-async` is understood alone and beside others (RFC 7240)."""
    for header in ("respond-async", "return=minimal, Respond-Async; wait=10", "handling=lenient,respond-async"):
        assert prefer(header).respond_async
    assert not prefer("return=minimal").respond_async

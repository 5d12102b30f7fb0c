"""The queue of jobs against a naive model: whatever is asked, done, cancelled, stopped and killed, in any order.

The real store, runner and handles over a real file, in one loop; a kill is a store that closes under the runner's feet.
"""

import asyncio
import contextlib
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.config.service import Jobs
from engine.interchange.app.application import ServiceApp, create_app
from engine.interchange.core.service import Service
from engine.interchange.jobs.asking import ask
from engine.interchange.jobs.job import JobFailedError, JobResult, Report
from engine.interchange.jobs.overview import cancel_job, list_jobs
from engine.interchange.jobs.runner import MOST_CRASHES, RunningJob, next_job
from engine.interchange.kernel.outcome import Issue, RefusedError
from engine.interchange.store.job import AsyncJob, NextJob
from engine.interchange.store.transaction import Transaction
from engine.interchange.web.http.route import INTERACTIONS
from tests.interchange.jobs import KIND, asked_by
from tests.interchange.kit import configuration, secret_file
from tests.interchange.places import DATABASE
from tests.tiers import trials

LIMITS = Jobs(at_once=4, at_once_per_tenant=3, waiting_per_tenant=4)
CLIENTS = {"physician": "riverbend", "other": "lakeside", "lax": "lax"}
READ, DELETE = (next(one for one in INTERACTIONS if one.own_rights and one.code == code) for code in ("read", "delete"))
FRESH = count(1)

asking = st.tuples(st.just("ask"), st.sampled_from(sorted(CLIENTS)), st.sampled_from(["", "p1", "p2", "p3"]))
# Which of the jobs that are worked on, and how it ends.
ending = st.tuples(st.just("end"), st.integers(0, 9), st.sampled_from(["done", "told", "fault", "keep"]))
# Which of all jobs, by its handle or by the command.
cancelling = st.tuples(st.just("cancel"), st.integers(0, 99), st.booleans())
leaving = st.tuples(st.sampled_from(["stop", "kill"]))
steps = st.lists(st.one_of(asking, asking, ending, ending, cancelling, leaving), max_size=25)


@dataclass
class Known:
    """What the model knows of a job."""

    client: str
    patient: str
    state: str = "unfinished"
    kills: int = 0


@dataclass
class World:
    """A service, its present life, what its works wait for, and what the model says of each job by its id."""

    folder: Path
    app: ServiceApp = field(init=False)
    running: "asyncio.Task[None]" = field(init=False)
    works: dict[str, "asyncio.Future[str]"] = field(default_factory=dict)
    known: dict[str, Known] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin a life."""
        settings_ = configuration(secret_file(self.folder), jobs=LIMITS)
        self.app = create_app(settings_, self.folder / DATABASE, works={KIND: self.work})
        self.running = asyncio.create_task(self.app.runner.run())

    async def leave(self) -> None:
        """Stop in order."""
        self.running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.running
        assert not self.works
        self.app.close()

    async def kill(self) -> None:
        """End as a killed process does: nothing more is written, and nothing is put back."""
        self.app.close()
        for job_id in self.works:
            self.known[job_id].kills += 1
            if self.known[job_id].kills == MOST_CRASHES:
                self.known[job_id].state = "failed"
        self.running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.running

    async def work(self, service: Service, job: AsyncJob, report: Report) -> JobResult:
        """Wait for how it is to end."""
        assert job.id not in self.works
        self.works[job.id] = asyncio.get_running_loop().create_future()
        try:
            await report({"step": 1})
            how = await self.works[job.id]
        finally:
            del self.works[job.id]
        if how == "told":
            raise JobFailedError(Issue("It cannot be done."))
        if how == "fault":
            raise ValueError

        def keep(transaction: Transaction) -> None:
            made = {"resourceType": "Organization", "name": job.id}
            transaction.create("Organization", service.new_id(), made)
            if how == "keep":
                raise KeyError

        return JobResult(b"{}", keep)

    @property
    def service(self) -> Service:
        """The service of this life."""
        return self.app.service


async def take(world: World, step: tuple[Any, ...]) -> None:
    """Do one step to the service and to the model."""
    what, *how = step
    if what == "ask":
        await asks(world, *how)
    elif what == "end" and world.works:
        job_id = sorted(world.works)[how[0] % len(world.works)]
        world.works[job_id].set_result(how[1])
        world.known[job_id].state = "done" if how[1] == "done" else "failed"
        await until(lambda: job_id not in world.works)
    elif what == "cancel" and world.known:
        job_id = list(world.known)[how[0] % len(world.known)]
        await cancels(world, job_id, by_command=how[1])
    elif what in {"stop", "kill"}:
        await (world.leave if what == "stop" else world.kill)()
        world.begin()


async def asks(world: World, client: str, patient: str) -> None:
    """Ask for a job: the one that is unfinished, a new one, or 429 where as many wait as may."""
    mine = [item for item in world.known.items() if item[1].client == client and item[1].state == "unfinished"]
    same = [job_id for job_id, one in mine if patient and one.patient == patient]
    waiting = len(mine) - sum(world.known[job_id].client == client for job_id in world.works)
    if not same and waiting >= LIMITS.waiting_per_tenant:  # more than may, after those that ran wait again
        with pytest.raises(RefusedError):
            await ask(world.service, asked_by(client), KIND, patient, {})
        return
    answer = await ask(world.service, asked_by(client), KIND, patient, {})
    job_id = dict(answer.headers)["location"].rpartition("/")[2]
    assert same in ([], [job_id])
    if not same:
        assert job_id not in world.known
        world.known[job_id] = Known(client, patient)


async def cancels(world: World, job_id: str, *, by_command: bool) -> None:
    """Cancel a job: what has ended is forgotten, and what it kept stays."""
    known = world.known[job_id]
    if by_command and known.state == "unfinished":
        await asyncio.to_thread(cancel_job, world.folder / DATABASE, job_id, world.service.clock)
        world.service.job_signals.wakeup.set()
    elif not by_command:
        status = await called(world, job_id, DELETE.run)
        assert status == (404 if known.state in {"cancelled", "forgotten"} else 202)
    if known.state == "unfinished":
        known.state = "cancelled"
    elif not by_command and known.state in {"done", "failed"}:
        known.state = "forgotten" if known.state == "done" else "cancelled"


async def called(world: World, job_id: str, run: Callable[..., Any]) -> int:
    """Return the status of a call of a handle."""
    request = asked_by(world.known[job_id].client)
    made = type(request)(**{**{name: getattr(request, name) for name in request.__slots__}, "id": job_id})
    try:
        answer = await run(world.service, made)
    except RefusedError as error:
        return error.category.status
    return int(answer.status)


async def until(met: Callable[[], bool]) -> None:
    """Let the service go on until something is so."""
    end = time.monotonic() + 20
    while not met():
        assert time.monotonic() < end
        await asyncio.sleep(0.0005)


def settled(world: World) -> bool:
    """Say whether all that could be taken up is, and all that was cancelled has stopped.

    A job that crashed before waits at its turn until it is alone, and all others wait behind it (C-562).
    """
    rows = {job.id: job for job in list_jobs(world.folder / DATABASE)}
    running = {job_id for job_id, one in rows.items() if one.state == "running"}
    taken = [RunningJob(rows[job_id].tenant, KIND, rows[job_id].crashes > 0) for job_id in running]
    waiting = {
        row.tenant: NextJob(row.tenant, KIND, 0, row.crashes)
        for row in reversed(rows.values())
        if row.state == "waiting"
    }
    return running == set(world.works) and next_job(waiting.values(), taken, LIMITS, world.app.runner._last) is None


async def hold(world: World) -> None:
    """Hold the database and the handles to the model, and the queue to its limits."""
    await until(lambda: settled(world))
    rows = {job.id: job for job in list_jobs(world.folder / DATABASE)}
    at_once = Counter(rows[job_id].tenant for job_id in world.works)
    assert at_once.total() <= LIMITS.at_once
    assert max(at_once.values(), default=0) <= LIMITS.at_once_per_tenant
    assert at_once.total() == 1 or not any(rows[job_id].crashes for job_id in world.works)
    unfinished = Counter(
        (row.tenant, row.patient) for row in rows.values() if row.state in {"waiting", "running"} and row.patient
    )
    assert max(unfinished.values(), default=1) == 1
    wanted = {"unfinished": 202, "done": 200, "failed": 422, "cancelled": 404, "forgotten": 404}
    for job_id, known in world.known.items():
        assert await called(world, job_id, READ.run) == wanted[known.state], known
        assert job_id not in rows or rows[job_id].crashes == known.kills
    kept = world.service.store.reader().execute(
        "SELECT json_extract(body, '$.name') FROM resource WHERE type='Organization'"
    )
    done = [job_id for job_id, known in world.known.items() if known.state in {"done", "forgotten"}]
    assert sorted(name for (name,) in kept) == sorted(done)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an empty database."""
    folder = tmp_path_factory.mktemp("model")
    create_app(configuration(secret_file(folder)), folder / DATABASE).close()
    return folder


@pytest.mark.property
@settings(max_examples=trials(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_random_lives(template: Path, taken: list[tuple[Any, ...]]) -> None:
    """C-562: after each step every handle tells what the model knows, and what a done job keeps is there once."""
    folder = template / f"{next(FRESH)}"
    folder.mkdir()
    shutil.copy(template / DATABASE, folder)

    async def live() -> None:
        world = World(folder)
        world.begin()
        for step in taken:
            await take(world, step)
            await hold(world)
        await world.leave()

    asyncio.run(live())
    shutil.rmtree(folder)

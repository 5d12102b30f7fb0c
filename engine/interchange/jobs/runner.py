"""The runner of jobs: tenants take turns; starts waiting jobs, and stores their ends: done, failed or cancelled.

No kind takes the last place, neither of the service nor of a tenant: short jobs do not wait for all the long ones. A
job that was under way when a process crashed is done alone, as it may be the cause: a second crash then harms no other
job.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Final, NamedTuple

import orjson

from engine import fault
from engine.config.service import Jobs
from engine.errors import place_of
from engine.interchange.core.service import Service
from engine.interchange.jobs.job import (
    CancelledJobError,
    EndedJob,
    EndEvent,
    JobFailedError,
    JobResult,
    Keep,
    Work,
    announce_end,
)
from engine.interchange.jobs.queue_worker import QueueWorker, WorkQueue
from engine.interchange.kernel.outcome import Issue, RefusedError
from engine.interchange.store import job as rows
from engine.interchange.store.job import AsyncJob, JobState, NextJob, StoredJob
from engine.interchange.store.transaction import Transaction
from engine.interchange.store.writer import StoreBusyError, StoreFailedError
from engine.telemetry import logger


class RunningJob(NamedTuple):
    """A running job: its tenant and kind, and whether it must be alone."""

    tenant: str
    kind: str
    alone: bool


class Last(NamedTuple):
    """The last turn: the tenant, and the kind of each tenant; all others come first."""

    tenant: str
    kinds: Mapping[str, str]


def next_job(first: Iterable[NextJob], taken: Collection[RunningJob], limits: Jobs, last: Last) -> NextJob | None:
    """Return the next job of the first ones of tenants and kinds; None if all have to wait."""
    if len(taken) >= limits.at_once or any(one.alone for one in taken):
        return None

    def turn(job: NextJob) -> tuple[bool, str, bool, str]:
        return (job.tenant <= last.tenant, job.tenant, job.kind <= last.kinds.get(job.tenant, ""), job.kind)

    chosen = min((job for job in first if _has_place(job, taken, limits)), key=turn, default=None)
    return None if chosen is not None and chosen.crashes and taken else chosen


def _has_place(job: NextJob, taken: Collection[RunningJob], limits: Jobs) -> bool:
    of_tenant = [running for running in taken if running.tenant == job.tenant]
    return (
        len(of_tenant) < limits.at_once_per_tenant
        and sum(running.kind == job.kind for running in of_tenant) < max(1, limits.at_once_per_tenant - 1)
        and sum(running.kind == job.kind for running in taken) < max(1, limits.at_once - 1)
    )


REPORT_SECONDS: Final = 1.0
# Crashes of the process before a job is given up.
MOST_CRASHES: Final = 3
FAULT: Final = (Issue("The service had an internal error while it did this.", "http"),)
CRASHED: Final = (Issue("The service ended several times while it did this, and has given it up.", "http"),)


def _written(issues: tuple[Issue, ...]) -> bytes:
    return orjson.dumps([list(issue) for issue in issues])


@dataclass(slots=True, eq=False)
class JobAttempt:
    """One attempt at a job; `unsaved` is progress that is not stored yet, `saved_at` when the last one was."""

    kept: StoredJob
    service: Service
    began: float = field(default_factory=monotonic)
    saved_at: float = 0.0
    unsaved: Mapping[str, int | str] | None = None
    over: bool = False
    ending: bool = False

    @property
    def job(self) -> AsyncJob:
        """The job."""
        return self.kept.job

    async def report(self, progress: Mapping[str, int | str]) -> None:
        """Store progress, at most once a second; CancelledJobError if this attempt is over."""
        self.unsaved = dict(progress)
        if monotonic() - self.saved_at >= REPORT_SECONDS:
            await self.save()
        await asyncio.sleep(0)
        if self.over:
            raise CancelledJobError

    async def save(self) -> None:
        """Store the unsaved progress; a busy store is tried again at the next report."""
        progress, self.unsaved, self.saved_at = self.unsaved, None, monotonic()
        if progress is None:
            return
        with suppress(StoreBusyError):
            report = partial(rows.report, number=self.kept.number, attempt=self.job.attempts, progress=progress)
            self.over = self.over or not await self.service.store.write_raw(report)


class Runner:
    """Works on the jobs of a service, by kind; `run` does so until it is cancelled or the store fails for good."""

    def __init__(self, service: Service, works: Mapping[str, Work], end_events: Mapping[str, EndEvent]) -> None:
        self._service = service
        self._works = works
        self._end_events = end_events
        self._last = Last("", {})
        queue: WorkQueue[JobAttempt] = WorkQueue(
            "jobs",
            service.job_signals.wakeup,
            lost=lambda run: ("job lost", {"job": run.job.id}),
            look=self._look,
            recover=self._take_over,
            # If the store has failed, the next process recovers these jobs.
            finish=self._put_back,
            interrupts=True,
        )
        self._worker = QueueWorker(service.store, queue)
        self.run = self._worker.run

    async def _look(self) -> None:
        await self._stop_cancelled()
        await self._take_up()

    async def _take_over(self) -> None:
        if not rows.running_numbers(self._service.store.reader()):
            return
        count, hopeless = await self._service.store.write_raw(partial(rows.take_over, most_crashes=MOST_CRASHES))
        for one in hopeless:
            await self._service.store.write(
                one.job.tenant, partial(self._keep_end, one, JobState.FAILED, _written(CRASHED))
            )
        logger().warning("jobs were interrupted", count=count)
        if hopeless:
            logger().error("jobs given up", count=len(hopeless))

    async def _stop_cancelled(self) -> None:
        """Stop the works of cancelled jobs, and store the progress of the others."""
        lanes = self._worker.lanes
        if not lanes:
            return
        running = rows.running_numbers(self._service.store.reader())
        for run, lane in lanes.items():
            if run.kept.number not in running and not (run.over or run.ending):
                run.over = True
                lane.task.cancel()
        for run in tuple(lanes):
            if run.unsaved is not None and monotonic() - run.saved_at >= REPORT_SECONDS:
                await run.save()

    async def _take_up(self) -> None:
        """Start jobs, turn by turn, until all others have to wait."""
        service = self._service
        while True:
            known = service.configuration.tenants
            first = [job for job in rows.first_waiting(service.store.reader()) if job.tenant in known]
            taken = [RunningJob(lane.job.tenant, lane.job.kind, lane.kept.crashes > 0) for lane in self._worker.lanes]
            chosen = next_job(first, taken, service.configuration.jobs, self._last)
            if chosen is None:
                return
            self._last = Last(chosen.tenant, {**self._last.kinds, chosen.tenant: chosen.kind})
            kept = await service.store.write_raw(partial(rows.take_up, number=chosen.number, at=service.clock()))
            if kept is not None:
                run = JobAttempt(kept, service)
                self._worker.start(run, self._carry_out(run))

    async def _carry_out(self, run: JobAttempt) -> None:
        job = run.job
        try:
            fault.point("F33")
            result = await self._work(run)
            run.ending = True
            await self._end(run, result)
        except (JobFailedError, RefusedError) as error:
            await self._fail(run, error.issues)
        except CancelledJobError:
            self._ended(run, JobState.CANCELLED)
        except asyncio.CancelledError:
            if run.over:
                self._ended(run, JobState.CANCELLED)
            else:
                # The service stops, or the work awaited a task that was cancelled.
                await self._fail(run, FAULT)
        except StoreFailedError:
            await self._put_back([run])
        except Exception as error:  # noqa: BLE001 - any error ends this job only
            logger().error("job failed", job=job.id, code=job.kind, error=type(error).__name__, file=place_of(error))
            await self._fail(run, FAULT)

    async def _work(self, run: JobAttempt) -> JobResult:
        work = self._works.get(run.job.kind)
        if work is None:
            raise JobFailedError(Issue(f"The service no longer does this ({run.job.kind}).", "http"))
        return await work(self._service, run.job, run.report)

    async def _end(self, run: JobAttempt, result: JobResult) -> None:
        """End a job with its result, in one commit, unless it was cancelled meanwhile."""
        done = await self._service.store.write(
            run.job.tenant, partial(self._keep_end, run.kept, JobState.DONE, result.body, keep=result.keep)
        )
        if done and result.then is not None:
            result.then()
        self._ended(run, JobState.DONE if done else JobState.CANCELLED)

    async def _fail(self, run: JobAttempt, issues: tuple[Issue, ...]) -> None:
        """End a job as failed; not while the service stops, which may be the cause: the job is then done again."""
        if self._worker.leaving:
            return
        run.ending = True
        failed = partial(self._keep_end, run.kept, JobState.FAILED, _written(issues or FAULT))
        try:
            done = await self._service.store.write(run.job.tenant, failed)
        except StoreFailedError:
            await self._put_back([run])
        else:
            self._ended(run, JobState.FAILED if done else JobState.CANCELLED)

    def _keep_end(
        self, kept: StoredJob, state: JobState, body: bytes, transaction: Transaction, keep: Keep | None = None
    ) -> bool:
        """Store the end of a job, the writes of `keep`, and the events of subscribers; False if the attempt is over."""
        connection, job = transaction.connection, kept.job
        if not rows.end(connection, kept.number, job.attempts, state, transaction.at, body):
            return False
        result = keep(transaction) if keep is not None else None
        if result is not None:
            rows.set_body(connection, kept.number, result)
        announce_end(transaction, EndedJob(job, state, self._service.handle(job), result or body), self._end_events)
        fault.point("F34")
        return True

    async def _put_back(self, runs: Sequence[JobAttempt]) -> None:
        """Let jobs wait again; if the store has failed, the next process recovers them."""
        if not runs:
            return
        for run in runs:
            run.ending = True
        put_back = partial(rows.put_back, taken=[(run.kept.number, run.job.attempts) for run in runs])
        busy = True
        while busy:
            try:
                await self._service.store.write_raw(put_back)
                busy = False
            except StoreBusyError:
                busy = not self._worker.leaving
            except StoreFailedError:
                busy = False

    def _ended(self, run: JobAttempt, state: JobState) -> None:
        seconds = monotonic() - run.began
        job = run.job
        self._service.job_signals.ended(job.kind, state, seconds)
        logger().info(
            "job ended",
            job=job.id,
            code=job.kind,
            tenant=job.tenant,
            state=str(state),
            attempt=job.attempts,
            seconds=round(seconds, 3),
        )

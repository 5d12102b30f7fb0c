"""The jobs of a database, for operators: listed, shown and cancelled, with and without a running service."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import orjson

from engine.database.connection import Connection
from engine.errors import UsageError
from engine.interchange.jobs.handle import NAME, progress_text
from engine.interchange.store.access import AccessRow, append, by_command
from engine.interchange.store.job import JobState, StoredJob, cancel, every_job, jobs_of_id
from engine.interchange.store.place import Place, open_known
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import iso, milliseconds


@dataclass(frozen=True, slots=True)
class JobOverview:
    """A job as operators see it, without its parameters and result. Moments are ISO texts, '' for none."""

    id: str
    tenant: str
    kind: str
    patient: str
    base: str
    state: str
    progress: str
    client: str
    user: str
    attempts: int
    crashes: int
    asked_at: str
    started_at: str
    ended_at: str
    reasons: tuple[str, ...] = ()


def list_jobs(database: Place, tenant: str = "", state: str = "") -> tuple[JobOverview, ...]:
    """Return the jobs of a tenant, '' for all, in a state, '' for any, oldest first; StartError for no database."""
    connection = open_known(database)
    try:
        jobs = [_overview(kept) for kept in every_job(connection)]
    finally:
        connection.close()
    return tuple(job for job in jobs if tenant in {"", job.tenant} and state in {"", job.state})


def show_job(database: Place, job_id: str, tenant: str = "") -> JobOverview:
    """Return a job by its id, with the reasons of a failure; UsageError for none."""
    connection = open_known(database)
    try:
        return _overview(_find(connection, job_id, tenant))
    finally:
        connection.close()


def cancel_job(database: Place, job_id: str, clock: Callable[[], datetime], tenant: str = "") -> JobOverview:
    """Cancel an unfinished job, and record that in the access log; a service that works on it stops soon.

    UsageError: there is none, or it has ended.
    """
    open_known(database).close()
    store = Store(database, (), clock, {}, alone=False)

    def work(connection: Connection) -> JobOverview:
        kept = _find(connection, job_id, tenant)
        if kept.ended_ms is not None:
            raise UsageError(f"job {kept.job.id} has ended already: {kept.state}")
        cancel(connection, kept, clock())
        append(connection, (_row(kept, milliseconds(clock())),))
        return _overview(_find(connection, job_id, tenant))

    async def write() -> JobOverview:
        return await store.write_raw(work)

    try:
        return asyncio.run(write())
    finally:
        store.close()


def _row(kept: StoredJob, at_ms: int) -> AccessRow:
    job = kept.job
    return by_command(at_ms, job.tenant, job.version, "delete", (NAME, job.id), job.patient)


def _find(connection: Connection, job_id: str, tenant: str) -> StoredJob:
    jobs = [kept for kept in jobs_of_id(connection, job_id) if tenant in {"", kept.job.tenant}]
    if not jobs:
        raise UsageError(f"there is no job {job_id}: adt-engine interchange jobs list shows those there are")
    return jobs[0]


def _overview(kept: StoredJob) -> JobOverview:
    job = kept.job
    failed = kept.state is JobState.FAILED and kept.body
    return JobOverview(
        id=job.id,
        tenant=job.tenant,
        kind=job.kind,
        patient=job.patient,
        base=job.version,
        state=kept.state,
        progress=progress_text(kept) if kept.ended_ms is None else "",
        client=job.client,
        user=job.user,
        attempts=job.attempts,
        crashes=kept.crashes,
        asked_at=iso(milliseconds(job.asked_at)),
        started_at=iso(kept.started_ms),
        ended_at=iso(kept.ended_ms),
        reasons=tuple(issue[0] for issue in orjson.loads(kept.body)) if failed else (),
    )

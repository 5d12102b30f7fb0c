"""Starts a job: it is on disk before the 202 that promises its result."""

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import Final

import orjson

from engine import fault
from engine.fhir.json import Json
from engine.interchange.core.exchange import FhirRequest, HttpAnswer
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, Issue, RefusedError, refuse
from engine.interchange.store.job import (
    AsyncJob,
    JobState,
    StoredJob,
    add_job,
    count_waiting,
    find_job,
    find_unfinished,
)
from engine.interchange.store.transaction import Transaction

# Retry-After of a job's handle, and of a new job while too many wait.
RETRY_SECONDS: Final = 2
FULL_SECONDS: Final = 30
WAIT_SECONDS: Final = 0.02
ENDED: Final = frozenset({JobState.DONE, JobState.FAILED})


async def ask(
    service: Service,
    request: FhirRequest,
    kind: str,
    patient_id: str,
    parameters: Mapping[str, Json],
    wait_seconds: float = 0,
    *,
    apart: bool = False,
) -> HttpAnswer:
    """Answer 202 with the handle of a job: the unfinished one of this kind, patient and base, or a new one.

    A job without a patient ('') or `apart` is always new. `parameters` are what the work needs of the request, as JSON.
    A job that has ended within `wait_seconds` is answered as by its handle.
    RefusedError: 409 if the unfinished one has other parameters, 429 if too many jobs of the tenant wait.
    """
    principal = request.principal
    new = AsyncJob(
        id=service.new_id(),
        tenant=principal.tenant,
        kind=kind,
        patient=patient_id,
        version=request.version,
        asked=parameters,
        client=principal.client,
        user=principal.user,
        asked_at=service.clock(),
    )
    most = service.configuration.jobs.waiting_per_tenant
    job = await service.store.write(principal.tenant, lambda transaction: _joined(transaction, new, most, apart=apart))
    service.job_signals.wakeup.set()
    until = monotonic() + wait_seconds
    while monotonic() < until:
        kept = service.store.read(principal.tenant, lambda transaction: find_job(transaction, job.id))
        if kept is not None and kept.state in ENDED:
            return ended_answer(kept)
        await asyncio.sleep(WAIT_SECONDS)
    return accepted(service, job)


def ended_answer(kept: StoredJob) -> HttpAnswer:
    """Return the answer of a finished job's handle; RefusedError (422) for a failed one."""
    if kept.state is JobState.FAILED:
        raise RefusedError(Category.FAILED_JOB, tuple(Issue(*one) for one in orjson.loads(kept.body)))
    return HttpAnswer(200, kept.body)


def accepted(service: Service, job: AsyncJob) -> HttpAnswer:
    """Return the 202 that names a job's handle."""
    handle = service.handle(job)
    return HttpAnswer(
        202, b"", (("location", handle), ("content-location", handle), ("retry-after", str(RETRY_SECONDS)))
    )


def _joined(transaction: Transaction, new: AsyncJob, most: int, *, apart: bool) -> AsyncJob:
    """Return the unfinished job with the same parameters, or the new one, which is stored."""
    unfinished = None if apart else find_unfinished(transaction, new)
    if unfinished is not None:
        if _text(unfinished.job.asked) != _text(new.asked):
            text = f"A job ({new.kind}) of this patient that was asked for otherwise is under way; wait for its end."
            raise refuse(Category.CONFLICT, text, location="http.path")
        return unfinished.job
    if count_waiting(transaction) >= most:
        issue = Issue(f"{most} jobs wait already; ask again in {FULL_SECONDS} seconds.", "http.path")
        raise RefusedError(Category.THROTTLED, (issue,), (("retry-after", str(FULL_SECONDS)),))
    add_job(transaction, new, apart=apart)
    fault.point("F32")
    return new


def _text(parameters: Mapping[str, Json]) -> bytes:
    return orjson.dumps(parameters, option=orjson.OPT_SORT_KEYS)

"""A request that is answered later: the job is on disk before the 202 that promises its result."""

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

# When to ask again how far a job is, and when to ask for another where too many wait.
RETRY_SECONDS: Final = 2
FULL_SECONDS: Final = 30
WAIT_SECONDS: Final = 0.02
ENDED: Final = frozenset({JobState.DONE, JobState.FAILED})


async def ask(
    service: Service,
    request: FhirRequest,
    kind: str,
    patient_id: str,
    asked: Mapping[str, Json],
    wait_seconds: float = 0,
    *,
    apart: bool = False,
) -> HttpAnswer:
    """Answer 202 with the handle of a job: of the one of this kind, patient and base that has not ended, or a new one.

    `patient_id` is '' for what concerns no single patient, and is then never joined to another; nor is one `apart`, of
    which a patient may have several at once. `asked` is what the work needs of the request, as JSON. What has ended
    after `wait_seconds` is answered as its handle would be.
    RefusedError: 409 where the unfinished one was asked for otherwise, 429 where too many of the tenant wait.
    """
    principal = request.principal
    new = AsyncJob(
        id=service.new_id(),
        tenant=principal.tenant,
        kind=kind,
        patient=patient_id,
        version=request.version,
        asked=asked,
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
    """Return what the handle of a job answers that is done; RefusedError (422) for one that has failed."""
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
    """Return the unfinished job that was asked for the same, or the new one, which is kept."""
    found = None if apart else find_unfinished(transaction, new)
    if found is not None:
        if _text(found.job.asked) != _text(new.asked):
            text = f"A job ({new.kind}) of this patient that was asked for otherwise is under way; wait for its end."
            raise refuse(Category.CONFLICT, text, location="http.path")
        return found.job
    if count_waiting(transaction) >= most:
        issue = Issue(f"{most} jobs wait already; ask again in {FULL_SECONDS} seconds.", "http.path")
        raise RefusedError(Category.THROTTLED, (issue,), (("retry-after", str(FULL_SECONDS)),))
    add_job(transaction, new, apart=apart)
    fault.point("F32")
    return new


def _text(asked: Mapping[str, Json]) -> bytes:
    return orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)

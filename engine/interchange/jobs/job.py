"""A job: what its work is given and returns, how it fails, whose it is, how long it is kept, the event of its end."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple

import orjson

from engine.errors import ServiceError
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import Issue, success
from engine.interchange.rest.subscription_criteria import ASYNC_ENDED
from engine.interchange.store.job import AsyncJob, JobState, ended_before, forget
from engine.interchange.store.notification import NotificationEvent, announce
from engine.interchange.store.transaction import StoredVersion, Transaction, milliseconds

EVENT: Final = "async-complete"
TEXTS: Final = {JobState.DONE: "is done", JobState.FAILED: "has failed"}


class EndedJob(NamedTuple):
    """A job that is done or has failed: the address of its handle, and the result or the issues."""

    job: AsyncJob
    state: JobState
    handle: str
    body: bytes

    def issues(self) -> tuple[Issue, ...]:
        """Return the issues of a failed job; () for a job that is done."""
        return tuple(Issue(*one) for one in orjson.loads(self.body)) if self.state is JobState.FAILED else ()


# The synthetic criteria of subscriptions to the end of a kind of jobs, and the event for them.
EndEvent = tuple[str, Callable[[EndedJob], NotificationEvent]]


def announce_end(transaction: Transaction, ended: EndedJob, kinds: Mapping[str, EndEvent]) -> None:
    """Queue the end of a job for the subscribers to all ends, and for those to its kind."""
    text = f"The job {ended.job.kind} {TEXTS[ended.state]}: {ended.handle}"
    announce(transaction, ASYNC_ENDED, NotificationEvent(EVENT, write_json(success(text))))
    if ended.job.kind in kinds:
        criteria, event_of = kinds[ended.job.kind]
        announce(transaction, criteria, event_of(ended))


# How long jobs are kept after their end.
RETENTION: Final = timedelta(hours=24)
# Jobs that one write deletes: a result may have some megabytes.
MOST: Final = 20

# Writes in the commit that ends a job, and may return its result.
Keep = Callable[[Transaction], bytes | None]


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a job: the resource, as FHIR JSON, that its handle answers with 200.

    `keep` writes in the commit that ends the job, unless the job was cancelled; it takes at most some 50 ms, as all
    other writes wait. An error that it raises ends the job; a resource that it returns is the result in place of
    `body`. `then` is called once all of it is on disk.
    """

    body: bytes
    keep: Keep | None = None
    then: Callable[[], None] | None = None


class JobFailedError(ServiceError):
    """A job cannot be done; its handle answers 422 with these issues, which have no patient data."""

    def __init__(self, *issues: Issue) -> None:
        super().__init__("the job cannot be done")
        self.issues = issues


class CancelledJobError(ServiceError):
    """The job was cancelled or taken over by another process: nothing that its work still does is stored."""


# Reports the progress of a job, by words and numbers without patient data. Returns once it is on disk, or at once if
# the last report is less than a second old; it is then on disk a second later.
Report = Callable[[Mapping[str, int | str]], Awaitable[None]]

# The work of a job. It runs on the event loop: what takes more than some milliseconds goes to a thread.
# asyncio.CancelledError reaches it where it waits, once its job is cancelled or the service stops. A job that was
# under way when the process ended is done again from its start: its writes before its end must be repeatable.
# JobFailedError and RefusedError end it with their issues, other errors with a general text.
Work = Callable[[Service, AsyncJob, Report], Awaitable[JobResult]]


def subject(transaction: Transaction, job: AsyncJob) -> StoredVersion:
    """Return the patient of a job; JobFailedError for one who was deleted or merged away meanwhile.

    A work asks at its start, and again in `JobResult.keep` where it writes to the chart.
    """
    stored = transaction.get("Patient", job.patient)
    if stored is None or stored.deleted:
        raise JobFailedError(Issue(f"Patient/{job.patient} was deleted before this was done.", "http.id"))
    if stored.survivor is not None:
        text = f"Patient/{job.patient} was merged into Patient/{stored.survivor}; ask again for that one."
        raise JobFailedError(Issue(text, "http.id", "already-merged"))
    return stored


def kept_since(now: datetime) -> int:
    """Return the earliest end (milliseconds) of a job that is kept."""
    return milliseconds(now - RETENTION)


async def delete_expired_jobs(service: Service) -> int:
    """Delete the jobs that ended too long ago; return their number."""
    deleted = 0
    while numbers := ended_before(service.store.reader(), kept_since(service.clock()), MOST):
        await service.store.write_raw(partial(forget, numbers=numbers))
        deleted += len(numbers)
    return deleted

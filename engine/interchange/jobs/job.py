"""A job, what its work is given and returns, and how it fails."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from engine.errors import ServiceError
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Issue
from engine.interchange.store.job import AsyncJob
from engine.interchange.store.transaction import Transaction

__all__ = ["CancelledJobError", "JobFailedError", "JobResult", "Keep", "Report", "Work"]

# Writes what goes with the end of a job, and may return what is then its result.
Keep = Callable[[Transaction], bytes | None]


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job comes to: the resource, as FHIR JSON, that its handle answers with 200.

    `keep` writes what goes with it, in the very commit that ends the job, and only if it was not cancelled; it takes
    no more than some 50 ms, as all other writes wait. What it raises ends the job as its work would; what it returns
    is the resource, where only that commit knows it. `then` is called once all of it is on disk.
    """

    body: bytes
    keep: Keep | None = None
    then: Callable[[], None] | None = None


class JobFailedError(ServiceError):
    """A job cannot be done; its handle tells these issues (422) until it is forgotten, and nothing of a patient."""

    def __init__(self, *issues: Issue) -> None:
        super().__init__("the job cannot be done")
        self.issues = issues


class CancelledJobError(ServiceError):
    """The job was cancelled, or another process has it: nothing that its work still does is kept."""


# Tells how far a job is, by words and numbers that its handle may show: nothing of a patient. Returns once it is on
# disk, or at once where the last one is not a second old; that one is then on disk a second later.
Report = Callable[[Mapping[str, int | str]], Awaitable[None]]

# What a job does. It runs on the loop beside the requests: what takes more than some milliseconds goes to a thread.
# asyncio.CancelledError reaches it where it waits, once its job is cancelled or the service stops. A job that was
# under way when the process ended is done again from its start: whatever it writes before its end must bear that.
# JobFailedError and RefusedError end it with their issues, other errors with a text that shows nothing of them.
Work = Callable[[Service, AsyncJob, Report], Awaitable[JobResult]]

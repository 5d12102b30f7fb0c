"""Events for subscribers at the end of a job: the handle, and for some kinds the result."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import orjson

from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import Issue, success
from engine.interchange.rest.subscriptions.criteria import ASYNC_ENDED
from engine.interchange.store.job import AsyncJob, JobState
from engine.interchange.store.notification import NotificationEvent, announce
from engine.interchange.store.transaction import Transaction

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

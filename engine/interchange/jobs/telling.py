"""What subscribers are told when a job has come to its end: of each one its handle, of some kinds the result too."""

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
    """A job that is done or has failed: the address of its handle, and the result or the issues that it answers."""

    job: AsyncJob
    state: JobState
    handle: str
    body: bytes

    def issues(self) -> tuple[Issue, ...]:
        """Return why it has failed; none for one that is done."""
        return tuple(Issue(*one) for one in orjson.loads(self.body)) if self.state is JobState.FAILED else ()


# The synthetic criteria of those who are told of the end of a kind of jobs, and what they are told.
Telling = tuple[str, Callable[[EndedJob], NotificationEvent]]


def tell(transaction: Transaction, ended: EndedJob, kinds: Mapping[str, Telling]) -> None:
    """Owe the end of a job to those who asked for all of them, and to those who asked for its kind."""
    text = f"The job {ended.job.kind} {TEXTS[ended.state]}: {ended.handle}"
    announce(transaction, ASYNC_ENDED, NotificationEvent(EVENT, write_json(success(text))))
    if ended.job.kind in kinds:
        criteria, event_of = kinds[ended.job.kind]
        announce(transaction, criteria, event_of(ended))

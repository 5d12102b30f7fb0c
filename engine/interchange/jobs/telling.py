"""What subscribers are told when a job has come to its end: of each one its handle, of some kinds the result too."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import orjson

from engine.interchange.jobs.job import Job, State
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import Issue, success
from engine.interchange.rest.subscriptions.criteria import ASYNC_ENDED
from engine.interchange.store.notification import Event, announce
from engine.interchange.store.transaction import Transaction

EVENT: Final = "async-complete"
TEXTS: Final = {State.DONE: "is done", State.FAILED: "has failed"}


class Ended(NamedTuple):
    """A job that is done or has failed: the address of its handle, and the result or the issues that it answers."""

    job: Job
    state: State
    handle: str
    body: bytes

    def issues(self) -> tuple[Issue, ...]:
        """Return why it has failed; none for one that is done."""
        return tuple(Issue(*one) for one in orjson.loads(self.body)) if self.state is State.FAILED else ()


# The synthetic criteria of those who are told of the end of a kind of jobs, and what they are told.
Telling = tuple[str, Callable[[Ended], Event]]


def tell(transaction: Transaction, ended: Ended, kinds: Mapping[str, Telling]) -> None:
    """Owe the end of a job to those who asked for all of them, and to those who asked for its kind."""
    text = f"The job {ended.job.kind} {TEXTS[ended.state]}: {ended.handle}"
    announce(transaction, ASYNC_ENDED, Event(EVENT, write_json(success(text))))
    if ended.job.kind in kinds:
        criteria, event_of = kinds[ended.job.kind]
        announce(transaction, criteria, event_of(ended))

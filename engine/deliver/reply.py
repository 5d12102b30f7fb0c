"""The outcome of a request outside all plans: accepted, refused, or to be sent again."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from engine.deliver.throttling import retry_after_seconds
from engine.deliver.verdict import Failure
from engine.deliver.wire.client import ServerResponse
from engine.deliver.wire.failure import failure_of
from engine.errors import DeliveryError
from engine.fhir.outcome import codes, is_fault


class Ending(StrEnum):
    """What a server made of a request; GIVEN_UP: it was not asked, as there was nothing to ask for any more."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    GIVEN_UP = "given-up"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class RequestReply:
    """How a request ended; `codes` begin with the status or, without an answer, with what went wrong.

    `handle`: the address where the server will tell how it ended, empty where it names none.
    """

    ending: Ending
    reason: str = ""
    codes: tuple[str, ...] = ()
    handle: str = ""
    retry_after_seconds: float = 0.0


def reply_of(answer: ServerResponse, at: datetime, *, refused: str, failed: str) -> RequestReply:
    """Return what an answer means; `refused` is the reason where it ends the matter, `failed` where it may pass."""
    failure, said = failure_of(answer.status, write=False), (f"http-{answer.status}", *codes(answer.json))
    if failure is Failure.NONE and not is_fault(answer.json):
        return RequestReply(Ending.ACCEPTED)
    # A token that is no longer taken is a matter of all requests; that this one is not allowed is one of its own.
    if failure is Failure.TRANSIENT or answer.status == 401:
        wait = retry_after_seconds(answer.headers.get("retry-after", ""), at)
        return RequestReply(Ending.RETRY, failed, said, retry_after_seconds=wait)
    return RequestReply(Ending.REFUSED, refused, said)


def unanswered(error: DeliveryError, failed: str) -> RequestReply:
    """Return what it means that no answer came: the request is to be made again."""
    codes = tuple(dict.fromkeys((str(error), *error.codes)))
    return RequestReply(Ending.RETRY, failed, codes, retry_after_seconds=error.retry_after_seconds)

"""Failure classes: one table from HTTP status to class, and what each class raises."""

from typing import Final

from engine.deliver.verdict import Failure
from engine.errors import (
    AmbiguousDeliveryError,
    DeliveryError,
    DestinationError,
    HeldDeliveryError,
    PermanentDeliveryError,
    RejectedDeliveryError,
    TransientDeliveryError,
)

# What an answer to a write means. A status that is not listed falls to its hundred.
STATUS_FAILURE: Final = {
    200: Failure.NONE,
    300: Failure.PERMANENT,
    400: Failure.PERMANENT,
    401: Failure.DESTINATION,
    403: Failure.DESTINATION,
    408: Failure.AMBIGUOUS,
    421: Failure.TRANSIENT,
    425: Failure.TRANSIENT,
    429: Failure.TRANSIENT,
    500: Failure.AMBIGUOUS,
    501: Failure.PERMANENT,
    503: Failure.TRANSIENT,
    505: Failure.PERMANENT,
    507: Failure.TRANSIENT,
    511: Failure.DESTINATION,
}

# The server refused it because another request holds a lock; nothing was done.
LOCK_REFUSED: Final = "lock-refused"

ERRORS: Final[dict[Failure, type[DeliveryError]]] = {
    Failure.TRANSIENT: TransientDeliveryError,
    Failure.AMBIGUOUS: AmbiguousDeliveryError,
    Failure.PERMANENT: PermanentDeliveryError,
    Failure.DESTINATION: DestinationError,
}


def failure_of(status: int, *, write: bool) -> Failure:
    """Return the class of a status; a read that failed ambiguously has changed nothing and is transient."""
    found = STATUS_FAILURE.get(status) or STATUS_FAILURE.get(status // 100 * 100, Failure.AMBIGUOUS)
    return Failure.TRANSIENT if found is Failure.AMBIGUOUS and not write else found


def class_of(error: DeliveryError) -> Failure:
    """Return the class of an error of ours; one that holds or rejects is permanent."""
    if isinstance(error, HeldDeliveryError | RejectedDeliveryError):
        return Failure.PERMANENT
    return next((failure for failure, kind in ERRORS.items() if isinstance(error, kind)), Failure.PERMANENT)


def error_of(
    failure: Failure, reason: str, status: int, codes: tuple[str, ...], retry_after_seconds: float = 0.0
) -> DeliveryError:
    """Return the error of a failure; its text is the reason's code."""
    return ERRORS[failure](reason, status=status, codes=codes, retry_after_seconds=retry_after_seconds)


def unclear(reason: str, status: int = 200) -> DeliveryError:
    """Return the error of a write of which nobody can tell whether it was applied; the reason is its one code."""
    return error_of(Failure.AMBIGUOUS, reason, status, (reason,))

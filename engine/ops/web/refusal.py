"""A request that is not answered as asked: the status, and a line for the client."""

from collections.abc import Mapping
from typing import Final

from engine.errors import (
    AccessError,
    AdtEngineError,
    ForbiddenMoveError,
    ForbiddenOperationError,
    MalformedRequestError,
    MessageError,
    UnknownEntryError,
    UnknownRunError,
    UsageError,
)

TITLES: Final = {
    400: "Bad request",
    401: "Please sign in",
    403: "Not permitted",
    404: "Page not found",
    405: "Method not allowed",
    408: "Request timed out",
    409: "Not possible in the current state",
    413: "Request too large",
    415: "Unsupported format",
    421: "Unknown host name",
    422: "That cannot be done",
    429: "Too many attempts",
    500: "Something went wrong here",
    503: "Not available right now",
}


class RefusedRequestError(AdtEngineError):
    """The request is refused; `status` is the HTTP status."""

    def __init__(self, status: int, message: str = "") -> None:
        super().__init__(message or TITLES.get(status, "The request is refused"))
        self.status = status


# The first that an error is of.
STATUSES: Final[Mapping[type[AdtEngineError], int]] = {
    ForbiddenOperationError: 403,
    UnknownEntryError: 404,
    UnknownRunError: 404,
    ForbiddenMoveError: 409,
    MalformedRequestError: 400,
    UsageError: 422,
    AccessError: 422,
    MessageError: 422,
}


def status_of(error: AdtEngineError) -> int:
    """Return the HTTP status of an error of ours; 503 for one of the engine's own."""
    if isinstance(error, RefusedRequestError):
        return error.status
    return next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 503)

"""OperationOutcomes for refusals below the application: malformed request heads, too many connections."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from engine.fhir.schema import FhirVersion
from engine.http.connection import MAX_ADDRESS_BYTES, MAX_HEADER_BYTES, ConnectionRefusal
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import Category, outcome, refuse
from engine.interchange.web.http.wire import SAFE

REFUSALS: Final = {
    HTTPStatus.BAD_REQUEST: (Category.STRUCTURE, "The request is not valid HTTP/1.1."),
    HTTPStatus.REQUEST_TIMEOUT: (Category.SLOW_BODY, "The request did not arrive in time."),
    HTTPStatus.REQUEST_URI_TOO_LONG: (
        Category.LONG_ADDRESS,
        f"The address is longer than {MAX_ADDRESS_BYTES} bytes.",
    ),
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: (
        Category.LONG_HEADERS,
        f"The headers are longer than {MAX_HEADER_BYTES} bytes.",
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: (Category.BUSY, "The service has too many connections; try again soon."),
}


def refusal(count: Callable[[Category], None], status: HTTPStatus) -> ConnectionRefusal:
    """Return the refusal of a request head as an OperationOutcome; `count` is called with its category."""
    category, text = REFUSALS[status]
    count(category)
    again = ((b"retry-after", b"1"),) * (category is Category.BUSY)
    body = write_json(outcome(refuse(category, text, location="http.head"), FhirVersion.R4, ""))
    return ConnectionRefusal((*SAFE, (b"content-type", b"application/fhir+json"), *again), body)

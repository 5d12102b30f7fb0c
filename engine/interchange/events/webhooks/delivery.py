"""What one delivery says: the whole resource in the version of its subscription, and the headers beside it."""

from typing import Final

from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in
from engine.interchange.events.subscriptions.header import Lines, sent_headers
from engine.interchange.kernel.exact import read_resource
from engine.interchange.kernel.view import to_version
from engine.interchange.store.notification import QueuedNotification

# From the first lookup to the status of the answer.
TIMEOUT_SECONDS: Final = 10.0
TAKEN: Final = frozenset({200, 202})
AGENT: Final = "ClinicalDataService-FHIR-Webhook/1.0"


def version_of(owed: QueuedNotification) -> FhirVersion:
    """Return the version that an event is told in: that of the base on which its subscription was made."""
    return FhirVersion.STU3 if owed.version == "STU3" else FhirVersion.R4


def shown_body(owed: QueuedNotification) -> bytes:
    """Return the body of a delivery; the event must have one."""
    body = owed.body or b""
    type_name = owed.type or str(read_resource(body)["resourceType"])
    return to_version(body, type_name, version_of(owed))


def headers_of(owed: QueuedNotification, lines: Lines) -> dict[str, str]:
    """Return the headers of a delivery: the subscription's own lines, and those that none of them can override."""
    type_name, slash, rest = owed.event.partition("/")
    event = f"{name_in(version_of(owed), type_name)}/{rest}" if slash else owed.event
    return {
        "accept": "*/*",
        "accept-encoding": "identity",
        **sent_headers(lines),
        "content-type": "application/fhir+json",
        "user-agent": AGENT,
        "x-service-eventid": event,
    }

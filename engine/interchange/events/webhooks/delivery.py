"""The request of one delivery: the whole resource in the version of its subscription, and the headers."""

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


def version_of(queued: QueuedNotification) -> FhirVersion:
    """Return the version of an event's body: that of the base on which its subscription was made."""
    return FhirVersion.STU3 if queued.version == "STU3" else FhirVersion.R4


def shown_body(queued: QueuedNotification) -> bytes:
    """Return the body of a delivery; the event must have one."""
    body = queued.body or b""
    type_name = queued.type or str(read_resource(body)["resourceType"])
    return to_version(body, type_name, version_of(queued))


def headers_of(queued: QueuedNotification, lines: Lines) -> dict[str, str]:
    """Return the headers of a delivery: the subscription's own lines, and those that these cannot override."""
    type_name, slash, rest = queued.event.partition("/")
    event = f"{name_in(version_of(queued), type_name)}/{rest}" if slash else queued.event
    return {
        "accept": "*/*",
        "accept-encoding": "identity",
        **sent_headers(lines),
        "content-type": "application/fhir+json",
        "user-agent": AGENT,
        "x-service-eventid": event,
    }

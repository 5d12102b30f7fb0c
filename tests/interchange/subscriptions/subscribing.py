"""Subscriptions of the tests: made over HTTP, and what they are owed read from the service's own tables."""

import contextlib
from typing import Any

import httpx

from engine.interchange.store.place import open_known
from tests.interchange.kit import Running

ENDPOINT = "https://hooks.riverbend.example/cdis"
R4 = "/fhir/R4"


def subscription(criteria: str = "Encounter?status=finished", **elements: Any) -> dict[str, Any]:
    """Return a Subscription as a client writes it; `channel` adds to its channel, None leaves an element out."""
    channel = {"type": "rest-hook", "endpoint": ENDPOINT, "payload": "application/fhir+json"}
    channel = {k: v for k, v in {**channel, **elements.pop("channel", {})}.items() if v is not None}
    made = {
        "resourceType": "Subscription",
        "status": "requested",
        "reason": "ED follow-up",
        "criteria": criteria,
        "channel": channel,
    }
    return {name: value for name, value in {**made, **elements}.items() if value is not None}


def subscribe(
    service: Running, criteria: str, base: str = R4, client: str = "physician", **elements: Any
) -> dict[str, Any]:
    """Create a subscription and return it as it is kept."""
    answer = service.ask("POST", f"{base}/Subscription", client=client, json=subscription(criteria, **elements))
    assert answer.status_code == 201, answer.text
    return answer.json()


def patched(service: Running, base: str, subscription_id: str, *steps: dict[str, Any], **more: Any) -> httpx.Response:
    """Send a JSON Patch of a subscription."""
    headers = {"content-type": "application/json-patch+json"}
    return service.ask("PATCH", f"{base}/Subscription/{subscription_id}", json=list(steps), headers=headers, **more)


def owed(service: Running, subscription_id: str) -> list[str]:
    """Return the events that a subscription was ever owed, each as `Type/id` and its version."""
    query = "SELECT event, edition FROM notification WHERE subscription=? ORDER BY number"
    with contextlib.closing(open_known(service.database)) as connection:
        rows = connection.execute(query, (subscription_id,)).fetchall()
    return [f"{event}/{edition or ''}" for event, edition in rows]


def observation(patient_id: str, code: str = "789-8", **elements: Any) -> dict[str, Any]:
    """Return an Observation of a patient."""
    return {
        "resourceType": "Observation",
        "status": "final",
        "code": {"coding": [{"system": "http://loinc.org", "code": code}]},
        "subject": {"reference": f"Patient/{patient_id}"},
        "effectiveDateTime": "2026-03-01",
        **elements,
    }


def create(service: Running, resource: dict[str, Any], base: str = R4, client: str = "physician") -> dict[str, Any]:
    """Create a resource and return it."""
    answer = service.ask("POST", f"{base}/{resource['resourceType']}", client=client, json=resource)
    assert answer.status_code == 201, answer.text
    return answer.json()

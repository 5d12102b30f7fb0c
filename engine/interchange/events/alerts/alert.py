"""The alerts for subscribers to `Bundle?clinicalAlerts=true`."""

from collections.abc import Iterator
from typing import Final

from engine.fhir.json import Json
from engine.interchange.kernel.exact import write_json
from engine.interchange.rest.subscriptions.criteria import CLINICAL_ALERTS
from engine.interchange.store.notification import NotificationEvent, announce
from engine.interchange.store.transaction import StoredVersion, Transaction

CLINICAL_ALERT: Final = "clinical-alert"
LEADING_INDICATOR: Final = "leading-indicator"


def alert(transaction: Transaction, name: str, patient_id: str, *parts: Json) -> None:
    """Queue an alert of this name about a patient; `parts` are its further parameters."""
    parameters = [
        {"name": "eventType", "valueString": name},
        {"name": "patient", "valueReference": {"reference": f"Patient/{patient_id}"}},
        *parts,
    ]
    announce(
        transaction,
        CLINICAL_ALERTS,
        NotificationEvent(name, write_json({"resourceType": "Parameters", "parameter": parameters})),
    )


def with_visit(visit: StoredVersion | None) -> Iterator[Json]:
    """Yield the part that holds a visit, if there is one."""
    if visit is not None:
        yield {"name": "encounter", "resource": visit.resource()}

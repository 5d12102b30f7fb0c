"""What those are told who subscribed to `Bundle?clinicalAlerts=true`."""

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
    """Owe an event of this name of a patient to those who asked for alerts; `parts` are what else it says."""
    told = [
        {"name": "eventType", "valueString": name},
        {"name": "patient", "valueReference": {"reference": f"Patient/{patient_id}"}},
        *parts,
    ]
    announce(
        transaction,
        CLINICAL_ALERTS,
        NotificationEvent(name, write_json({"resourceType": "Parameters", "parameter": told})),
    )


def with_visit(visit: StoredVersion | None) -> Iterator[Json]:
    """Yield the part that holds a visit, if there is one."""
    if visit is not None:
        yield {"name": "encounter", "resource": visit.resource()}

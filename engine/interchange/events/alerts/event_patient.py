"""The patient of an event (survivor of a merge, visits, enrolment), and the alerts for subscribers.

Enrolled are the members of the Group `Clinical Alerts Roster`, or all patients of a tenant.
"""

from collections.abc import Iterator
from typing import Final

from engine.config.service import Enrollment
from engine.fhir.json import Json, JsonObject
from engine.interchange.kernel.exact import write_json
from engine.interchange.rest.resource.catalogue import GROUP
from engine.interchange.rest.subscription_criteria import CLINICAL_ALERTS
from engine.interchange.store.notification import NotificationEvent, announce
from engine.interchange.store.search.date import span
from engine.interchange.store.transaction import StoredVersion, Transaction, milliseconds

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


# The visits of a patient, latest first: by the start of their period, those without one by their creation.
VISITS: Final = (
    "SELECT r.key FROM reference_index AS i JOIN resource AS r ON r.key=i.key"
    " LEFT JOIN date_index AS d ON d.key=r.key AND d.parameter='Encounter.date'"
    " WHERE i.tenant=? AND i.target=? AND i.parameter='Encounter.patient' ORDER BY d.low DESC, r.key DESC LIMIT 1"
)
NAME: Final = "Clinical Alerts Roster"
GROUPS: Final = "SELECT key FROM reference_index WHERE tenant=? AND target=? AND parameter=? ORDER BY key"
MEMBER: Final = f"{GROUP}.member"


def living(transaction: Transaction, patient_id: str) -> StoredVersion | None:
    """Return a patient, the survivor after a merge; None for an unknown or deleted one."""
    patient = transaction.get("Patient", patient_id)
    if patient is not None and patient.survivor:
        patient = transaction.get("Patient", patient.survivor)
    return patient if patient is not None and patient.survivor is None else None


def find_visit(transaction: Transaction, encounter_id: str) -> StoredVersion | None:
    """Return a visit by its id; None for an unknown or deleted one."""
    visit = transaction.get("Encounter", encounter_id)
    return visit if visit is not None and visit.survivor is None else None


def is_of(visit: StoredVersion, patient: StoredVersion) -> bool:
    """True if the visit is the patient's."""
    return bool(visit.resource().get("subject", {}).get("reference") == f"Patient/{patient.id}")


def last_visit(transaction: Transaction, patient: StoredVersion) -> StoredVersion | None:
    """Return a patient's latest visit; None for a patient without any."""
    row = transaction.connection.execute(VISITS, (transaction.tenant, f"Patient/{patient.id}")).fetchone()
    return transaction.by_key(row[0]) if row else None


def enrolled(transaction: Transaction, enrollment: Enrollment, patient_id: str) -> bool:
    """True if a live patient is enrolled now; a later enrollment does not raise earlier alerts."""
    if enrollment == "all":
        return True
    target = f"Patient/{patient_id}"
    keys = transaction.connection.execute(GROUPS, (transaction.tenant, target, MEMBER)).fetchall()
    groups = (transaction.by_key(key).resource() for (key,) in keys)
    now_ms = milliseconds(transaction.at)
    return any(
        _present(member, target, now_ms)
        for group in groups
        if group.get("name") == NAME and group.get("active", True)
        for member in group.get("member", ())
    )


def _present(member: JsonObject, target: str, now_ms: int) -> bool:
    if member.get("entity", {}).get("reference") != target or member.get("inactive", False):
        return False
    period = member.get("period", {})
    start, end = (span(period[name]) if name in period else None for name in ("start", "end"))
    return (start is None or start[0] <= now_ms) and (end is None or now_ms <= end[1])

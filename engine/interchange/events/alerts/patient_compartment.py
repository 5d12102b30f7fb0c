"""The patient of an event, resolved to the survivor after a merge, and the patient's visits."""

from typing import Final

from engine.interchange.store.transaction import StoredVersion, Transaction

# The visits of a patient, latest first: by the start of their period, those without one by their creation.
VISITS: Final = (
    "SELECT r.key FROM reference_index AS i JOIN resource AS r ON r.key=i.key"
    " LEFT JOIN date_index AS d ON d.key=r.key AND d.parameter='Encounter.date'"
    " WHERE i.tenant=? AND i.target=? AND i.parameter='Encounter.patient' ORDER BY d.low DESC, r.key DESC LIMIT 1"
)


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

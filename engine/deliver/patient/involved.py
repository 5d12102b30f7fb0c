"""The records that a hold is about: what each is in it, and the numbers that it has, for the operator who decides."""

from engine.deliver.stored import ServerResource
from engine.errors import HeldDeliveryError
from engine.fhir.patient import current_numbers, replaced_by

Involved = tuple[str, str, tuple[str, ...]]


def involved(role: str, patient: ServerResource) -> Involved:
    """Return a record as `HeldDeliveryError` carries it: its reference, what it is in this, its current numbers."""
    numbers = tuple("|".join(number) for number in current_numbers(patient.body))
    return patient.reference, role, numbers


def merged_elsewhere(
    patient: ServerResource,
    tombstone: ServerResource | None,
    target: ServerResource | None,
    *,
    role: str = "named survivor",
) -> HeldDeliveryError:
    """Return the hold of a record that was merged into another one than the message names, with all that is known.

    `patient` is whom the number leads to now, `tombstone` the record that was merged away, `target` the other side.
    """
    found: list[Involved] = []
    if tombstone is not None:
        found.append(involved("merged away", tombstone))
        found.append(involved("its survivor", patient))
    else:
        gone = replaced_by(patient.body)
        found.append(involved("merged away" if gone else "has the number out of use", patient))
        found += [(f"Patient/{gone}", "its survivor", ())] if gone else []
    if target is not None and target.logical_id != patient.logical_id:
        found.append(involved(role, target))
    return HeldDeliveryError("source-merged-elsewhere", involved=tuple(found))

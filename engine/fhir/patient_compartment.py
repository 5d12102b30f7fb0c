"""The patient compartment: the element that refers to the patient, and the search for a patient's resources."""

from typing import Any, Final
from urllib.parse import quote

from engine.fhir.r4 import r4_elements

Body = dict[str, Any]

PATIENT: Final = "Patient/"
# The elements by which resources refer to their patient; for a list of parts (Appointment), the part's element.
HOLDERS: Final = ("subject", "patient", "beneficiary", "for", "individual", "candidate", "actor", "participant.actor")
# The search parameter for the patient of a type, where it is not `patient`.
SEARCHED_BY: Final = {"AdverseEvent": "subject", "Schedule": "actor"}
SEARCHES: Final = frozenset({"patient", *SEARCHED_BY.values()})


def holding(type_: str, holder: str, reference: str) -> Body:
    """Return the element that refers to the patient; nothing where parts of the resource do."""
    if not holder or "." in holder:
        return {}
    one = {"reference": reference}
    return {holder: [one] if r4_elements()[type_][holder].many else one}


def held_by(body: Body, holder: str) -> str:
    """Return the reference to the patient (the first, where there may be several); empty where there is none."""
    holders = references(body, holder)
    if "." in holder:
        holders = [one for one in holders if one.startswith(PATIENT)]
    return holders[0] if holders else ""


def patients_of(body: Body) -> set[str]:
    """Return the references of a resource to its patients."""
    named = (reference for holder in HOLDERS for reference in references(body, holder))
    return {one for one in named if one.startswith(PATIENT)}


def references(body: Body, path: str) -> list[str]:
    """Return the references at an element, or at a part of an element, in order."""
    root, _, part = path.partition(".")
    held = body.get(root) or ()
    items = held if isinstance(held, list) else [held]
    parts = [item.get(part) for item in items if isinstance(item, dict)] if part else items
    return [str(one["reference"]) for one in parts if isinstance(one, dict) and one.get("reference")]


def asked_of(type_: str, patient: str) -> str:
    """Return the start of a query for a patient's resources: `patient=Patient%2F1&`."""
    return f"{SEARCHED_BY.get(type_, 'patient')}={quote(patient, safe='')}&"

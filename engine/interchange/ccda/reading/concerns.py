"""What allergies and problems have in common: the status of a concern, and comments."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from engine.interchange.ccda.reading.chart import Chart
from engine.interchange.ccda.reading.element import Element, every, first, related, said

Json = Any

ALLERGY_STATUS: Final = "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical"
PROBLEM_STATUS: Final = "http://terminology.hl7.org/CodeSystem/condition-clinical"
# LOINC codes of the status of an allergy, and of a problem; of the comment.
STATUS: Final = "33999-4"
COMMENT: Final = "48767-8"
# SNOMED CT codes of a status.
STATUSES: Final[Mapping[str, str]] = {
    "55561003": "active",
    "73425007": "inactive",
    "413322009": "resolved",
    "246455001": "recurrence",
    "263855007": "relapse",
    "277022003": "remission",
}
# What the status of the concern says where the observation has none of its own.
CONCERNS: Final[Mapping[str, str]] = {
    "active": "active",
    "new": "active",
    "suspended": "inactive",
    "aborted": "inactive",
    "completed": "inactive",
}
ALLERGIES: Final = frozenset({"active", "inactive", "resolved"})
ENDED: Final = frozenset({"inactive", "remission", "resolved"})


def clinical_status(act: Element, observation: Element, system: str, *, ended: bool) -> dict[str, Json]:
    """Return the clinical status: the one told of it, else that of the concern; what has ended is not active."""
    told = [first(one, "value") for one in related(observation) if said(one, "code", "code") == STATUS]
    code = next((STATUSES[said(one)] for one in told if said(one) in STATUSES), "")
    if not code and act is not observation:
        code = CONCERNS.get(said(act, "code", "statusCode"), "")
    if system == ALLERGY_STATUS and code not in ALLERGIES:
        code = "active" if code else ""
    if ended and code not in ENDED:
        code = "resolved"
    return {"coding": [{"system": system, "code": code or "active"}]}


def comments(chart: Chart, *statements: Element) -> Iterator[str]:
    """Return the comments that statements have."""
    for statement in dict.fromkeys(statements):
        for act in related(statement, name="act"):
            if said(act, "code", "code") == COMMENT:
                yield from filter(None, (chart.text(one) for one in every(act, "text")))

"""Problems: Problem Concern Act and Problem Observation as Condition, also those of encounters and of the past."""

from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.reading.chart import ReadChart
from engine.interchange.clinical.ccda.reading.concerns import (
    PROBLEM_STATUS,
    Concern,
    clinical_status,
    notes,
    observations_of,
)
from engine.interchange.clinical.ccda.reading.datatypes import identifiers, interval
from engine.interchange.clinical.ccda.reading.element import Element, first, is_negated, related, said
from engine.interchange.clinical.ccda.reading.parties import author, authored

VERIFICATION: Final = "http://terminology.hl7.org/CodeSystem/condition-ver-status"
CATEGORY: Final = "http://terminology.hl7.org/CodeSystem/condition-category"
PROBLEM: Final = "problem-list-item"
DIAGNOSIS: Final = "encounter-diagnosis"
SEVERITY: Final = "SEV"
# SNOMED CT codes for problems in general: negated, they mean that no problem is known.
ANY_PROBLEM: Final = frozenset({"55607006", "404684003", "64572001", "282291009", "409586006"})
NONE_KNOWN: Final = {
    "coding": [
        {"system": "http://snomed.info/sct", "code": "160245001", "display": "No current problems or disability"}
    ]
}


def read_problems(chart: ReadChart, act: Element) -> None:
    """Keep the problems of a concern, or of a single observation."""
    for concern, observation in observations_of(chart, act):
        read_problem(chart, concern, observation, PROBLEM)


def read_diagnoses(chart: ReadChart, act: Element) -> list[str]:
    """Keep the diagnoses of an Encounter Diagnosis act, and return the references to them."""
    found = (read_problem(chart, concern, one, DIAGNOSIS) for concern, one in observations_of(chart, act))
    return [made for made in found if made]


def read_problem(chart: ReadChart, concern: Concern, observation: Element, category: str) -> str:
    """Keep one Problem Observation, and return the reference to it; '' for one that names no problem."""
    code = _problem(chart, observation)
    if not code:
        return ""
    onset, abatement = interval(first(observation, "effectiveTime"), chart.offset)
    abatement = abatement if abatement != onset or said(observation, "value", "effectiveTime/high") else ""
    refuted = is_negated(observation) and code is not NONE_KNOWN
    return chart.add(
        "Condition",
        {
            "identifier": identifiers(observation),
            "clinicalStatus": clinical_status(concern, observation, PROBLEM_STATUS, ended=bool(abatement)),
            "verificationStatus": {"coding": [{"system": VERIFICATION, "code": "refuted" if refuted else "confirmed"}]},
            "category": [{"coding": [{"system": CATEGORY, "code": category}]}],
            "severity": _severity(chart, observation),
            "code": code,
            "bodySite": chart.concepts(observation, "targetSiteCode"),
            "onsetDateTime": onset,
            "abatementDateTime": abatement,
            "recordedDate": authored(chart, observation) or concern.recorded,
            "recorder": concern.recorder or author(chart, observation),
            "note": notes(chart, observation, concern),
        },
    )


def _problem(chart: ReadChart, observation: Element) -> JsonObject:
    """Return the problem that is observed, {} for none; "no known problem" has a code of its own."""
    value = first(observation, "value")
    if said(value) in ANY_PROBLEM and is_negated(observation):
        return NONE_KNOWN
    found = chart.concept(value)
    if is_negated(observation):
        return found if found.get("coding") else {}
    text = "" if found else chart.text(first(observation, "text"))
    return found or ({"text": text} if text else {})


def _severity(chart: ReadChart, observation: Element) -> JsonObject:
    for one in related(observation):
        if said(one, "code", "code") == SEVERITY:
            return chart.concept(first(one, "value"))
    return {}

"""Allergies and intolerances: Allergy Concern Act and Allergy - Intolerance Observation as AllergyIntolerance."""

from dataclasses import replace
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.reading.chart import ReadChart
from engine.interchange.clinical.ccda.reading.concerns import (
    ALLERGY_STATUS,
    Concern,
    clinical_status,
    notes,
    observations_of,
)
from engine.interchange.clinical.ccda.reading.datatypes import identifiers, interval, text_of
from engine.interchange.clinical.ccda.reading.element import Element, every, first, is_negated, related, said, templates
from engine.interchange.clinical.ccda.reading.parties import author, authored

VERIFICATION: Final = "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification"
ABATEMENT: Final = "http://hl7.org/fhir/StructureDefinition/allergyintolerance-abatement"
# SNOMED CT codes of the observation's value: what type of reaction, and to which category of things.
TYPES: Final = {
    "235719002": ("intolerance", "food"),
    "414285001": ("allergy", "food"),
    "416098002": ("allergy", "medication"),
    "418471000": ("", "food"),
    "419511003": ("", "medication"),
    "59037007": ("intolerance", "medication"),
    "419199007": ("allergy", ""),
    "418038007": ("", ""),
    "420134006": ("", ""),
    "232347008": ("allergy", "environment"),
    "426232007": ("allergy", "environment"),
}
NONE_KNOWN: Final = {
    "": ("716186003", "No known allergy"),
    "medication": ("409137002", "No known drug allergy"),
    "food": ("429625007", "No known food allergy"),
}
SEVERITIES: Final = {
    "255604002": "mild",
    "371923003": "mild",
    "6736007": "moderate",
    "371924009": "severe",
    "24484000": "severe",
    "399166001": "severe",
}
# Version 3 codes of the severity, which documents of R1.1 have too.
SEVERITIES_V3: Final = {"L": "mild", "M": "moderate", "H": "severe"}
CRITICALITIES: Final = {"CRITL": "low", "CRITH": "high", "CRITU": "unable-to-assess"}
SEVERITY: Final = "SEV"
# A reaction is known by its template, as not every document relates it as a manifestation.
REACTION_TEMPLATE: Final = "2.16.840.1.113883.10.20.22.4.9"
SEVERITY_TEMPLATE: Final = "2.16.840.1.113883.10.20.22.4.8"
CRITICALITY: Final = "82606-5"


def read_allergies(chart: ReadChart, act: Element) -> None:
    """Keep the allergies of a concern, or of a single observation.

    One that is negated is refuted, or says, where it names no substance, that no allergy is known.
    """
    for concern, observation in observations_of(chart, act):
        code = _substance(chart, observation)
        negated = is_negated(observation)
        if code:
            _read(chart, concern, observation, code, "refuted" if negated else "confirmed")
        elif negated:
            still = replace(concern, status="active")
            _read(chart, still, observation, _none_known(observation), "confirmed")


def _read(chart: ReadChart, concern: Concern, observation: Element, code: JsonObject, verified: str) -> None:
    kind, category = TYPES.get(said(observation, "code", "value"), ("", ""))
    onset, abatement = interval(first(observation, "effectiveTime"), chart.offset)
    ended = abatement if abatement != onset else ""
    chart.add(
        "AllergyIntolerance",
        {
            "identifier": identifiers(observation),
            "extension": [{"url": ABATEMENT, "valueDateTime": ended}] if ended else [],
            "clinicalStatus": clinical_status(concern, observation, ALLERGY_STATUS, ended=bool(ended)),
            "verificationStatus": {"coding": [{"system": VERIFICATION, "code": verified}]},
            "type": kind,
            "category": [category] if category else [],
            "criticality": _criticality(observation),
            "code": code,
            "onsetDateTime": onset,
            "recordedDate": authored(chart, observation) or concern.recorded,
            "recorder": author(chart, observation) or concern.recorder,
            "reaction": _reactions(chart, observation),
            "note": notes(chart, observation, concern),
        },
    )


def _none_known(observation: Element) -> JsonObject:
    """Return the code of there being no allergy: of any kind, to drugs, or to food."""
    _, category = TYPES.get(said(observation, "code", "value"), ("", ""))
    code, display = NONE_KNOWN.get(category, NONE_KNOWN[""])
    return {"coding": [{"system": "http://snomed.info/sct", "code": code, "display": display}]}


def _substance(chart: ReadChart, observation: Element) -> JsonObject:
    """Return what the patient is allergic to: the participant's code or name, else a value that names it."""
    for entity in every(observation, "participant/participantRole/playingEntity"):
        name = text_of(first(entity, "name"))
        found = chart.concept(first(entity, "code")) or ({"text": name} if name else {})
        if found:
            return found
    value = first(observation, "value")
    return {} if said(value) in TYPES or is_negated(observation) else chart.concept(value)


def _criticality(observation: Element) -> str:
    codes = [said(one, "code", "value") for one in related(observation) if said(one, "code", "code") == CRITICALITY]
    return next((CRITICALITIES[code] for code in codes if code in CRITICALITIES), "")


def _severity(statement: Element) -> str:
    """Return the severity of an allergy or of a reaction; '' for none."""
    for one in related(statement):
        if _is_severity(one):
            value = first(one, "value")
            coded = [said(value), *(said(part) for part in every(value, "translation"))]
            return next(filter(None, (SEVERITIES.get(code) or SEVERITIES_V3.get(code) for code in coded)), "")
    return ""


def _is_severity(observation: Element) -> bool:
    return said(observation, "code", "code") == SEVERITY or SEVERITY_TEMPLATE in templates(observation)


def _reactions(chart: ReadChart, observation: Element) -> list[JsonObject]:
    found: list[JsonObject] = []
    whole = _severity(observation)
    named = [one for one in related(observation) if REACTION_TEMPLATE in templates(one)]
    for one in named or [mfst for mfst in related(observation, "MFST") if not _is_severity(mfst)]:
        manifestation = chart.concept(first(one, "value"))
        onset, _ = interval(first(one, "effectiveTime"), chart.offset)
        text = chart.text(first(one, "text"))
        if manifestation or text:
            severity = _severity(one) or whole
            found.append({"manifestation": [manifestation or {"text": text}], "onset": onset, "severity": severity})
    return found

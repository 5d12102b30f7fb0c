"""Histories: Social History and Smoking Status as Observation, Family History as FamilyMemberHistory."""

from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.reading.chart import ReadChart
from engine.interchange.clinical.ccda.reading.datatypes import day, human_name, identifiers, quantity, system_of
from engine.interchange.clinical.ccda.reading.element import Element, every, first, is_negated, related, said, templates
from engine.interchange.clinical.ccda.reading.observations import observation_of

SOCIAL: Final = "social-history"
LOINC: Final = "http://loinc.org"
# Birth Sex Observation: an attribute of the patient, not a fact of the chart.
BIRTH_SEX: Final = "2.16.840.1.113883.10.20.22.4.200"
# Templates whose code is only ASSERTION, and the code of what they assert.
SMOKING: Final = "2.16.840.1.113883.10.20.22.4.78"
TOBACCO: Final = "2.16.840.1.113883.10.20.22.4.85"
PREGNANCY: Final = "2.16.840.1.113883.10.20.15.3.8"
ASSERTED: Final = {
    SMOKING: ("72166-2", "Tobacco smoking status"),
    TOBACCO: ("11367-0", "History of Tobacco use"),
    PREGNANCY: ("82810-3", "Pregnancy status"),
}
ASSERTION: Final = "ASSERTION"
GENDERS: Final = {"M": "male", "F": "female", "UN": "other"}
SEX: Final = "http://hl7.org/fhir/administrative-gender"
# Age Observation, and Family History Death Observation.
AGE: Final = "2.16.840.1.113883.10.20.22.4.31"
DEATH: Final = "2.16.840.1.113883.10.20.22.4.47"
AGE_CODE: Final = "445518008"
DEAD: Final = "419099009"


def read_social(chart: ReadChart, entry: Element) -> None:
    """Keep an observation of the social history; the coded one of an organizer too."""
    for observation in every(entry, "component/observation") if entry.tag.endswith("organizer") else [entry]:
        if BIRTH_SEX in templates(observation):
            continue
        code: JsonObject = {}
        if said(observation, "code", "code") in {ASSERTION, ""}:
            named = next((ASSERTED[one] for one in templates(observation) if one in ASSERTED), None)
            code = {"coding": [{"system": LOINC, "code": named[0], "display": named[1]}]} if named else {}
        found = observation_of(chart, observation, SOCIAL, code)
        if found:
            chart.add("Observation", found)


def read_family(chart: ReadChart, entry: Element) -> None:
    """Keep a Family History Organizer: one relative, and what they had."""
    relative = first(entry, "subject/relatedSubject")
    person = first(relative, "subject")
    relationship = chart.concept(first(relative, "code"))
    if not relationship:
        return
    observations = every(entry, "component/observation")
    dead = any(_is_death(one) for observation in observations for one in related(observation))
    gender = GENDERS.get(said(person, "code", "administrativeGenderCode"), "")
    deceased = BOOLEANS.get(said(person, "value", "sdtc:deceasedInd"), True if dead else None)
    chart.add(
        "FamilyMemberHistory",
        {
            "identifier": identifiers(entry),
            "status": "completed",
            "name": _name(person),
            "relationship": relationship,
            "sex": {"coding": [{"system": SEX, "code": gender}]} if gender else {},
            "bornDate": day(said(person, "value", "birthTime")),
            "deceasedBoolean": deceased,
            "condition": [found for one in observations if (found := _condition(chart, one))],
        },
    )


BOOLEANS: Final = {"true": True, "false": False, "1": True, "0": False}


def _name(person: Element | None) -> str:
    name = human_name(first(person, "name"))
    return name.get("text") or " ".join(filter(None, (*name.get("given", ()), name.get("family", ""))))


def _condition(chart: ReadChart, observation: Element) -> JsonObject:
    """Return what a relative had; {} for nothing, and for what they did not have."""
    code = chart.concept(first(observation, "value"))
    if not code or is_negated(observation):
        return {}
    ages = [first(one, "value") for one in related(observation) if AGE in templates(one) or _is_coded(one, AGE_CODE)]
    age = next((quantity(one) for one in ages), {})
    died = any(_is_death(one) for one in related(observation, "CAUS"))
    return {
        "code": code,
        "contributedToDeath": True if died else None,
        "onsetAge": _age(age),
    }


def _age(age: JsonObject) -> JsonObject:
    """Return an Age: its unit is one of time, and years where the document gives none."""
    if not age:
        return {}
    unit = {"system": system_of("2.16.840.1.113883.6.8"), "code": "a", "unit": "a"}
    return {**unit, **age}


def _is_coded(observation: Element, code: str) -> bool:
    return said(observation, "code", "code") == code


def _is_death(observation: Element) -> bool:
    return DEATH in templates(observation) or said(observation, "code", "value") == DEAD

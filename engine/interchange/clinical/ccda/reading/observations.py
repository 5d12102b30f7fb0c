"""Observations: results, vital signs, social and family history, alone or in organizers, with each type of a value."""

from collections.abc import Callable
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.reading.chart import ReadChart
from engine.interchange.clinical.ccda.reading.concerns import notes
from engine.interchange.clinical.ccda.reading.datatypes import (
    bounds,
    compared,
    day,
    human_name,
    identifiers,
    interval,
    moment,
    number,
    period,
    quantity,
    system_of,
    whole,
)
from engine.interchange.clinical.ccda.reading.element import (
    Element,
    every,
    first,
    is_negated,
    is_null,
    related,
    said,
    templates,
    value_type,
)
from engine.interchange.clinical.ccda.reading.parties import authored, authors, performers

Value = JsonObject

ABSENT: Final = "http://terminology.hl7.org/CodeSystem/data-absent-reason"
REASONS: Final = {
    "NASK": "not-asked",
    "ASKU": "asked-unknown",
    "NAV": "temp-unknown",
    "MSK": "masked",
    "NA": "not-applicable",
    "NINF": "negative-infinity",
    "PINF": "positive-infinity",
    "UNK": "unknown",
    "NI": "unknown",
    "OTH": "unsupported",
}
BOOLEAN: Final = {"true": True, "false": False}


def value_of(chart: ReadChart, value: Element | None) -> Value:
    """Return a value as `valueQuantity`, `valueCodeableConcept` and so on; {} for none that can be read."""
    if value is None:
        return {}
    return READERS.get(value_type(value), _text)(chart, value)


def absence(value: Element | None) -> Value:
    """Return why there is no value, as a CodeableConcept; {} where the document does not say."""
    code = REASONS.get(said(value, "nullFlavor"))
    return {"coding": [{"system": ABSENT, "code": code}]} if code else {}


def _code(chart: ReadChart, value: Element) -> Value:
    found = chart.concept(value)
    return {"valueCodeableConcept": found} if found else {}


def _quantity(_: ReadChart, value: Element) -> Value:
    found = quantity(value)
    return {"valueQuantity": found} if found else {}


def _whole(chart: ReadChart, value: Element) -> Value:
    found = whole(said(value, "value"), -(2**31))
    return _quantity(chart, value) if found is None else {"valueInteger": found}


def _value_range(_: ReadChart, value: Element) -> Value:
    low, high = bounds(value)
    if low and high:
        return {"valueRange": {"low": low, "high": high}}
    found = compared(value) or quantity(first(value, "center")) or quantity(value)
    return {"valueQuantity": found} if found else {}


def _ratio(_: ReadChart, value: Element) -> Value:
    parts = {name: quantity(first(value, name)) for name in ("numerator", "denominator")}
    return {"valueRatio": parts} if all(parts.values()) else {}


def _moment(chart: ReadChart, value: Element) -> Value:
    found = moment(said(value, "value"), chart.offset)
    return {"valueDateTime": found} if found else {}


def _period(chart: ReadChart, value: Element) -> Value:
    low, high = interval(value, chart.offset)
    return {"valuePeriod": period(low, high)} if low or high else {}


def _truth(_: ReadChart, value: Element) -> Value:
    found = BOOLEAN.get(said(value, "value").lower())
    return {} if found is None else {"valueBoolean": found}


def _text(chart: ReadChart, value: Element) -> Value:
    if value.get("representation") == "B64":
        return {}
    found = chart.text(value) or (said(value, "value") if number(said(value, "value")) is not None else "")
    return {"valueString": found} if found else {}


READERS: Final[dict[str, Callable[[ReadChart, Element], Value]]] = {
    **dict.fromkeys(("CD", "CE", "CV", "CO", "CS", "BN"), _code),
    **dict.fromkeys(("PQ", "REAL", "MO"), _quantity),
    "INT": _whole,
    **dict.fromkeys(("IVL_PQ", "IVL_REAL", "IVL_INT"), _value_range),
    **dict.fromkeys(("RTO", "RTO_PQ_PQ", "RTO_QTY_QTY"), _ratio),
    "TS": _moment,
    "IVL_TS": _period,
    "BL": _truth,
}


CATEGORY: Final = "http://terminology.hl7.org/CodeSystem/observation-category"
RANGE: Final = "referenceRange/observationRange"
INTERPRETATION: Final = "http://terminology.hl7.org/CodeSystem/v3-ObservationInterpretation"
STATUSES: Final = {
    "completed": "final",
    "active": "preliminary",
    "held": "registered",
    "new": "registered",
    "suspended": "registered",
    "aborted": "cancelled",
    "cancelled": "cancelled",
    "nullified": "entered-in-error",
    "obsolete": "entered-in-error",
}


def category_of(code: str) -> list[JsonObject]:
    """Return the category of an observation as a list of CodeableConcepts."""
    return [{"coding": [{"system": CATEGORY, "code": code}]}]


def status_of(statement: Element) -> str:
    """Return the status of an observation or report; what has none and says a value is final."""
    return STATUSES.get(said(statement, "code", "statusCode"), "final")


def observation_of(chart: ReadChart, entry: Element, category: str, code: JsonObject | None = None) -> JsonObject:
    """Return the elements of an Observation; `code` in place of the one that the entry has.

    {} for one without a code, and for one that says that nothing was observed.
    """
    if is_null(entry):
        return {}
    code = code or code_of(chart, entry)
    values = every(entry, "value")
    value = next((found for one in values if (found := value_of(chart, one))), {})
    if not code or (is_negated(entry) and not value):
        return {}
    return {
        "identifier": identifiers(entry),
        "status": status_of(entry),
        "category": category_of(category),
        "code": code,
        **chart.timed("effective", first(entry, "effectiveTime")),
        "performer": performers(chart, entry) or authors(chart, entry),
        **value,
        "dataAbsentReason": {} if value or not values else absence(values[0]),
        "interpretation": [_interpreted(concept) for concept in chart.concepts(entry, "interpretationCode")],
        "bodySite": chart.concept(first(entry, "targetSiteCode")),
        "method": chart.concept(first(entry, "methodCode")),
        "referenceRange": [_range(chart, part) for part in every(entry, RANGE)],
        "note": notes(chart, entry),
    }


def _interpreted(concept: JsonObject) -> JsonObject:
    """Return an interpretation: a code without a system is one of the vocabulary that CDA has for it."""
    return {**concept, "coding": [{**one, "system": one["system"] or INTERPRETATION} for one in concept["coding"]]}


def code_of(chart: ReadChart, entry: Element) -> JsonObject:
    """Return what an entry is about: its code, else what people read of it; {} for none."""
    code = chart.concept(first(entry, "code"))
    text = chart.text(first(entry, "text"))
    return code or ({"text": text} if text else {})


def _range(chart: ReadChart, part: Element) -> JsonObject:
    """Return a reference range: its ends, or its text."""
    value = first(part, "value")
    low, high = bounds(value)
    text = chart.text(first(part, "text"))
    if value is not None and not (low or high) and value_type(value) in {"ST", "ED"}:
        text = text or chart.text(value)
    return {"low": low, "high": high, "text": text}


LOINC: Final = "http://loinc.org"
REPORT: Final = "http://terminology.hl7.org/CodeSystem/v2-0074"
COMMENT: Final = "48767-8"
LABORATORY: Final = "laboratory"
VITALS: Final = "vital-signs"
# A panel of vital signs, which says nothing itself.
PANEL: Final = "85353-1"
PRESSURE: Final = {"coding": [{"system": LOINC, "code": "85354-9", "display": "Blood pressure panel"}]}
SYSTOLIC: Final = "8480-6"
DIASTOLIC: Final = "8462-4"
PAIR: Final = 2
SAME: Final = ("effectiveDateTime", "effectivePeriod", "status")
# What a component has of an Observation.
COMPONENT: Final = ("code", "dataAbsentReason", "interpretation", "referenceRange")


def read_result(chart: ReadChart, entry: Element) -> None:
    """Keep a Result Organizer, or a single Result Observation.

    An organizer that says nothing but what its one observation does is no report.
    """
    if not entry.tag.endswith("organizer"):
        _keep(chart, observation_of(chart, entry, LABORATORY))
        return
    tests = every(entry, "component/observation")
    results = [{"reference": made} for test in tests if (made := _keep(chart, observation_of(chart, test, LABORATORY)))]
    code = chart.concept(first(entry, "code"))
    performed = performers(chart, entry) or authors(chart, entry)
    conclusion = [chart.text(first(one, "text")) for one in every(entry, "component/act") if is_coded(one, COMMENT)]
    alone = len(tests) == 1 and chart.concept(first(tests[0], "code")) == code
    if not code or not results or (alone and not performed and not conclusion):
        return
    recorded = authored(chart, entry)
    chart.add(
        "DiagnosticReport",
        {
            "identifier": identifiers(entry),
            "status": _report_status(entry),
            "category": [{"coding": [{"system": REPORT, "code": "LAB"}]}],
            "code": code,
            **_effective(chart, entry),
            "issued": recorded if len(recorded) > len("YYYY-MM-DD") else "",
            "performer": performed,
            "result": results,
            "conclusion": " ".join(conclusion),
        },
    )


def read_vitals(chart: ReadChart, entry: Element) -> None:
    """Keep the signs of a Vital Signs Organizer, or a single Vital Sign Observation.

    A systolic and a diastolic pressure of one organizer and time are one blood pressure. The organizer itself says
    nothing but that they were taken together, and is not kept.
    """
    if not entry.tag.endswith("organizer"):
        _keep(chart, observation_of(chart, entry, VITALS))
        return
    pressures: list[JsonObject] = []
    for one in every(entry, "component/observation"):
        found = observation_of(chart, one, VITALS)
        if said(one, "code", "code") in {SYSTOLIC, DIASTOLIC} and len(pressures) < PAIR:
            pressures.append(found)
        else:
            _keep(chart, found)
    for found in [_pressure(*pressures)] if len(pressures) == PAIR and _together(*pressures) else pressures:
        _keep(chart, found)


def _keep(chart: ReadChart, observation: JsonObject) -> str:
    empty = not observation or (observation.get("dataAbsentReason") and _is(observation, PANEL))
    return "" if empty else chart.add("Observation", observation)


def _report_status(entry: Element) -> str:
    status = status_of(entry)
    return "partial" if status == "preliminary" else status


def _effective(chart: ReadChart, entry: Element) -> JsonObject:
    """Return when the organizer's observations were made: its own time, else theirs."""
    own = chart.timed("effective", first(entry, "effectiveTime"))
    if own:
        return own
    times = [interval(one, chart.offset)[0] for one in every(entry, "component/observation/effectiveTime")]
    starts = sorted(filter(None, times))
    return {"effectiveDateTime": starts[0]} if starts else {}


def _together(one: JsonObject, other: JsonObject) -> bool:
    """Say whether two pressures are a systolic and a diastolic one of the same time and status."""
    codes = any(_is(one, SYSTOLIC) and _is(two, DIASTOLIC) for one, two in ((one, other), (other, one)) if one and two)
    return codes and all(one.get(name) == other.get(name) for name in SAME)


def _pressure(one: JsonObject, other: JsonObject) -> JsonObject:
    """Return both pressures as the components of one, the systolic in front."""
    upper, lower = (one, other) if _is(one, SYSTOLIC) else (other, one)
    return {
        **{name: value for name, value in upper.items() if name not in COMPONENT and not name.startswith("value")},
        "identifier": [*upper["identifier"], *(one for one in lower["identifier"] if one not in upper["identifier"])],
        "code": PRESSURE,
        "component": [_component(upper), _component(lower)],
        "note": [*upper["note"], *lower["note"]],
    }


def _component(one: JsonObject) -> JsonObject:
    return {name: value for name, value in one.items() if name in COMPONENT or name.startswith("value")}


def _is(observation: JsonObject, code: str) -> bool:
    return any(coding["code"] == code and coding["system"] == LOINC for coding in observation["code"].get("coding", ()))


def is_coded(entry: Element, code: str) -> bool:
    """Say whether an entry's own code is this one."""
    return said(entry, "code", "code") == code


SOCIAL: Final = "social-history"
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
            named = next((ASSERTED[template] for template in templates(observation) if template in ASSERTED), None)
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
    died = any(_is_death(caus) for caus in related(observation, "CAUS"))
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

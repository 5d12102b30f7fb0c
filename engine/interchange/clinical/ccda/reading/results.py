"""Results and vital signs: their organizers as DiagnosticReport and as a panel, their observations as Observation."""

from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.reading.chart import ReadChart
from engine.interchange.clinical.ccda.reading.datatypes import identifiers
from engine.interchange.clinical.ccda.reading.element import Element, every, first, said
from engine.interchange.clinical.ccda.reading.observations import observation_of, status_of
from engine.interchange.clinical.ccda.reading.parties import authored, authors, performers
from engine.interchange.clinical.ccda.reading.times import interval

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
    results = [{"reference": made} for one in tests if (made := _keep(chart, observation_of(chart, one, LABORATORY)))]
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
    return any(one["code"] == code and one["system"] == LOINC for one in observation["code"].get("coding", ()))


def is_coded(entry: Element, code: str) -> bool:
    """Say whether an entry's own code is this one."""
    return said(entry, "code", "code") == code

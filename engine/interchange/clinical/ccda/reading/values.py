"""The value of an observation: each data type of CDA as the choice of FHIR's `value[x]`."""

from collections.abc import Callable
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.reading.chart import ReadChart
from engine.interchange.clinical.ccda.reading.datatypes import bounds, compared, number, quantity, whole
from engine.interchange.clinical.ccda.reading.element import Element, first, said, value_type
from engine.interchange.clinical.ccda.reading.times import interval, moment, period

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


def _range(_: ReadChart, value: Element) -> Value:
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
    **dict.fromkeys(("IVL_PQ", "IVL_REAL", "IVL_INT"), _range),
    **dict.fromkeys(("RTO", "RTO_PQ_PQ", "RTO_QTY_QTY"), _ratio),
    "TS": _moment,
    "IVL_TS": _period,
    "BL": _truth,
}

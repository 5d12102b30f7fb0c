"""Values of observations: quantities, ranges, ratios, codes, texts and times as the data types of CDA."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from engine.fhir.json import Json, JsonObject
from engine.interchange.clinical.ccda.codes import SNOMED, add_code, label
from engine.interchange.clinical.ccda.element import TYPE, Element, add, add_value
from engine.interchange.clinical.ccda.times import add_interval, readable, readable_span, value_of
from engine.interchange.clinical.terms import UCUM, ucum

# Why a value is absent (data-absent-reason of FHIR), as a null flavor.
ABSENT: Final[Mapping[str, str]] = {
    "unknown": "UNK",
    "asked-unknown": "ASKU",
    "temp-unknown": "NAV",
    "not-asked": "NASK",
    "asked-declined": "ASKU",
    "masked": "MSK",
    "not-applicable": "NA",
    "unsupported": "OTH",
    "not-a-number": "NA",
    "negative-infinity": "NINF",
    "positive-infinity": "PINF",
    "not-performed": "NAV",
    "not-permitted": "NAV",
}
# Codes of UCUM that mean nothing else where somebody writes them without naming the system.
BARE: Final = frozenset(
    [
        "a",
        "cm",
        "d",
        "g",
        "h",
        "kg",
        "m",
        "mg",
        "min",
        "mm",
        "mo",
        "mol",
        "ng",
        "pg",
        "s",
        "ug",
        "um",
        "wk",
        "L",
        "U",
        "%",
        "/min",
        "kg/m2",
        "mmol",
        "nmol",
        "umol",
    ]
)
# Which end of an interval a comparator gives, and whether the interval includes it.
COMPARED: Final = {"<": ("high", "false"), "<=": ("high", "true"), ">": ("low", "false"), ">=": ("low", "true")}


def ucum_code(quantity: JsonObject) -> str:
    """Return the UCUM code of a Quantity; `1` for a bare number, '' for a unit that is not known."""
    code, unit = quantity.get("code", ""), quantity.get("unit", "")
    if code and quantity.get("system") == UCUM and not any(map(str.isspace, code)):
        return str(code)
    written = unit or code
    return written if written in BARE else ucum(written) if written else "1"


def number(value: Json) -> str:
    """Return a number with the digits that it came with; the schema of CDA knows no exponents in whole numbers."""
    if isinstance(value, float):
        value = Decimal(repr(value))
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def shown_quantity(quantity: JsonObject | None) -> str:
    """Return a Quantity as people read it: `<5.40 mg/dL`; '' for none."""
    if not quantity or "value" not in quantity:
        return ""
    # What UCUM has in braces is a word.
    unit = (quantity.get("unit") or quantity.get("code") or "").strip("{}")
    return f"{quantity.get('comparator', '')}{number(quantity['value'])} {unit}".strip()


def shown_range(bounds: JsonObject) -> str:
    """Return a Range as people read it: `3.5 mmol/L to 5.1 mmol/L`, `≥ 40 mg/dL`."""
    low, high = (shown_quantity(bounds.get(end)) for end in ("low", "high"))
    if low and high:
        return f"{low} to {high}"
    return f"≥ {low}" if low else f"≤ {high}" if high else ""


def add_quantity(parent: Element, tag: str, quantity: JsonObject | None, *, data_type: str = "") -> Element:
    """Append a PQ in units of UCUM; one whose unit is not known becomes the null flavor OTH with a translation."""
    unit = ucum_code(quantity or {})
    if not quantity or "value" not in quantity:
        made = add(parent, tag, nullFlavor="UNK")
    elif unit:
        made = add(parent, tag, value=number(quantity["value"]), unit=unit)
    else:
        made = add(parent, tag, nullFlavor="OTH")
        other = add(made, "translation", value=number(quantity["value"]), nullFlavor="OTH")
        add(other, "originalText", str(quantity.get("unit") or quantity.get("code")))
    if data_type:
        made.set(TYPE, data_type)
    return made


def add_measure(
    parent: Element, tag: str, quantity: JsonObject | None, *, data_type: str = "", unit: str = "1"
) -> None:
    """Append a PQ whose unit a template demands, even where none is known."""
    made = add_quantity(parent, tag, quantity, data_type=data_type)
    if not made.get("unit"):
        made.set("unit", unit)


def add_range(parent: Element, tag: str, bounds: JsonObject, *, data_type: str = "") -> Element:
    """Append an interval of quantities."""
    made = add(parent, tag)
    if data_type:
        made.set(TYPE, data_type)
    for end in ("low", "high"):
        if bounds.get(end):
            add_quantity(made, end, bounds[end])
    return made


def add_observed(parent: Element, holder: JsonObject, zone: ZoneInfo, anchor: str) -> None:
    """Append the value of an Observation or of one of its components, of whatever type it is."""
    name = next((key for key in holder if key.startswith("value")), "")
    value: Any = holder.get(name)
    match name.removeprefix("value"):
        case "Quantity":
            add_compared(parent, value)
        case "CodeableConcept":
            add_code(parent, "value", value, prefer=(SNOMED,), data_type="CD", anchor=anchor)
        case "Integer":
            add_value(parent, "INT", value=str(value))
        case "Boolean":
            add_value(parent, "BL", value=str(value).lower())
        case "Range" if value.get("low") or value.get("high"):
            add_range(parent, "value", value, data_type="IVL_PQ")
        case "Ratio":
            made = add_value(parent, "RTO_PQ_PQ")
            add_quantity(made, "numerator", value.get("numerator"))
            add_quantity(made, "denominator", value.get("denominator"))
        case "DateTime":
            add_value(parent, "TS", value=value_of(value, zone))
        case "Period":
            made = add_interval(parent, "value", (value.get("start", ""), value.get("end", "")), zone)
            made.set(TYPE, "IVL_TS")
        case "String" | "Time" if value:
            add_value(parent, "ST").text = value
        case "":
            codings = (holder.get("dataAbsentReason") or {}).get("coding") or ()
            flavors = (ABSENT[coding["code"]] for coding in codings if coding.get("code") in ABSENT)
            add_value(parent, "CD", nullFlavor=next(flavors, "UNK"))
        case _:
            add_value(parent, "CD", nullFlavor="UNK")


def shown_value(holder: JsonObject, zone: ZoneInfo) -> str:  # noqa: PLR0911 - a line a type
    """Return the value of an Observation or of a component as people read it; '' for none."""
    name = next((key for key in holder if key.startswith("value")), "")
    value: Any = holder.get(name)
    match name.removeprefix("value"):
        case "Quantity":
            return shown_quantity(value)
        case "CodeableConcept":
            return label(value)
        case "Range":
            return shown_range(value)
        case "Ratio":
            return " / ".join(shown_quantity(value.get(part)) for part in ("numerator", "denominator"))
        case "DateTime":
            return readable(value, zone)
        case "Period":
            return readable_span((value.get("start", ""), value.get("end", "")), zone)
        case "Integer" | "String" | "Time":
            return str(value)
        case "Boolean":
            return "yes" if value else "no"
    return label(holder.get("dataAbsentReason"))


def add_compared(parent: Element, quantity: JsonObject) -> None:
    """Append a quantity as a value: a PQ, or with a comparator the interval that it bounds."""
    comparator = quantity.get("comparator")
    if comparator not in COMPARED or "value" not in quantity or not ucum_code(quantity):
        add_quantity(parent, "value", quantity, data_type="PQ")
        return
    end, within = COMPARED[comparator]
    add_quantity(add_value(parent, "IVL_PQ"), end, quantity).set("inclusive", within)

"""What is measured of a patient: results of the laboratory, and vital signs."""

from datetime import datetime
from typing import Any, Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.synthetic.codes import (
    BLOOD_PRESSURE,
    BODY_MASS_INDEX,
    DIASTOLIC,
    HEIGHT,
    SYSTOLIC,
    VITAL_SIGNS,
    VITAL_SIGNS_PANEL,
    WEIGHT,
    LaboratoryPanel,
    Measure,
)
from engine.interchange.clinical.synthetic.elements import instant, loinc, quantity, term, to
from engine.interchange.clinical.synthetic.person import Draw
from engine.interchange.clinical.synthetic.record import SyntheticRecord

ABNORMAL_SHARE: Final = 0.25
GROWN_YEARS: Final = 18


def tests(
    record: SyntheticRecord, panel: LaboratoryPanel, order: JsonObject, encounter: JsonObject, at: datetime
) -> list[JsonObject]:
    """Return the results of a panel, with what they mean and what is normal."""
    return [
        _observation(
            record,
            encounter,
            at,
            "laboratory",
            loinc(test.loinc, test.text),
            basedOn=[to(order)],
            performer=[to(record.directory.hospital)],
            **measured(record.draw, test),
        )
        for test in panel.tests
    ]


def vital_signs(record: SyntheticRecord, encounter: JsonObject, at: datetime) -> list[JsonObject]:
    """Return the vital signs of one moment, the panel that holds them last."""
    draw, age = record.draw, record.years(at)
    height = round((50 + 120 * min(1, age / GROWN_YEARS)) * draw.between(0.94, 1.06, 2), 1)
    index = draw.between(14, 18, 1) if age < GROWN_YEARS else draw.between(19, 33, 1)
    weight = round(index * (height / 100) ** 2, 1)
    body = (
        (HEIGHT, height),
        (WEIGHT, weight),
        (BODY_MASS_INDEX, round(weight / (height / 100) ** 2, 1)),
    )
    taken = [
        _vital(record, encounter, at, code, text, valueQuantity=quantity(value, unit))
        for (code, text, unit), value in body
    ]
    taken += [_vital(record, encounter, at, one.loinc, one.text, **measured(draw, one)) for one in VITAL_SIGNS]
    pressure = [{"code": loinc(one.loinc, one.text), **measured(draw, one)} for one in (SYSTOLIC, DIASTOLIC)]
    taken.append(_vital(record, encounter, at, *BLOOD_PRESSURE, component=pressure))
    return [*taken, _vital(record, encounter, at, *VITAL_SIGNS_PANEL, hasMember=[to(one) for one in taken])]


def _vital(
    record: SyntheticRecord, encounter: JsonObject, at: datetime, code: str, text: str, **elements: Any
) -> JsonObject:
    return _observation(record, encounter, at, "vital-signs", loinc(code, text), **elements)


def _observation(
    record: SyntheticRecord, encounter: JsonObject, at: datetime, category: str, code: JsonObject, **elements: Any
) -> JsonObject:
    shown = category.replace("-", " ").title()
    return record.make(
        "Observation",
        status="final",
        category=[term("observation-category", category, shown)],
        code=code,
        encounter=to(encounter),
        effectiveDateTime=instant(at),
        issued=instant(at),
        **elements,
    )


def measured(draw: Draw, measure: Measure) -> JsonObject:
    """Return a value, mostly a normal one, with its interpretation and range."""
    low, high, margin = measure.low, measure.high, (measure.high - measure.low) / 3
    # What is a share has no value above 100 %.
    above = min(high + margin, 100) if measure.unit == "%" else high + margin
    if draw.chance(ABNORMAL_SHARE):
        low, high = (low - margin, above) if low > margin else (low, above)
    value = draw.between(low, high, measure.decimals)
    sign = ("L", "Low") if value < measure.low else ("H", "High") if value > measure.high else ("N", "Normal")
    bounds = {"low": quantity(measure.low, measure.unit), "high": quantity(measure.high, measure.unit)}
    return {
        "valueQuantity": quantity(value, measure.unit),
        "interpretation": [term("v3-ObservationInterpretation", *sign)],
        "referenceRange": [bounds],
    }

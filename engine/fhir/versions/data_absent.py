"""Elements that only one version requires: data-absent-reason if the other version's resource lacks them."""

from typing import Final

from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion, definitions

# HL7's extension for a missing value.
ABSENT: Final[JsonObject] = {
    "extension": [{"url": "http://hl7.org/fhir/StructureDefinition/data-absent-reason", "valueCode": "unknown"}]
}
# Required choices and their other types, and required elements that HL7's schemas omit.
MORE: Final[dict[tuple[FhirVersion, str], JsonObject]] = {
    (FhirVersion.R4, "ActivityDefinition_DynamicValue"): {"expression": {"_language": ABSENT}},
    (FhirVersion.R4, "Immunization"): {"occurrenceString": "unknown"},
    (FhirVersion.R4, "MedicationRequest_Substitution"): {"allowedCodeableConcept": ABSENT},
    (FhirVersion.R4, "Questionnaire_EnableWhen"): {"answerCoding": ABSENT},
    (FhirVersion.STU3, "SampledData"): {"_data": ABSENT},
    (FhirVersion.STU3, "UsageContext"): {"valueCodeableConcept": ABSENT},
}
OTHERS: Final = {
    "occurrenceString": ("occurrenceDateTime",),
    "allowedCodeableConcept": ("allowedBoolean",),
    "valueCodeableConcept": ("valueQuantity", "valueRange"),
    "answerCoding": tuple(
        f"answer{name}"
        for name in ("Boolean", "Decimal", "Integer", "Date", "DateTime", "Time", "String", "Quantity", "Reference")
    ),
}


def fillings(version: FhirVersion, type_name: str, other_name: str) -> JsonObject:
    """Return the stand-ins for the elements that a type requires and the other version's type does not."""
    other = FhirVersion.STU3 if version is FhirVersion.R4 else FhirVersion.R4
    others = definitions(other).get(other_name, {})
    found = dict(MORE.get((version, type_name), {}))
    for name, element in definitions(version).get(type_name, {}).items():
        if element.required and not (name in others and others[name].required):
            key = f"_{name}" if element.type[0].islower() else name
            found.setdefault(key, [ABSENT] if element.many else ABSENT)
    return found


def fill(part: JsonObject, fillings: JsonObject) -> None:
    """Add the stand-ins for required elements that a part lacks."""
    for key, filling in fillings.items():
        name = key.removeprefix("_")
        if not any(one in part or f"_{one}" in part for one in (name, *OTHERS.get(name, ()))):
            part[key] = filling


def clear(part: JsonObject, fillings: JsonObject) -> None:
    """Remove the stand-ins from a part."""
    for key, filling in fillings.items():
        if part.get(key) == filling and not (key[0] == "_" and key[1:] in part):
            del part[key]

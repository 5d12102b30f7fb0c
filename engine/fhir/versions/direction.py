"""The two directions of a conversion, the extensions of what the other version lacks, and data-absent-reason."""

from enum import Enum
from typing import Final

from engine.fhir.json import JsonObject
from engine.fhir.schema import ElementDefinition, FhirVersion, definitions

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


EXTENSION: Final = "http://hl7.org/fhir/{}/StructureDefinition/extension-{}"
RELEASES: Final = {FhirVersion.R4: "4.0", FhirVersion.STU3: "3.0"}
# Elements for which R4 defines an extension of its own.
NAMED: Final = {(FhirVersion.STU3, "Patient.animal"): "http://hl7.org/fhir/StructureDefinition/patient-animal"}
# Modifier elements become modifier extensions.
MODIFIERS: Final = frozenset(
    {
        "ActivityDefinition.doNotPerform",
        "FamilyMemberHistory.notDone",
        "Immunization.isSubpotent",
        "Immunization.notGiven",
        "MedicationRequest.doNotPerform",
        "MedicationStatement.taken",
        "Procedure.notDone",
    }
)


class Direction(Enum):
    """From the version that a resource has to the target version."""

    TO_R4 = (FhirVersion.STU3, FhirVersion.R4)
    TO_STU3 = (FhirVersion.R4, FhirVersion.STU3)

    @property
    def source(self) -> FhirVersion:
        """The version that the resource has."""
        return self.value[0]

    @property
    def target(self) -> FhirVersion:
        """The version that it is converted to."""
        return self.value[1]

    def source_elements(self, type_name: str) -> dict[str, ElementDefinition]:
        """Return the elements of a source type; empty for a type that the version does not have."""
        return definitions(self.source).get(type_name, {})

    def target_elements(self, type_name: str) -> dict[str, ElementDefinition]:
        """Return the elements of a target type; empty for a type that the version does not have."""
        return definitions(self.target).get(type_name, {})


def address(version: FhirVersion, path: str) -> str:
    """Return the URL of HL7's inter-version extension for an element of a version."""
    return NAMED.get((version, path)) or EXTENSION.format(RELEASES[version], path)


def stem(elements: dict[str, ElementDefinition], name: str) -> str:
    """Return the name of an element as its path has it: `performed` for the choice `performedAge`."""
    base = _without_type(name, elements[name])
    others = (_without_type(other, element) for other, element in elements.items() if other != name)
    return base if base and base in others else name


def _without_type(name: str, element: ElementDefinition) -> str | None:
    suffix = element.type[0].upper() + element.type[1:]
    return name.removesuffix(suffix) if not element.many and name.endswith(suffix) else None

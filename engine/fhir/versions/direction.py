"""The two directions of a conversion, and the extensions for elements that the other version lacks."""

from enum import Enum
from typing import Final

from engine.fhir.schema import ElementDefinition, FhirVersion, definitions

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

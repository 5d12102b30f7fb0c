"""The canonical addresses of HL7's SearchParameters for the search parameters that are served."""

from typing import Final

from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in

HL7: Final = "http://hl7.org/fhir/SearchParameter/"
US_CORE: Final = "http://hl7.org/fhir/us/core/SearchParameter/us-core-"
# Parameters that HL7 defines once for several types, by the prefix of the definition's name.
_INDIVIDUAL: Final = frozenset(
    {
        *("birthdate", "family", "given", "gender", "telecom", "phone", "email"),
        *("address", "address-city", "address-state", "address-postalcode", "address-country", "address-use"),
    }
)
_CLINICAL: Final = frozenset({"patient", "identifier", "date", "type", "code", "encounter"})
_CHARTED: Final = frozenset(
    {
        *("AllergyIntolerance", "CarePlan", "Condition", "DiagnosticReport", "DocumentReference", "Encounter"),
        *("FamilyMemberHistory", "Goal", "Immunization", "MedicationRequest", "MedicationStatement", "Observation"),
        *("Procedure", "ServiceRequest"),
    }
)
_OWN: Final = frozenset({("Condition", "encounter"), ("DocumentReference", "date"), ("Goal", "date")})
_MEDICATIONS: Final = {
    FhirVersion.R4: frozenset({("MedicationRequest", "status"), ("MedicationRequest", "encounter")}),
    FhirVersion.STU3: frozenset(
        {
            *(("MedicationRequest", name) for name in ("status", "patient", "identifier")),
            *(("MedicationStatement", name) for name in ("patient", "identifier")),
        }
    ),
}
_GUIDE: Final = frozenset({("Encounter", "discharge-disposition"), ("Goal", "description")})
# The service's own, and parameters that STU3 lacks or names differently.
_NONE: Final = frozenset(
    {
        ("ActivityDefinition", "code"),
        ("Binary", "patient"),
        ("Bundle", "message.event"),
        ("Bundle", "patient"),
        ("Group", "name"),
        ("MedicationStatement", "encounter"),
        ("Organization", "ordering-enabled"),
        ("RequestGroup", "performer"),
    }
)
_NONE_IN_STU3: Final = frozenset(
    {
        ("Coverage", "patient"),
        ("DocumentReference", "date"),
        ("MedicationRequest", "encounter"),
        ("RequestGroup", "code"),
        ("ServiceRequest", "category"),
        *_GUIDE,
    }
)


def definition_of(type_name: str, parameter: str, version: FhirVersion) -> str:
    """Return the canonical address of a type's SearchParameter; '' if HL7 does not define it.

    For R4 it is US Core's where the base standard has none.
    """
    pair = (type_name, parameter)
    if pair in _NONE or (version is FhirVersion.STU3 and pair in _NONE_IN_STU3):
        return ""
    if parameter.startswith("_"):
        return f"{HL7}Resource-{parameter.removeprefix('_')}"
    if pair in _GUIDE:
        return f"{US_CORE}{type_name.lower()}-{parameter}"
    return f"{HL7}{_group(type_name, parameter, version) or name_in(version, type_name)}-{parameter}"


def _group(type_name: str, parameter: str, version: FhirVersion) -> str:
    if (type_name, parameter) in _MEDICATIONS[version]:
        return "medications"
    if type_name in _CHARTED and parameter in _CLINICAL and (type_name, parameter) not in _OWN:
        return "clinical"
    individual = type_name == "Patient" or (type_name == "Practitioner" and parameter in {"family", "given"})
    return "individual" if individual and parameter in _INDIVIDUAL else ""

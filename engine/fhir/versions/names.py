"""Types whose name differs between the versions: the kept name is R4's."""

from typing import Final

from engine.fhir.schema import FhirVersion, resource_types

STU3_NAMES: Final = {"ServiceRequest": "ProcedureRequest"}
R4_NAMES: Final = {stu3: r4 for r4, stu3 in STU3_NAMES.items()}


def stu3_name(r4: str) -> str:
    """Return the name that STU3 has for a type of R4."""
    return STU3_NAMES.get(r4, r4)


def in_stu3(r4: str) -> bool:
    """True if STU3 has a type of R4, under either name."""
    return stu3_name(r4) in resource_types(FhirVersion.STU3)


def r4_name(stu3: str) -> str:
    """Return the name that R4 has for a type of STU3."""
    return R4_NAMES.get(stu3, stu3)


def name_in(version: FhirVersion, r4: str) -> str:
    """Return the name of a type of R4 in a version."""
    return r4 if version is FhirVersion.R4 else stu3_name(r4)

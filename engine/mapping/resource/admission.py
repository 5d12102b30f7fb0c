"""The start of a visit, and the temporary number made of patient and time for a visit without a number."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from engine.fhir.plan import Admission, Identity
from engine.mapping.files.reference import ReferenceElement
from engine.mapping.language.expression import parse_path
from engine.mapping.language.node import Step
from engine.mapping.language.reading import MessageReading
from engine.mapping.language.scope import Scope
from engine.mapping.language.template import Compiler

ADMITTED: Final = "admitted"
OF_ADMISSION: Final = "#admission"
VISIT: Final = "Encounter"
# The element with the start of a visit, by which servers find it (search parameter `date`).
BEGINNING: Final = "period.start"
TO_THE_MINUTE: Final = " | utc-minute"
TEXT: Final = ReferenceElement("string", many=False)


@dataclass(frozen=True, slots=True)
class AdmissionTime:
    """The step that makes the minute in which a visit began, and the `types` of numbers that it may have."""

    minute: Step
    types: tuple[str, ...]

    def read(self, reading: MessageReading, patient: Identity) -> Admission | None:
        """Return the start of the visit of a patient with this number; None if it is not known to the minute."""
        at = self.minute(None, reading)
        if not isinstance(at, str):
            return None
        return Admission(Identity(patient.system + OF_ADMISSION, f"{patient.value}@{at}Z"), at, self.types)


def admission_time(
    compiler: Compiler, scope: Scope, value: Mapping[str, Any], types: tuple[str, ...]
) -> AdmissionTime | None:
    """Compile the line `admitted` of an identity; None if there is none. Its faults are noted."""
    if not value.get(ADMITTED):
        return None
    at, text, file = scope.at(ADMITTED), str(value[ADMITTED]), scope.document.value
    field = text.removesuffix(TO_THE_MINUTE)
    if not text.endswith(TO_THE_MINUTE) or parse_path(field) is None:
        compiler.problem(at, f"found {text!r}", "expected a field to the minute: PV1-44 | utc-minute")
        return None
    if file["resource"] != VISIT:
        compiler.problem(at, f"{file['resource']} known by a time", "take the line away: only an Encounter is")
    made_of = str((file.get("elements") or {}).get(BEGINNING) or "").partition(" ")[0]
    if made_of != field:
        expected = f"map it from {field} as well: a visit is looked for by it"
        compiler.problem(at, f"{BEGINNING} made of {made_of or 'nothing'}", expected)
    return AdmissionTime(compiler.expression(text, at, TEXT).step, types)


def temporary(admission: Admission) -> tuple[Identity, dict[str, Any]]:
    """Return the temporary number of a visit, and the same as a FHIR Identifier."""
    system, value = admission.number
    return admission.number, {"use": "temp", "system": system, "value": value}

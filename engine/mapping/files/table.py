"""Code tables: HL7 codes to FHIR codes, and the policy for codes that are not in the table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

V2_SYSTEM: Final = "http://terminology.hl7.org/CodeSystem/v2-"


class UnmappedPolicy(StrEnum):
    """The policy for a code that the table does not have.

    `keep-original`: the code is kept as text and as a coding of its own, with a warning. `default`: the table's
    default code replaces it, with a warning. `refuse`: the message cannot be mapped. `ignore`: nothing is made.
    """

    KEEP = "keep-original"
    DEFAULT = "default"
    REFUSE = "refuse"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class TargetCode:
    """A FHIR code with its system and display."""

    code: str
    system: str
    display: str

    def coding(self) -> dict[str, Any]:
        """Return a new Coding."""
        if self.display:
            return {"system": self.system, "code": self.code, "display": self.display}
        return {"system": self.system, "code": self.code}


@dataclass(frozen=True, slots=True)
class MappingTable:
    """One code table. A code without a target is known, but has no FHIR code (`displays` names it).

    `hl7` is the number of the codes' HL7 table (`0002`), or empty. Look-up is exact first, then ignores case.
    """

    name: str
    hl7: str
    unmapped: UnmappedPolicy
    default: TargetCode | None
    codes: Mapping[str, TargetCode | None]
    displays: Mapping[str, str]
    folded: Mapping[str, str] = field(default_factory=dict)

    def key(self, code: str) -> str | None:
        """Return the table's own spelling of a code; None if it is not in the table."""
        return code if code in self.codes else self.folded.get(code.casefold())

    def answers(self, made: Callable[[str], Any]) -> dict[str, Any]:
        """Return the function's precomputed result for each of the table's own codes."""
        return {code: made(code) for code in self.codes}

    @property
    def original_system(self) -> str:
        """The code system of the HL7 codes, empty if they have no HL7 table."""
        return V2_SYSTEM + self.hl7 if self.hl7 else ""


def make_table(name: str, value: Mapping[str, Any]) -> MappingTable:
    """Make a table of a checked authored one."""
    system = value.get("system") or ""
    codes: dict[str, TargetCode | None] = {}
    displays: dict[str, str] = {}
    for code, row in (value.get("codes") or {}).items():
        codes[code] = _target(row, system)
        displays[code] = (row.get("original") or row.get("display") or "") if isinstance(row, dict) else ""
    policy = value.get("unmapped") or UnmappedPolicy.KEEP
    default = None
    if isinstance(policy, dict):
        default = _target(policy["default"], system)
        policy = UnmappedPolicy.DEFAULT
    folded: dict[str, str] = {}
    for code in codes:
        folded.setdefault(code.casefold(), code)
    return MappingTable(name, value.get("hl7") or "", UnmappedPolicy(policy), default, codes, displays, folded)


def _target(row: Any, system: str) -> TargetCode | None:
    if isinstance(row, str):
        return TargetCode(row, system, "")
    if not isinstance(row, dict) or not row.get("code"):
        return None
    return TargetCode(row["code"], row.get("system") or system, row.get("display") or "")

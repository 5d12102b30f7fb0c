"""Deviations: where a message is not what its version of the standard says, in the standard's words; never a value."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from engine.hl7.finding import ErrorCode, Finding, FindingSeverity


class ConformanceRule(StrEnum):
    """What the standard asks for that a message does not keep."""

    SEGMENT_MISSING = "segment-missing"
    SEGMENT_UNEXPECTED = "segment-unexpected"
    SEGMENT_ORDER = "segment-order"
    SEGMENT_REPEATS = "segment-repeats"
    STRUCTURE_NAME = "structure-name"
    FIELD_MISSING = "field-missing"
    FIELD_REPEATS = "field-repeats"
    FIELD_UNKNOWN = "field-unknown"
    FIELD_WITHDRAWN = "field-withdrawn"
    COMPONENT_MISSING = "component-missing"
    COMPONENT_UNKNOWN = "component-unknown"
    TOO_LONG = "too-long"
    DATA_TYPE = "data-type"
    TABLE_VALUE = "table-value"


CODES: Final = {
    ConformanceRule.SEGMENT_MISSING: ErrorCode.SEGMENT_SEQUENCE,
    ConformanceRule.SEGMENT_UNEXPECTED: ErrorCode.SEGMENT_SEQUENCE,
    ConformanceRule.SEGMENT_ORDER: ErrorCode.SEGMENT_SEQUENCE,
    ConformanceRule.SEGMENT_REPEATS: ErrorCode.SEGMENT_SEQUENCE,
    ConformanceRule.STRUCTURE_NAME: ErrorCode.TABLE_VALUE,
    ConformanceRule.FIELD_MISSING: ErrorCode.REQUIRED_MISSING,
    ConformanceRule.FIELD_REPEATS: ErrorCode.DATA_TYPE,
    ConformanceRule.FIELD_UNKNOWN: ErrorCode.DATA_TYPE,
    ConformanceRule.FIELD_WITHDRAWN: ErrorCode.DATA_TYPE,
    ConformanceRule.COMPONENT_MISSING: ErrorCode.REQUIRED_MISSING,
    ConformanceRule.COMPONENT_UNKNOWN: ErrorCode.DATA_TYPE,
    ConformanceRule.TOO_LONG: ErrorCode.DATA_TYPE,
    ConformanceRule.DATA_TYPE: ErrorCode.DATA_TYPE,
    ConformanceRule.TABLE_VALUE: ErrorCode.TABLE_VALUE,
}
"""HL7 table 0357: what ERR-3 says of each."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """One place where a message is not what the standard says.

    `place` is a path (`PID-3(2).4.1`, `NK1(2)-3`), `name` the standard's name of it, `expected` what the standard has
    there and `found` of what kind the message's is. A warning is what the standard lets a sender do beyond it, or
    leaves to the sites: later fields and components, withdrawn ones, codes of user-defined tables.
    """

    place: str
    rule: ConformanceRule
    name: str
    expected: str
    found: str
    severity: FindingSeverity = FindingSeverity.ERROR

    def finding(self) -> Finding:
        """Return it as ERR tells it."""
        text = f"{self.name}: expected {self.expected}, found {self.found}"
        return Finding(CODES[self.rule], f"conformance-{self.rule}", (self.place,), text, self.severity)

"""Acknowledgement codes (HL7 table 0008), and the one table from what was found to what is answered."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from engine.hl7.finding import ErrorCode, Finding, FindingSeverity


class AckCode(StrEnum):
    """HL7 table 0008, acknowledgement code: A at application level, C at accept level (enhanced mode)."""

    AA = "AA"
    AE = "AE"
    AR = "AR"
    CA = "CA"
    CE = "CE"
    CR = "CR"

    @property
    def positive(self) -> bool:
        """Whether the message was taken."""
        return self in {AckCode.AA, AckCode.CA}


# What a finding is answered with: at application level, at accept level. A refusal (R) says that the message cannot be
# processed whatever it contains, an error (E) that its content is at fault. 207 is our own fault and may pass: AR, as
# the standard has it for reasons unrelated to the content, and at accept level CE, which invites a resend.
ANSWERS: Final = {
    ErrorCode.SEGMENT_SEQUENCE: (AckCode.AE, AckCode.CE),
    ErrorCode.REQUIRED_MISSING: (AckCode.AE, AckCode.CE),
    ErrorCode.DATA_TYPE: (AckCode.AE, AckCode.CE),
    ErrorCode.TABLE_VALUE: (AckCode.AE, AckCode.CE),
    ErrorCode.UNSUPPORTED_MESSAGE: (AckCode.AR, AckCode.CR),
    ErrorCode.UNSUPPORTED_EVENT: (AckCode.AR, AckCode.CR),
    ErrorCode.UNSUPPORTED_PROCESSING: (AckCode.AR, AckCode.CR),
    ErrorCode.UNSUPPORTED_VERSION: (AckCode.AR, AckCode.CR),
    ErrorCode.UNKNOWN_KEY: (AckCode.AE, AckCode.CE),
    ErrorCode.DUPLICATE_KEY: (AckCode.AE, AckCode.CE),
    ErrorCode.APPLICATION: (AckCode.AR, AckCode.CE),
}


def code_for(findings: Iterable[Finding]) -> AckCode:
    """Return AA, AE or AR for what was found; AR outweighs AE, and only errors count, not warnings."""
    codes = {ANSWERS[finding.code][0] for finding in findings if finding.severity is FindingSeverity.ERROR}
    return AckCode.AR if AckCode.AR in codes else AckCode.AE if codes else AckCode.AA


def accept_code(findings: Iterable[Finding]) -> AckCode:
    """Return CA, CE or CR for what was found, the accept level of enhanced mode."""
    codes = {ANSWERS[finding.code][1] for finding in findings if finding.severity is FindingSeverity.ERROR}
    return AckCode.CR if AckCode.CR in codes else AckCode.CE if codes else AckCode.CA

"""Acknowledgement codes (HL7 table 0008), which finding is answered with which, and the modes of HL7 chapter 2.

original     one acknowledgement, AA, AE or AR
enhanced     CA, CE or CR at the commit if MSH-15 asks for it; AA, AE or AR afterwards if MSH-16 does
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from engine.config.channel import AcknowledgementMode
from engine.hl7.finding import ErrorCode, Finding, FindingSeverity
from engine.hl7.header import Header


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


class AckCondition(StrEnum):
    """HL7 table 0155, accept and application acknowledgement conditions."""

    AL = "AL"
    NE = "NE"
    ER = "ER"
    SU = "SU"

    def asks(self, code: AckCode) -> bool:
        """Say whether an acknowledgement with this code is wanted."""
        return self is AckCondition.AL or self is (AckCondition.SU if code.positive else AckCondition.ER)


class Acknowledgements(NamedTuple):
    """What is said of one message: once it is stored or refused, and `later` by the application; None: nothing.

    `close`: a refusal would stay unsaid, so that the connection must be closed.
    """

    at_commit: AckCode | None = None
    later: AckCode | None = None
    close: bool = False


@dataclass(frozen=True, slots=True)
class AckMode:
    """How one message wants to be acknowledged; the conditions count only where it is `enhanced`."""

    enhanced: bool = False
    accept: AckCondition = AckCondition.AL
    application: AckCondition = AckCondition.NE

    def acknowledgements(self, findings: Sequence[Finding] = ()) -> Acknowledgements:
        """Return what is said of a message with these findings.

        A refusal that only MSH-16 asks for is said at once too: no application will see the message.
        """
        application, accept = code_for(findings), accept_code(findings)
        if not self.enhanced:
            return Acknowledgements(application)
        by_application = application if self.application.asks(application) else None
        at_commit = accept if self.accept.asks(accept) else None
        if application.positive:
            return Acknowledgements(at_commit, by_application)
        answer = at_commit or by_application
        return Acknowledgements(answer, close=answer is None)


ORIGINAL: Final = AckMode()
_ENHANCED: Final = AckMode(enhanced=True)


def mode_of(header: Header, setting: AcknowledgementMode = AcknowledgementMode.AUTO) -> AckMode:
    """Return the mode of a message: the channel's setting, else enhanced where MSH-15 or MSH-16 holds a condition.

    The empty one of the two counts as NE, and so does one that table 0155 does not know; NE with AL equals original
    mode. Where the channel fixes enhanced mode and the message says nothing, the accept acknowledgement always goes.
    """
    if setting is AcknowledgementMode.ORIGINAL:
        return ORIGINAL
    accept, application = _condition(header.accept_condition), _condition(header.application_condition)
    if accept is None and application is None:
        return _ENHANCED if setting is AcknowledgementMode.ENHANCED else ORIGINAL
    if accept in {None, AckCondition.NE} and application is AckCondition.AL:
        return ORIGINAL
    return AckMode(True, accept or AckCondition.NE, application or AckCondition.NE)  # noqa: FBT003 - the field is `enhanced`


def _condition(text: str) -> AckCondition | None:
    try:
        return AckCondition(text.strip().upper())
    except ValueError:
        return None

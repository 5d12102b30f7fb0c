"""From findings to codes."""

import pytest

from engine.acknowledge.code import AckCode, accept_code, code_for
from engine.hl7.finding import ErrorCode, Finding, FindingSeverity

# The table of what is answered, written a second time by hand.
EXPECTED = {100: "AE", 101: "AE", 102: "AE", 103: "AE", 200: "AR", 201: "AR", 202: "AR", 203: "AR", 204: "AE"} | {
    205: "AE",
    207: "AR",
}


def finding(code: int, severity: FindingSeverity = FindingSeverity.ERROR) -> Finding:
    """Return a finding with this code."""
    return Finding(ErrorCode(code), "reason", (), "text", severity)


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_finding_has_its_code(code: ErrorCode) -> None:
    """Each finding is answered as the table says; our own failure is CE at accept level, since it may pass."""
    expected = EXPECTED[code]
    assert code_for([finding(code)]) == expected
    assert accept_code([finding(code)]) == ("CE" if code == 207 else expected.replace("A", "C", 1))


def test_nothing_found_is_accepted() -> None:
    """Without findings, or with warnings only, the message is accepted."""
    assert code_for([]) is AckCode.AA
    assert accept_code([finding(200, FindingSeverity.WARNING)]) is AckCode.CA


def test_a_refusal_outweighs_an_error() -> None:
    """Where both AE and AR are due, AR is said."""
    assert code_for([finding(101), finding(201), finding(103)]) is AckCode.AR
    assert accept_code([finding(101), finding(201)]) is AckCode.CR


def test_positive_codes() -> None:
    """AA and CA say that a message was taken, the others do not."""
    assert {code for code in AckCode if code.positive} == {"AA", "CA"}

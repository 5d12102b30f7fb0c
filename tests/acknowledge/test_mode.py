"""Original and enhanced mode."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.acknowledge.code import ORIGINAL, AckCondition, mode_of
from engine.config.channel import AcknowledgementMode
from engine.hl7.finding import ErrorCode, Finding

REFUSED = (Finding(ErrorCode.UNSUPPORTED_EVENT, "unsupported-event", (), "text"),)
FAILED = (Finding(ErrorCode.REQUIRED_MISSING, "no-identity", (), "text"),)


@pytest.mark.parametrize(
    ("accept", "application", "accepted", "afterwards", "refused", "failed"),
    [
        pytest.param("", "", "AA", None, "AR", "AE", id="original"),
        pytest.param("NE", "AL", "AA", None, "AR", "AE", id="NE-AL-is-original"),
        pytest.param("", "AL", "AA", None, "AR", "AE", id="empty-AL-is-original"),
        pytest.param("AL", "NE", "CA", None, "CR", "CE", id="AL-NE"),
        pytest.param("AL", "", "CA", None, "CR", "CE", id="AL-empty"),
        pytest.param("AL", "AL", "CA", "AA", "CR", "CE", id="AL-AL"),
        pytest.param("AL", "ER", "CA", None, "CR", "CE", id="AL-ER"),
        pytest.param("ER", "NE", None, None, "CR", "CE", id="ER-NE"),
        pytest.param("SU", "NE", "CA", None, None, None, id="SU-NE"),
        pytest.param("NE", "NE", None, None, None, None, id="NE-NE"),
        pytest.param("NE", "SU", None, "AA", None, None, id="NE-SU"),
        pytest.param("NE", "ER", None, None, "AR", "AE", id="NE-ER"),
        pytest.param("SU", "AL", "CA", "AA", "AR", "AE", id="SU-AL"),
        pytest.param("al", "ne", "CA", None, "CR", "CE", id="small-letters"),
        pytest.param("XX", "YY", "AA", None, "AR", "AE", id="not-of-the-table-is-original"),
        pytest.param('""', '""', "AA", None, "AR", "AE", id="null-is-original"),
    ],
)
def test_what_is_said(
    header: Callable[..., Any],
    accept: str,
    application: str,
    accepted: str | None,
    afterwards: str | None,
    refused: str | None,
    failed: str | None,
) -> None:
    """MSH-15 and MSH-16 decide what is said at the commit and afterwards; what stays unsaid closes the line."""
    mode = mode_of(header(msh_15=accept, msh_16=application))
    assert mode.acknowledgements() == (accepted, afterwards, False)
    assert mode.acknowledgements(REFUSED) == (refused, None, refused is None)
    assert mode.acknowledgements(FAILED) == (failed, None, failed is None)


@pytest.mark.parametrize(
    ("setting", "accept", "application", "accepted"),
    [
        pytest.param("original", "AL", "AL", "AA", id="original-whatever-is-asked"),
        pytest.param("original", "NE", "NE", "AA", id="original-even-for-NE"),
        pytest.param("enhanced", "", "", "CA", id="enhanced-though-nothing-is-asked"),
        pytest.param("enhanced", "NE", "NE", None, id="enhanced-as-asked"),
        pytest.param("enhanced", "ER", "", None, id="enhanced-errors-only"),
    ],
)
def test_a_channel_may_fix_the_mode(
    header: Callable[..., Any], setting: str, accept: str, application: str, accepted: str | None
) -> None:
    """The channel's `acknowledgement_mode` outweighs the message."""
    mode = mode_of(header(msh_15=accept, msh_16=application), AcknowledgementMode(setting))
    assert mode.acknowledgements().at_commit == accepted


def test_original_is_the_default() -> None:
    """A message without MSH-15 and MSH-16 is answered in original mode."""
    assert ORIGINAL.acknowledgements().at_commit == "AA"
    assert set(AckCondition) == {"AL", "NE", "ER", "SU"}

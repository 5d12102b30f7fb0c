"""What an acknowledgement after delivery says against AA."""

import pytest

from engine.hl7.finding import ErrorCode
from engine.journal.entry import State
from engine.pipeline.inbound.application import findings_of
from engine.pipeline.inbound.outcomes import Outcome


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (None, [(ErrorCode.APPLICATION, "not-yet-delivered", ())]),
        (Outcome(State.DELIVERED, "updated"), []),
        (Outcome(State.FILTERED, "a-rule"), []),
        (Outcome(State.HELD, "merge-conflict"), [(ErrorCode.APPLICATION, "held", ())]),
        (Outcome(State.REJECTED, "self-merge"), [(ErrorCode.DUPLICATE_KEY, "self-merge", ("PID-3", "MRG-1"))]),
        (Outcome(State.REJECTED, "unknown-source"), [(ErrorCode.APPLICATION, "unknown-source", ())]),
    ],
)
def test_what_is_said_is_what_happened(outcome: Outcome | None, said: list[object]) -> None:
    """A merge of one patient's two numbers names both fields; what was refused otherwise says its own reason."""
    assert [(one.code, one.reason, one.locations) for one in findings_of(outcome)] == said


def test_a_self_merge_names_the_way_out() -> None:
    """The sender reads that nothing is left to merge, and which event retires a number."""
    (finding,) = findings_of(Outcome(State.REJECTED, "self-merge"))
    assert "A47" in finding.text

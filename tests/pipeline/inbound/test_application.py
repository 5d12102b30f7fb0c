"""What an acknowledgement after delivery says against AA."""

import pytest

from engine.hl7.finding import ErrorCode
from engine.journal.entry import State
from engine.journal.read.backlog import DestinationResult
from engine.pipeline.inbound.application import findings_of, standing
from engine.pipeline.inbound.outcomes import EntryOutcome


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (None, [(ErrorCode.APPLICATION, "not-yet-delivered", ())]),
        (EntryOutcome(State.DELIVERED, "updated"), []),
        (EntryOutcome(State.FILTERED, "a-rule"), []),
        (EntryOutcome(State.HELD, "merge-conflict"), [(ErrorCode.APPLICATION, "held", ())]),
        (EntryOutcome(State.REJECTED, "self-merge"), [(ErrorCode.DUPLICATE_KEY, "self-merge", ("PID-3", "MRG-1"))]),
        (EntryOutcome(State.REJECTED, "unknown-source"), [(ErrorCode.APPLICATION, "unknown-source", ())]),
    ],
)
def test_what_is_said_is_what_happened(outcome: EntryOutcome | None, said: list[object]) -> None:
    """A merge of one patient's two numbers names both fields; what was refused otherwise says its own reason."""
    assert [(finding.code, finding.reason, finding.locations) for finding in findings_of(outcome)] == said


PAIRS = (("PID(1)-3", "MRG(1)-1"), ("PID(1)-3", "MRG(2)-1"), ("PID(2)-3", "MRG(3)-1"))


@pytest.mark.parametrize(
    ("outcome", "locations"),
    [
        (EntryOutcome(State.REJECTED, "self-merge", ("self-merge 1", "self-merge 3")), (*PAIRS[0], *PAIRS[2])),
        (EntryOutcome(State.REJECTED, "unknown-source", ("lost Patient.name", "unknown-source 2")), PAIRS[1]),
        (EntryOutcome(State.HELD, "merge-conflict", ("self-merge 1", "merge-conflict 3")), PAIRS[2]),
        (EntryOutcome(State.REJECTED, "self-merge"), ("PID-3", "MRG-1")),
        (EntryOutcome(State.HELD, "missing-required", ("not-kept Flag",)), ()),
    ],
)
def test_of_several_pairs_those_in_question_are_named(outcome: EntryOutcome, locations: tuple[str, ...]) -> None:
    """Where they stand in the message, by the numbers in the notes of what came of it."""
    (finding,) = findings_of(outcome, PAIRS)
    assert finding.locations == locations


def test_what_comes_again_is_told_as_it_stands() -> None:
    """With the reason and the notes of where it stands, so that the pairs in question are named again."""
    states = {
        "a": DestinationResult(State.DELIVERED, "merged", ()),
        "b": DestinationResult(State.HELD, "merge-conflict", ("merge-conflict 2",)),
    }
    found = standing(states, frozenset({"a", "b"}))
    (finding,) = findings_of(found.outcome, PAIRS)
    assert (finding.reason, finding.locations) == ("held", PAIRS[1])


def test_a_self_merge_names_the_way_out() -> None:
    """The sender reads that nothing is left to merge, and which event retires a number."""
    (finding,) = findings_of(EntryOutcome(State.REJECTED, "self-merge"))
    assert "A47" in finding.text

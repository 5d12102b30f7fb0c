"""States, moves and values."""

import itertools
from datetime import UTC, datetime

import pytest

from engine.errors import ForbiddenMoveError
from engine.http.request import HttpRequest
from engine.journal.entry import (
    LEAST_FINISHED,
    MOVES,
    KnownIdentity,
    MergeSeen,
    NewEntry,
    Recorded,
    RequestOutcome,
    Settlement,
    State,
    check_move,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)

# Written by hand, not derived: who may go where.
REFERENCE = {
    "received": {"claimed", "waiting", "discarded"},
    "waiting": {"received", "discarded"},
    "claimed": {"delivered", "filtered", "held", "rejected", "received", "waiting"},
    "held": {"received", "waiting", "discarded"},
    "delivered": {"received", "waiting"},
    "rejected": {"received", "waiting"},
    "discarded": {"received", "waiting"},
    "filtered": {"received", "waiting"},
}


def test_the_table_of_moves_is_the_one_written_by_hand() -> None:
    """Every state has exactly the moves of the independent copy."""
    assert {state.value: {after.value for after in moves} for state, moves in MOVES.items()} == REFERENCE


@pytest.mark.parametrize(("before", "after"), list(itertools.product(State, State)))
def test_a_move_that_is_not_in_the_table_is_refused(before: State, after: State) -> None:
    """check_move lets through what the table holds and nothing else."""
    if after.value in REFERENCE[before.value]:
        check_move(before, after)
    else:
        with pytest.raises(ForbiddenMoveError):
            check_move(before, after)


def test_every_state_has_its_place_in_the_order_of_finishing() -> None:
    """The order names each state once."""
    assert sorted(LEAST_FINISHED) == sorted(State)


def test_no_value_shows_a_message_in_its_repr() -> None:
    """A repr in a log or a traceback tells nothing of a patient."""
    attempt = HttpRequest(1, "PUT", "http://fhir/Patient?identifier=SENTINEL", (), b"SENTINEL", NOW)
    texts = [
        repr(NewEntry("c", "p", "s", "1", "A08", "2.5", b"SENTINEL", NOW, visit="SENTINEL", patients=(("SENTINEL",),))),
        repr(attempt),
        repr(RequestOutcome(1, 200, (), "", 1.0, b"SENTINEL")),
        repr(Settlement(1, "d", State.DELIVERED, NOW, known=(KnownIdentity("d", "s", "SENTINEL", "1"),))),
        repr(KnownIdentity("d", "s", "SENTINEL", "1")),
        repr(MergeSeen("d", "s|SENTINEL", "s|SENTINEL", 1)),
        repr(Recorded(seq=1, duplicate=False, acknowledgement=b"SENTINEL", ack_code="AA", state=State.RECEIVED)),
    ]
    assert [text for text in texts if "SENTINEL" in text] == []

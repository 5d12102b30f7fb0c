"""What is held, and what waits behind it."""

import pytest

from engine.errors import UnknownEntryError
from engine.journal.entry import State
from engine.journal.read.holding import held, held_at
from tests.journal.desk import NOW, Desk, settlement


@pytest.fixture
async def stuck(desk: Desk) -> Desk:
    """One patient's lane is held with two behind, one of which is somebody else's too; another one alone."""
    await desk.record("1", ("s|1",))
    await desk.claim()
    await desk.journal.settle(settlement(1, State.HELD, reason="http-422"))
    await desk.record("2", ("s|1",))
    await desk.record("3", ("s|1",), ("s|2",))
    await desk.record("4", ("s|9",), channel="other")
    await desk.claim()
    await desk.journal.settle(settlement(4, State.HELD, reason="ambiguous-identity"))
    return desk


async def test_held_lanes_are_told_with_what_waits(stuck: Desk) -> None:
    """The oldest first, with entries and patients behind."""
    found = held(stuck.folder)
    assert [(one.seq, one.reason, one.entries, one.patients, one.more) for one in found] == [
        (1, "http-422", 2, 2, False),
        (4, "ambiguous-identity", 0, 1, False),
    ]
    assert (found[0].since, found[1].channel, found[0].destination) == (NOW, "other", "d")


@pytest.mark.parametrize(
    ("given", "seqs"),
    [({"reason": "http-422"}, [1]), ({"channel": "other"}, [4]), ({"destination": "e"}, []), ({"limit": 1}, [1])],
)
async def test_held_lanes_are_filtered(stuck: Desk, given: dict, seqs: list[int]) -> None:
    """By reason, channel and destination, and bounded."""
    assert [one.seq for one in held(stuck.folder, **given)] == seqs


async def test_what_waits_behind_is_shown(stuck: Desk) -> None:
    """In the order of the lane; of an entry that waits itself, what is behind that."""
    one, waits = held_at(stuck.folder, 1)
    assert (one.seq, [(row.seq, row.state) for row in waits]) == (1, [(2, State.WAITING), (3, State.WAITING)])
    _one, waits = held_at(stuck.folder, 2)
    assert [row.seq for row in waits] == [3]
    with pytest.raises(UnknownEntryError, match="99"):
        held_at(stuck.folder, 99)

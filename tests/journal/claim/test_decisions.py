"""Decisions: a release of what waits for a person is one, at the places that were held; nothing else is."""

import pytest

from engine.journal.entry import State
from engine.journal.write.entry_lookup import OperationRequest
from tests.journal.desk import Desk, settlement


async def held(desk: Desk, reason: str, *notes: str) -> int:
    """Record a message and let it be held."""
    seq = await desk.record("1", ("s|1",))
    await again(desk, seq, reason, *notes)
    return seq


async def again(desk: Desk, seq: int, reason: str, *notes: str) -> None:
    """Let it run, and be held."""
    await desk.claim()
    await desk.journal.settle(settlement(seq, State.HELD, reason=reason, notes=notes))


@pytest.mark.parametrize(
    ("reason", "notes", "decided"),
    [
        pytest.param("merge-conflict", ("lost Patient.name",), {"merge-conflict"}, id="the only pair"),
        pytest.param(
            "merge-conflict", ("merge-conflict 1", "merge-conflict 3", "overlay-suspected 2"),
            {"merge-conflict 1", "merge-conflict 3"}, id="some of several pairs",
        ),
        pytest.param("visit-reused", (), {"visit-reused"}, id="a visit"),
        pytest.param("overlay-suspected", (), {"overlay-suspected"}, id="a record"),
        pytest.param("identity-conflict", (), set(), id="what is to be mended elsewhere"),
    ],
)  # fmt: skip
async def test_a_release_decides_what_was_held(
    desk: Desk, reason: str, notes: tuple[str, ...], decided: set[str]
) -> None:
    """Until the entry ends, over further tries and other holds."""
    seq = await held(desk, reason, *notes)
    await desk.release(seq, by="me")
    (claimed,) = await desk.claim()
    assert claimed.decided == decided
    await desk.journal.settle(settlement(seq, State.HELD, reason="http-422"))
    await desk.release(seq, by="me")
    (claimed,) = await desk.claim()
    assert claimed.decided == decided


async def test_neither_a_retry_nor_a_replay_decides(desk: Desk) -> None:
    """They are held again."""
    seq = await held(desk, "merge-conflict")
    await desk.journal.act(lambda context: context.operations.retry(seq, OperationRequest("me")))
    (claimed,) = await desk.claim()
    assert claimed.decided == set()
    await desk.journal.settle(settlement(seq, State.HELD, reason="merge-conflict"))
    await desk.replay(seq, by="me")
    (claimed,) = await desk.claim()
    assert claimed.decided == set()

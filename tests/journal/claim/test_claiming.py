"""Claims and what becomes of them: given back, tried again or rolled back, nothing passes what is older or is lost."""

from engine.database.connection import Connection
from engine.journal.claim.claiming import Claims
from engine.journal.entry import State
from engine.journal.write.job import JobKind
from tests.journal.desk import LATE, NOW, Desk, settlement


async def united_behind_what_is_held(desk: Desk) -> None:
    """Leave 1 held, 2 of another patient out, and both one patient since 3: now something older is ahead of 2."""
    await desk.record("1", ("s|1",))
    assert await desk.claimed() == [1]
    await desk.journal.settle(settlement(1, State.HELD, reason="http-422", keep_lane=True))
    await desk.record("2", ("s|2",))
    assert await desk.claimed() == [2]
    await desk.record("3", ("s|1", "s|2"), unite=True)


async def states_of(desk: Desk) -> list[str]:
    """Return where the deliveries stand, by entry."""
    asked = "SELECT state FROM delivery ORDER BY seq"
    return [state for (state,) in await desk.journal.read(lambda connection: connection.execute(asked).fetchall())]


async def test_what_is_given_back_waits_for_what_is_older(desk: Desk) -> None:
    """It was claimed before its lane became another's: given back it stands behind the older one, and never passes."""
    await united_behind_what_is_held(desk)
    await desk.journal.give_back("d", [2])
    assert await states_of(desk) == ["held", "waiting", "waiting"]
    assert await desk.claimed() == []
    await desk.discard(1, "settled by hand", "somebody")
    assert await desk.claimed() == [2]


async def test_a_retry_waits_for_what_is_older(desk: Desk) -> None:
    """A try that failed is not taken again before the older one has ended, though its time has come."""
    await united_behind_what_is_held(desk)
    await desk.journal.settle(settlement(2, State.RECEIVED, reason="http-503", retry_at=NOW))
    assert await states_of(desk) == ["held", "waiting", "waiting"]
    assert await desk.claimed(now=LATE) == []
    await desk.discard(1, "settled by hand", "somebody")
    assert await desk.claimed(now=LATE) == [2]


async def test_a_claim_that_was_rolled_back_is_out_no_more(desk: Desk) -> None:
    """What another claim of its transaction spoiled is claimed again, and delivered; else it would never be."""

    def spoil(_claims: Claims) -> None:
        raise RuntimeError

    async def spoiled() -> None:
        await desk.journal._group.submit(JobKind.CLAIM, spoil)

    await desk.record("1", ("s|1",))
    claimed, error = await desk.together([desk.claimed(), spoiled()], errors=True)
    assert (claimed, type(error)) == ([1], RuntimeError)
    await desk.deliver(1)
    assert await states_of(desk) == ["delivered"]


async def test_a_settlement_that_was_rolled_back_is_still_out(desk: Desk) -> None:
    """What something else of its transaction spoiled is settled again, as it was claimed."""

    def spoil(_connection: Connection) -> None:
        raise RuntimeError

    await desk.record("1", ("s|1",))
    assert await desk.claimed() == [1]
    settled, error = await desk.together([desk.deliver(1), desk.journal.write(spoil)], errors=True)
    assert (settled, type(error)) == (0, RuntimeError)
    assert await states_of(desk) == ["delivered"]

"""Duplicates: only what had an effect makes a later message of the same bytes one; what had none loses nothing."""

from typing import Any

import pytest

from engine.errors import ForbiddenMoveError
from engine.journal.entry import FROM_SHADOW, LOAD, SENT_AGAIN, SHADOW, Claimed, Recorded, State
from engine.journal.write.entry_lookup import OperationRequest, meant_by
from tests.journal.desk import Desk, settlement

LIVE: dict[str, Any] = {}
IN_SHADOW: dict[str, Any] = {"flags": (SHADOW,)}
IN_LOAD: dict[str, Any] = {"flags": (LOAD,)}
FILTERED: dict[str, Any] = {"state": State.FILTERED, "reason": "no-tests", "destinations": ()}
BY_ANOTHER: dict[str, Any] = FILTERED | {"reason": "no-babies"}
REFUSED: dict[str, Any] = {"state": State.REJECTED, "reason": "no-tests", "destinations": ()}
HELD: dict[str, Any] = {"state": State.HELD, "reason": "undecodable", "destinations": ()}


async def came(desk: Desk, **given: Any) -> Recorded:
    """Record the same message once more."""
    return await desk.journal.record(desk.entry("1", ("s|1",), **given))


async def ends(desk: Desk, seq: int, state: State, reason: str = "", destination: str = "d") -> None:
    """Deliver what is there, and let it end so."""
    assert seq in await desk.claimed(destination=destination)
    await desk.journal.settle(settlement(seq, state, destination, reason=reason))


@pytest.mark.parametrize("together", [True, False], ids=["in one transaction", "one after the other"])
@pytest.mark.parametrize(
    ("first", "again", "is_new"),
    [
        pytest.param(IN_SHADOW, IN_SHADOW, False, id="in shadow twice"),
        pytest.param(IN_SHADOW, LIVE, True, id="in shadow, then live"),
        pytest.param(IN_SHADOW, IN_LOAD, True, id="in shadow, then in a load"),
        pytest.param(IN_SHADOW, FILTERED, True, id="in shadow, then filtered"),
        pytest.param(IN_SHADOW, REFUSED, True, id="in shadow, then refused"),
        pytest.param(IN_LOAD, IN_LOAD, False, id="in a load twice"),
        pytest.param(IN_LOAD, LIVE, True, id="in a load, then live"),
        pytest.param(IN_LOAD, IN_SHADOW, False, id="in a load, then in shadow"),
        pytest.param(LIVE, IN_SHADOW, False, id="live, then in shadow"),
        pytest.param(LIVE, IN_LOAD, False, id="live, then in a load"),
        pytest.param(LIVE, FILTERED, False, id="taken in, then filtered"),
        pytest.param(FILTERED, FILTERED, False, id="filtered twice"),
        pytest.param(FILTERED, LIVE, True, id="filtered by a rule that is gone"),
        pytest.param(FILTERED, BY_ANOTHER, True, id="filtered by another rule"),
        pytest.param(FILTERED, REFUSED, True, id="filtered by a rule that refuses now"),
        pytest.param(HELD, LIVE, False, id="held at the door"),
    ],
)
async def test_what_had_no_effect_makes_no_duplicate(
    desk: Desk, first: dict[str, Any], again: dict[str, Any], is_new: bool, together: bool
) -> None:
    """By mode and rule, as they were and are; a new one is flagged, and keeps its own acknowledgement."""
    answers = {"acknowledgement": b"MSA|AA|first"}, {"acknowledgement": b"MSA|AA|again"}
    calls = [came(desk, **one, **answer) for one, answer in zip((first, again), answers, strict=True)]
    one, two = await desk.together(calls) if together else [await call for call in calls]
    assert (two.duplicate, two.seq != one.seq) == (not is_new, is_new)
    assert two.acknowledgement == (b"MSA|AA|again" if is_new else b"MSA|AA|first")
    if is_new:
        assert two.flags == (*again.get("flags", ()), SENT_AGAIN)
        third = await came(desk, **again)
        assert (third.duplicate, third.seq) == (again is not REFUSED, third.seq if again is REFUSED else two.seq)


@pytest.mark.parametrize(
    ("reason", "again", "is_new"),
    [
        pytest.param("shadow", LIVE, True, id="its channel was put in shadow, and is live"),
        pytest.param("shadow", IN_SHADOW, False, id="its channel was put in shadow, and still is"),
        pytest.param("no-tests", LIVE, True, id="a rule that is gone"),
        pytest.param("no-tests", FILTERED, False, id="a rule that still holds"),
    ],
)
async def test_what_was_filtered_after_it_was_taken_in_makes_no_duplicate(
    desk: Desk, reason: str, again: dict[str, Any], is_new: bool
) -> None:
    """It waited while the mode, or a rule, changed: no effect, whatever the door said."""
    first = await came(desk)
    await ends(desk, first.seq, State.FILTERED, reason)
    assert (await came(desk, **again)).duplicate is not is_new


async def test_what_is_still_tried_in_shadow_makes_no_live_message_a_duplicate(desk: Desk) -> None:
    """Nothing is waited for: the live one stands behind it in its lane."""
    first = await came(desk, **IN_SHADOW)
    second = await came(desk)
    assert not second.duplicate
    claimed: tuple[Claimed, ...] = await desk.claim()
    assert [(one.seq, one.shadow) for one in claimed] == [(first.seq, True)]


async def test_where_it_took_effect_it_is_not_applied_again(desk: Desk) -> None:
    """Delivered to one of two destinations and filtered at the other: sent again, it goes to the other alone, once."""
    both = {"destinations": ("d", "e")}
    first = await came(desk, **both)
    await ends(desk, first.seq, State.DELIVERED)
    await ends(desk, first.seq, State.FILTERED, "shadow", "e")
    again = await desk.together([came(desk, **both) for _ in range(2)])
    assert [(one.duplicate, one.destinations) for one in again] == [(False, ("e",)), (True, ())]
    await ends(desk, again[0].seq, State.DELIVERED, destination="e")
    assert (await came(desk, **both)).duplicate


async def test_other_bytes_of_a_control_id_that_came_twice_are_told_from_the_same(desk: Desk) -> None:
    """The flags say each what is so: the same bytes again, or others."""
    await came(desk, **IN_SHADOW)
    assert (await came(desk)).flags == (SENT_AGAIN,)
    assert (await came(desk, raw=b"MSH|other")).flags == ("control-id-reused",)
    assert (await came(desk, raw=b"MSH|other", **REFUSED)).duplicate
    await came(desk, raw=b"MSH|third", **REFUSED)
    assert (await came(desk, raw=b"MSH|third")).flags == (SENT_AGAIN, "control-id-reused")


async def test_what_shadow_kept_is_delivered_once_it_is_replayed(desk: Desk) -> None:
    """In its old place and out of shadow, also after a hold; a message of its bytes is a duplicate from then on."""
    first, second = await came(desk, **IN_SHADOW), await desk.record("2", ("s|1",))
    await ends(desk, first.seq, State.FILTERED, "shadow")
    await ends(desk, second, State.HELD, "http-422")
    assert await desk.replay(first.seq) == 1
    assert (await came(desk)).duplicate
    (claimed,) = await desk.claim()
    assert (claimed.seq, claimed.shadow, claimed.replay) == (first.seq, False, True)
    await desk.journal.settle(settlement(first.seq, State.HELD, reason="http-422"))
    await desk.release(first.seq)
    (claimed,) = await desk.claim()
    assert (claimed.seq, claimed.shadow) == (first.seq, False)
    flags = await desk.journal.read(lambda c: c.execute("SELECT flags FROM entry ORDER BY seq").fetchone()[0])
    assert flags == f'["{FROM_SHADOW}"]'


async def test_what_shadow_kept_goes_over_nothing_newer(desk: Desk) -> None:
    """Something newer of the patient was applied: refused, unless somebody insists."""
    first, second = await came(desk, **IN_SHADOW), await desk.record("2", ("s|1",))
    await ends(desk, first.seq, State.FILTERED, "shadow")
    await ends(desk, second, State.DELIVERED)
    with pytest.raises(ForbiddenMoveError, match="something newer"):
        await desk.replay(first.seq)
    assert await desk.replay(first.seq, force=True) == 1


async def test_what_is_still_tried_in_shadow_elsewhere_is_not_replayed_yet(desk: Desk) -> None:
    """Or the other destination, at which it is only tried, would get it as well."""
    first = await came(desk, **IN_SHADOW, destinations=("d", "e"))
    await ends(desk, first.seq, State.FILTERED, "shadow")
    with pytest.raises(ForbiddenMoveError, match="still tried at e"):
        await desk.replay(first.seq)
    await ends(desk, first.seq, State.FILTERED, "shadow", "e")
    assert await desk.replay(first.seq, ("d",)) == 1
    assert (await desk.claim(destination="e"), len(await desk.claim())) == ((), 1)


async def test_a_run_over_what_was_filtered_leaves_alone_what_was_delivered(desk: Desk) -> None:
    """Of an entry that stands so at one destination only that one runs again, and nothing where none does any more."""
    first = await came(desk, destinations=("d", "e"))
    await ends(desk, first.seq, State.DELIVERED)
    await ends(desk, first.seq, State.FILTERED, "shadow", "e")

    async def run(asked: dict[str, object]) -> int:
        meant = meant_by(asked)
        return await desk.journal.act(
            lambda context: context.operations.replay(first.seq, (), OperationRequest(), meant=meant)
        )

    with pytest.raises(ForbiddenMoveError, match="no longer in the state"):
        await run({"state": "filtered", "reason": "no-tests"})
    assert await run({"state": "filtered", "reason": "shadow"}) == 1
    assert (await desk.claim(), [one.seq for one in await desk.claim(destination="e")]) == ((), [first.seq])
    await desk.journal.settle(settlement(first.seq, State.FILTERED, "e", reason="shadow"))
    assert await run({}) == 1
    assert (len(await desk.claim()), await desk.claim(destination="e")) == (1, ())

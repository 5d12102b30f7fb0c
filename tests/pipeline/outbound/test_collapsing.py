"""Which updates are claimed with the head of their lane, and what becomes of them: at a real journal, file and node."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from engine.config.destination import Collapse
from engine.deliver.verdict import Verdict, VerdictKind
from engine.errors import MappingError
from engine.fhir.plan import ElementChange, Identity, PatientRecord, Plan, Upsert
from engine.journal.entry import Claimed, State
from engine.pipeline.outbound.collapsing import MOST, MOST_TRIES, claim_run, deliver_newest, of_head
from tests.journal.conftest import address
from tests.journal.desk import LATE, NOW, Desk, Opener, intent, settlement

__all__ = ["address"]

ONE = ("s|1",)
DELIVERED, HELD = Verdict(VerdictKind.DELIVERED, "updated"), Verdict(VerdictKind.HELD, "http-422")


def plan(said: str = "female", element: str = "gender") -> Plan:
    """The plan of an update that says one thing."""
    change = ElementChange(element, element, (said,), many=False)
    record = PatientRecord((Identity("s", "1"),), (), (change,), placeholder=False)
    return Plan("A08", "ADT|RVB", NOW, 14, (Upsert(record),))


async def storm(desk: Desk, count: int, **given: Any) -> Claimed:
    """Record updates of one patient, and claim the first."""
    for number in range(count):
        await desk.record(f"{number}", ONE, **given)
    (head,) = await desk.claim()
    return head


async def run_of(desk: Desk, head: Claimed, plan_of: Callable[[Claimed], Plan] = lambda _one: plan()) -> list[int]:
    """The numbers of what is claimed behind a head."""
    run = await claim_run(desk.journal, Collapse(), head, plan(), plan_of)
    return [one.seq for one in run.behind] if run else []


async def states(desk: Desk) -> list[tuple[str, str, str]]:
    """How the deliveries are."""
    asked = "SELECT state, reason, notes FROM delivery ORDER BY seq"
    return [tuple(row) for row in await desk.journal.read(lambda connection: connection.execute(asked).fetchall())]


async def test_all_that_follows_and_says_the_same_is_claimed(desk: Desk) -> None:
    """Up to the bound; nobody else may claim what is out, and what follows waits on."""
    head = await storm(desk, MOST + 3)
    assert await run_of(desk, head) == list(range(2, MOST + 2))
    assert await desk.claimed() == []


OTHERS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "another event": (ONE, {"event": "A31"}),
    "a merge": (("s|1", "s|2"), {"event": "A40", "unite": True}),
    "another channel": (ONE, {"channel": "lab"}),
    "another sender": (ONE, {"source": "LAB|RVB"}),
    "only tried": (ONE, {"flags": ("shadow",)}),
}


@pytest.mark.parametrize(("patients", "given"), OTHERS.values(), ids=OTHERS.keys())
async def test_nothing_else_is_passed(desk: Desk, patients: tuple[str, ...], given: dict[str, Any]) -> None:
    """A run ends before anything else of the patient, whatever comes after."""
    await desk.record("1", ONE)
    await desk.record("2", ONE)
    await desk.record("3", patients, **given)
    await desk.record("4", ONE)
    (head,) = await desk.claim()
    assert await run_of(desk, head) == [2]


@pytest.mark.parametrize(("event", "given"), [("A31", {}), ("A08", {"replay": True}), ("A08", {"released": True})])
async def test_a_head_of_another_kind_goes_alone(desk: Desk, event: str, given: dict[str, Any]) -> None:
    """An event that is not collapsed, and what somebody replayed or released."""
    head = replace(await storm(desk, 2, event=event), **given)
    assert await claim_run(desk.journal, Collapse(events=("A08",)), head, plan(), lambda _one: plan()) is None
    assert await claim_run(desk.journal, None, head, plan(), lambda _one: plan()) is None


async def test_a_run_ends_before_what_says_less_or_cannot_be_mapped(desk: Desk) -> None:
    """It is delivered by itself, or held, in its turn."""
    head = await storm(desk, 4)
    assert await run_of(desk, head, lambda one: plan(element="gender" if one.seq < 4 else "language")) == [2, 3]
    await desk.journal.put_back("d", [2, 3])

    def broken(one: Claimed) -> Plan:
        if one.seq == 3:
            raise MappingError("bad-value", "PID-7")
        return plan()

    assert await run_of(desk, head, broken) == [2]


async def test_one_settlement_ends_all(desk: Desk) -> None:
    """The older ones name the entry that was delivered for them, and the lane goes on behind it."""
    head = await storm(desk, 3)
    run = await claim_run(desk.journal, Collapse(), head, plan(), lambda _one: plan())
    assert run is not None
    assert (run.newest.seq, run.superseded) == (3, (1, 2))
    await desk.record("4", ONE)
    assert await deliver_newest(desk.journal, run, _ends(DELIVERED), _never) == DELIVERED
    await desk.journal.settle(settlement(3, superseded=run.superseded))
    ended = ("filtered", "superseded", '["superseded-by 3"]')
    assert await states(desk) == [ended, ended, ("delivered", "", "[]"), ("received", "", "[]")]
    assert await desk.claimed() == [4]


async def test_where_the_newest_is_refused_the_older_ones_go_first(desk: Desk) -> None:
    """It waits for its turn, and is not tried ahead again; the others may be collapsed without it."""
    head = await storm(desk, 4)
    run = await claim_run(desk.journal, Collapse(), head, plan(), lambda _one: plan())
    assert run is not None
    assert await deliver_newest(desk.journal, run, _ends(HELD), _put_off(desk)) == HELD
    assert [state for state, *_ in await states(desk)] == ["claimed", "waiting", "waiting", "waiting"]
    await desk.journal.settle(settlement(1))
    (second,) = await desk.claim()
    assert await run_of(desk, second) == [3]


async def test_a_fault_leaves_all_waiting(desk: Desk) -> None:
    """What raises in the middle of a delivery keeps nothing claimed but the head."""
    head = await storm(desk, 3)
    run = await claim_run(desk.journal, Collapse(), head, plan(), lambda _one: plan())
    assert run is not None

    async def fault(_one: Claimed, _plan: Plan) -> Verdict:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await deliver_newest(desk.journal, run, fault, _never)
    assert [state for state, *_ in await states(desk)] == ["claimed", "waiting", "waiting"]


async def test_what_may_have_been_applied_is_tried_again_before_the_older_ones(desk: Desk) -> None:
    """A further try ends at the very update that was tried, though newer ones came; not for ever."""
    head = await storm(desk, 3)
    for tries in range(1, MOST_TRIES + 1):
        run = await claim_run(desk.journal, Collapse(), head, plan(), lambda _one: plan())
        assert run is not None
        assert run.newest.seq == 3
        retry = Verdict(VerdictKind.RETRY, "http-503")
        assert await deliver_newest(desk.journal, run, _ends(retry), _put_off(desk, retry=True)) == retry
        await desk.journal.settle(settlement(1, State.RECEIVED, reason=of_head(retry).reason, retry_at=NOW))
        await desk.record(f"newer {tries}", ONE)
        (head,) = await desk.claim(now=LATE)
        assert (head.seq, head.tries) == (1, tries)
    assert await run_of(desk, head) == []


async def test_a_kill_leaves_all_waiting_and_the_newest_known(opened: Opener) -> None:
    """Another life finds the request that was sent, and goes on with it."""
    async with opened() as desk:
        head = await storm(desk, 3)
        assert await run_of(desk, head) == [2, 3]
        await desk.journal.intend(3, "d", intent())
    async with opened() as desk:
        assert [state for state, *_ in await states(desk)] == ["received", "waiting", "waiting"]
        await desk.record("4", ONE)
        (head,) = await desk.claim()
        assert head.seq == 1
        run = await claim_run(desk.journal, Collapse(), head, plan(), lambda _one: plan())
        assert run is not None
        assert run.newest.seq == 3
        assert run.newest.open_intent is not None


async def test_what_was_sent_itself_is_delivered_itself(desk: Desk) -> None:
    """Of a head that was tried nobody knows whether it was applied."""
    head = await storm(desk, 2)
    await desk.journal.intend(1, "d", intent())
    await desk.journal.settle(settlement(1, State.RECEIVED, reason="http-503", retry_at=NOW))
    (head,) = await desk.claim(now=LATE)
    assert await run_of(desk, head) == []
    assert await run_of(desk, replace(head, tries=0, open_intent=intent())) == []


async def test_a_lane_that_has_changed_is_left_alone(desk: Desk) -> None:
    """What was looked at may be discarded before it is claimed, or another one's patient by now."""
    head = await storm(desk, 3)
    waiting = await desk.journal.look(lambda context: context.claims.behind(head, 9))
    claimed = [one.claimed for one in waiting]
    await desk.discard(2, "no use", "somebody")
    assert await desk.journal.claim_behind(head, claimed) == ()
    assert [one.seq for one in await desk.journal.claim_behind(head, claimed[1:])] == [3]


async def test_an_update_waits_for_its_time(desk: Desk) -> None:
    """It is not handed out before, though it heads its lane and somebody waits for it."""
    until = NOW + timedelta(seconds=5)
    assert await desk.claimed() == []
    await desk.record("1", ONE, due={"d": until})
    await desk.record("2", ("s|2",))
    assert await desk.claimed() == [2]
    assert await desk.journal.next_due("d") == until
    assert await desk.claimed(now=until) == [1]


def _ends(verdict: Verdict) -> Callable[[Claimed, Plan], Any]:
    async def deliver(_one: Claimed, _plan: Plan) -> Verdict:
        return verdict

    return deliver


def _put_off(desk: Desk, *, retry: bool = False) -> Callable[[Claimed, Verdict], Any]:
    async def put_off(one: Claimed, verdict: Verdict) -> None:
        at = NOW if retry else None
        await desk.journal.settle(settlement(one.seq, State.RECEIVED, reason=verdict.reason, retry_at=at))

    return put_off


async def _never(_one: Claimed, _verdict: Verdict) -> None:
    raise AssertionError

"""Follow-ups in the journal: promised with the delivery, one of a patient at a time, kept until they have ended."""

from datetime import timedelta
from functools import partial
from typing import Any

from engine.journal.entry import FollowUpKind, FollowUpRequest, KnownIdentity, State
from engine.journal.maintenance import retention
from engine.journal.maintenance.retention import RetentionPolicy
from engine.journal.read.reading import Filters, Reader
from engine.journal.state import follow_ups
from engine.journal.state.follow_ups import ASKED_ALREADY, DueRequest, FollowUpEnd, FollowUpState
from tests.journal.desk import NOW, Desk, Opener, settlement

PATIENT = "Patient/p1"
LOOKUP, NOTICE = FollowUpKind.LOOKUP, FollowUpKind.NOTICE
MINUTE = timedelta(minutes=1)


def asking(patient: str) -> tuple[FollowUpRequest, ...]:
    """Return what asks for a look-up of a patient, nothing where there is none."""
    return (FollowUpRequest(LOOKUP, patient),) if patient else ()


async def promised(desk: Desk, control_id: str, patient: str = PATIENT, **given: Any) -> int:
    """Deliver an entry that asks for a look-up."""
    seq = await desk.record(control_id, (f"mrn|{control_id}",), event="A01", **given)
    await desk.claim()
    await desk.deliver(seq, follow_ups=asking(patient))
    return seq


async def due(desk: Desk, most: int = 10, now: Any = NOW) -> list[int]:
    """Return the numbers of the entries whose look-ups may be asked for."""
    found = await desk.journal.read(partial(follow_ups.due, destination="d", kind=LOOKUP, now=now, most=most))
    return [one.seq for one in found]


async def settle(desk: Desk, seq: int, state: FollowUpState, reason: str = "", **given: Any) -> None:
    """Write how a look-up ended."""
    end = FollowUpEnd(state, reason, **{"at": NOW} | given)
    await desk.journal.write(partial(follow_ups.settle, destination="d", kind=LOOKUP, seq=seq, end=end))


async def test_a_look_up_is_promised_by_the_settlement(desk: Desk) -> None:
    """It is due from the moment of the delivery, with what is needed to ask; an entry without one promises none."""
    first = await promised(desk, "1", event_at=NOW - MINUTE)
    second = await promised(desk, "2", "Patient/p2")
    await promised(desk, "3", "")
    found = await desk.journal.read(partial(follow_ups.due, destination="d", kind=LOOKUP, now=NOW, most=10))
    assert found == (
        DueRequest(first, PATIENT, "", 0, "adt", "A01", NOW, NOW - MINUTE, found[0].digest),
        DueRequest(second, "Patient/p2", "", 0, "adt", "A01", NOW, None, found[1].digest),
    )
    assert await due(desk, now=NOW - MINUTE) == []
    assert await due(desk, most=1) == [first]
    assert await desk.journal.read(partial(follow_ups.due, destination="other", kind=LOOKUP, now=NOW, most=10)) == ()


async def test_one_look_up_of_a_patient_at_a_time(desk: Desk) -> None:
    """The next of a patient comes when the one before has ended, whatever is due; others do not wait for it."""
    first, second, other = [await promised(desk, name, patient) for name, patient in
                            (("1", PATIENT), ("2", PATIENT), ("3", "Patient/p2"))]  # fmt: skip
    assert await due(desk) == [first, other]
    await settle(desk, first, FollowUpState.WAITING, "lookup-failed", retry_at=NOW + MINUTE)
    assert await due(desk) == [other]
    assert await due(desk, now=NOW + MINUTE) == [other, first]
    await settle(desk, first, FollowUpState.GIVEN_UP, "lookup-failed")
    assert await due(desk) == [second, other]


async def test_the_next_due_is_known(desk: Desk) -> None:
    """A retry is waited for; without any look-up there is nothing to wait for."""
    next_due = partial(follow_ups.next_due, destination="d", kind=LOOKUP)
    assert await desk.journal.read(next_due) is None
    seq = await promised(desk, "1")
    assert await desk.journal.read(next_due) == NOW
    await settle(desk, seq, FollowUpState.WAITING, retry_at=NOW + MINUTE)
    assert await desk.journal.read(next_due) == NOW + MINUTE
    await settle(desk, seq, FollowUpState.ACCEPTED)
    assert await desk.journal.read(next_due) is None


async def test_what_waits_behind_an_older_one_is_not_the_next(desk: Desk) -> None:
    """It cannot be asked for whenever it is due: whoever waited for it would look again at once, and for ever."""
    first = await promised(desk, "1")
    await promised(desk, "2")
    await settle(desk, first, FollowUpState.WAITING, "lookup-failed", retry_at=NOW + MINUTE)
    next_due = partial(follow_ups.next_due, destination="d", kind=LOOKUP)
    assert await desk.journal.read(next_due) == NOW + MINUTE
    await settle(desk, first, FollowUpState.GIVEN_UP, "lookup-failed")
    assert await desk.journal.read(next_due) == NOW


async def test_each_kind_goes_its_own_way(desk: Desk) -> None:
    """One delivery may ask for both: neither waits for the other, and each ends for itself."""
    seq = await desk.record("1", ("mrn|1",), event="A01")
    await desk.claim()
    await desk.deliver(seq, follow_ups=(*asking(PATIENT), FollowUpRequest(NOTICE, PATIENT, "Encounter/e1")))
    later = await promised(desk, "2")
    notices = partial(follow_ups.due, destination="d", kind=NOTICE, now=NOW, most=10)
    assert [(one.seq, one.visit) for one in await desk.journal.read(notices)] == [(seq, "Encounter/e1")]
    await settle(desk, seq, FollowUpState.ACCEPTED)
    assert await due(desk) == [later]
    assert [one.seq for one in await desk.journal.read(notices)] == [seq]
    refused = FollowUpEnd(FollowUpState.REFUSED, "notice-refused", NOW, ("http-422",))
    await desk.journal.write(partial(follow_ups.settle, destination="d", kind=NOTICE, seq=seq, end=refused))
    assert await desk.journal.read(notices) == ()
    with Reader(desk.folder) as reader:
        (delivery,) = reader.show(seq).deliveries
        assert [row.seq for row in reader.list(Filters(outcome="notice-refused"))] == [seq]
    assert delivery.lookup is not None
    assert delivery.notice is not None
    assert (delivery.lookup.state, delivery.notice.state, delivery.notice.codes) == (
        "accepted",
        "refused",
        ("http-422",),
    )


async def test_who_was_asked_for_lately_is_known(desk: Desk) -> None:
    """The handle of the last request that was accepted; what only refers to it does not prolong the time."""
    first, second = await promised(desk, "1"), await promised(desk, "2")
    recent = partial(follow_ups.recent, destination="d", patient=PATIENT, within=10 * MINUTE)
    assert await desk.journal.read(partial(recent, now=NOW)) is None
    await settle(desk, first, FollowUpState.ACCEPTED, handle="http://h/1")
    await settle(desk, second, FollowUpState.ACCEPTED, ASKED_ALREADY, handle="http://h/1", at=NOW + 9 * MINUTE)
    assert await desk.journal.read(partial(recent, now=NOW + 10 * MINUTE)) == "http://h/1"
    assert await desk.journal.read(partial(recent, now=NOW + 11 * MINUTE)) is None
    assert await desk.journal.read(partial(recent, now=NOW, patient="Patient/p2")) is None


async def test_a_look_up_follows_the_merge_of_its_patient(desk: Desk) -> None:
    """Who waits and was merged away is looked up by the survivor's record, in its turn; what has ended stays."""
    done, waiting, survivors = [await promised(desk, name, patient) for name, patient in
                                (("1", PATIENT), ("2", PATIENT), ("3", "Patient/p2"))]  # fmt: skip
    await settle(desk, done, FollowUpState.ACCEPTED)
    merge = await desk.record("merge", ("mrn|1",), ("mrn|3",))
    await desk.claim()
    gone = KnownIdentity("d", "mrn", "1", "p1", "merged-away", "p2")
    await desk.deliver(merge, known=(gone, KnownIdentity("other", "mrn", "1", "p2", "merged-away", "p9")))
    found = await desk.journal.read(partial(follow_ups.due, destination="d", kind=LOOKUP, now=NOW, most=10))
    assert [(one.seq, one.patient) for one in found] == [(waiting, "Patient/p2")]
    await settle(desk, waiting, FollowUpState.ACCEPTED)
    assert await due(desk) == [survivors]
    with Reader(desk.folder) as reader:
        (delivery,) = reader.show(done).deliveries
    assert delivery.lookup is not None
    assert delivery.lookup.patient == PATIENT


async def test_a_look_up_that_ended_stays_so(desk: Desk) -> None:
    """A second outcome changes nothing; tries count requests, and not what was settled without one."""
    seq = await promised(desk, "1")
    await settle(desk, seq, FollowUpState.WAITING, "lookup-failed", codes=("http-503",), retry_at=NOW + MINUTE)
    await settle(desk, seq, FollowUpState.GIVEN_UP, "lookup-too-old", asked=False)
    await settle(desk, seq, FollowUpState.ACCEPTED)
    with Reader(desk.folder) as reader:
        (delivery,) = reader.show(seq).deliveries
    assert delivery.state is State.DELIVERED
    found = delivery.lookup
    assert found is not None
    assert (found.state, found.reason, found.codes, found.tries) == ("given-up", "lookup-too-old", (), 1)
    assert (found.patient, found.due_at, found.settled_at) == (PATIENT, None, NOW)


async def test_an_entry_is_found_by_what_became_of_its_look_up(desk: Desk) -> None:
    """Those that were refused or given up, by their reason, as by a note; while one waits there is nothing to find."""
    refused, given_up, waiting = [await promised(desk, name, f"Patient/{name}") for name in "123"]
    await promised(desk, "4", "")
    await settle(desk, refused, FollowUpState.REFUSED, "lookup-refused", codes=("http-422",))
    await settle(desk, given_up, FollowUpState.GIVEN_UP, "lookup-failed")
    await settle(desk, waiting, FollowUpState.WAITING, "lookup-failed", retry_at=NOW + MINUTE)
    with Reader(desk.folder) as reader:
        found = {
            code: [row.seq for row in reader.list(Filters(outcome=code))]
            for code in ("lookup-refused", "lookup-failed", "lookup-too-old")
        }
        assert found == {"lookup-refused": [refused], "lookup-failed": [given_up], "lookup-too-old": []}
        assert [row.seq for row in reader.list(Filters(outcome="lookup-refused", event="A01"))] == [refused]
        assert [row.seq for row in reader.list(Filters(outcome="lookup-refused", channel="other"))] == []


async def test_a_promise_outlives_the_engine_and_is_made_once(opened: Opener) -> None:
    """After a restart it is due again; a replay of the entry promises none, and an edited message none at all."""
    async with opened() as desk:
        seq = await promised(desk, "1")
        await settle(desk, seq, FollowUpState.ACCEPTED)
        await promised(desk, "2", "Patient/p2")
    async with opened() as desk:
        assert await due(desk) == [seq + 1]
        await desk.replay(seq)
        await desk.claim()
        await desk.journal.settle(settlement(seq, follow_ups=asking(PATIENT)))
        edited = await promised(desk, "3", "Patient/p3", parent=seq)
        assert edited not in await due(desk)
        assert await due(desk) == [seq + 1]


async def test_retention_takes_a_look_up_with_its_entry(desk: Desk) -> None:
    """What is left of an entry's body knows its look-up; with the entry it goes."""
    seq = await promised(desk, "1")
    await settle(desk, seq, FollowUpState.REFUSED, "lookup-refused")
    await promised(desk, "2", "")
    rules = {"": {State.DELIVERED: RetentionPolicy(timedelta(days=1), timedelta(days=2))}}
    for days, left in ((1, 1), (2, 0)):
        await desk.journal.write(partial(retention.prune, rules=rules, now=NOW + timedelta(days=days)))
        for table in ("follow_up", "noted"):
            count = f"SELECT COUNT(*) FROM {table}"  # noqa: S608 - constants
            (found,) = await desk.journal.read(lambda connection, sql=count: connection.execute(sql).fetchone())
            assert found == left, (table, days)

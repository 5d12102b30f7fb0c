"""Claims, intents and settlements: the steps of one delivery, and what a kill between them leaves."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from engine.errors import ForbiddenMoveError, UnknownEntryError
from engine.http.request import HttpRequest
from engine.journal.entry import KnownIdentity, MergeSeen, Ownership, RequestOutcome, State
from engine.journal.read.reading import Reader
from engine.journal.state import memory
from tests.journal.desk import LATE, NOW, Desk, Opener, entry, intent, settlement


async def test_attempts_are_kept_with_request_and_response(desk: Desk) -> None:
    """Each intent has its outcome."""
    seq = await desk.record("1", ("s|1",))
    await desk.claim()
    await desk.journal.intend(seq, "d", intent())
    outcome = RequestOutcome(1, 422, ("required",), "permanent", 12.5, b'{"resourceType":"OperationOutcome"}')
    await desk.journal.settle(settlement(seq, State.HELD, reason="refused", outcomes=(outcome,), plan=b"{}"))
    with Reader(desk.folder) as reader:
        delivery = reader.show(seq).deliveries[0]
    attempt = delivery.attempts[0]
    assert (delivery.state, delivery.reason, delivery.plan) == (State.HELD, "refused", b"{}")
    assert (attempt.intent, attempt.outcome) == (intent(), outcome)


async def test_a_request_without_an_intent_is_kept_with_its_answer(desk: Desk) -> None:
    """What needs no intent is told beside what had one, in order, and counts as an attempt."""
    seq = await desk.record("1", ("s|1",))
    await desk.claim()
    update, create = replace(intent(), url=ASKED), replace(intent(), number=2, method="POST")
    await desk.journal.intend(seq, "d", create)
    outcomes = (RequestOutcome(1, 200, (), "none", 1.5, request=update), RequestOutcome(2, 201, (), "none", 2.5))
    await desk.journal.settle(settlement(seq, State.RECEIVED, retry_at=NOW, outcomes=outcomes))
    with Reader(desk.folder) as reader:
        attempts = reader.show(seq).deliveries[0].attempts
    assert [attempt.intent for attempt in attempts] == [update, create]
    assert [attempt.outcome.status for attempt in attempts if attempt.outcome] == [200, 201]
    (claimed,) = await desk.claim(now=LATE)
    assert (claimed.attempts_made, claimed.open_intent) == (2, None)


async def test_a_retry_keeps_its_place_until_it_is_due(desk: Desk) -> None:
    """A head in backoff holds its lane."""
    first = await desk.record("1", ("s|1",))
    second = await desk.record("2", ("s|1",))
    await desk.claim()
    due = NOW + timedelta(seconds=30)
    assert await desk.journal.settle(settlement(first, State.RECEIVED, retry_at=due)) == 0
    assert await desk.claimed() == []
    assert await desk.journal.next_due("d") == due
    claimed = (await desk.claim(now=LATE))[0]
    assert (claimed.seq, claimed.tries, claimed.attempts_made) == (first, 1, 0)
    await desk.deliver(first)
    assert await desk.claimed() == [second]
    assert await desk.journal.next_due("d") is None


async def test_a_merge_waits_for_all_that_is_older_of_either_patient(desk: Desk) -> None:
    """It heads neither lane before both are empty."""
    one, other = await desk.record("1", ("s|1",)), await desk.record("2", ("s|2",))
    merge = await desk.record("3", ("s|1",), ("s|2",))
    assert await desk.claimed() == [one, other]
    assert await desk.deliver(one) == 0
    assert await desk.claimed() == []
    assert await desk.deliver(other) == 1
    assert await desk.claimed() == [merge]


async def test_what_heads_a_joined_lane_waits_for_a_later_one_that_is_out(desk: Desk) -> None:
    """Two patients become one while the later message of them is being delivered and the older one waits to retry."""
    older, later = await desk.record("1", ("s|1",)), await desk.record("2", ("s|2",))
    assert await desk.claimed() == [older, later]
    await desk.journal.settle(settlement(older, State.RECEIVED, retry_at=NOW))
    await desk.record("3", ("s|1",), ("s|2",), unite=True)
    assert await desk.claimed(now=LATE) == []
    await desk.deliver(later)
    assert await desk.claimed(now=LATE) == [older]


async def test_a_lane_made_in_a_batch_that_was_undone_is_made_again(opened: Opener) -> None:
    """What spoils a batch, here an end of something not claimed, leaves no lane behind that only memory knows."""
    async with opened() as desk:
        one = await desk.record("1", ("s|1",))
        calls = (desk.journal.record(entry("2", ("s|2",))), desk.journal.settle(settlement(one)))
        two, refused = await desk.together(calls, errors=True)
        assert isinstance(refused, ForbiddenMoveError)
        three = await desk.record("3", ("s|3",))
    async with opened() as desk:
        await desk.record("4", ("s|2",))
        assert await desk.claimed() == [one, two.seq, three]


async def test_a_claim_is_taken_back_after_a_kill(opened: Opener) -> None:
    """What was under way runs again at its old place, ahead of what waited."""
    async with opened() as desk:
        first = await desk.record("1", ("s|1",))
        await desk.record("2", ("s|1",))
        assert await desk.claimed() == [first]
    async with opened() as desk:
        claimed = await desk.claim()
    assert [(one.seq, one.open_intent) for one in claimed] == [(first, None)]


async def test_an_intent_without_an_outcome_is_handed_to_the_next_claimer(opened: Opener) -> None:
    """It may have been applied: the claimer must read first; in the end the intent has an outcome."""
    async with opened() as desk:
        seq = await desk.record("1", ("s|1",))
        await desk.claim()
        await desk.journal.intend(seq, "d", intent())
    async with opened() as desk:
        claimed = (await desk.claim())[0]
        assert claimed.open_intent == intent()
        assert claimed.attempts_made == 1
        await desk.journal.settle(settlement(seq, reason="unchanged"))
    with Reader(desk.folder) as reader:
        outcomes = [attempt.outcome for attempt in reader.show(seq).deliveries[0].attempts]
    assert [(one.number, one.status, one.failure) for one in outcomes if one] == [(1, 0, "ambiguous")]


async def test_what_was_sent_after_a_kill_stands_beside_the_open_intent(opened: Opener) -> None:
    """The intent of the life before ends as ambiguous, the one of this life with its own outcome."""
    async with opened() as desk:
        seq = await desk.record("1", ("s|1",))
        await desk.claim()
        await desk.journal.intend(seq, "d", intent())
    async with opened() as desk:
        await desk.claim()
        await desk.journal.intend(seq, "d", intent(2))
        await desk.journal.settle(settlement(seq, outcomes=(RequestOutcome(2, 200, (), "", 1.0),)))
    with Reader(desk.folder) as reader:
        outcomes = [attempt.outcome for attempt in reader.show(seq).deliveries[0].attempts]
    assert [(one.number, one.status, one.failure) for one in outcomes if one] == [(1, 0, "ambiguous"), (2, 200, "")]


async def test_an_intent_that_a_retry_left_open_stays_open(desk: Desk) -> None:
    """A settlement without the outcome of its intent does not make it certain."""
    seq = await desk.record("1", ("s|1",))
    await desk.claim()
    await desk.journal.intend(seq, "d", intent())
    await desk.journal.settle(settlement(seq, State.RECEIVED, retry_at=NOW))
    claimed = (await desk.claim(now=LATE))[0]
    assert claimed.open_intent == intent()


async def test_an_answered_intent_is_not_open(desk: Desk) -> None:
    """A transient failure with an answer leaves nothing to read first."""
    seq = await desk.record("1", ("s|1",))
    await desk.claim()
    await desk.journal.intend(seq, "d", intent())
    outcome = RequestOutcome(1, 503, (), "transient", 1.0)
    await desk.journal.settle(settlement(seq, State.RECEIVED, retry_at=NOW, outcomes=(outcome,)))
    claimed = (await desk.claim(now=LATE))[0]
    assert (claimed.open_intent, claimed.attempts_made) == (None, 1)


async def test_nothing_is_claimed_twice(desk: Desk) -> None:
    """Claims at the same moment share nothing."""
    seqs = [await desk.record(str(number), (f"s|{number}",)) for number in range(20)]
    claims = await asyncio.gather(*(desk.claimed(limit=3) for _ in range(10)))
    assert sorted(seq for claim in claims for seq in claim) == seqs


async def test_what_is_not_claimed_cannot_be_settled_or_announced(desk: Desk) -> None:
    """The order of the steps is checked."""
    seq = await desk.record("1", ("s|1",))
    with pytest.raises(ForbiddenMoveError):
        await desk.journal.settle(settlement(seq))
    with pytest.raises(ForbiddenMoveError):
        await desk.journal.intend(seq, "d", intent())
    await desk.claim()
    await desk.deliver(seq)
    with pytest.raises(ForbiddenMoveError):
        await desk.journal.settle(settlement(seq))


async def test_a_settlement_goes_only_where_the_table_lets_it(desk: Desk) -> None:
    """A claimed delivery cannot be discarded by a settlement."""
    seq = await desk.record("1", ("s|1",))
    await desk.claim()
    with pytest.raises(ForbiddenMoveError):
        await desk.journal.settle(settlement(seq, State.DISCARDED))
    assert await desk.deliver(seq) == 0


async def test_a_bad_settlement_leaves_its_neighbours_and_itself_as_they_were(desk: Desk) -> None:
    """One that names an attempt nobody announced spoils the transaction, not the others in it."""
    seqs = [await desk.record(str(number), (f"s|{number}",)) for number in range(3)]
    await desk.claim()
    settlements = [settlement(seq, outcomes=(RequestOutcome(7, 200, (), "", 1.0),) if seq == 2 else ()) for seq in seqs]
    results = await desk.together([desk.journal.settle(one) for one in settlements], errors=True)
    assert [type(result) for result in results] == [int, UnknownEntryError, int]
    assert await desk.deliver(seqs[1]) == 0


async def test_a_held_entry_holds_its_lane_unless_told_otherwise(desk: Desk) -> None:
    """`on_held: continue` lets the others flow past."""
    first = await desk.record("1", ("s|1",))
    second = await desk.record("2", ("s|1",))
    third = await desk.record("3", ("s|1",))
    await desk.claim()
    await desk.journal.settle(settlement(first, State.HELD, reason="refused", keep_lane=False))
    assert await desk.claimed() == [second]
    await desk.journal.settle(settlement(second, State.HELD, reason="would-merge"))
    assert await desk.claimed() == []
    assert await desk.discard(second, "test", "me") == 1
    assert await desk.claimed() == [third]


async def test_what_was_seen_of_a_destination_is_remembered(opened: Opener) -> None:
    """Identities, ownership and merges outlive the process; the latest word counts."""
    async with opened() as desk:
        seq = await desk.record("1", ("s|1",))
        await desk.claim()
        await desk.journal.settle(
            settlement(
                seq,
                known=(KnownIdentity("d", "s", "1", "p1"), KnownIdentity("d", "s", "0", "p0", "merged-away", "p1")),
                owned=(Ownership("d", "Patient/p1", "ADT|RVB", {"PID-5": ("x", "y")}),),
                merges=(MergeSeen("d", "s|0", "s|1", seq), MergeSeen("d", "s|1", "s|2", seq)),
            )
        )
    async with opened() as desk:
        journal = desk.journal
        known = await desk.remembered(memory.known, "d", [("s", "1"), ("s", "0"), ("s", "none")])
        assert {key: one.logical_id for key, one in known.items()} == {("s", "1"): "p1", ("s", "0"): "p0"}
        assert known["s", "0"].survivor == "p1"
        assert await desk.remembered(memory.known, "e", [("s", "1")]) == {}
        asked = [("d", "p0"), ("d", "p1"), ("d", "none"), ("e", "p0")]
        told = await journal.read(lambda connection: [memory.survivor(connection, *one) for one in asked])
        assert told == ["p1", "", "", ""]
        assert await desk.remembered(memory.owned, "d", "Patient/p1", "ADT|RVB") == {"PID-5": ("x", "y")}
        assert await desk.remembered(memory.owned, "d", "Patient/p1", "LAB|RVB") == {}
        assert await desk.remembered(memory.merged, "d", "s|0", "s|1")
        assert not await desk.remembered(memory.merged, "d", "s|1", "s|0")
        for source, survivors, leads in (
            ("s|0", ["s|1"], True),
            ("s|0", ["s|9", "s|2"], True),
            ("s|2", ["s|0", "s|1"], False),
            ("s|0", ["s|0"], False),
            ("s|0", [], False),
        ):
            assert await desk.remembered(memory.leads, "d", source, survivors) is leads
        assert not await desk.remembered(memory.leads, "e", "s|0", ["s|1"])


async def test_lists_of_a_merged_record_are_those_of_its_survivor(desk: Desk) -> None:
    """What any source listed within the one record is listed within the other, beside what was listed there."""
    listed = {
        ("Patient/p0 Condition DG1", "REG|RVB"): {"s|a": ("1",), "s|b": ("2",)},
        ("Patient/p0 Condition DG1", "LAB|RVB"): {"s|c": ("3",)},
        ("Patient/p1 Condition DG1", "REG|RVB"): {"s|d": ("4",)},
        ("Patient/p0", "REG|RVB"): {"PID-5": ("x",)},
        ("Patient/p00 Condition DG1", "REG|RVB"): {"s|e": ("5",)},
    }
    seq = await desk.record("1", ("s|1",))
    await desk.claim()
    owned = tuple(Ownership("d", resource, source, slices) for (resource, source), slices in listed.items())
    await desk.journal.settle(settlement(seq, owned=owned))
    for number in ("2", "3"):
        seq = await desk.record(number, ("s|1",))
        await desk.claim()
        await desk.journal.settle(settlement(seq, inherited=(("Patient/p0", "Patient/p1"),)))
    both = {"s|a": ("1",), "s|b": ("2",), "s|d": ("4",)}
    assert await desk.remembered(memory.owned, "d", "Patient/p1 Condition DG1", "REG|RVB") == both
    assert await desk.remembered(memory.owned, "d", "Patient/p1 Condition DG1", "LAB|RVB") == {"s|c": ("3",)}
    assert await desk.remembered(memory.owned, "d", "Patient/p0 Condition DG1", "REG|RVB") == {}
    assert await desk.remembered(memory.owned, "d", "Patient/p0", "REG|RVB") == {"PID-5": ("x",)}
    assert await desk.remembered(memory.owned, "d", "Patient/p00 Condition DG1", "REG|RVB") == {"s|e": ("5",)}


async def test_the_newest_event_time_never_goes_back(desk: Desk) -> None:
    """An older event that is applied later leaves the watermark where it was."""
    for number, hours in enumerate((5, 2)):
        seq = await desk.record(str(number), ("s|1",))
        claimed = (await desk.claim())[0]
        await desk.journal.settle(settlement(seq, applied_at=NOW + timedelta(hours=hours), source="A|B"))
    assert await desk.last_applied("d", claimed.lanes, "A|B") == NOW + timedelta(hours=5)


async def test_a_shadow_delivery_ends_filtered_and_frees_its_lane(desk: Desk) -> None:
    """What is behind it goes on at once; a replay is another matter."""
    first = await desk.record("1", ("s|1",))
    second = await desk.record("2", ("s|1",))
    await desk.claim()
    await desk.journal.settle(settlement(first, State.FILTERED, reason="shadow"))
    assert await desk.claimed() == [second]


ASKED = "http://127.0.0.1/Patient?identifier=https%3A%2F%2Fmrn.example%7C4711"


async def test_what_a_url_asks_by_is_shown_and_no_part_of_what_is_kept_of_the_url(desk: Desk) -> None:
    """A failed search names a patient: it stands beside the URL, where bodies do, and is told with it."""
    seq = await desk.record("1", ("s|1",))
    await desk.claim()
    await desk.journal.intend(seq, "d", replace(intent(), url=ASKED))
    kept = await desk.journal.read(lambda connection: connection.execute("SELECT url, query FROM attempt").fetchone())
    assert kept == ("http://127.0.0.1/Patient", b"identifier=https%3A%2F%2Fmrn.example%7C4711")
    with Reader(desk.folder) as reader:
        assert reader.show(seq).deliveries[0].attempts[0].intent.url == ASKED


async def test_an_answer_that_comes_after_the_end_has_a_number_of_its_own(desk: Desk) -> None:
    """Before the settlement, after it, and while the delivery is replayed: nothing that is written later meets it."""
    seq = await desk.record("1", ("s|1",))

    async def hear() -> bool:
        request = HttpRequest(0, "ACK", "", (), b"", NOW)
        outcome = RequestOutcome(0, 500, ("AE",), "", 0.0, b"MSA|AE|1", request)
        return await desk.journal.act(lambda context: context.settling.add_answer(seq, "d", outcome, NOW))

    async def send() -> None:
        (claim,) = await desk.claim()
        assert await hear()
        request = HttpRequest(claim.attempts_made + 1, "MLLP", "", (), b"", NOW)
        outcome = RequestOutcome(request.number, 202, ("CA",), "", 1.0, b"MSA|CA|1", request)
        await desk.journal.settle(settlement(seq, outcomes=(outcome,)))
        assert await hear()

    await send()
    await desk.replay(seq)
    await send()
    methods = await desk.journal.read(
        lambda connection: connection.execute("SELECT number, method FROM attempt ORDER BY number").fetchall()
    )
    assert [tuple(row) for row in methods] == [
        (1, "MLLP"), (2, "ACK"), (3, "ACK"), (4, "MLLP"), (5, "ACK"), (6, "ACK"),
    ]  # fmt: skip

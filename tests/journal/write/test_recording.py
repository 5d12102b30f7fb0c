"""Recording: numbers, duplicates, flags, and what is stored."""

from typing import Any

import pytest

from engine.journal.entry import AckOutcome, State
from engine.journal.read.reading import Reader
from tests.journal.desk import Desk, Opener, settlement


async def test_the_exact_bytes_are_stored(desk: Desk) -> None:
    """What came in is kept byte for byte, whatever it is."""
    raw = bytes(range(256)) * 8
    seq = await desk.record("1", ("s|1",), raw=raw)
    with Reader(desk.folder) as reader:
        view = reader.show(seq)
    assert view.raw == raw
    assert view.sound


async def test_the_same_message_again_gets_the_stored_acknowledgement(desk: Desk) -> None:
    """Same source, control id and bytes: no second entry, the receipt is counted on the first."""
    first = await desk.journal.record(desk.entry("1", ("s|1",)))
    again = await desk.journal.record(desk.entry("1", ("s|1",), acknowledgement=b"another", ack_code="AE"))
    assert (again.duplicate, again.seq, again.acknowledgement, again.ack_code) == (
        True, first.seq, b"MSA|AA|1", "AA",
    )  # fmt: skip
    with Reader(desk.folder) as reader:
        assert [row.receipts for row in reader.list(desk.everything)] == [2]


async def test_the_same_message_twice_in_one_transaction_is_one_entry(desk: Desk) -> None:
    """A sender that pipelines its resend is recognised too."""
    one, two = await desk.together([desk.journal.record(desk.entry("1", ("s|1",))) for _ in range(2)])
    assert (one.duplicate, two.duplicate, one.seq) == (False, True, two.seq)
    assert two.acknowledgement == b"MSA|AA|1"


async def test_other_bytes_under_the_same_control_id_are_a_new_entry(desk: Desk) -> None:
    """Control ids wrap; the bytes decide, and the entry is flagged."""
    await desk.record("1", ("s|1",))
    other = await desk.journal.record(desk.entry("1", ("s|1",), raw=b"MSH|other"))
    assert not other.duplicate
    assert other.flags == ("control-id-reused",)


async def test_another_source_may_use_the_same_control_id(desk: Desk) -> None:
    """A control id belongs to its source."""
    await desk.record("1", ("s|1",))
    other = await desk.journal.record(desk.entry("1", ("s|1",), source="LAB|RVB"))
    assert (other.duplicate, other.flags) == (False, ())


@pytest.mark.parametrize("together", [True, False], ids=["in one transaction", "one after the other"])
@pytest.mark.parametrize(
    ("other", "flags"),
    [
        pytest.param({"raw": b"MSH|other"}, ("control-id-reused",), id="other bytes"),
        pytest.param({"source": "LAB|RVB"}, (), id="another source"),
        pytest.param({"channel": "shadow"}, (), id="another channel"),
        pytest.param({"channel": "shadow", "raw": b"MSH|other"}, (), id="other bytes on another channel"),
        pytest.param({"channel": "shadow", "destinations": ("e",)}, (), id="another channel and destination"),
    ],
)
async def test_a_control_id_alone_makes_no_duplicate(
    desk: Desk, other: dict[str, Any], flags: tuple[str, ...], together: bool
) -> None:
    """Channel, source and bytes count beside it; each of the two is known again afterwards, by itself."""
    given: tuple[dict[str, Any], ...] = ({}, other)
    calls = [desk.journal.record(desk.entry("1", ("s|1",), **one)) for one in given]
    first, second = await desk.together(calls) if together else [await call for call in calls]
    assert (first.duplicate, second.duplicate) == (False, False)
    assert (first.flags, second.flags) == ((), flags)
    again = [await desk.journal.record(desk.entry("1", ("s|1",), **one)) for one in given]
    assert [(one.duplicate, one.seq) for one in again] == [(True, first.seq), (True, second.seq)]


async def test_a_message_without_a_control_id_is_never_a_duplicate(desk: Desk) -> None:
    """What cannot be told apart is kept each time."""
    seqs = {await desk.record("", state=State.REJECTED, raw=b"garbage") for _ in range(2)}
    assert len(seqs) == 2


@pytest.mark.parametrize("at_door", [True, False])
async def test_what_was_refused_first_is_judged_anew(desk: Desk, at_door: bool) -> None:
    """Once the channel is mended, the same bytes are a new entry."""
    if at_door:
        first = await desk.record("1", ("s|1",), state=State.REJECTED, reason="unsupported-event")
    else:
        first = await desk.record("1", ("s|1",))
        await desk.claim()
        await desk.journal.settle(settlement(first, State.REJECTED, reason="self-merge"))
    again = await desk.journal.record(desk.entry("1", ("s|1",)))
    assert not again.duplicate
    assert again.seq > first


async def test_what_was_discarded_first_is_judged_anew(desk: Desk) -> None:
    """An operator's discard does not swallow a message that is sent again."""
    first = await desk.record("1", ("s|1",))
    await desk.discard(first, "test", "me")
    assert not (await desk.journal.record(desk.entry("1", ("s|1",)))).duplicate


async def test_a_duplicate_tells_where_the_first_stands(desk: Desk) -> None:
    """A reply that is made anew needs the state of now."""
    first = await desk.record("1", ("s|1",))
    await desk.claim()
    await desk.deliver(first)
    assert (await desk.journal.record(desk.entry("1", ("s|1",)))).state is State.DELIVERED


async def test_duplicates_are_known_after_a_restart(opened: Opener) -> None:
    """The journal, not memory, recognises them; numbers go on."""
    async with opened() as desk:
        first = await desk.record("1", ("s|1",))
    async with opened() as desk:
        assert (await desk.journal.record(desk.entry("1", ("s|1",)))).duplicate
        assert await desk.record("2", ("s|1",)) > first


async def test_an_acknowledgement_outcome_is_stored_at_the_latest_with_the_close(opened: Opener) -> None:
    """It rides on the next commit, and changes nothing of the delivery."""
    async with opened() as desk:
        seq = await desk.record("1", ("s|1",))
        desk.journal.acknowledged(seq, AckOutcome.UNSENT)
    with Reader(desk.folder) as reader:
        row = reader.show(seq).row
    assert (row.ack_outcome, row.state) == (AckOutcome.UNSENT, State.RECEIVED)


async def test_a_received_entry_needs_a_destination(desk: Desk) -> None:
    """Nothing is accepted that nobody will ever carry out; its neighbours in the transaction are not harmed."""
    bad = desk.journal.record(desk.entry("1", ("s|1",), destinations=()))
    good = desk.journal.record(desk.entry("2", ("s|1",)))
    one, two = await desk.together([bad, good], errors=True)
    assert isinstance(one, ValueError)
    assert two.seq


async def test_a_value_that_cannot_be_stored_harms_nobody_else(desk: Desk) -> None:
    """A poison message is refused alone, and the journal goes on."""
    records = [desk.journal.record(desk.entry(str(n), ("s|1",), visit="\ud800" if n == 3 else "")) for n in range(6)]
    results = await desk.together(records, errors=True)
    assert [isinstance(result, Exception) for result in results] == [n == 3 for n in range(6)]
    assert not desk.failures
    assert await desk.claimed() == [results[0].seq]

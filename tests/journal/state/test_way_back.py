"""What each relay was last sent, and what the engine has written itself, as the journal keeps it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from engine.http.request import HttpRequest
from engine.journal.entry import OwnWrite, RequestOutcome, SentResource, Settlement, State
from engine.journal.state import way_back
from tests.journal.desk import NOW, Desk, entry

SENT = SentResource("Patient/7", "3", '{"content":"abc"}')
OWN = OwnWrite("record", "Patient/7", "4", "riverbend-adt")


def ended(seq: int, state: State = State.DELIVERED) -> Settlement:
    """Return how a delivery ended, with what is to be kept of it."""
    return Settlement(seq, "d", state, NOW, sent=SENT, own_writes=(OWN,))


async def claimed(desk: Desk) -> int:
    """Record an entry and claim it."""
    recorded = await desk.journal.record(entry("1"))
    await desk.journal.claim("d", 1, NOW)
    return recorded.seq


async def test_both_are_kept_with_the_settlement(desk: Desk) -> None:
    """The newest of a resource; a version for whom it was written first."""
    seq = await claimed(desk)
    await desk.journal.settle(ended(seq))
    sent = await desk.journal.read(lambda c: way_back.sent(c, "d", "Patient/7"))
    assert sent == SENT
    assert await desk.journal.read(lambda c: way_back.sent(c, "d", "Patient/8")) is None
    assert await desk.journal.read(lambda c: way_back.sent(c, "other", "Patient/7")) is None
    assert await desk.journal.read(lambda c: way_back.written(c, "record", "Patient/7", "4")) == "riverbend-adt"
    assert await desk.journal.read(lambda c: way_back.written(c, "record", "Patient/7", "5")) == ""
    assert await desk.journal.read(lambda c: way_back.first_event(c, "adt")) is not None
    assert await desk.journal.read(lambda c: way_back.first_event(c, "nobody")) is None


async def test_a_later_one_takes_the_place(desk: Desk) -> None:
    """Of what a relay was sent of a resource."""
    for version in ("3", "5"):
        seq = (await desk.journal.record(entry(version))).seq
        await desk.journal.claim("d", 1, NOW)
        await desk.journal.settle(replace(ended(seq), sent=replace(SENT, version=version)))
    sent = await desk.journal.read(lambda c: way_back.sent(c, "d", "Patient/7"))
    assert sent == replace(SENT, version="5")


async def test_what_was_written_long_ago_is_forgotten(desk: Desk) -> None:
    """After thirty days an event of it is taken for somebody else's; what a relay was sent stays."""
    await desk.journal.settle(ended(await claimed(desk)))
    assert await desk.journal.write(lambda c: way_back.forget(c, NOW + timedelta(days=29))) == 0
    assert await desk.journal.write(lambda c: way_back.forget(c, NOW + timedelta(days=31))) == 1
    assert await desk.journal.read(lambda c: way_back.written(c, "record", "Patient/7", "4")) == ""
    assert await desk.journal.read(lambda c: way_back.sent(c, "d", "Patient/7")) == SENT


@pytest.mark.parametrize("answered", [True, False])
async def test_the_message_that_was_made_is_found_again(desk: Desk, answered: bool) -> None:
    """By its attempt, the newest that has a body, whether its answer came or the engine was killed before."""
    seq = await claimed(desk)
    for number, body in ((1, b"MSH|first"), (2, b"MSH|second")):
        request = HttpRequest(number, "MLLP", "mllp://127.0.0.1:9", (), body, NOW)
        await desk.journal.intend(seq, "d", request)
    if answered:
        outcomes = tuple(RequestOutcome(number, 0, (), "ambiguous", 1.0) for number in (1, 2))
        again = Settlement(seq, "d", State.RECEIVED, NOW, retry_at=NOW, outcomes=outcomes)
        await desk.journal.settle(again)
    found = await desk.journal.look(lambda c: way_back.last_message(c.connection, c.sealing, seq, "d"))
    assert found == b"MSH|second"
    none = await desk.journal.look(lambda c: way_back.last_message(c.connection, c.sealing, seq, "other"))
    assert none == b""

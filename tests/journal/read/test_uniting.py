"""Possible duplicates and merges: what is closed by a merge, and what stays open."""

import pytest

from engine.journal.entry import KnownIdentity, MergeSeen
from engine.journal.read.patients import merged_by
from tests.journal.desk import Desk

BESIDE = ("possible-duplicate", "created-beside Patient/2 Patient/1")


def gone(value: str, logical_id: str, survivor: str) -> KnownIdentity:
    """Return that a number's record was merged away."""
    return KnownIdentity("d", "s", value, logical_id, "merged-away", survivor)


async def entries(desk: Desk, *notes: tuple[str, ...]) -> None:
    """Deliver an entry for each of several lists of notes."""
    for number, each in enumerate(notes, 1):
        await desk.record(f"c{number}", (f"s|{number}",))
        await desk.claim()
        await desk.deliver(number, notes=each)


async def merge(desk: Desk, value: str, logical_id: str, survivor: str) -> int:
    """Deliver an entry that merges a record away; return its number."""
    seq = await desk.record(f"m{value}", (f"m|{value}",))
    await desk.claim()
    merges = (MergeSeen("d", f"s|{value}", "s|0", seq),)
    await desk.deliver(seq, merges=merges, known=(gone(value, logical_id, survivor),))
    return seq


@pytest.mark.parametrize(("away", "kept"), [("2", "1"), ("1", "2")])
async def test_a_merge_of_both_records_closes_it(desk: Desk, away: str, kept: str) -> None:
    """Either way round, with the entry of the merge; before it there is nothing."""
    await entries(desk, BESIDE)
    assert merged_by(desk.folder, [1]) == {}
    seq = await merge(desk, away, away, kept)
    assert merged_by(desk.folder, [1]) == {1: seq}


async def test_both_merged_into_a_third_are_one(desk: Desk) -> None:
    """Also by way of others; the merge that made them one counts, whichever came last."""
    await entries(desk, BESIDE)
    await merge(desk, "1", "1", "8")
    await merge(desk, "2", "2", "9")
    assert merged_by(desk.folder, [1]) == {}
    seq = await merge(desk, "9", "9", "8")
    await merge(desk, "8", "8", "7")
    assert merged_by(desk.folder, [1]) == {1: seq}


async def test_a_merge_with_somebody_else_closes_nothing(desk: Desk) -> None:
    """Each record absorbed others, and was merged into others: the two are still two people's."""
    await entries(desk, BESIDE)
    await merge(desk, "5", "5", "2")
    await merge(desk, "1", "1", "6")
    await merge(desk, "2", "2", "7")
    assert merged_by(desk.folder, [1]) == {}


async def test_all_pairs_of_an_entry_have_to_be_one(desk: Desk) -> None:
    """Two records were alike: it is open until both are merged; one that names no records stays open."""
    await entries(desk, (*BESIDE, "created-beside Patient/2 Patient/3"), ("possible-duplicate",))
    await merge(desk, "1", "1", "2")
    assert merged_by(desk.folder, [1, 2]) == {}
    seq = await merge(desk, "3", "3", "2")
    assert merged_by(desk.folder, [1, 2]) == {1: seq}


async def test_merges_of_another_destination_do_not_count(desk: Desk) -> None:
    """The same ids are other people's there."""
    await entries(desk, BESIDE)
    seq = await desk.record("m", ("m|1",))
    await desk.claim()
    known = KnownIdentity("e", "s", "1", "1", "merged-away", "2")
    await desk.deliver(seq, merges=(MergeSeen("e", "s|1", "s|2", seq),), known=(known,))
    assert merged_by(desk.folder, [1]) == {}


async def test_a_circle_ends(desk: Desk) -> None:
    """What the journal knows may run in a circle: it is read once."""
    await entries(desk, ("possible-duplicate", "created-beside Patient/4 Patient/1"))
    await merge(desk, "1", "1", "2")
    await merge(desk, "2", "2", "1")
    assert merged_by(desk.folder, [1]) == {}

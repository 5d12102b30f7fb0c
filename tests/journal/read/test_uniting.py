"""Pairs of possible duplicates: which there are, who is meant, what a merge closes, and what stays open."""

import pytest

from engine.journal.entry import KnownIdentity, MergeSeen
from engine.journal.read.duplicates import noted_pairs
from tests.journal.desk import Desk

BESIDE = ("possible-duplicate", "created-beside Patient/2 Patient/1")


def gone(value: str, logical_id: str, survivor: str) -> KnownIdentity:
    """Return that a number's record was merged away."""
    return KnownIdentity("d", "s", value, logical_id, "merged-away", survivor)


def settled_by(desk: Desk, *entries: int) -> dict[int, int]:
    """Return the entry that settled the pairs of each entry whose pairs are all settled."""
    found = {entry: [one.settled for one in pairs] for entry, pairs in noted_pairs(desk.folder, entries).items()}
    return {entry: max(one.entry for one in each if one) for entry, each in found.items() if all(each)}


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
    assert settled_by(desk, 1) == {}
    seq = await merge(desk, away, away, kept)
    assert settled_by(desk, 1) == {1: seq}


async def test_both_merged_into_a_third_are_one(desk: Desk) -> None:
    """Also by way of others; the merge that made them one counts, whichever came last."""
    await entries(desk, BESIDE)
    await merge(desk, "1", "1", "8")
    await merge(desk, "2", "2", "9")
    assert settled_by(desk, 1) == {}
    seq = await merge(desk, "9", "9", "8")
    await merge(desk, "8", "8", "7")
    assert settled_by(desk, 1) == {1: seq}


async def test_a_merge_with_somebody_else_closes_nothing(desk: Desk) -> None:
    """Each record absorbed others, and was merged into others: the two are still two people's."""
    await entries(desk, BESIDE)
    await merge(desk, "5", "5", "2")
    await merge(desk, "1", "1", "6")
    await merge(desk, "2", "2", "7")
    assert settled_by(desk, 1) == {}


async def test_all_pairs_of_an_entry_have_to_be_one(desk: Desk) -> None:
    """Two records were alike: it is open until both are merged; one that names no records stays open."""
    await entries(desk, (*BESIDE, "created-beside Patient/2 Patient/3"), ("possible-duplicate",))
    await merge(desk, "1", "1", "2")
    assert settled_by(desk, 1, 2) == {}
    seq = await merge(desk, "3", "3", "2")
    assert settled_by(desk, 1, 2) == {1: seq}


async def test_merges_of_another_destination_do_not_count(desk: Desk) -> None:
    """The same ids are other people's there."""
    await entries(desk, BESIDE)
    seq = await desk.record("m", ("m|1",))
    await desk.claim()
    known = KnownIdentity("e", "s", "1", "1", "merged-away", "2")
    await desk.deliver(seq, merges=(MergeSeen("e", "s|1", "s|2", seq),), known=(known,))
    assert settled_by(desk, 1) == {}


async def test_a_circle_ends(desk: Desk) -> None:
    """What the journal knows may run in a circle: it is read once."""
    await entries(desk, ("possible-duplicate", "created-beside Patient/4 Patient/1"))
    await merge(desk, "1", "1", "2")
    await merge(desk, "2", "2", "1")
    assert settled_by(desk, 1) == {}


async def test_a_pair_is_one_whichever_message_noted_it(desk: Desk) -> None:
    """Two entries noted it, each the other way round: both name both, the newest first, with its number there."""
    other = ("possible-duplicate", "created-beside Patient/9 Patient/8", "created-beside Patient/1 Patient/2")
    await entries(desk, BESIDE, other, ("possible-duplicate",))
    found = noted_pairs(desk.folder, [1, 2, 3, 4])
    assert [[one.noted for one in found[entry]] for entry in (1, 2, 3)] == [
        [((2, 2), (1, 1))],
        [((2, 1),), ((2, 2), (1, 1))],
        [((3, 1),)],
    ]
    (unnamed,) = found[3]
    assert [(place.this, place.that) for place in unnamed.places] == [("", "")]
    assert 4 not in found


async def test_each_side_is_an_entry_about_its_patient(desk: Desk) -> None:
    """The newest that has the record's number first; a merge that names it second is about somebody else."""
    await desk.record("a", ("s|1",))
    await desk.record("b", ("s|2",))
    for seq, record in ((1, "1"), (2, "2")):
        await desk.claim()
        known = (KnownIdentity("d", "s", record, record, "current", ""),)
        await desk.deliver(seq, known=known, notes=BESIDE if seq == 2 else ())
    await desk.record("c", ("s|2", "s|1"))
    (pair,) = noted_pairs(desk.folder, [2])[2]
    assert (pair.this, pair.that) == (3, 1)


async def test_two_destinations_that_know_both_by_the_same_numbers_have_one_pair(desk: Desk) -> None:
    """One pair with two places; it is settled once it is at both."""
    known = {
        place: tuple(KnownIdentity(place, "s", value, f"{place}{value}", "current", "") for value in ("1", "2"))
        for place in ("d", "e")
    }
    await desk.record("a", ("s|1",), destinations=("d", "e"))
    await desk.record("b", ("s|2",), destinations=("d", "e"))
    for place in ("d", "e"):
        assert await desk.claimed(destination=place) == [1, 2]
        for seq in (1, 2):
            notes = ("possible-duplicate", f"created-beside Patient/{place}2 Patient/{place}1") if seq == 2 else ()
            await desk.deliver(seq, destination=place, known=known[place], notes=notes)
    (pair,) = noted_pairs(desk.folder, [2])[2]
    assert [(place.destination, place.this, place.that) for place in pair.places] == [
        ("d", "d2", "d1"),
        ("e", "e2", "e1"),
    ]
    for place, is_settled in (("d", False), ("e", True)):
        seq = await desk.record(f"m{place}", (f"m|{place}",), destinations=(place,))
        assert seq in await desk.claimed(destination=place)
        away = KnownIdentity(place, "s", "2", f"{place}2", "merged-away", f"{place}1")
        merges = (MergeSeen(place, "s|2", "s|1", seq),)
        await desk.deliver(seq, destination=place, merges=merges, known=(away,))
        (pair,) = noted_pairs(desk.folder, [2])[2]
        assert (pair.settled is not None) is is_settled

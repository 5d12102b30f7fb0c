"""Whose trouble a failure is: an entry that fails while others succeed is held in the end; an outage holds nobody."""

import random

import pytest

from engine.deliver.pace.suspicion import MOST_COUNTED, Blame, Suspicion

TRIES, SECONDS = 8, 300.0
POISON, OTHER = 1, 2


def failures(suspicion: Suspicion, entry: int, times: list[float]) -> list[Blame]:
    """Return whose trouble each of an entry's failures is."""
    return [suspicion.failed(entry, at) for at in times]


def test_an_entry_that_fails_while_others_succeed_is_proven() -> None:
    """Eight failures over five minutes, one success of another that began after the first of them."""
    suspicion = Suspicion(TRIES, SECONDS)
    assert suspicion.failed(POISON, 0) is Blame.UNKNOWN
    suspicion.succeeded(OTHER, begun=1, now=2)
    found = failures(suspicion, POISON, [40.0 * number for number in range(1, 9)])
    assert found == [Blame.ENTRY] * 7 + [Blame.PROVEN]


@pytest.mark.parametrize(
    ("tries", "times"), [(TRIES, [float(at) for at in range(1, 200)]), (0, [60.0 * at for at in range(1, 200)])]
)
def test_neither_often_alone_nor_long_alone_is_enough(tries: int, times: list[float]) -> None:
    """Many failures within minutes prove nothing, and 0 tries never do."""
    suspicion = Suspicion(tries, SECONDS)
    suspicion.failed(POISON, 0)
    suspicion.succeeded(OTHER, begun=0.5, now=0.6)
    assert set(failures(suspicion, POISON, times)) == {Blame.ENTRY}


def test_what_was_under_way_when_it_failed_proves_nothing() -> None:
    """A success that began before the failure may be the last one before an outage."""
    suspicion = Suspicion(TRIES, SECONDS)
    suspicion.failed(POISON, 10)
    suspicion.succeeded(OTHER, begun=9, now=11)
    assert set(failures(suspicion, POISON, [60.0 * at for at in range(1, 100)])) == {Blame.UNKNOWN}


def test_an_entry_that_fails_once_more_after_an_outage_is_not_proven() -> None:
    """What failed for an hour with everybody begins to count when others succeed again."""
    suspicion = Suspicion(TRIES, SECONDS)
    failures(suspicion, POISON, [60.0 * at for at in range(60)])
    suspicion.succeeded(OTHER, begun=3600, now=3601)
    found = failures(suspicion, POISON, [3602.0 + 50 * at for at in range(8)])
    assert found == [Blame.ENTRY] * 6 + [Blame.PROVEN, Blame.UNKNOWN]


def test_two_poisons_do_not_vouch_for_one_another() -> None:
    """Each has failed before and after a success of others: neither makes the other's failures an outage."""
    suspicion = Suspicion(TRIES, SECONDS)
    failures(suspicion, POISON, [0, 1])
    failures(suspicion, OTHER, [2, 3])
    suspicion.succeeded(3, begun=4, now=5)
    found = [(suspicion.failed(POISON, at), suspicion.failed(OTHER, at + 1)) for at in range(10, 500, 50)]
    assert found.count((Blame.PROVEN, Blame.PROVEN)) == 1


def test_a_new_failure_of_anybody_else_begins_the_count_anew() -> None:
    """An entry without suspicion that fails may be the first to tell of an outage."""
    suspicion = Suspicion(TRIES, SECONDS)
    suspicion.failed(POISON, 0)
    suspicion.succeeded(OTHER, begun=1, now=2)
    assert set(failures(suspicion, POISON, [40.0, 80.0, 120.0])) == {Blame.ENTRY}
    suspicion.failed(OTHER, 130)
    assert set(failures(suspicion, POISON, [40.0 * at for at in range(4, 60)])) == {Blame.UNKNOWN}


@pytest.mark.parametrize("seed", range(20))
def test_an_outage_of_an_hour_holds_nobody(seed: int) -> None:
    """Whatever succeeded before and after, and however often entries are tried, failures of all prove nobody."""
    draw = random.Random(seed)
    suspicion = Suspicion(2, 0)
    now = 0.0
    for entry in range(100, 160):
        suspicion.succeeded(entry, begun=now, now=now + 0.1)
        now += draw.random()
    down = list(range(draw.randint(2, 40)))
    for entry in down:
        suspicion.failed(entry, now)
    while now < 3600:
        now += draw.random() * 10
        assert suspicion.failed(draw.choice(down), now) is Blame.UNKNOWN
    for entry in down:
        suspicion.succeeded(entry, begun=now, now=now + 0.1)
    assert suspicion.down_since is None


def test_since_when_a_destination_is_down() -> None:
    """From the first failure that may be its own until it answers anybody; a suspect's failures are not its own."""
    suspicion = Suspicion(TRIES, SECONDS)
    suspicion.failed(POISON, 5)
    suspicion.failed(OTHER, 9)
    assert suspicion.down_since == 5
    suspicion.succeeded(OTHER, begun=10, now=11)
    assert suspicion.down_since is None
    suspicion.failed(POISON, 20)
    assert suspicion.down_since is None
    suspicion.down(30)
    assert suspicion.down_since == 30


def test_what_is_remembered_is_bounded() -> None:
    """An outage of more entries than are kept forgets the oldest."""
    suspicion = Suspicion(TRIES, SECONDS)
    for entry in range(MOST_COUNTED + 5):
        suspicion.failed(entry, 0)
    suspicion.succeeded(-1, begun=1, now=2)
    assert suspicion.failed(0, 3) is Blame.UNKNOWN

"""Whose trouble a failure is: an entry that fails while others succeed is held in the end; an outage holds nobody."""

import random

import pytest

from engine.deliver.throttling import MOST_COUNTED, FailureAttribution, PoisonDetector

TRIES, SECONDS = 8, 300.0
POISON, OTHER = 1, 2


def failures(detector: PoisonDetector, entry: int, times: list[float]) -> list[FailureAttribution]:
    """Return whose trouble each of an entry's failures is."""
    return [detector.failed(entry, at) for at in times]


def test_an_entry_that_fails_while_others_succeed_is_proven() -> None:
    """Eight failures over five minutes, one success of another that began after the first of them."""
    detector = PoisonDetector(TRIES, SECONDS)
    assert detector.failed(POISON, 0) is FailureAttribution.UNKNOWN
    detector.succeeded(OTHER, begun=1, now=2)
    found = failures(detector, POISON, [40.0 * number for number in range(1, 9)])
    assert found == [FailureAttribution.ENTRY] * 7 + [FailureAttribution.PROVEN]


@pytest.mark.parametrize(
    ("tries", "times"), [(TRIES, [float(at) for at in range(1, 200)]), (0, [60.0 * at for at in range(1, 200)])]
)
def test_neither_often_alone_nor_long_alone_is_enough(tries: int, times: list[float]) -> None:
    """Many failures within minutes prove nothing, and 0 tries never do."""
    detector = PoisonDetector(tries, SECONDS)
    detector.failed(POISON, 0)
    detector.succeeded(OTHER, begun=0.5, now=0.6)
    assert set(failures(detector, POISON, times)) == {FailureAttribution.ENTRY}


def test_what_was_under_way_when_it_failed_proves_nothing() -> None:
    """A success that began before the failure may be the last one before an outage."""
    detector = PoisonDetector(TRIES, SECONDS)
    detector.failed(POISON, 10)
    detector.succeeded(OTHER, begun=9, now=11)
    assert set(failures(detector, POISON, [60.0 * at for at in range(1, 100)])) == {FailureAttribution.UNKNOWN}


def test_an_entry_that_fails_once_more_after_an_outage_is_not_proven() -> None:
    """What failed for an hour with everybody begins to count when others succeed again."""
    detector = PoisonDetector(TRIES, SECONDS)
    failures(detector, POISON, [60.0 * at for at in range(60)])
    detector.succeeded(OTHER, begun=3600, now=3601)
    found = failures(detector, POISON, [3602.0 + 50 * at for at in range(8)])
    assert found == [FailureAttribution.ENTRY] * 6 + [FailureAttribution.PROVEN, FailureAttribution.UNKNOWN]


def test_two_poisons_do_not_vouch_for_one_another() -> None:
    """Each has failed before and after a success of others: neither makes the other's failures an outage."""
    detector = PoisonDetector(TRIES, SECONDS)
    failures(detector, POISON, [0, 1])
    failures(detector, OTHER, [2, 3])
    detector.succeeded(3, begun=4, now=5)
    found = [(detector.failed(POISON, at), detector.failed(OTHER, at + 1)) for at in range(10, 500, 50)]
    assert found.count((FailureAttribution.PROVEN, FailureAttribution.PROVEN)) == 1


def test_a_new_failure_of_anybody_else_begins_the_count_anew() -> None:
    """An entry without suspicion that fails may be the first to tell of an outage."""
    detector = PoisonDetector(TRIES, SECONDS)
    detector.failed(POISON, 0)
    detector.succeeded(OTHER, begun=1, now=2)
    assert set(failures(detector, POISON, [40.0, 80.0, 120.0])) == {FailureAttribution.ENTRY}
    detector.failed(OTHER, 130)
    assert set(failures(detector, POISON, [40.0 * at for at in range(4, 60)])) == {FailureAttribution.UNKNOWN}


@pytest.mark.parametrize("seed", range(20))
def test_an_outage_of_an_hour_holds_nobody(seed: int) -> None:
    """Whatever succeeded before and after, and however often entries are tried, failures of all prove nobody."""
    draw = random.Random(seed)
    detector = PoisonDetector(2, 0)
    now = 0.0
    for entry in range(100, 160):
        detector.succeeded(entry, begun=now, now=now + 0.1)
        now += draw.random()
    down = list(range(draw.randint(2, 40)))
    for entry in down:
        detector.failed(entry, now)
    while now < 3600:
        now += draw.random() * 10
        assert detector.failed(draw.choice(down), now) is FailureAttribution.UNKNOWN
    for entry in down:
        detector.succeeded(entry, begun=now, now=now + 0.1)
    assert detector.down_since is None


def test_since_when_a_destination_is_down() -> None:
    """From the first failure that may be its own until it answers anybody; a suspect's failures are not its own."""
    detector = PoisonDetector(TRIES, SECONDS)
    detector.failed(POISON, 5)
    detector.failed(OTHER, 9)
    assert detector.down_since == 5
    detector.succeeded(OTHER, begun=10, now=11)
    assert detector.down_since is None
    detector.failed(POISON, 20)
    assert detector.down_since is None
    detector.down(30)
    assert detector.down_since == 30


def test_what_is_remembered_is_bounded() -> None:
    """An outage of more entries than are kept forgets the oldest."""
    detector = PoisonDetector(TRIES, SECONDS)
    for entry in range(MOST_COUNTED + 5):
        detector.failed(entry, 0)
    detector.succeeded(-1, begun=1, now=2)
    assert detector.failed(0, 3) is FailureAttribution.UNKNOWN

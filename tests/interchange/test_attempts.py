"""Wrong passwords are counted for user and address, for a while, in a bounded memory."""

from datetime import UTC, datetime, timedelta

import pytest

from engine.interchange.tokens.oauth.attempts import CAPACITY, Attempts, Limit

START = datetime(2026, 1, 1, tzinfo=UTC)


class Wall:
    """A clock that is put forward by hand."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> datetime:
        """Return the moment."""
        return self.at


@pytest.fixture
def wall() -> Wall:
    """A clock."""
    return Wall()


@pytest.fixture
def attempts(wall: Wall) -> Attempts:
    """Attempts that nobody has made yet."""
    return Attempts(wall)


def test_one_user_at_one_address(attempts: Attempts, wall: Wall) -> None:
    """Five attempts, then a quarter of an hour from the first one; the wait is told in whole seconds."""
    assert [attempts.begin("a", "1") for _ in range(5)] == [0] * 5
    wall.at += timedelta(seconds=10.5)
    assert attempts.begin("a", "1") == 890
    assert attempts.begin("b", "1") == 0
    assert attempts.begin("a", "2") == 0
    wall.at = START + timedelta(minutes=15)
    assert attempts.begin("a", "1") == 0


def test_one_address(attempts: Attempts) -> None:
    """Thirty attempts at whatever users."""
    assert [attempts.begin(f"user {number}", "1") for number in range(30)] == [0] * 30
    assert attempts.begin("another", "1") == 900
    assert attempts.begin("another", "2") == 0


def test_one_user(attempts: Attempts) -> None:
    """Fifty attempts from whatever addresses."""
    assert [attempts.begin("a", f"address {number}") for number in range(50)] == [0] * 50
    assert attempts.begin("a", "another") == 900


def test_what_is_right_does_not_count(attempts: Attempts) -> None:
    """A right password takes its own attempt back, forgives the wrong ones of its address, and no others."""
    for _ in range(200):
        assert attempts.begin("a", "1") == 0
        attempts.succeed("a", "1")
    for _ in range(4):
        attempts.begin("a", "1")
    assert attempts.begin("a", "1") == 0
    attempts.succeed("a", "1")
    assert [attempts.begin("a", "1") for _ in range(6)] == [0] * 5 + [900]
    assert [attempts.begin(f"user {number}", "1") for number in range(22)] == [0] * 21 + [900]


def test_memory_is_bounded(attempts: Attempts) -> None:
    """Whatever names are tried, no more than so many counts are kept."""
    for number in range(CAPACITY):
        attempts.begin(f"user {number}", f"address {number}")
    assert len(attempts._counts) == CAPACITY
    assert attempts.begin("last", "last") == 0
    assert [attempts.begin("last", "last") for _ in range(Limit.USER_AT_ADDRESS.value)][-1] > 0

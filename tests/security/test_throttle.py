"""The throttle: wrong log-ins wait longer and longer, right ones of others do not."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from engine.security.throttle import BOUNDS, CAPACITY, Counted, LogInThrottle
from tests.ops.access.gate import HERE


class Watch:
    """A throttle and the clock that it reads."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)
        self.throttle = LogInThrottle(lambda: self.now)

    def wrong(self, account: str = "ann", address: str = HERE) -> int:
        """Try in vain; return the seconds to wait, 0 where the attempt was taken."""
        wait = self.throttle.begin(account, address)
        return wait.seconds if wait else 0


def test_after_five_wrong_ones_the_wait_doubles_up_to_a_quarter_of_an_hour() -> None:
    """Each attempt that is taken makes the next one wait twice as long; nobody waits longer than the bound."""
    watch = Watch()
    assert [watch.wrong() for _ in range(5)] == [0] * 5
    waits = []
    for _ in range(9):
        waits.append(watch.wrong())
        watch.now += timedelta(seconds=waits[-1])
        assert watch.wrong() == 0
    assert waits == [15, 30, 60, 120, 240, 480, 900, 900, 900]


def test_five_a_minute_at_most_go_on_for_long() -> None:
    """In an hour of trying without a break one address gets few attempts at one account."""
    watch, taken = Watch(), 0
    for _ in range(3600):
        taken += watch.wrong() == 0
        watch.now += timedelta(seconds=1)
    assert taken < 20


def test_a_stranger_does_not_lock_the_owner_out() -> None:
    """From another address the owner is let try; from one where the account was opened before, under any attack."""
    watch = Watch()
    watch.throttle.begin("ann", HERE)
    watch.throttle.succeed("ann", HERE)
    for number in range(200):
        watch.wrong(address=f"198.51.100.{number % 100}")
    assert watch.wrong(address="203.0.113.9") > 0
    assert watch.wrong(address="203.0.113.9") <= 60
    assert watch.wrong(address=HERE) == 0


def test_one_address_cannot_try_many_accounts() -> None:
    """Thirty wrong names are free; then all names wait."""
    watch = Watch()
    assert [watch.wrong(f"name{number}") for number in range(30)] == [0] * 30
    assert watch.wrong("another") == 15
    assert watch.wrong("another", "203.0.113.9") == 0


def test_what_was_right_is_forgiven() -> None:
    """After a success the account has all its attempts again; what others failed at the address stays."""
    watch = Watch()
    for _ in range(3):
        assert [watch.wrong() for _ in range(4)] == [0] * 4
        watch.throttle.begin("ann", HERE)
        watch.throttle.succeed("ann", HERE)


def test_only_the_first_that_waits_is_worth_a_record() -> None:
    """A flood of attempts does not become a flood of rows."""
    watch = Watch()
    for _ in range(5):
        watch.wrong()
    waits = [watch.throttle.begin("ann", HERE) for _ in range(4)]
    assert [wait.first for wait in waits if wait] == [True, False, False, False]


def test_its_memory_is_bounded() -> None:
    """However many names and addresses are tried, the latest counts stay and no more."""
    watch = Watch()
    for number in range(CAPACITY):
        watch.wrong(f"n{number}", f"a{number}")
        watch.throttle.succeed(f"m{number}", f"b{number}")
    assert len(watch.throttle._counts) <= CAPACITY
    assert len(watch.throttle._homes) <= CAPACITY


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 100), st.booleans())))
def test_whatever_happens_the_waits_keep_their_bounds(steps: list[tuple[str, str, int, bool]]) -> None:
    """No order of attempts, successes and pauses makes anybody wait longer than the bound, or for ever."""
    watch = Watch()
    longest = max(bound.longest for bound in BOUNDS.values())
    for account, address, seconds, right in steps:
        watch.now += timedelta(seconds=seconds)
        wait = watch.throttle.begin(account, address)
        if wait:
            assert timedelta(seconds=1) <= timedelta(seconds=wait.seconds) <= longest
        elif right:
            watch.throttle.succeed(account, address)
            assert not any(
                key[0] is Counted.ACCOUNT_AT_ADDRESS and count.number == 0
                for key, count in watch.throttle._counts.items()
            )
    watch.now += longest
    assert watch.throttle.begin("a", "x") is None

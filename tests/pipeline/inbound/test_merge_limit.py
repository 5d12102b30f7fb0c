"""The brake on merges counts in event time, with a ceiling in real time."""

from datetime import UTC, datetime, timedelta

import pytest

from engine.config.channel import Channel
from engine.pipeline.inbound.merge_limit import CEILING, MergeCounter, MergeRateLimiter
from tests.journal.desk import Desk, Opener

START = datetime(2025, 7, 1, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def test_too_many_in_one_window_of_event_time() -> None:
    """The merge after the last allowed one within the window is refused, for that source alone."""
    limit = MergeCounter(3, 10 * MINUTE)
    assert [limit.admit("A|B", START + MINUTE * n, START) for n in range(4)] == [True, True, True, False]
    assert limit.admit("C|D", START, START)


def test_a_backlog_does_not_trip_it() -> None:
    """Merges that happened hours apart are let through although they arrive within a second."""
    limit = MergeCounter(2, 10 * MINUTE)
    assert all(limit.admit("A|B", START + timedelta(hours=n), START) for n in range(10))


def test_the_ceiling_in_real_time_holds_whatever_the_events_say() -> None:
    """Ten times the limit in real time is the end, even with event times far apart."""
    limit = MergeCounter(2, 10 * MINUTE)
    admitted = [limit.admit("A|B", START + timedelta(days=n), START) for n in range(2 * CEILING + 1)]
    assert admitted == [True] * (2 * CEILING) + [False]
    assert limit.admit("A|B", START + timedelta(days=999), START + 11 * MINUTE)


def test_a_message_without_a_time_counts_as_now() -> None:
    """Without EVN-2 and MSH-7 the clock decides."""
    limit = MergeCounter(1, 10 * MINUTE)
    assert limit.admit("A|B", None, START)
    assert not limit.admit("A|B", None, START + MINUTE)
    assert limit.admit("A|B", None, START + 11 * MINUTE)


def test_what_is_used_is_counted_as_the_limit_counts() -> None:
    """Of the source nearest to its limit; a backlog of merges hours apart has used up next to nothing."""
    limit = MergeCounter(4, 10 * MINUTE)
    assert limit.used(START) == (0, 4)
    for number in range(3):
        limit.admit("A|B", START + MINUTE * number, START + MINUTE * number)
    limit.admit("C|D", START, START)
    assert limit.used(START + 3 * MINUTE) == (3, 4)
    assert limit.used(START + 11 * MINUTE) == (1, 4)  # two of them are too long ago to count against the next one
    assert limit.used(START + 30 * MINUTE) == (0, 4)
    backlog = MergeCounter(4, 10 * MINUTE)
    for number in range(8):
        backlog.admit("A|B", START - timedelta(hours=number), START)
    assert backlog.used(START) == (1, 4)
    for number in range(8, 39):
        backlog.admit("A|B", START - timedelta(hours=number), START)
    assert backlog.used(START) == (39, 4 * CEILING)


@pytest.fixture
def channel() -> Channel:
    """A channel that lets two merges of a source through in ten minutes."""
    destinations = [{"name": name, "base_url": f"http://127.0.0.1:9/{name}"} for name in ("one", "two")]
    limit = {"merges": 2, "minutes": 10}
    return Channel.model_validate(
        {"channel": "adt", "listen": {"mllp": {"port": 0}}, "destinations": destinations, "merge_limit": limit}
    )


async def test_an_entry_counts_once_whatever_destinations_it_has(desk: Desk, channel: Channel) -> None:
    """Each destination asks for itself; the second one asks in vain only where the first one did."""
    limiter = MergeRateLimiter(desk.journal)
    for seq in (1, 2, 3):
        asked = [await limiter.admits(channel, "A|B", START, seq, 1, START) for _destination in range(2)]
        assert asked == [seq < 3] * 2
    assert limiter.held["adt"].source == "A|B"


async def test_a_restart_forgets_neither_counts_nor_holds(opened: Opener, channel: Channel) -> None:
    """What was counted counts on; what was counted already is let through; what is held stays so until let go."""
    async with opened() as desk:
        assert await MergeRateLimiter(desk.journal).admits(channel, "A|B", START, 1, 2, START)
    async with opened() as desk:
        limiter = MergeRateLimiter(desk.journal)
        await limiter.open()
        assert await limiter.admits(channel, "A|B", START, 1, 2, START)
        assert not await limiter.admits(channel, "A|B", START + MINUTE, 2, 1, START)
    async with opened() as desk:
        limiter = MergeRateLimiter(desk.journal)
        await limiter.open()
        assert not await limiter.admits(channel, "C|D", START, 3, 1, START)
        assert await limiter.let("adt")
        assert await limiter.admits(channel, "A|B", START, 4, 2, START)


async def test_a_message_of_more_merges_than_the_limit_goes_once_a_person_says_so(desk: Desk, channel: Channel) -> None:
    """It would be one too many however often it comes; what is let go is the one that was stopped, and not the next."""
    limiter = MergeRateLimiter(desk.journal)
    assert not await limiter.admits(channel, "A|B", START, 1, 3, START)
    assert await limiter.let("adt")
    assert await limiter.admits(channel, "A|B", START, 1, 3, START)
    assert not await limiter.admits(channel, "A|B", START, 2, 1, START)
    assert await limiter.let("adt")
    assert await limiter.admits(channel, "A|B", START, 2, 1, START)


async def test_a_changed_limit_counts_what_was_counted(desk: Desk, channel: Channel) -> None:
    """A reload that raises the limit lets more through, not everything anew."""
    limiter = MergeRateLimiter(desk.journal)
    assert await limiter.admits(channel, "A|B", START, 1, 2, START)
    wider = channel.model_copy(update={"merge_limit": channel.merge_limit.model_copy(update={"merges": 3})})
    assert await limiter.admits(wider, "A|B", START, 2, 1, START)
    assert not await limiter.admits(wider, "A|B", START, 3, 1, START)

"""Requests a second: the token bucket as a pure value, and the turns of those who wait."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config.http_client import Rate
from engine.deliver.throttling import TokenBucket
from engine.deliver.verdict import Failure, VerdictKind
from engine.deliver.wire.failure import class_of
from engine.deliver.wire.rate import RateLimiter
from engine.errors import DeliveryError
from engine.fhir.plan import Upsert


@given(
    rate=st.floats(0.01, 1000),
    burst=st.integers(1, 50),
    steps=st.lists(st.floats(0, 10), min_size=1, max_size=150),
)
def test_no_window_has_more_than_burst_and_rate(rate, burst, steps):
    """However they come: between any two moments at most `burst + rate * t` are let through."""
    bucket, now, taken = TokenBucket(rate, burst), 0.0, []
    for step in steps:
        now += step
        if bucket.take(now):
            taken.append(now)
    for first, begun in enumerate(taken):
        for last in range(first, len(taken)):
            assert last - first + 1 <= burst + rate * (taken[last] - begun) + 1e-6


@given(rate=st.floats(0.01, 1000), burst=st.integers(1, 20), before=st.floats(0, 100))
def test_who_waits_as_long_as_is_said_has_a_token(rate, burst, before):
    """Neither is the wait too short, nor is it longer than one token takes."""
    bucket = TokenBucket(rate, burst)
    while bucket.take(before):
        pass
    seconds = bucket.seconds_to_next(before)
    assert 0 < seconds <= 1 / rate * 1.000001
    assert bucket.take(before + seconds * 1.000001 + 1e-9)


async def test_turns_are_given_in_order_and_who_is_gone_takes_none():
    """First come, first served; a cancelled one costs nobody a turn."""
    ticks, order = [0.0], []
    limiter = RateLimiter(Rate(requests_per_second=1, burst=1), lambda: ticks[0])

    async def ask(number):
        await limiter.turn()
        order.append(number)

    tasks = [asyncio.ensure_future(ask(number)) for number in range(5)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert order == [0]
    tasks[1].cancel()
    for moment, expected in ((0.5, [0]), (1.0, [0, 2]), (1.5, [0, 2]), (3.0, [0, 2, 3])):
        ticks[0] = moment
        limiter._go_on()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert order == expected
    limiter.close()
    with pytest.raises(DeliveryError) as caught:
        await tasks[4]
    assert class_of(caught.value) is Failure.TRANSIENT
    with pytest.raises(DeliveryError):
        await limiter.turn()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_all_requests_of_a_destination_share_the_bucket(site, server, patient):
    """Reads as well as writes; who waits when the destination is closed has sent nothing."""
    site.open(rate={"requests_per_second": 0.001, "burst": 2})
    waiting = asyncio.ensure_future(site.send(Upsert(patient("1"))))
    while len(server.requests) < 2:  # noqa: ASYNC110 - the double has no event
        await asyncio.sleep(0.001)
    while site.destination._server.continuity._under_way:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    # No time of the server runs while a request waits for its turn.
    assert not waiting.done()
    assert not site.destination._server.client._transport._busy
    await site.close()
    verdict = await waiting
    assert (verdict.kind, verdict.reason, verdict.failure) == (VerdictKind.RETRY, "not-connected", Failure.TRANSIENT)
    assert len(server.requests) == 2

"""What streams of several browsers share: asked once, not older than it may be, and nobody's leaving ends it."""

import asyncio

import pytest

from engine.ops.web.call import MOST_SHARED, SHARED_SECONDS, SharedAnswers


class Asked:
    """An operation that counts how often it is done, and waits until it may answer."""

    def __init__(self) -> None:
        self.times = 0
        self.may_end = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        """Return how often it was done by now."""
        self.times += 1
        number = self.times
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return number


async def test_many_ask_once() -> None:
    """Those who come while it is asked, and those who come shortly after, get the same answer."""
    shared, asked = SharedAnswers(lambda: 10.0), Asked()
    waiting = [asyncio.create_task(shared.of("status", asked)) for _ in range(5)]
    await asyncio.sleep(0)
    asked.may_end.set()
    assert await asyncio.gather(*waiting, shared.of("status", asked)) == [1] * 6
    assert await shared.of("alerts", asked) == 2


async def test_an_old_answer_is_asked_for_anew() -> None:
    """After 1.9 s, so that a stream that looks every 2 s never shows what it has shown before for want of asking."""
    ticks = [10.0]
    shared, asked = SharedAnswers(lambda: ticks[0]), Asked()
    asked.may_end.set()
    assert await shared.of("status", asked) == 1
    ticks[0] += SHARED_SECONDS - 0.01
    assert await shared.of("status", asked) == 1
    ticks[0] += 0.02
    assert await shared.of("status", asked) == 2


async def test_a_browser_that_leaves_takes_nothing_from_the_others() -> None:
    """The first one that asked is gone before the answer is there."""
    shared, asked = SharedAnswers(), Asked()
    first, second = (asyncio.create_task(shared.of("status", asked)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    asked.may_end.set()
    assert await second == 1


async def test_an_error_is_everybody_s_and_does_not_stay() -> None:
    """Each who waits hears of it; who comes later asks anew."""
    ticks = [10.0]
    shared, asked = SharedAnswers(lambda: ticks[0]), Asked()
    asked.error = ValueError("no")
    asked.may_end.set()
    for ended in await asyncio.gather(*(shared.of("status", asked) for _ in range(2)), return_exceptions=True):
        assert ended is asked.error
    asked.error = None
    ticks[0] += 2 * SHARED_SECONDS
    assert await shared.of("status", asked) == 2


async def test_it_is_bounded() -> None:
    """Charts of any period are shared too: what is kept does not grow with what people ask for."""
    shared, asked = SharedAnswers(lambda: 10.0), Asked()
    asked.may_end.set()
    for number in range(3 * MOST_SHARED):
        await shared.of(number, asked)
    assert len(shared._kept) <= MOST_SHARED


@pytest.mark.parametrize("late", [False, True])
async def test_nobody_left_to_hear_of_an_error(late: bool, caplog: pytest.LogCaptureFixture) -> None:
    """No warning of an exception that was never retrieved, whether the browser left before or after."""
    shared, asked = SharedAnswers(), Asked()
    asked.error = ValueError("no")
    waiting = asyncio.create_task(shared.of("status", asked))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    asked.may_end.set()
    if late:
        shared._kept.clear()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not caplog.records

"""The process beside the engine: asked in turn, stopped when it takes too long, and never a wrong answer after that."""

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from engine.errors import WorkerError
from engine.pipeline.worker import MOST_WAITING, Worker

ECHO = "tests.pipeline.echo"
SECONDS = 60.0


@pytest.fixture
async def worker() -> AsyncIterator[Worker]:
    """A worker whose process has not been started."""
    made = Worker()
    yield made
    await made.close()


async def test_one_process_answers_each_with_its_own(worker: Worker, capfd: pytest.CaptureFixture[str]) -> None:
    """Questions at once are answered in turn by one process; what it says on standard error is seen nowhere."""
    answers = await asyncio.gather(*(worker.ask(ECHO, {"say": number}, SECONDS) for number in range(5)))
    assert [answer["said"] for answer in answers] == [0, 1, 2, 3, 4]
    assert {answer["pid"] for answer in answers} == {worker.pid}
    await worker.close()
    assert "say" not in "".join(capfd.readouterr())


async def test_who_takes_too_long_is_ended_and_the_next_one_is_answered(worker: Worker) -> None:
    """The error says how long was waited; another process answers the next question, with that one's answer."""
    first = (await worker.ask(ECHO, {"say": "a"}, SECONDS))["pid"]
    with pytest.raises(WorkerError, match="longer than 0 s"):
        await worker.ask(ECHO, {"say": "b", "sleep": 600}, 0.01)
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    answer = await worker.ask(ECHO, {"say": "c"}, SECONDS)
    assert answer["said"] == "c"
    assert answer["pid"] != first


async def test_an_answer_that_nobody_waits_for_is_not_the_next_ones(worker: Worker) -> None:
    """Whoever asked and went away leaves nothing for whoever asks next."""
    await worker.ask(ECHO, {"say": "warm"}, SECONDS)
    asked = asyncio.ensure_future(worker.ask(ECHO, {"say": "mine", "sleep": 0.5}, SECONDS))
    while not worker._waiting:  # noqa: ASYNC110 - until it has been asked
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    assert (await worker.ask(ECHO, {"say": "yours"}, SECONDS))["said"] == "yours"


async def test_a_process_that_ends_is_told_of_and_replaced(worker: Worker) -> None:
    """WorkerError for the question, an answer for the next."""
    with pytest.raises(WorkerError, match="ended"):
        await worker.ask(ECHO, {"end": True}, SECONDS)
    assert (await worker.ask(ECHO, {"say": "again"}, SECONDS))["said"] == "again"


async def test_no_more_wait_than_the_bound(worker: Worker) -> None:
    """One more is refused at once; the others are answered."""
    await worker.ask(ECHO, {"say": "warm"}, SECONDS)
    asked = [
        asyncio.ensure_future(worker.ask(ECHO, {"say": one, "sleep": 0.05}, SECONDS)) for one in range(MOST_WAITING)
    ]
    await asyncio.sleep(0)
    with pytest.raises(WorkerError, match="try again shortly"):
        await worker.ask(ECHO, {"say": "late"}, SECONDS)
    assert [one["said"] for one in await asyncio.gather(*asked)] == list(range(MOST_WAITING))


async def test_it_ends_when_nobody_asks(worker: Worker) -> None:
    """After a while without a question there is no process; the next question starts one."""
    brief = Worker(idle_seconds=0.0)
    first = (await brief.ask(ECHO, {"say": 1}, SECONDS))["pid"]
    while brief.pid is not None:  # noqa: ASYNC110 - until the loop has called the timer
        await asyncio.sleep(0)
    assert (await brief.ask(ECHO, {"say": 2}, SECONDS))["pid"] != first
    await brief.close()

"""Bulk replays: the engine takes entries up at the asked rate; the client may go; a restart goes on."""

import asyncio
import contextlib
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from engine import fault, telemetry
from engine.database.connection import Connection
from engine.errors import ForbiddenMoveError, JournalError, RefusedOperationError, place_of
from engine.journal.entry import State
from engine.journal.nodes import telling
from engine.journal.write import bulk_replay
from engine.journal.write.bulk_replay import Next, ReplayItem, Run, RunKind, RunState
from engine.pipeline.inbound.entries import in_feed_order
from engine.pipeline.repair.entry_operations import EntryOperations, judged_anew

MOST_RUNS: Final = 4
CHUNK: Final = 20_000
TURN_SECONDS: Final = 0.2
# Past this many entries under way the run waits, so that it holds nobody up.
MOST_MOVING: Final = 500
REST_SECONDS: Final = 0.25

_log = telemetry.logger()


class BulkReplays:
    """The bulk replays of one engine, each a task; what they are is in the journal."""

    def __init__(self, operations: EntryOperations) -> None:
        self._operations = operations
        self._tasks: dict[int, asyncio.Task[None]] = {}
        # Of runs that were paused or stopped: until what they had taken up has ended.
        self._settling: dict[int, asyncio.Task[None]] = {}
        self._rates = RunRates()

    async def recall(self) -> None:
        """Go on with what ran when the engine ended."""
        journal = self._operations.journal
        if journal.is_shared:
            await self.catch_up()
            return
        for number in await journal.write(bulk_replay.recall):
            self._go(number)

    async def catch_up(self) -> None:
        """Take on the runs that no node carries out, and let go of those that another node has stopped."""
        running = set(await self._operations.journal.read(bulk_replay.running))
        for number in self._tasks.keys() - running:
            await self._cancel(number)
        for number in sorted(running - self._tasks.keys()):
            if await self._is_ours(number):
                self._go(number)

    async def _is_ours(self, number: int) -> bool:
        journal = self._operations.journal
        return not journal.is_shared or await journal.write(
            partial(telling.take_run, run=number, incarnation=journal.incarnation)
        )

    async def start(self, run: Run, seqs: Sequence[int]) -> Run:
        """Begin a run over entries and return it; ForbiddenMoveError where too many run already."""
        self._check_room()
        journal = self._operations.journal
        number = await journal.write(partial(bulk_replay.begin, run=run))
        for at in range(0, len(seqs), CHUNK):
            await journal.write(partial(bulk_replay.fill, run=number, seqs=seqs[at : at + CHUNK]))
        await self._is_ours(number)
        await journal.write(partial(bulk_replay.filled, run=number))
        self._go(number)
        return await self.show(number)

    async def pause(self, number: int) -> Run:
        """Pause a run until it is resumed, also over a restart; what it has taken up goes on. UnknownRunError."""
        return await self._halt(number, partial(bulk_replay.pause, run=number))

    async def stop(self, number: int) -> Run:
        """Stop a run; what it has taken up goes on. UnknownRunError where there is none."""
        return await self._halt(number, partial(bulk_replay.stop, run=number, at=self._operations.clock()))

    async def _halt(self, number: int, write: Callable[[Connection], None]) -> Run:
        run = await self.show(number)
        await self._cancel(number)
        await self._operations.journal.write(write)
        if run.state is RunState.RUNNING:
            task = self._settling[number] = asyncio.create_task(self._settled(run, 0))
            task.add_done_callback(lambda _task: self._settling.pop(number, None))
        return await self.show(number)

    async def resume(self, number: int) -> Run:
        """Go on with a run that was paused or stopped, a running one left alone; ForbiddenMoveError if it is done."""
        run = await self.show(number)
        if number in self._tasks:
            return run
        self._check_room()
        if (
            not await self._operations.journal.write(partial(bulk_replay.resume, run=number))
            and run.state is not RunState.RUNNING
        ):
            raise ForbiddenMoveError(f"run {number} has ended: start another one")
        if await self._is_ours(number):
            self._go(number)
        return await self.show(number)

    async def show(self, number: int) -> Run:
        """Return a run; UnknownRunError where there is none."""
        return await asyncio.to_thread(bulk_replay.look, self._operations.folder, partial(bulk_replay.show, run=number))

    async def listed(self, most: int) -> tuple[Run, ...]:
        """Return the newest runs."""
        return await asyncio.to_thread(
            bulk_replay.look, self._operations.folder, partial(bulk_replay.listed, most=most)
        )

    async def close(self) -> None:
        """End the tasks; the next start goes on with the runs."""
        for number in tuple(self._tasks):
            await self._cancel(number)
        settling = tuple(self._settling.values())
        for task in settling:
            task.cancel()
        await asyncio.gather(*settling, return_exceptions=True)

    def rate(self, run: Run) -> float | None:
        """Return how many entries a second end in a run, None where that is not known (yet)."""
        return self._rates.rate(run)

    def _check_room(self) -> None:
        if len(self._tasks) >= MOST_RUNS:
            raise ForbiddenMoveError(f"{MOST_RUNS} runs are under way: wait for one, or stop one")

    def _go(self, number: int) -> None:
        task = self._tasks[number] = asyncio.create_task(self._carry_out(number))
        task.add_done_callback(lambda _task: self._tasks.pop(number, None))

    async def _cancel(self, number: int) -> None:
        task = self._tasks.get(number)
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _carry_out(self, number: int) -> None:
        try:
            await self._take_up(await self.show(number))
        except JournalError as error:
            _log.error("bulk replay interrupted", count=number, error=type(error).__name__)
        except Exception as error:  # noqa: BLE001 - a fault of ours ends the run, not the engine; it can be resumed
            _log.error("bulk replay interrupted", count=number, error=type(error).__name__, point=place_of(error))
            with contextlib.suppress(JournalError):
                await self._operations.journal.write(partial(bulk_replay.stop, run=number, at=self._operations.clock()))

    async def _take_up(self, run: Run) -> None:
        journal = self._operations.journal
        dispatch = self._operations.dispatches.get(run.destination)
        # Patient by patient would be another order than that of the feed, in which new messages queue behind all of it.
        in_order = dispatch is not None and dispatch.in_feed_order
        most = bulk_replay.MOST_TOGETHER if in_order else max(1, round(run.rate * TURN_SECONDS))
        while batch := await journal.read(partial(bulk_replay.upcoming, run=run.number, most=most)):
            items = [await self._item(run, one) for one in batch]
            fault.point("F19")
            at = self._operations.clock()
            await journal.act(partial(bulk_replay.take_up, run=run, items=items, at=at))
            self._operations.wake()
            await asyncio.sleep(len(batch) / run.rate)
            await self._settled(run, MOST_MOVING)
        await self._settled(run, 0)
        await journal.write(partial(bulk_replay.end, run=run.number, at=self._operations.clock()))
        _log.info("bulk replay finished", count=(await self.show(run.number)).total)

    async def _settled(self, run: Run, most: int) -> None:
        """Wait until at most `most` entries of a run move; note how the others ended."""
        while await self._operations.journal.read(partial(bulk_replay.moving, run=run)) > most:  # noqa: ASYNC110 - others settle them
            await asyncio.sleep(REST_SECONDS)
        await self._operations.journal.write(partial(bulk_replay.settle, run=run))

    async def _item(self, run: Run, one: Next) -> ReplayItem:
        operations = self._operations
        if run.kind in {RunKind.RETRY, RunKind.DISCARD}:
            return ReplayItem(one.seq)
        try:
            feed = operations.live(one.channel)
            if run.kind is RunKind.RELEASE:
                return ReplayItem(one.seq)
            if one.state == State.RECEIVED:
                give, where_known = await operations.given(one.seq, run.destination, feed)
                return ReplayItem(one.seq, give, where_known=where_known, in_feed_order=in_feed_order(feed))
            return ReplayItem(one.seq, judged=judged_anew(await operations.entry(one.seq), feed))
        except (RefusedOperationError, JournalError) as error:
            if operations.journal.failed:
                raise
            return ReplayItem(one.seq, refusal=str(error))


WINDOW_SECONDS: Final = 60.0
APART_SECONDS: Final = 1.0
RATES_KEPT: Final = 100


class RunRates:
    """The rates of runs: each look at one that is running is a sample, at most one a second."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._samples: OrderedDict[int, deque[tuple[float, int]]] = OrderedDict()

    def rate(self, run: Run) -> float | None:
        """Return how many entries a second end, None where that is not known yet or the run is not running."""
        if run.state is not RunState.RUNNING:
            self._samples.pop(run.number, None)
            return None
        now, samples = self._ticks(), self._samples.setdefault(run.number, deque())
        self._samples.move_to_end(run.number)
        while len(self._samples) > RATES_KEPT:
            self._samples.popitem(last=False)
        while samples and now - samples[0][0] > WINDOW_SECONDS:
            samples.popleft()
        if not samples or now - samples[-1][0] >= APART_SECONDS:
            samples.append((now, run.done))
        began, done = samples[0]
        return (run.done - done) / (now - began) if now - began >= APART_SECONDS else None

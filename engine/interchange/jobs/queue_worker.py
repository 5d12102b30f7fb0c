"""The worker of a queue on disk: it polls for waiting work, carries it out in lanes, and stops in order.

Jobs, orders and webhooks have one worker each. The queue defines how work is found, taken up and settled.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Final, Generic, NamedTuple, TypeVar

from engine.errors import place_of
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction
from engine.interchange.store.writer import StoreBusyError, StoreFailedError
from engine.telemetry import logger

T = TypeVar("T")
Lane = TypeVar("Lane")

# How often the worker looks for requests, retries and cancellations of other processes, and for due work.
LOOK_SECONDS: Final = 1.0
BUSY_SECONDS: Final = 1.0
# The time that lanes have to end when the service stops, and again once they are cancelled.
LEAVE_SECONDS: Final = 5.0

# The work of a lane. It returns True if nothing is left for the lane, so that no look need follow.
LaneWork = Coroutine[Any, Any, bool | None]


@dataclass(frozen=True, slots=True)
class WorkQueue(Generic[Lane]):
    """A queue and its rules; `name` and `lost` are for logs, `lost` gives the message and fields of a failed lane.

    `wakeup` is set when there may be work. `recover` settles the work of an ended process, before the first `look`,
    which starts what can be done now. When the worker stops, lanes are cancelled at once if `interrupts`, else after
    LEAVE_SECONDS; then `finish` gets those that were under way.
    """

    name: str
    wakeup: asyncio.Event
    lost: Callable[[Lane], tuple[str, Mapping[str, str]]]
    look: Callable[[], Awaitable[None]]
    recover: Callable[[], Awaitable[None]] | None = None
    finish: Callable[[list[Lane]], Awaitable[None]] | None = None
    interrupts: bool = False


class RunningLane(NamedTuple):
    """A lane under way; the lanes of a group share a limit."""

    task: "asyncio.Task[bool | None]"
    group: str


class QueueWorker(Generic[Lane]):
    """Works on a queue; `run` does so until it is cancelled or the store fails for good.

    `lanes` are those under way, `leaving` is true once it stops.
    """

    def __init__(self, store: Store, queue: WorkQueue[Lane]) -> None:
        self._store = store
        self._queue = queue
        self._served: dict[Lane, int] = {}
        self._turns = count(1)
        self._recover = queue.recover
        # True if at the last look something had to wait for a place, or for its own lane.
        self._waiting = False
        self.lanes: dict[Lane, RunningLane] = {}
        self.leaving = False

    async def run(self) -> None:
        """Look at each wakeup, and after a second without one, until cancelled; then leave in order.

        A look is never interrupted: a cancellation waits for its end, or its unfinished work would be left as after a
        crash.
        """
        looking: asyncio.Future[None] | None = None
        try:
            while not self._store.failed:
                self._queue.wakeup.clear()
                looking = asyncio.ensure_future(self._look())
                await asyncio.shield(looking)
                # Not `wait_for`: before Python 3.12 that may lose a cancellation when the event is set.
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._queue.wakeup.wait()
        finally:
            if looking is not None:
                await asyncio.wait([looking])
            await self._leave()

    def start(self, lane: Lane, work: LaneWork, group: str = "") -> None:
        """Start the work of a free lane."""
        task = asyncio.create_task(work)
        self.lanes[lane] = RunningLane(task, group)
        task.add_done_callback(partial(self._free, lane))

    def take_up(self, waiting: Mapping[Lane, Callable[[], LaneWork]], limit: int, group: str = "") -> None:
        """Start the work of free lanes, up to `limit` of a group at once, the least recently served first."""
        idle = sorted((one for one in waiting if one not in self.lanes), key=lambda one: self._served.get(one, 0))
        begun = idle[: max(0, limit - sum(one.group == group for one in self.lanes.values()))]
        self._waiting |= len(begun) < len(waiting)
        for lane in begun:
            self._served[lane] = next(self._turns)
            self.start(lane, waiting[lane](), group)

    async def write(self, tenant: str, work: Callable[[Transaction], T]) -> T:
        """Do a write; wait while another process keeps the database busy."""
        while True:
            try:
                return await self._store.write(tenant, work)
            except StoreBusyError:
                await asyncio.sleep(BUSY_SECONDS)

    async def _look(self) -> None:
        """Do what there is to do now; after an error the next look tries again."""
        self._waiting = False
        try:
            if self._recover is not None:
                await self._recover()
                self._recover = None
            await self._queue.look()
        except StoreFailedError:
            # The failure of the store is logged by the requests that fail by it.
            return
        except Exception as error:  # noqa: BLE001 - any error is logged, and the next look tries again
            logger().error(f"{self._queue.name} not looked for", error=type(error).__name__, file=place_of(error))

    def _free(self, lane: Lane, task: "asyncio.Task[bool | None]") -> None:
        """Free the place of a lane; after an error its work waits for the next look, or for the next process."""
        del self.lanes[lane]
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            message, about = self._queue.lost(lane)
            logger().error(message, **about, error=type(error).__name__, file=place_of(error))
        elif self._waiting or not task.result():
            self._queue.wakeup.set()

    async def _leave(self) -> None:
        self.leaving = True
        left = dict(self.lanes)
        for seconds in (0 if self._queue.interrupts else LEAVE_SECONDS, LEAVE_SECONDS):
            going = [lane.task for lane in self.lanes.values()]
            if going:
                _, late = await asyncio.wait(going, timeout=seconds)
                for task in late:
                    task.cancel()
        if self._queue.finish is not None:
            await self._queue.finish(list(left))

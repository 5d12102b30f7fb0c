"""The worker of a queue: over a real store, by any steps, and rule by rule."""

import asyncio
import contextlib
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from engine.clock import now
from engine.interchange.jobs import queue_worker
from engine.interchange.jobs.queue_worker import QueueWorker, WorkQueue
from engine.interchange.store.store import Store
from engine.interchange.store.writer import StoreBusyError, StoreFailedError
from tests.tiers import trials

TENANT = "t"
CREATE = "CREATE TABLE IF NOT EXISTS item (number INTEGER PRIMARY KEY, lane TEXT, state TEXT)"
ADD = "INSERT INTO item (lane, state) VALUES (?, 'waiting')"
# Items are numbered in the order of their arrival, and each lane has them in that order.
HEADS = "SELECT lane, min(number) FROM item WHERE state='waiting' GROUP BY lane"
MOVE = "UPDATE item SET state=? WHERE number=? AND state=?"
LEFT = "SELECT number FROM item WHERE state='running'"
STATES = "SELECT state FROM item"
LIMIT = 2
LANES = ("a", "b", "c")


@dataclass
class Bench:
    """A queue in a table of a store, whose items come to the end that a test says."""

    store: Store
    interrupts: bool = False
    limit: int = LIMIT
    wakeup: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    going: dict[str, "asyncio.Future[bool | None]"] = field(default_factory=dict)
    begun: list[tuple[str, int]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    killed: bool = False
    looks: int = 0
    recovered: int = 0
    looking: Callable[[], Awaitable[None]] | None = None

    def __post_init__(self) -> None:
        """Make the worker, and begin."""
        queue: WorkQueue[str] = WorkQueue(
            "items",
            self.wakeup,
            lost=lambda lane: ("item lost", {"destination": lane}),
            look=self.look,
            recover=self.recover,
            finish=self.finish,
            interrupts=self.interrupts,
        )
        self.worker = QueueWorker(self.store, queue)
        self.running = asyncio.create_task(self.worker.run())

    async def look(self) -> None:
        """Take up the first item of each lane."""
        self.looks += 1
        self.changed.set()
        if self.looking is not None:
            await self.looking()
        heads = self.store.reader().execute(HEADS).fetchall()
        self.worker.take_up({lane: partial(self.work, lane, number) for lane, number in heads}, self.limit)

    async def recover(self) -> None:
        """Let what an ended process left under way wait again."""
        self.recovered += 1
        await self.put_back()

    async def finish(self, left: list[str]) -> None:
        """Let what was under way wait for the next worker; a process that is killed does not."""
        self.left = left
        if not self.killed:
            await self.put_back()

    async def put_back(self) -> None:
        """Let all that is under way wait."""
        for (number,) in self.store.reader().execute(LEFT).fetchall():
            await self.move("running", "waiting", number)

    async def work(self, lane: str, number: int) -> bool | None:
        """Wait for how it is to end."""
        assert lane not in self.going
        await self.move("waiting", "running", number)
        self.begun.append((lane, number))
        self.going[lane] = asyncio.get_running_loop().create_future()
        self.changed.set()
        try:
            idle = await self.going[lane]
        except asyncio.CancelledError:
            self.cancelled.append(lane)
            raise
        finally:
            del self.going[lane]
            self.changed.set()
        await self.move("running", "done", number)
        self.changed.set()
        return idle

    async def move(self, before: str, after: str, number: int) -> None:
        """Move an item."""
        await self.store.write_raw(lambda connection: connection.execute(MOVE, (after, number, before)).rowcount)

    async def add(self, *lanes: str, wake: bool = True) -> None:
        """Add an item to each of these lanes."""
        for lane in lanes:
            await self.store.write_raw(partial(_add, lane=lane))
        if wake:
            self.wakeup.set()

    def end(self, lane: str, *, idle: bool = False, error: Exception | None = None) -> None:
        """Let what is done in a lane come to its end."""
        future = self.going[lane]
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(idle)

    def states(self) -> Counter[str]:
        """Count the items by where they are."""
        return Counter(state for (state,) in self.store.reader().execute(STATES).fetchall())

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(30):
            while not met():
                self.changed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await self.changed.wait()

    async def stop(self) -> None:
        """Stop the worker."""
        self.running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.running


def _add(connection: Any, lane: str) -> None:
    connection.execute(ADD, (lane,))


async def opened(folder: Path) -> Store:
    """Return a store on SQLite with an empty queue."""
    found = Store(folder / "s.db", [TENANT], now, {})
    await found.write_raw(lambda connection: connection.execute(CREATE).rowcount)
    return found


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A store on SQLite with an empty queue."""
    found = await opened(tmp_path)
    yield found
    found.close()


@pytest.fixture
def wakeups_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a worker look at wakeups only."""
    monkeypatch.setattr(queue_worker, "LOOK_SECONDS", 3600)


lanes = st.sampled_from(LANES)
adding = st.tuples(st.just("add"), lanes)
ending = st.tuples(st.sampled_from(["end", "fail"]), lanes)
leaving = st.tuples(st.sampled_from(["stop", "kill"]), st.just(""))
steps = st.lists(st.one_of(adding, adding, ending, leaving), max_size=15)


@dataclass
class Model:
    """What the worker must do: how many items each lane has, those that wait and those that an error has lost."""

    folder: Path
    bench: Bench
    waiting: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    added: int = 0

    async def step(self, what: str, lane: str) -> None:
        """Do something, and wait until all places are taken again."""
        bench = self.bench
        if what == "add":
            await bench.add(lane)
            self.waiting[lane] += 1
            self.added += 1
        elif what in {"stop", "kill"}:
            await self.leave(killed=what == "kill")
            self.bench = Bench(await opened(self.folder), interrupts=not bench.interrupts)
            self.waiting += self.lost
            self.lost.clear()
        elif lane in bench.going:
            before = len(bench.begun)
            bench.end(lane, error=ValueError() if what == "fail" else None)
            self.waiting[lane] -= 1
            self.lost[lane] += what == "fail"
            await bench.until(lambda: lane not in bench.going or len(bench.begun) > before)
        await self.settled()

    async def settled(self) -> None:
        """Wait until as many lanes are under way as may be; never more."""
        bench = self.bench
        places = min(LIMIT, sum(number > 0 for number in self.waiting.values()))
        await bench.until(lambda: len(bench.going) == places)
        assert len(bench.worker.lanes) <= LIMIT

    async def leave(self, *, killed: bool) -> None:
        """Stop the worker, or the process with it."""
        bench = self.bench
        bench.killed = killed
        await bench.stop()
        assert not bench.going
        numbers = [number for _, number in bench.begun]
        assert len(numbers) == len(set(numbers)), "begun twice in one life"
        for one in LANES:
            mine = [number for lane, number in bench.begun if lane == one]
            assert mine == sorted(mine), "out of order"
        assert killed or not bench.states()["running"]
        bench.store.close()


async def play(folder: Path, played: list[tuple[str, str]]) -> None:
    """Carry out some steps, then let all come to its end."""
    model = Model(folder, Bench(await opened(folder)))
    for what, lane in [*played, ("stop", "")]:
        await model.step(what, lane)
    while model.bench.going:
        await model.step("end", next(iter(model.bench.going)))
    bench = model.bench
    await bench.until(lambda: bench.states()["done"] == model.added)
    await model.leave(killed=False)


@pytest.mark.property
@given(played=steps)
@settings(max_examples=trials(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_item_is_done(played: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """However it is added to, fails, stops and is killed: each item is done in its turn, once in each life."""
    monkeypatch.setattr(queue_worker, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(queue_worker, "LEAVE_SECONDS", 0.01)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder), played))


@pytest.mark.usefixtures("wakeups_only")
async def test_who_frees_a_place_gives_it_to_others(store: Store) -> None:
    """No wakeup is needed where a lane ends while another one waits, however little it leaves itself."""
    bench = Bench(store, limit=1)
    await bench.add("a", "b", "c")
    for number in range(3):
        await bench.until(lambda number=number: len(bench.begun) == number + 1 and bool(bench.going))
        bench.end(bench.begun[-1][0], idle=True)
    await bench.until(lambda: bench.states()["done"] == 3)
    await bench.stop()


@pytest.mark.usefixtures("wakeups_only")
@pytest.mark.parametrize("idle", [True, False])
async def test_a_look_follows_where_a_lane_has_more(store: Store, *, idle: bool) -> None:
    """A lane that says that nothing is left costs no look; any other one is looked after."""
    bench = Bench(store)
    # Else the first look may take the item up, and the wakeup of adding it costs another.
    await bench.until(lambda: bench.looks == 1)
    await bench.add("a")
    await bench.until(lambda: bool(bench.going))
    looks = bench.looks
    bench.end("a", idle=idle)
    await bench.until(lambda: not bench.worker.lanes if idle else bench.looks > looks)
    await bench.stop()
    assert (bench.looks > looks) is not idle


async def test_lanes_take_turns(store: Store) -> None:
    """With one place, a lane of many items lets the others in between."""
    bench = Bench(store, limit=1)
    await bench.add("a", "a", "a", "b", "b", "c")
    for number in range(6):
        await bench.until(lambda number=number: len(bench.begun) == number + 1 and bool(bench.going))
        bench.end(bench.begun[-1][0])
    await bench.stop()
    assert Counter(lane for lane, _ in bench.begun[:3]) == Counter("abc")


async def test_groups_have_places_of_their_own(store: Store) -> None:
    """A full group takes no place from another one; a lane is in one group at a time."""
    bench = Bench(store)
    await bench.until(lambda: bench.looks > 0)
    over = asyncio.Event()

    async def work() -> bool:
        return await over.wait()

    bench.worker.take_up(dict.fromkeys("abc", work), 2, "sound")
    bench.worker.take_up(dict.fromkeys("cdef", work), 3, "troubled")
    bench.worker.take_up(dict.fromkeys("af", work), 3, "sound")
    groups = {lane: one.group for lane, one in bench.worker.lanes.items()}
    assert groups == {"a": "sound", "b": "sound", "c": "troubled", "d": "troubled", "e": "troubled", "f": "sound"}
    over.set()
    await bench.stop()


async def test_what_goes_wrong_is_tried_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that fails is logged, unless it is the store that failed; the next one follows."""
    monkeypatch.setattr(queue_worker, "LOOK_SECONDS", 0)
    errors = iter([ValueError("of a patient"), StoreFailedError()])

    async def fail() -> None:
        if (error := next(errors, None)) is not None:
            raise error

    with capture_logs() as lines:
        bench = Bench(store, looking=fail)
        await bench.add("a", wake=False)
        await bench.until(lambda: bool(bench.going))
        bench.end("a")
        await bench.stop()
    assert [(line["event"], line["error"]) for line in lines] == [("items not looked for", "ValueError")]
    assert (bench.recovered, bench.looks >= 3) == (1, True)


async def test_recovery_is_tried_again_before_any_look(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is taken up before what was left behind is settled; once it is, it is not settled again."""
    monkeypatch.setattr(queue_worker, "LOOK_SECONDS", 0)
    bench = Bench(store)
    failures = iter([OSError(), OSError()])
    put_back = bench.put_back

    async def fail() -> None:
        assert bench.looks == 0
        if (error := next(failures, None)) is not None:
            raise error
        await put_back()

    monkeypatch.setattr(bench, "put_back", fail)
    await bench.until(lambda: bench.looks > 1)
    assert bench.recovered == 3
    monkeypatch.undo()
    await bench.stop()


async def test_a_lane_that_fails_gives_its_place_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error is logged with what may be said of it, and harms no other lane."""
    monkeypatch.setattr(queue_worker, "LOOK_SECONDS", 0.01)
    bench = Bench(store, limit=1)
    await bench.add("a", "b")
    with capture_logs() as lines:
        for error in (KeyError("of a patient"), None):
            await bench.until(lambda: bool(bench.going))
            bench.end(bench.begun[-1][0], error=error)
            await bench.until(lambda: not bench.going)
        await bench.until(lambda: bench.states()["done"] == 1)
        await bench.stop()
    told = [(line["event"], line["destination"], line["error"]) for line in lines]
    assert told == [("item lost", "a", "KeyError")]


@pytest.mark.parametrize("interrupts", [True, False])
async def test_a_worker_leaves_in_order(store: Store, monkeypatch: pytest.MonkeyPatch, *, interrupts: bool) -> None:
    """What is under way has time to end before it is cancelled, unless it is interrupted; none is taken up any more."""
    monkeypatch.setattr(queue_worker, "LEAVE_SECONDS", 0.5)
    bench = Bench(store, interrupts=interrupts)
    await bench.add("a", "b", "c")
    await bench.until(lambda: len(bench.going) == LIMIT)
    first, second = (lane for lane, _ in bench.begun)
    stopping = asyncio.create_task(bench.stop())
    if not interrupts:
        bench.end(first)
    await stopping
    assert sorted(bench.cancelled) == sorted([first, second] if interrupts else [second])
    assert (sorted(bench.left), len(bench.begun)) == (sorted([first, second]), LIMIT)
    assert bench.states() == ({"waiting": 3} if interrupts else {"waiting": 2, "done": 1})


async def test_a_look_is_not_interrupted(store: Store) -> None:
    """A cancellation waits for the end of a look: what it began is then left in order with the rest."""
    let = asyncio.Event()
    bench = Bench(store, interrupts=True, looking=lambda: _wait(let))
    await bench.add("a")
    await bench.until(lambda: bench.looks > 0)
    stopping = asyncio.create_task(bench.stop())
    bench.wakeup.set()
    done, _ = await asyncio.wait([stopping], timeout=0.05)
    assert not done
    let.set()
    await stopping
    assert bench.left == ["a"]


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def test_a_store_that_failed_ends_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker whose store takes nothing any more ends by itself, and has cancelled what was under way."""
    monkeypatch.setattr(queue_worker, "LEAVE_SECONDS", 0.01)
    bench = Bench(store)
    await bench.add("a")
    await bench.until(lambda: bool(bench.going))
    monkeypatch.setattr(Store, "failed", property(lambda _: True))
    bench.killed = True
    bench.wakeup.set()
    await bench.running
    assert (bench.cancelled, bench.left) == (["a"], ["a"])


async def test_a_write_waits_for_a_busy_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write is tried until another process leaves the database alone; a store that failed is not asked again."""
    monkeypatch.setattr(queue_worker, "BUSY_SECONDS", 0)
    bench = Bench(store)
    errors = iter([StoreBusyError(), StoreBusyError(), None, StoreFailedError()])
    write = store.write

    async def busy(tenant: str, work: Callable[[Any], Any]) -> Any:
        if (error := next(errors)) is not None:
            raise error
        return await write(tenant, work)

    monkeypatch.setattr(store, "write", busy)
    assert await bench.worker.write(TENANT, lambda _: 7) == 7
    with pytest.raises(StoreFailedError):
        await bench.worker.write(TENANT, lambda _: 7)
    await bench.stop()

"""Lanes: order per patient, against a model that knows nothing of tables."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engine.errors import ForbiddenMoveError
from engine.journal.entry import UNFINISHED, AckOutcome, NewEntry, Settlement, State
from engine.journal.journal import Journal
from engine.journal.read.reading import Reader
from engine.journal.write.entry_lookup import OperationRequest
from tests.journal.desk import Desk, Opener, settlement
from tests.memory_folder import folder_in_memory
from tests.tiers import trials

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DUE = NOW + timedelta(minutes=30)
LATE = NOW + timedelta(hours=1)
DESTINATIONS = ("d", "e")


@dataclass
class Delivery:
    """A delivery as the model sees it."""

    seq: int
    destination: str
    keys: frozenset[str]
    state: State = State.RECEIVED
    due: bool = False
    queued: bool = True


@dataclass
class Model:
    """One list of deliveries and one set of patients; slow and obvious."""

    patients: list[set[str]] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    applied: list[Delivery] = field(default_factory=list)

    def unite(self, keys: tuple[str, ...]) -> None:
        """Make the keys one patient."""
        together = {key for patient in self.patients if patient & set(keys) for key in patient} | set(keys)
        self.patients = [patient for patient in self.patients if not patient & together] + [together]

    def share(self, one: Delivery, other: Delivery) -> bool:
        """Say whether two deliveries speak of one patient at one destination."""
        if one.destination != other.destination:
            return False
        return any(patient & one.keys and patient & other.keys for patient in self.patients)

    def may_run(self, one: Delivery, *, late: bool) -> bool:
        """Say whether a delivery heads everything it is part of and is due."""
        if one.state not in {State.RECEIVED, State.WAITING} or (one.due and not late):
            return False
        others = [other for other in self.deliveries if other is not one and self.share(one, other)]
        before = any(other.queued and other.seq < one.seq for other in others)
        return not before and not any(other.state is State.CLAIMED for other in others)

    def overtaken(self, one: Delivery) -> bool:
        """Say whether something newer was applied for one of the patients, or is being delivered."""
        out = [other for other in self.deliveries if other.state is State.CLAIMED]
        return any(other.seq > one.seq and self.share(one, other) for other in (*self.applied, *out))


groups = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=2, unique=True).map(tuple)


class Lanes(RuleBasedStateMachine):
    """Records, claims, settles, holds, replays and restarts in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = folder_in_memory()
        self.model = Model()
        self.count = 0
        self.journal: Journal = self.run(self.opened())

    def run(self, work: Any) -> Any:
        """Run to the end on this machine's loop."""
        return self.runner.run(work)

    async def opened(self) -> Journal:
        """Open the journal."""
        return await Journal.open(Path(self.folder.name), clock=lambda: NOW, fail=self.failed, reserve_bytes=0)

    def failed(self, error: BaseException) -> None:
        """Never."""
        raise error

    @rule(
        patients=st.lists(groups, min_size=0, max_size=2),
        unite=st.booleans(),
        destinations=st.sampled_from([("d",), ("e",), ("d", "e")]),
    )
    def record(self, patients: list[tuple[str, ...]], unite: bool, destinations: tuple[str, ...]) -> None:
        """A message comes in."""
        self.record_all([(patients, unite, destinations)])

    @rule(messages=st.lists(st.tuples(st.lists(groups, max_size=2), st.booleans(), st.just(("d",))), max_size=4))
    def record_all(self, messages: list[tuple[list[tuple[str, ...]], bool, tuple[str, ...]]]) -> None:
        """Several messages come in at once, into one transaction."""

        async def together() -> list[Any]:
            return await asyncio.gather(*(self.journal.record(self.entry(*message)) for message in messages))

        recorded = self.run(together())
        for (patients, unite, destinations), one in zip(messages, recorded, strict=True):
            for keys in [tuple(key for group in patients for key in group)] if unite else patients:
                if keys:
                    self.model.unite(keys)
            keys = frozenset(key for group in patients for key in group)
            self.model.deliveries.extend(Delivery(one.seq, name, keys) for name in destinations)

    def entry(self, patients: list[tuple[str, ...]], unite: bool, destinations: tuple[str, ...]) -> NewEntry:
        """Return a message of its own bytes."""
        self.count += 1
        return NewEntry(
            "c", "p", "s", str(self.count), "A08", "2.5", str(self.count).encode(), NOW,
            patients=tuple(patients), unite=unite, destinations=destinations, ack_outcome=AckOutcome.OWED,
        )  # fmt: skip

    @rule(destination=st.sampled_from(DESTINATIONS), limit=st.integers(1, 5), late=st.booleans())
    def claim(self, destination: str, limit: int, late: bool) -> None:
        """What may run is claimed, oldest first."""
        may_run = [delivery for delivery in self.model.deliveries if self.model.may_run(delivery, late=late)]
        expected = sorted((one for one in may_run if one.destination == destination), key=lambda one: one.seq)[:limit]
        claims = self.run(self.journal.claim(destination, limit, LATE if late else NOW))
        assert [one.seq for one in claims] == [one.seq for one in expected]
        for one in expected:
            one.state = State.CLAIMED

    @rule(
        data=st.data(),
        state=st.sampled_from([State.DELIVERED, State.DELIVERED, State.HELD, State.RECEIVED, State.REJECTED]),
        keep=st.booleans(),
    )
    def settle(self, data: st.DataObject, state: State, keep: bool) -> None:
        """A claimed delivery ends, is held, or is to be tried again."""
        one = self.pick(data, {State.CLAIMED})
        if one is None:
            return
        retry_at = DUE if state is State.RECEIVED else None
        self.run(
            self.journal.settle(
                Settlement(one.seq, one.destination, state, NOW, retry_at=retry_at, source="s", keep_lane=keep)
            )
        )
        one.state, one.due = state, state is State.RECEIVED
        one.queued = state is State.RECEIVED or (state is State.HELD and keep)
        if state is State.DELIVERED:
            self.model.applied.append(one)

    @rule(data=st.data(), force=st.booleans())
    def replay(self, data: st.DataObject, force: bool) -> None:
        """What has ended is delivered again, in its old place."""
        one = self.pick(data, {State.DELIVERED, State.REJECTED, State.DISCARDED, State.HELD})
        if one is None:
            return
        asked = OperationRequest(force=force)
        work = self.journal.act(lambda context: context.operations.replay(one.seq, (one.destination,), asked))
        if self.model.overtaken(one) and not force:
            with pytest.raises(ForbiddenMoveError):
                self.run(work)
            return
        assert self.run(work) == 1
        one.state, one.due, one.queued = State.RECEIVED, False, True

    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        """An operator gives an entry up."""
        one = self.pick(data, {State.HELD, State.RECEIVED, State.WAITING})
        if one is None:
            return
        both = [other for other in self.model.deliveries if other.seq == one.seq and other.state in UNFINISHED]
        if any(other.state is State.CLAIMED for other in both):
            with pytest.raises(ForbiddenMoveError):
                self.run(self.journal.act(lambda context: context.operations.discard(one.seq, "test", by="me")))
            return
        self.run(self.journal.act(lambda context: context.operations.discard(one.seq, "test", by="me")))
        for other in both:
            other.state, other.queued = State.DISCARDED, False

    @rule()
    def restart(self) -> None:
        """The process ends and starts again."""
        self.run(self.journal.close())
        self.journal = self.run(self.opened())
        for delivery in self.model.deliveries:
            if delivery.state is State.CLAIMED:
                delivery.state = State.RECEIVED

    def pick(self, data: st.DataObject, states: set[State]) -> Delivery | None:
        """Return a delivery in one of the states."""
        fitting = [delivery for delivery in self.model.deliveries if delivery.state in states]
        return data.draw(st.sampled_from(fitting)) if fitting else None

    @invariant()
    def nothing_is_lost(self) -> None:
        """Every delivery is in the journal, unfinished exactly where the model's is."""
        with Reader(Path(self.folder.name)) as reader:
            found = {
                (seq, delivery.destination): delivery.state
                for seq in {one.seq for one in self.model.deliveries}
                for delivery in reader.show(seq).deliveries
            }
        assert found.keys() == {(one.seq, one.destination) for one in self.model.deliveries}
        for one in self.model.deliveries:
            open_here = one.state in UNFINISHED
            assert (found[one.seq, one.destination] in UNFINISHED) == open_here
            if not open_here or one.state is State.HELD:
                assert found[one.seq, one.destination] is one.state

    def teardown(self) -> None:
        """Close everything."""
        self.run(self.journal.close())
        self.runner.close()
        self.folder.cleanup()


Lanes.TestCase.settings = settings(
    max_examples=trials(60),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
test_order_is_kept_per_patient_whatever_happens = pytest.mark.property(Lanes.TestCase)


async def test_a_probe_is_the_entry_that_was_tried_least(desk: Desk) -> None:
    """Of those that head their lanes and are due; the oldest among equals, and none that is out already."""
    one, two, three, four = [await desk.record(f"c{key}", (f"s|{key}",)) for key in "abcd"]
    await desk.record("c2", ("s|c",))
    for seq, tries in ((one, 2), (two, 1), (four, 1)):
        for _ in range(tries):
            await desk.journal.claim("d", 9, NOW)
            await desk.journal.settle(settlement(seq, State.RECEIVED, retry_at=NOW))
            await desk.journal.give_back("d", [other for other in (one, two, three, four) if other != seq])
    claimed = [(await desk.journal.claim("d", 1, NOW, least_tried=True))[0].seq for _ in range(4)]
    assert claimed == [three, two, four, one]
    assert await desk.journal.claim("d", 1, NOW, least_tried=True) == ()


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
@pytest.mark.parametrize("known", [False, True], ids=["never seen", "each in a lane of its own, with work"])
async def test_naming_many_costs_as_much_as_there_are(opened: Opener, tmp_path: Path, known: bool) -> None:
    """Twice as many numbers are twice the work of the writer, not four times: counted in steps of SQLite."""
    steps = []
    for many in (150, 300, 600):
        folder = tmp_path / str(many)
        folder.mkdir()
        async with opened(folder) as desk:
            keys = tuple(f"s|{number}" for number in range(many))
            if known:
                await desk.together([desk.journal.record(desk.entry(key, (key,))) for key in keys])
            counted = [0]

            def count(counted: list[int] = counted) -> None:
                counted[0] += 1

            await desk.journal.read(lambda connection, count=count: connection.set_progress_handler(count, 100))
            await desk.record("all", keys)
            await desk.journal.read(lambda connection: connection.set_progress_handler(None, 0))
            steps.append(counted[0])
    assert steps[2] - steps[1] < 3 * (steps[1] - steps[0])


async def test_a_number_comes_along_when_another_one_of_its_patient_is_united(desk: Desk) -> None:
    """What only shares a lane with a number that is named: two messages of the one patient never run at a time."""
    for control_id, keys in (("1", ("s|a",)), ("2", ("s|b", "s|c")), ("3", ("s|a", "s|b"))):
        await desk.record(control_id, keys)
        for seq in await desk.claimed():
            await desk.deliver(seq)
    by_c, by_a = await desk.record("4", ("s|c",)), await desk.record("5", ("s|a",))
    assert await desk.claimed() == [by_c]
    await desk.deliver(by_c)
    assert await desk.claimed() == [by_a]


async def test_what_ran_side_by_side_runs_in_turn_once_its_lanes_are_one(desk: Desk) -> None:
    """Two messages that are both ready, of two patients whom a third message names as one: the later one waits."""
    first, second = await desk.record("1", ("s|a",)), await desk.record("2", ("s|b",))
    third = await desk.record("3", ("s|a", "s|b"))
    for seq in (first, second, third):
        assert await desk.claimed() == [seq]
        await desk.deliver(seq)

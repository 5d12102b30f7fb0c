"""Look-ups in the spine: for which messages one is made, and how they are asked for beside all deliveries."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine import telemetry
from engine.config.channel import Channel
from engine.deliver.destination import FhirDestination
from engine.errors import JournalFailedError
from engine.hl7.message import Message, parse
from engine.journal.entry import Claimed, FollowUpRequest, State
from engine.journal.read.reading import Reader
from engine.journal.read.views import FollowUpView
from engine.journal.state.follow_ups import ASKED_ALREADY
from engine.pipeline.feed import PipelineContext
from engine.pipeline.outbound.follow_ups import (
    ASKED_WITHIN,
    MOST_AT_ONCE,
    MOST_TRIES,
    RESTRICTED,
    TOO_OLD,
    FollowUps,
    LookUps,
    refusal,
)
from tests.deliver.fake_fhir import FakeFhir, Step
from tests.journal.desk import NOW, Desk

HOUR = timedelta(hours=1)
PATH = "DocumentReference/$p360-retrieve"


def channel(base: str = "http://127.0.0.1:1/fhir/R4", **given: Any) -> Channel:
    """Return a channel that looks up at A01."""
    destination = {"name": "d", "base_url": base, "retry": {"first_seconds": 1}, "timeout_seconds": 5}
    settings = {"channel": "adt", "listen": {"mllp": {"port": 0}}, "lookup_on": ["A01"], "destinations": [destination]}
    return Channel.model_validate(settings | given)


def admission(*segments: str, processing: str = "P") -> Message:
    """Return an A01 with further segments."""
    header = rf"MSH|^~\&|ADT|RVB|||20260301120000||ADT^A01^ADT_A01|1|{processing}|2.9"
    return parse("\r".join((header, "PID|1||1^^^RVB", *segments)).encode())


CLAIMED = Claimed(1, "d", b"", "adt", "ADT|RVB", "1", "A01", NOW, 0, 0, None, (1,), replay=False, forced=False)


@pytest.mark.parametrize(
    ("given", "message", "claimed", "said"),
    [
        pytest.param({}, admission(), {}, None, id="asked-for"),
        pytest.param({"lookup_on": []}, admission(), {}, "", id="off-by-default"),
        pytest.param({}, admission(), {"event": "A08"}, "", id="another-event"),
        pytest.param({}, admission(), {"replay": True}, "", id="replay"),
        pytest.param({"mode": "load"}, admission(), {}, "", id="load"),
        pytest.param({"mode": "shadow"}, admission(), {}, "", id="shadow"),
        pytest.param({}, admission(processing="P^I"), {}, "", id="initial-load"),
        pytest.param({}, admission(processing="P^T"), {}, None, id="current"),
        pytest.param({}, admission("PD1||||||||||||Y"), {}, RESTRICTED, id="protected"),
        pytest.param({}, admission("PD1||||||||||||N"), {}, None, id="not-protected"),
        pytest.param({}, admission('PD1||||||||||||""'), {}, None, id="protection-deleted"),
        pytest.param({}, admission("ARV||A|HIV"), {}, RESTRICTED, id="restricted"),
        pytest.param({}, admission("ARV||A|"), {}, RESTRICTED, id="restricted-for-no-said-reason"),
        pytest.param({}, admission("ARV||D|HIV"), {}, None, id="restriction-taken-back"),
        pytest.param({}, admission("ARV||A|NO", "ARV||A|OI"), {}, None, id="no-restriction"),
        pytest.param({}, admission("ARV||A|NO", "ARV||A|PSY"), {}, RESTRICTED, id="one-of-two"),
    ],
)
def test_for_which_messages_nobody_is_looked_up(
    given: dict[str, Any], message: Message, claimed: dict[str, Any], said: str | None
) -> None:
    """Only what a channel asks for, that happens now for the first time, and that may be disclosed."""
    assert refusal(replace(CLAIMED, **claimed), channel(**given), message, NOW, NOW) == said


def test_an_old_event_looks_nobody_up() -> None:
    """By the time of the event, or of its receipt where it has none; the bound itself is young enough."""
    told = partial(refusal, CLAIMED, channel(lookup_max_age_hours=2), admission())
    assert told(NOW - 2 * HOUR, NOW) is None
    assert told(NOW - 2.1 * HOUR, NOW) == TOO_OLD
    assert told(None, NOW + 2 * HOUR) is None
    assert told(None, NOW + 2.1 * HOUR) == TOO_OLD


class Running:
    """Follow-ups of one kind over a real journal and a scripted server, at a time that the test turns."""

    def __init__(self, desk: Desk, server: FakeFhir, kind: type[FollowUps] = LookUps, **settings: Any) -> None:
        self.desk = desk
        self.server = server
        self.now = NOW
        self.ready = True
        self.task: asyncio.Task[None] = asyncio.create_task(asyncio.sleep(0))
        self.feeds = {"adt": SimpleNamespace(channel=channel(server.base, **settings))}
        self._one = self.feeds["adt"].channel
        self.destination = FhirDestination(self._one.destinations[0], self._one, clock=lambda: NOW, new_id=lambda: "id")
        shared = cast(PipelineContext, SimpleNamespace(clock=lambda: self.now, feeds=self.feeds))
        self.follow_ups = kind(
            "d", desk.journal, shared, lambda: self.destination if self.ready else None, lambda: 0.999
        )

    async def promise(self, control_id: str, patient: str = "Patient/p1", **given: Any) -> int:
        """Deliver an admission that is to be followed up, and say so."""
        settings = {"event": "A01", "received_at": self.now} | given
        seq = await self.desk.record(control_id, (f"mrn|{control_id}",), **settings)
        await self.desk.claim()
        await self.desk.deliver(seq, follow_ups=(FollowUpRequest(self.follow_ups.kind, patient),), at=self.now)
        self.follow_ups.wake()
        return seq

    def of(self, seq: int) -> FollowUpView:
        """Return where the follow-up of an entry stands."""
        with Reader(self.desk.folder) as reader:
            found = getattr(reader.show(seq).deliveries[0], self.follow_ups.kind)
        assert isinstance(found, FollowUpView)
        return found

    async def until(self, seq: int, condition: Callable[[FollowUpView], bool]) -> FollowUpView:
        """Wait until a look-up fulfils a condition and return it."""
        async with asyncio.timeout(10):
            while not condition(found := self.of(seq)):  # noqa: ASYNC110 - the journal tells of no change
                await asyncio.sleep(0.005)
        return found

    async def ended(self, seq: int) -> FollowUpView:
        """Wait until a look-up has ended and return it."""
        return await self.until(seq, lambda one: one.state != "waiting")

    def turn(self, by: timedelta) -> None:
        """Put the time forward."""
        self.now += by
        self.follow_ups.wake()


@pytest.fixture
async def server() -> AsyncIterator[FakeFhir]:
    """A scripted server that looks patients up."""
    fake = await FakeFhir().start()
    fake.lookup_paths = {PATH}
    yield fake
    await fake.stop()


@pytest.fixture
async def running(desk: Desk, server: FakeFhir) -> AsyncIterator[Running]:
    """Look-ups that run."""
    made = Running(desk, server)
    made.task = asyncio.create_task(made.follow_ups.run())
    yield made
    made.task.cancel()
    await asyncio.wait({made.task})
    await made.destination.close()


def counted(state: str, reason: str = "") -> float:
    """Return how many look-ups of the destination were counted so."""
    return telemetry.series(telemetry.LOOKUPS, "d", state, reason)._value.get()


async def test_a_patient_is_asked_for_once_in_a_while(running: Running) -> None:
    """The handle is kept; a second event within ten minutes has the same one without a request, a later one asks."""
    before = counted("accepted")
    first = await running.ended(await running.promise("1"))
    assert (first.state, first.reason, first.tries) == ("accepted", "", 1)
    assert first.handle == f"{running.server.base}/RequestResult/p1"
    second = await running.ended(await running.promise("2"))
    assert (second.state, second.reason, second.handle, second.tries) == (
        *("accepted", ASKED_ALREADY, first.handle),
        0,
    )
    await running.ended(await running.promise("3", "Patient/p2"))
    running.turn(ASKED_WITHIN + timedelta(seconds=1))
    await running.ended(await running.promise("4"))
    assert running.server.looked_up == ["p1", "p2", "p1"]
    async with asyncio.timeout(5):
        while counted("accepted") != before + 3:  # noqa: ASYNC110 - counted once it is in the journal
            await asyncio.sleep(0.005)


async def test_several_events_of_a_patient_make_one_look_up(running: Running) -> None:
    """Admission, transfer and discharge that come together are asked for once, the oldest first."""
    running.ready = False
    seqs = [await running.promise(name) for name in "123"]
    running.ready = True
    running.follow_ups.wake()
    ends = [await running.ended(seq) for seq in seqs]
    assert [one.reason for one in ends] == ["", ASKED_ALREADY, ASKED_ALREADY]
    assert running.server.looked_up == ["p1"]


async def test_what_fails_is_tried_again_within_a_bound(running: Running) -> None:
    """Waits grow up to a quarter of an hour; after sixteen failures the look-up is given up, with its last codes."""
    running.server.script.extend(Step("POST", 503) for _ in range(MOST_TRIES))
    running.feeds["adt"].channel = channel(running.server.base, lookup_max_age_hours=100)
    seq = await running.promise("1")
    waits = []
    for tries in range(1, MOST_TRIES):
        found = await running.until(seq, lambda one, tries=tries: one.tries == tries)
        assert (found.state, found.reason, found.codes) == ("waiting", "lookup-failed", ("http-503",))
        assert found.due_at is not None
        waits.append((found.due_at - running.now).total_seconds())
        running.turn(found.due_at - running.now)
    end = await running.ended(seq)
    assert (end.state, end.reason, end.codes, end.tries) == ("given-up", "lookup-failed", ("http-503",), MOST_TRIES)
    assert waits == pytest.approx([min(2.0**n, 900) * 0.999 for n in range(MOST_TRIES - 1)], abs=0.001)
    assert running.server.looked_up == []
    # The next event of this patient is asked for anew.
    await running.ended(await running.promise("2"))
    assert running.server.looked_up == ["p1"]


async def test_the_server_may_ask_for_more_time(running: Running) -> None:
    """Retry-After is longer than the wait would be, so it counts."""
    running.server.script.append(Step("POST", 429, headers={"Retry-After": "40"}))
    seq = await running.promise("1")
    found = await running.until(seq, lambda one: one.tries == 1)
    assert found.due_at == NOW + timedelta(seconds=40)
    running.turn(timedelta(seconds=40))
    assert (await running.ended(seq)).state == "accepted"


async def test_a_refusal_ends_it(running: Running) -> None:
    """A patient without enough demographics is not asked for again; the codes say what was lacking."""
    body = b'{"resourceType":"OperationOutcome","issue":[{"severity":"error","code":"required"}]}'
    running.server.script.append(Step("POST", 422, body=body))
    end = await running.ended(await running.promise("1"))
    assert (end.state, end.reason, end.codes, end.tries) == (
        *("refused", "lookup-refused", ("http-422", "required")),
        1,
    )


@pytest.mark.parametrize(
    ("given", "wait", "reason"),
    [
        pytest.param({"lookup_on": ["A02"]}, timedelta(0), "lookup-turned-off", id="event-taken-out"),
        pytest.param({"mode": "shadow"}, timedelta(0), "lookup-turned-off", id="shadow-by-now"),
        pytest.param({}, 25 * HOUR, "lookup-too-old", id="too-old-by-now"),
        pytest.param(None, timedelta(0), "lookup-turned-off", id="no-channel-any-more"),
    ],
)
async def test_what_is_no_longer_wanted_is_not_asked_for(
    running: Running, given: dict[str, Any] | None, wait: timedelta, reason: str
) -> None:
    """What the channel says when it comes to asking counts: it may have changed, or too much time gone by."""
    running.ready = False
    seq = await running.promise("1")
    if given is None:
        running.feeds.clear()
    else:
        running.feeds["adt"].channel = channel(running.server.base, **given)
    running.ready = True
    running.turn(wait)
    end = await running.ended(seq)
    assert (end.state, end.reason, end.tries) == ("given-up", reason, 0)
    assert running.server.requests == []


async def test_one_that_hangs_keeps_only_few_from_being_asked_for(running: Running) -> None:
    """At most a few requests are under way, and the journal goes on meanwhile."""
    running.server.script.extend(Step("POST", hang=True) for _ in range(MOST_AT_ONCE))
    seqs = [await running.promise(str(n), f"Patient/p{n}") for n in range(MOST_AT_ONCE + 2)]
    async with asyncio.timeout(5):
        while len([one for one in running.server.requests if "retrieve" in one]) < MOST_AT_ONCE:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert await running.desk.record("after", ("mrn|after",))
    running.server._released.set()
    for seq in seqs:
        await running.ended(seq)
    assert len([request for request in running.server.requests if "retrieve" in request]) == MOST_AT_ONCE + 2


async def test_a_fault_of_ours_ends_one_look_up(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody thought of neither stops the engine nor repeats for ever."""

    async def broken(_patient: str, _at: datetime) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(running.destination, "look_up", broken)
    end = await running.ended(await running.promise("1"))
    assert (end.state, end.reason) == ("refused", "engine-error")
    monkeypatch.undo()
    assert (await running.ended(await running.promise("2", "Patient/p2"))).state == "accepted"


async def test_a_journal_that_fails_ends_it_with_its_error(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked for when nobody can write how it ended: the engine hears of it, by the journal's own error."""

    async def broken(_work: object) -> None:
        raise JournalFailedError

    monkeypatch.setattr(running.desk.journal, "write", broken)
    await running.promise("1")
    with pytest.raises(JournalFailedError):
        await asyncio.wait_for(running.task, 10)


async def test_what_is_under_way_at_the_end_is_asked_again(running: Running) -> None:
    """An engine that stops cuts a request off; its look-up waits, and is asked for by the next engine."""
    running.server.script.append(Step("POST", hang=True))
    seq = await running.promise("1")
    async with asyncio.timeout(5):
        while not any("retrieve" in one for one in running.server.requests):  # noqa: ASYNC110 - it tells of none
            await asyncio.sleep(0.005)
    running.task.cancel()
    await asyncio.wait({running.task}, timeout=10)
    assert running.task.cancelled()
    assert (running.of(seq).state, running.of(seq).tries) == ("waiting", 0)
    running.task = asyncio.create_task(running.follow_ups.run())
    assert (await running.ended(seq)).state == "accepted"


async def test_an_ended_delivery_stays_delivered_whatever_becomes_of_its_look_up(running: Running) -> None:
    """The entry's state says nothing of its look-up."""
    running.server.script.append(Step("POST", 404))
    seq = await running.promise("1")
    await running.ended(seq)
    with Reader(running.desk.folder) as reader:
        shown = reader.show(seq)
    assert (shown.row.state, shown.deliveries[0].state) == (State.DELIVERED, State.DELIVERED)

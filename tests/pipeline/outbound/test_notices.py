"""Notices in the spine: of which messages a destination is told, and how it is told beside all deliveries."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from engine import telemetry
from engine.config.channel import Channel
from engine.hl7.message import Message, parse
from engine.pipeline.outbound.follow_ups import MOST_TRIES, Notices, is_announced
from tests.deliver.fake_fhir import FakeFhir, Step
from tests.journal.desk import Desk
from tests.pipeline.outbound.test_look_ups import CLAIMED, Running, admission
from tests.pipeline.outbound.test_look_ups import channel as looking_up

RESULT = parse(b"MSH|^~\\&|LAB|RVB|||20260301120000||ORU^R01^ORU_R01|1|P|2.9\rPID|1||1^^^RVB")


def channel(base: str = "http://127.0.0.1:1/fhir/R4", notify: str = "admin-notify", **given: Any) -> Channel:
    """Return a channel with a destination that is told of events."""
    told = looking_up(base, lookup_on=[])
    one = told.destinations[0].model_dump(mode="json") | {"notify": notify}
    return looking_up(base, **{"lookup_on": [], "destinations": [one]} | given)


@pytest.mark.parametrize(
    ("given", "message", "claimed", "told"),
    [
        pytest.param({}, admission(), {}, True, id="told"),
        pytest.param({"notify": "off"}, admission(), {}, False, id="off"),
        pytest.param({}, RESULT, {"event": "R01"}, False, id="no-adt"),
        pytest.param({}, admission(), {"replay": True}, False, id="replay"),
        pytest.param({}, admission(), {"released": True}, True, id="held-and-released"),
        pytest.param({"mode": "load"}, admission(), {}, False, id="load"),
        pytest.param({"mode": "shadow"}, admission(), {}, False, id="shadow"),
        pytest.param({}, admission(processing="P^I"), {}, False, id="initial-load"),
        pytest.param({}, admission(processing="P^T"), {}, True, id="current"),
    ],
)
def test_of_which_messages_a_destination_is_told(
    given: dict[str, Any], message: Message, claimed: dict[str, Any], told: bool
) -> None:
    """Only of ADT events that happen now, for the first time, and only where it is set so."""
    settings = channel(**given)
    assert is_announced(replace(CLAIMED, **claimed), settings, settings.destinations[0], message) is told


def test_nobody_is_told_by_default() -> None:
    """A destination that says nothing of it is told of nothing."""
    settings = looking_up()
    assert not is_announced(CLAIMED, settings, settings.destinations[0], admission())


@pytest.fixture
async def server() -> AsyncIterator[FakeFhir]:
    """A scripted server that takes notices and has two patients."""
    fake = await FakeFhir().start()
    fake.takes_notices = True
    fake.add("p1")
    fake.add("p2")
    yield fake
    await fake.stop()


@pytest.fixture
async def running(desk: Desk, server: FakeFhir) -> AsyncIterator[Running]:
    """Notices that run."""
    destinations = [channel(server.base).destinations[0].model_dump(mode="json")]
    made = Running(desk, server, Notices, destinations=destinations)
    made.task = asyncio.create_task(made.follow_ups.run())
    yield made
    made.task.cancel()
    await asyncio.wait({made.task})
    await made.destination.close()


def told(server: FakeFhir) -> list[str]:
    """Return of whom the server was told, in order."""
    return [notice["entry"][1]["resource"]["id"] for notice in server.notices]


def counted(state: str, reason: str = "") -> float:
    """Return how many notices of the destination were counted so."""
    return telemetry.series(telemetry.NOTICES, "d", state, reason)._value.get()


async def test_each_event_of_a_patient_is_told(running: Running, server: FakeFhir) -> None:
    """Unlike a look-up, whatever was told just before: each is an event of its own, in their order."""
    before = counted("accepted")
    running.ready = False
    seqs = [await running.promise(name) for name in "123"]
    running.ready = True
    running.follow_ups.wake()
    ends = [await running.ended(seq) for seq in seqs]
    assert {(one.state, one.reason, one.tries) for one in ends} == {("accepted", "", 1)}
    assert told(server) == ["p1"] * 3
    assert len({notice["identifier"]["value"] for notice in server.notices}) == 3
    async with asyncio.timeout(5):
        while counted("accepted") != before + 3:  # noqa: ASYNC110 - counted once it is in the journal
            await asyncio.sleep(0.005)


async def test_an_event_that_waits_holds_the_later_ones_of_its_patient_alone(
    running: Running, server: FakeFhir
) -> None:
    """One that failed comes before the next of the same patient; others go on."""
    server.script.append(Step("POST", 503))
    first = await running.promise("1")
    await running.until(first, lambda one: one.tries == 1)
    second, other = await running.promise("2"), await running.promise("3", "Patient/p2")
    assert (await running.ended(other)).state == "accepted"
    assert running.of(second).state == "waiting"
    running.turn(timedelta(seconds=2))
    assert [(await running.ended(seq)).state for seq in (first, second)] == ["accepted"] * 2
    assert told(server) == ["p2", "p1", "p1"]


async def test_what_fails_is_given_up_after_so_many_tries(running: Running, server: FakeFhir) -> None:
    """As a look-up is; each try has the same identifier. The next event of the patient is told."""
    server.script.extend(Step("POST", 500) for _ in range(MOST_TRIES))
    seq = await running.promise("1")
    for tries in range(1, MOST_TRIES):
        found = await running.until(seq, lambda one, tries=tries: one.tries == tries)
        assert (found.state, found.reason, found.codes) == ("waiting", "notice-failed", ("http-500",))
        assert found.due_at is not None
        running.turn(found.due_at - running.now)
    end = await running.ended(seq)
    assert (end.state, end.reason, end.tries) == ("given-up", "notice-failed", MOST_TRIES)
    bodies = {body for body, asked in zip(server.bodies, server.requests, strict=True) if asked.startswith("POST")}
    assert len(bodies) == 1
    assert (await running.ended(await running.promise("2"))).state == "accepted"


async def test_a_patient_who_is_gone_ends_it(running: Running, server: FakeFhir) -> None:
    """Deleted between delivery and notice: there is nobody to tell of."""
    del server.patients["p1"]
    end = await running.ended(await running.promise("1"))
    assert (end.state, end.reason, end.codes) == ("given-up", "notice-nobody", ())


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"mode": "shadow"}, id="shadow-by-now"),
        pytest.param({"notify": "off"}, id="turned-off"),
        pytest.param(None, id="no-channel-any-more"),
    ],
)
async def test_what_is_no_longer_wanted_is_not_told(
    running: Running, server: FakeFhir, given: dict[str, Any] | None
) -> None:
    """What channel and destination say when it comes to telling counts."""
    running.ready = False
    seq = await running.promise("1")
    if given is None:
        running.feeds.clear()
    else:
        now = channel(server.base, **given)
        running.feeds["adt"] = SimpleNamespace(channel=now)
        running.destination.settings = now.destinations[0]
    running.ready = True
    running.follow_ups.wake()
    end = await running.ended(seq)
    assert (end.state, end.reason, end.tries) == ("given-up", "notice-turned-off", 0)
    assert server.requests == []

"""Alerts of a relay, as those of any destination: a real engine, a real socket, a receiver whose answers are set."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import trustme

from tests.flow.test_alerts import House, message
from tests.ops.relays import LOOPBACK, Receiver, relay

SECONDS = 60.0


@asynccontextmanager
async def house_of(folder: Path, *relays: dict[str, Any]) -> AsyncIterator[House]:
    """A house with an engine that has these relays and no server."""
    house = House(folder)
    await house.start(*relays)
    try:
        yield house
    finally:
        await house.stop()


async def until(house: House, what: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait until the relay is seen to be as it should, and return it."""
    async with asyncio.timeout(SECONDS):
        while True:
            (found,) = await house.act("destinations.list")
            if condition(found):
                return dict(found)
            await asyncio.sleep(0.01)
    raise AssertionError(what)


async def alert(house: House) -> tuple[str, str, str]:
    """Return kind, severity and sentence of the one alert that is open."""
    await house.look()
    (one,) = [one for one in await house.act("alerts.list") if one["kind"] not in {"new-source", "unknown-authority"}]
    return one["kind"], one["severity"], one["sentence"]


async def test_a_receiver_that_is_down(tmp_path: Path) -> None:
    """Its cause in words, while work waits; once it is back all leaves by itself, and the alert ends."""
    receiver = Receiver()
    async with receiver:
        pass
    async with house_of(tmp_path, relay(receiver.port)) as house:
        assert house.engine
        await house.receive(message(1), message(2))
        found = await until(house, "down", lambda one: one["reason"] == "connection-refused")
        assert (found["state"], found["type"], found["waiting"]) == ("unreachable", "mllp", 2)
        throttle = house.engine.dispatches["radiology"].throttle
        throttle.poison_detector.down_since = throttle.now() - 31
        sentence = "radiology does not answer: connection refused."
        assert await alert(house) == ("destination-down", "urgent", sentence)
        async with receiver:
            await house.act("destinations.retry", destination="radiology")
            assert await receiver.gets(2) == [message(1), message(2)]
            await until(house, "well", lambda one: one["state"] == "ready" and not one["waiting"])
            assert await house.look() == []


async def test_a_message_that_is_held_holds_the_feed(tmp_path: Path) -> None:
    """Urgent, as nothing reaches the receiver; once it is mended and released all leaves in order."""
    async with Receiver({"CREG2": "AR"}) as receiver, house_of(tmp_path, relay(receiver.port)) as house:
        await house.receive(*map(message, range(1, 5)))
        await until(house, "held", lambda one: one["held"] == 1)
        sentence = (
            "radiology gets nothing more until somebody decides: 1 held, 2 waiting behind it in the order of the feed."
        )
        assert await alert(house) == ("held-lanes", "urgent", sentence)
        receiver.answers.clear()
        await house.act("messages.release", entry=2)
        got = await receiver.gets(5)
        assert got == [message(1), message(2), message(2), message(3), message(4)]
        await until(house, "done", lambda one: not one["waiting"] and not one["held"])
        assert await house.look() == []


async def test_a_hold_of_one_patient_is_theirs_to_decide(tmp_path: Path) -> None:
    """With the order of each patient the others go on: it is no emergency of the feed."""
    settings = {"order": "patient", "connections": 2}
    async with Receiver({"CREG1": "AE"}) as receiver, house_of(tmp_path, relay(receiver.port, **settings)) as house:
        await house.receive(message(1), message(1, "EHR"), message(2))
        await until(house, "held", lambda one: one["held"] == 1 and one["waiting"] == 1)
        await receiver.gets(2)
        kind, severity, sentence = await alert(house)
        assert (kind, severity) == ("held-lanes", "to decide")
        assert sentence == "One patient's messages are held at radiology and wait for a person."


async def test_a_receiver_that_refuses_all_is_paused(tmp_path: Path) -> None:
    """With `on_held: continue` the same refusal of 50 patients is a hold storm, and no further message is sent."""
    refused = {f"CREG{number}": "AE" for number in range(1, 61)}
    async with Receiver(refused) as receiver, house_of(tmp_path, relay(receiver.port, on_held="continue")) as house:
        await house.receive(*map(message, range(1, 61)))
        found = await until(house, "paused", lambda one: one["state"] == "paused" and not one["under_way"])
        assert (found["reason"], found["detail"]) == ("hold-storm", "receiver-error")
        await house.look()
        kinds = {one["kind"]: one["sentence"] for one in await house.act("alerts.list")}
        assert kinds["hold-storm"].startswith("radiology is paused: the same failure held 50 patients (receiver-error)")
        assert len(receiver.got) < 60


async def test_a_certificate_that_nobody_knows_is_the_destinations_fault(tmp_path: Path) -> None:
    """Nothing is sent, and TLS is blamed; not the network, and no message."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert(LOOPBACK).configure_cert(context)
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), LOOPBACK, 0, ssl=context)
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = {"ca_file": str(tmp_path / "ca.pem")}
    async with house_of(tmp_path, relay(server.sockets[0].getsockname()[1], tls=tls)) as house:
        await house.receive(message(1))
        await until(house, "failing", lambda one: one["state"] == "failing")
        sentence = "radiology cannot be used: its certificate is not valid."
        assert await alert(house) == ("destination-failure", "urgent", sentence)
    server.close()


async def test_the_engines_own_certificate_for_a_relay_is_watched(tmp_path: Path) -> None:
    """By destination and file; a renewed one ends the alert."""
    house = House(tmp_path)
    own, key = tmp_path / "own.pem", tmp_path / "own.key"

    def issue(days: float) -> None:
        made = trustme.CA().issue_cert("engine", not_after=house.now + timedelta(days=days))
        made.cert_chain_pems[0].write_to_path(own)
        made.private_key_pem.write_to_path(key)

    issue(20)
    await house.start(relay(1, tls={"certificate": str(own), "key": str(key)}))
    try:
        await house.look()
        found = {one["kind"]: one["subject"] for one in await house.act("alerts.list")}
        assert found["certificate-expiry"] == f"radiology {own}"
        issue(400)
        assert "certificate-expiry" not in await house.look()
    finally:
        await house.stop()


async def test_an_unknown_outcome_is_decided_by_a_person(tmp_path: Path) -> None:
    """A release sends the same bytes again, a discard says that they arrived; the feed goes on either way."""
    policy = {"on_unknown": "hold"}
    async with (
        Receiver({"CREG1": "drop", "CREG2": "drop"}) as receiver,
        house_of(tmp_path, relay(receiver.port, acknowledgement=policy)) as house,
    ):
        await house.receive(*map(message, range(1, 4)))
        await until(house, "held", lambda one: one["held"] == 1)
        shown = await house.act("messages.show", entry=1)
        assert [(one["reason"], one["notes"]) for one in shown["deliveries"]] == [
            ("outcome-unknown", ["connection-lost"])
        ]
        await house.act("messages.release", entry=1)
        await receiver.gets(3)
        await until(house, "held", lambda one: one["held"] == 1)
        await house.act("messages.discard", entry=2, reason="radiology has it")
        assert await receiver.gets(4) == [message(1), message(1), message(2), message(3)]
        await until(house, "done", lambda one: not one["waiting"] and not one["held"])

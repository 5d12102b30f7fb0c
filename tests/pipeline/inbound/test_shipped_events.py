"""The events of the shipped service over real HTTP: its history, and its webhooks over HTTPS."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from engine.config.channel import Channel
from engine.deliver.fhir_reader import FhirReader
from engine.pipeline.inbound.event_sources import EventSource
from engine.receive.reply import Peer
from tests.interchange.kit import SECRET, Running
from tests.interchange.webhooks.conftest import authority, hook, sending
from tests.interchange.webhooks.receiver import Receiver
from tests.journal.desk import Desk
from tests.pipeline.inbound.history_server import NOON, channel_of, reader_of
from tests.pipeline.inbound.taking import Door

__all__ = ["authority", "hook", "sending"]
R4 = "/fhir/R4"


@pytest.fixture
async def reader(sending: Running, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FhirReader]:
    """What asks the service, signed in."""
    monkeypatch.setenv("ENGINE_SECRET", SECRET)
    monkeypatch.setenv("EVENTS_TOKEN", "events-secret-31c7")
    found = reader_of(channel(sending, "history"))
    yield found
    await found.close()


def channel(service: Running, source: str, **keys: Any) -> Channel:
    """Return a channel of the service's events."""
    auth = {
        "type": "client_credentials", "token_url": f"{service.url}/oauth/token", "client_id": "system",
        "client_secret": {"env": "ENGINE_SECRET"}, "scope": "system/*.*",
    }  # fmt: skip
    return channel_of(f"{service.url}{R4}", source, settings={"profile": "shipped", "auth": auth}, **keys)


def source_of(of: Channel, reader: FhirReader, desk: Desk, door: Door) -> EventSource:
    """Return the source of a channel."""
    assert of.listen.fhir is not None
    return EventSource("back", of.listen.fhir, reader, desk.journal, door.take, lambda: NOON)


def change(service: Running, one: dict[str, Any], **elements: Any) -> dict[str, Any]:
    """Write the next version of a resource."""
    answer = service.ask("PUT", f"{R4}/{one['resourceType']}/{one['id']}", client="system", json=one | elements)
    assert answer.status_code in {200, 201}, answer.text
    return dict(answer.json())


def visit(service: Running, patient_id: str, **elements: Any) -> dict[str, Any]:
    """Make a visit."""
    body = {
        "resourceType": "Encounter", "status": "in-progress", "class": {"code": "IMP"},
        "subject": {"reference": f"Patient/{patient_id}"},
    } | elements  # fmt: skip
    answer = service.ask("POST", f"{R4}/Encounter", client="system", json=body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def test_its_history(sending: Running, reader: FhirReader, desk: Desk) -> None:
    """Every version and deletion of patients and visits, as they were written, over a restart."""
    door, of = Door(desk.journal), channel(sending, "history")
    source = source_of(of, reader, desk, door)
    assert await source.turn() == 2
    patient = sending.create(client="system")
    stay = visit(sending, patient["id"])
    moved = change(sending, patient, birthDate="1984-01-01")
    await source.turn()
    source = source_of(of, reader, desk, door)
    ended = change(sending, stay, status="finished")
    others = [sending.create(client="system", birthDate=f"19{number}-01-01") for number in range(10, 25)]
    assert sending.ask("DELETE", f"{R4}/Encounter/{stay['id']}", client="system").status_code == 204
    await source.turn()
    await source.turn()
    assert source.failing == ""
    versions = [patient, stay, moved, ended, *others]
    names = [f"{one['resourceType']}/{one['id']}/{one['meta']['versionId']}" for one in versions]
    assert await door.names() == [*names, f"Encounter/{stay['id']}/3"]


async def test_pages_of_its_history(
    sending: Running, reader: FhirReader, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Followed by the service's own links."""
    monkeypatch.setattr("engine.pipeline.inbound.history.COUNT", 3)
    door, of = Door(desk.journal), channel(sending, "history")
    source = source_of(of, reader, desk, door)
    await source.turn()
    made = [sending.create(client="system", birthDate=f"19{number}-01-01") for number in range(10, 20)]
    await source.turn()
    assert door.handed == [f"Patient/{one['id']}/1" for one in made]


async def test_its_webhooks_and_what_they_leave_out(
    sending: Running, reader: FhirReader, hook: Receiver, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it sends comes with the token and is not taken twice; a deletion, which it does not send, is caught up."""
    # The service's clock and that of its Date header are one here, and what was just sent has come.
    monkeypatch.setattr("engine.pipeline.inbound.event_sources.LEFT_TO_THE_SERVER", timedelta(seconds=-5))
    endpoint = hook.url.removesuffix("/hook")
    door, of = Door(desk.journal), channel(sending, "subscription", endpoint=endpoint)
    source = source_of(of, reader, desk, door)
    assert await source.turn() == 60
    assert source.failing == ""
    patient = sending.create(client="system")
    stay = visit(sending, patient["id"])
    posts = hook.wait(2)
    assert {(one.path, one.headers["authorization"]) for one in posts} == {
        ("/fhir/events/registry", "Bearer events-secret-31c7")
    }
    await door.take("back", [one.raw for one in posts], Peer("127.0.0.1", 1))
    assert sorted(door.handed) == sorted([f"Patient/{patient['id']}/1", f"Encounter/{stay['id']}/1"])
    assert sending.ask("DELETE", f"{R4}/Encounter/{stay['id']}", client="system").status_code == 204
    # What comes after the newest patient waits for the next round, which is at once.
    assert await source.turn() == 0
    assert await source.turn() == 60
    assert door.handed[2:] == [f"Encounter/{stay['id']}/2"]
    listed = sending.ask("GET", f"{R4}/Subscription", client="system").json()
    assert {(one["resource"]["criteria"], one["resource"]["status"]) for one in listed["entry"]} == {
        ("Patient", "active"), ("Encounter", "active")
    }  # fmt: skip


async def test_a_subscription_that_it_switched_off(
    sending: Running, reader: FhirReader, hook: Receiver, desk: Desk
) -> None:
    """Is active again after the next look; a deleted one is made anew."""
    of = channel(sending, "subscription", endpoint=hook.url.removesuffix("/hook"))
    source = source_of(of, reader, desk, Door(desk.journal))
    await source.turn()
    one, other = (
        entry["resource"] for entry in sending.ask("GET", f"{R4}/Subscription", client="system").json()["entry"]
    )
    change(sending, one, status="off")
    assert sending.ask("DELETE", f"{R4}/Subscription/{other['id']}", client="system").status_code == 204
    await source_of(of, reader, desk, Door(desk.journal)).turn()
    found = [entry["resource"] for entry in sending.ask("GET", f"{R4}/Subscription", client="system").json()["entry"]]
    assert sorted(each["criteria"] for each in found) == ["Encounter", "Patient"]
    assert {each["status"] for each in found} == {"active"}
    assert one["id"] in {each["id"] for each in found}

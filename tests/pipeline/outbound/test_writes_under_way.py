"""Deliveries to a FHIR server whose events a channel takes are waited for, and never for ever."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.config.channel import Channel
from engine.config.destination import Destination
from engine.deliver.destination import FhirDestination
from engine.journal.entry import Claimed
from engine.pipeline.delivery_worker import Carried, DeliveryWorker
from engine.pipeline.feed import Feed, is_watched, writers_of
from engine.pipeline.outbound.change_messages import ChangeMessages, WritesUnderWay
from tests.journal.desk import NOW, Desk

CLAIMED = Claimed(1, "record", b"", "adt", "ADT|RVB", "1", "A01", NOW, 0, 0, None, (1,), replay=False, forced=False)
RELAY = {"name": "ehr", "type": "mllp", "host": "127.0.0.1", "port": 9}


def channel(name: str, listen: dict[str, Any], *destinations: dict[str, Any]) -> Channel:
    """Return a channel."""
    return Channel.model_validate({"channel": name, "listen": listen, "destinations": destinations})


def events(base_url: str, name: str) -> Channel:
    """Return a channel of the events of a server."""
    return channel("back", {"fhir": {"path": "r", "server": {"name": name, "base_url": base_url}}}, RELAY)


FEED = channel(
    "adt", {"http": {"path": "a"}},
    {"name": "record", "base_url": "https://fhir.example/R4/"}, {"name": "other", "base_url": "https://other.example/R4"},
)  # fmt: skip


def feeds(*channels: Channel) -> dict[str, Feed]:
    """Return channels as feeds."""
    return {one.channel: cast("Feed", SimpleNamespace(channel=one)) for one in channels}


class Hanging(DeliveryWorker):
    """A worker whose deliveries never end."""

    async def _verdict_on(self, claimed: Claimed) -> Carried:
        await asyncio.Event().wait()
        raise AssertionError(claimed)


@pytest.mark.parametrize(
    ("server", "name", "writers"),
    [
        ("https://fhir.example/R4", "registry", ("record",)),
        ("https://third.example/R4", "other", ("other",)),
        ("https://third.example/R4", "third", ()),
    ],
)
def test_who_writes_to_the_server_of_events(server: str, name: str, writers: tuple[str, ...]) -> None:
    """A destination of that name, or at that base URL: both may be one server."""
    back = events(server, name)
    assert back.listen.fhir is not None
    assert writers_of(feeds(FEED, back), back.listen.fhir.server) == writers
    assert is_watched(feeds(FEED, back), "record") == ("record" in writers)


async def test_all_that_is_under_way_is_waited_for_and_nothing_that_comes_later() -> None:
    """Of the destinations that are named."""
    writes = WritesUnderWay()
    for name, seq in (("record", 1), ("record", 2), ("other", 3)):
        writes.begin(name, seq)
    waiting = asyncio.create_task(writes.wait(("record",)))
    await asyncio.sleep(0)
    writes.begin("record", 4)
    writes.end("record", 1)
    await asyncio.sleep(0)
    assert not waiting.done()
    writes.end("record", 2)
    await waiting


async def test_a_delivery_that_is_cut_off_is_waited_for_no_more(desk: Desk) -> None:
    """Its destination was taken away while it was under way: an event would stand still for ever."""
    shared = SimpleNamespace(
        feeds=feeds(FEED, events("https://fhir.example/R4", "record")), changes=ChangeMessages(desk.journal, {})
    )
    server = FhirDestination(cast("Destination", FEED.destinations[0]), FEED, clock=lambda: NOW, new_id=lambda: "1")
    parts: Any = (None, desk.journal, None, None, (), shared)
    worker = Hanging("record", server, *parts)
    delivering = asyncio.create_task(worker.deliver(CLAIMED))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(shared.changes.writes.wait(("record",)))
    await asyncio.sleep(0)
    assert not waiting.done()
    delivering.cancel()
    async with asyncio.timeout(5):
        await waiting
    await server.close()

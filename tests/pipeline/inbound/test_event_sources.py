"""Who brings the events of a FHIR server: how it goes on, fails and is told of; and the Subscriptions that it keeps."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from engine.errors import DeliveryError, EventError
from engine.journal.journal import Journal
from engine.journal.state import event_cursors
from engine.pipeline.alerts.kind import AlertKind
from engine.pipeline.configuration import Files
from engine.pipeline.engine import Engine
from engine.pipeline.inbound.event_sources import EventSource
from engine.pipeline.inbound.event_subscriptions import EventSubscriptions
from engine.pipeline.maintenance.watch import Monitor
from engine.receive.reply import Peer
from tests.journal.conftest import address
from tests.journal.desk import Desk
from tests.pipeline.inbound.history_server import ENDPOINT, HistoryServer, channel_of, reader_of
from tests.pipeline.inbound.taking import Door

__all__ = ["address"]
SECRET = "events-secret-31c7"


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HistoryServer]:
    """A server without any version, and the token that it is given."""
    monkeypatch.setenv("EVENTS_TOKEN", SECRET)
    found = await HistoryServer().start()
    yield found
    await found.stop()


class Brought:
    """One channel's source with its journal."""

    def __init__(self, desk: Desk, server: HistoryServer, source: str = "history", **keys: Any) -> None:
        self.desk = desk
        self.server = server
        self.door = Door(desk.journal)
        self.channel = channel_of(server.base, source, **keys)
        self.reader = reader_of(self.channel)
        assert self.channel.listen.fhir is not None
        self.events = self.channel.listen.fhir
        self.restart()

    def restart(self) -> None:
        """Begin anew with what the journal knows."""
        self.source = EventSource(
            "back", self.events, self.reader, self.desk.journal, self.door.take, lambda: self.server.now
        )
        self.subscriptions = EventSubscriptions("back", self.events, self.reader, self.desk.journal)

    async def ids(self) -> dict[str, str]:
        """Return the Subscriptions that the journal knows, by type."""
        kept = await self.desk.journal.read(lambda connection: event_cursors.read(connection, "back"))
        return {key.partition("/")[2]: at for key, at in kept.items() if key.startswith("Subscription/")}

    def unread(self, patience: float = 30) -> str:
        """Return what the alert would say."""
        return self.source.unread(self.server.now, patience)


async def led(*journals: Journal) -> int:
    """Wait until one of the nodes leads; return which."""
    async with asyncio.timeout(30):
        while not any(one.leads for one in journals):  # noqa: ASYNC110 - a thread makes it so
            await asyncio.sleep(0.01)
    return next(number for number, one in enumerate(journals) if one.leads)


@pytest.fixture
async def polled(desk: Desk, server: HistoryServer) -> AsyncIterator[Brought]:
    """A source by history."""
    await led(desk.journal)
    found = Brought(desk, server)
    yield found
    await found.reader.close()


@pytest.fixture
async def subscribed(desk: Desk, server: HistoryServer) -> AsyncIterator[Brought]:
    """A source by Subscription."""
    await led(desk.journal)
    found = Brought(desk, server, "subscription")
    yield found
    await found.reader.close()


async def test_it_asks_as_often_as_it_is_told(polled: Brought) -> None:
    """And takes what there is."""
    assert await polled.source.turn() == 2
    polled.server.tick(6)
    name = polled.server.write("Patient/1")
    assert await polled.source.turn() == 2
    assert polled.door.handed == [name]


async def test_a_failure_is_said_once_and_so_is_its_end(polled: Brought, capsys: pytest.CaptureFixture[str]) -> None:
    """Waits grow to a minute; the alert opens once that has lasted, with the newest reason."""
    await polled.source.turn()
    polled.server.answers += [503] * 8 + [401]
    waits = []
    for wait in range(9):
        waits.append(await polled.source.turn())
        assert polled.unread() == ("" if wait < 5 else "http-401" if wait == 8 else "http-503")
        polled.server.tick(waits[-1])
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert await polled.source.turn() == 2
    assert polled.unread(0) == ""
    lines = capsys.readouterr().out.splitlines()
    assert ["events unread" in line for line in lines if "events" in line and "begin" not in line] == [True, False]
    assert "events read again" in lines[-1]


async def test_a_server_without_a_history_is_told_of_at_once(polled: Brought) -> None:
    """It will not pass by itself."""
    polled.server.unsupported = 404
    await polled.source.turn()
    assert polled.unread() == "history-unsupported"


async def test_what_cannot_be_stored_is_told_of(polled: Brought) -> None:
    """And comes again."""
    await polled.source.turn()
    polled.server.tick(6)
    name = polled.server.write("Patient/1")
    polled.door.fails_after = 0
    await polled.source.turn()
    assert polled.unread(0) == "not-stored"
    polled.door.fails_after = None
    await polled.source.turn()
    assert (polled.unread(0), polled.door.handed) == ("", [name])


async def test_of_several_nodes_one_asks(polled: Brought, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that leads; another that takes over begins where that one was."""
    await polled.source.turn()
    polled.server.asked.clear()
    with monkeypatch.context() as context:
        context.setattr(type(polled.desk.journal), "leads", property(lambda _journal: False))
        assert await polled.source.turn() == 2
    assert polled.server.asked == []
    polled.server.tick(6)
    name = polled.server.write("Patient/1")
    polled.restart()
    await polled.source.turn()
    assert polled.door.handed == [name]


@pytest.mark.parametrize(
    ("profile", "criteria"), [("generic", "Patient?"), ("hapi", "Patient?"), ("shipped", "Patient")]
)
async def test_a_subscription_is_made_for_each_type(
    desk: Desk, server: HistoryServer, profile: str, criteria: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the criteria that the server takes, the token, and the whole resource as payload; the log has no token."""
    found = Brought(desk, server, "subscription", settings={"profile": profile})
    assert await found.subscriptions.keep()
    assert await found.ids() == {"Patient": "s1", "Encounter": "s2"}
    made = server.subscriptions["s1"]
    assert made == {
        "resourceType": "Subscription", "id": "s1", "status": "active", "reason": "adt-engine, channel back",
        "criteria": criteria,
        "channel": {
            "type": "rest-hook", "endpoint": f"{ENDPOINT}/fhir/events/registry", "payload": "application/fhir+json",
            "header": [f"Authorization: Bearer {SECRET}"],
        },
    }  # fmt: skip
    assert SECRET not in capsys.readouterr().out
    await found.reader.close()


async def test_a_subscription_is_made_once(subscribed: Brought, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked at afterwards; written anew where the token is another one, and after a start: nobody reads one back."""
    server = subscribed.server
    assert await subscribed.subscriptions.keep()
    server.asked.clear()
    assert not await subscribed.subscriptions.keep()
    assert server.asked == ["GET Subscription/s1", "GET Subscription/s2"]
    monkeypatch.setenv("EVENTS_TOKEN", "another")
    assert not await subscribed.subscriptions.keep()
    subscribed.restart()
    server.asked.clear()
    assert not await subscribed.subscriptions.keep()
    assert [one.partition(" ")[0] for one in server.asked] == ["GET", "PUT"] * 2
    assert sorted(server.subscriptions) == ["s1", "s2"]
    assert [one["channel"]["header"] for one in server.subscriptions.values()] == [
        ["Authorization: Bearer another"]
    ] * 2


@pytest.mark.parametrize("status", ["off", "error"])
async def test_a_subscription_that_was_switched_off_is_set_active(subscribed: Brought, status: str) -> None:
    """And what was not sent meanwhile is caught up."""
    await subscribed.subscriptions.keep()
    subscribed.server.subscriptions["s2"]["status"] = status
    assert await subscribed.subscriptions.keep()
    assert subscribed.server.subscriptions["s2"]["status"] == "active"


async def test_a_subscription_that_is_gone_is_made_anew(subscribed: Brought) -> None:
    """Also where it goes between two questions."""
    server = subscribed.server
    await subscribed.subscriptions.keep()
    server.subscriptions.pop("s1")
    assert await subscribed.subscriptions.keep()
    assert (await subscribed.ids())["Patient"] == "s3"
    server.refused["PUT Subscription/s2"] = 410
    server.subscriptions["s2"]["status"] = "off"
    assert await subscribed.subscriptions.keep()
    assert (await subscribed.ids())["Encounter"] == "s4"


@pytest.mark.parametrize("searches", [True, False])
async def test_a_subscription_whose_making_was_not_answered(subscribed: Brought, searches: bool) -> None:
    """Is found by its endpoint where the server has such a search; else there are two, and each event comes twice."""
    server = subscribed.server
    server.searches = searches
    await subscribed.subscriptions.keep()
    work = {"Subscription/Patient": "", "Subscription/Encounter": ""}
    await subscribed.desk.journal.write(lambda connection: event_cursors.move(connection, "back", work))
    subscribed.restart()
    await subscribed.subscriptions.keep()
    assert len(server.subscriptions) == (2 if searches else 4)


async def test_another_endpoint_is_written_into_it(subscribed: Brought) -> None:
    """A channel that is described anew keeps its Subscription."""
    server = subscribed.server
    await subscribed.subscriptions.keep()
    other = Brought(subscribed.desk, server, "subscription", path="elsewhere")
    assert await other.subscriptions.keep()
    assert server.subscriptions["s1"]["channel"]["endpoint"] == f"{ENDPOINT}/fhir/events/elsewhere"
    assert len(server.subscriptions) == 2
    await other.reader.close()


async def test_a_subscription_that_is_refused_is_told_of(subscribed: Brought) -> None:
    """The history is read all the same."""
    server = subscribed.server
    await subscribed.source.turn()
    server.tick(30)
    name = server.write("Patient/1")
    server.tick(30)
    subscribed.restart()
    server.refused["PUT Subscription/s1"] = 422
    await subscribed.source.turn()
    assert subscribed.unread(0) == "http-422"
    assert subscribed.door.handed == [name]
    with pytest.raises(DeliveryError, match="http-422"):
        await subscribed.subscriptions.keep()


async def test_a_token_that_cannot_be_read(subscribed: Brought, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is told of by its code."""
    monkeypatch.delenv("EVENTS_TOKEN")
    with pytest.raises(EventError, match="secret-unreadable"):
        await subscribed.subscriptions.keep()


async def test_what_the_server_did_not_send_is_caught_up(subscribed: Brought) -> None:
    """Once a minute: webhooks that were given up, and deletions; not what came, nor what may be coming just now."""
    server, door = subscribed.server, subscribed.door
    assert await subscribed.source.turn() == 60
    server.tick(10)
    came, lost = server.write("Patient/1"), server.write("Encounter/1")
    body = orjson.dumps(server.versions["Patient"][0]["entry"]["resource"])
    (sent,) = await door.take("back", [body], Peer("127.0.0.1", 1))
    await subscribed.source.turn()
    assert (door.handed, sent.duplicate) == ([came], False)
    server.tick(30)
    gone = server.write("Patient/1", deleted=True)
    await subscribed.source.turn()
    assert door.handed == [came, lost]
    server.tick(30)
    await subscribed.source.turn()
    subscribed.restart()
    await subscribed.source.turn()
    assert door.handed == [came, lost, gone]


async def test_a_server_with_subscriptions_and_without_a_history(
    subscribed: Brought, capsys: pytest.CaptureFixture[str]
) -> None:
    """No alert opens for that alone; an alert that opens says it, and the log does once."""
    server = subscribed.server
    await subscribed.source.turn()
    server.unsupported = 404
    for _ in range(2):
        assert await subscribed.source.turn() == 60
    assert subscribed.unread(0) == ""
    assert capsys.readouterr().out.count("missed events are not caught up") == 1
    subscribed.restart()
    server.refused["PUT Subscription/s1"] = 422
    await subscribed.source.turn()
    assert subscribed.unread(0) == "http-422, history-unsupported"


async def test_subscriptions_are_looked_at_every_five_minutes(subscribed: Brought) -> None:
    """And the history each minute."""
    asked = []
    for _ in range(11):
        subscribed.server.asked.clear()
        assert await subscribed.source.turn() == 60
        asked.append(any("Subscription" in one for one in subscribed.server.asked))
    assert asked == [number % 5 == 0 for number in range(11)]


def write(folder: Path, base: str, **keys: Any) -> None:
    """Write the channel file of a source."""
    keys = keys if "source" in keys else {"every_seconds": 0.1} | keys
    channel = channel_of(base, **keys).model_dump(mode="json", exclude_unset=True)
    (folder / "channels").mkdir(exist_ok=True)
    (folder / "channels" / "back.yaml").write_bytes(orjson.dumps(channel))


@pytest.fixture
async def engine(server: HistoryServer, tmp_path: Path) -> AsyncIterator[Engine]:
    """An engine whose channel asks for the history of the server."""
    write(tmp_path, server.base)
    found = await Engine.start(Files(tmp_path / "channels", None, tmp_path / "data"))
    yield found
    await found.stop()


async def test_a_channel_brings_its_events_while_it_is_there(
    engine: Engine, server: HistoryServer, tmp_path: Path
) -> None:
    """Stopped it asks nothing, started it goes on where it was; so does one that is described anew.

    One that others send to has none.
    """
    door = Door(engine.journal, filters=True)
    engine.sources.take = door.take
    await begun(engine, server)
    names = [server.write("Patient/1")]
    await door.until(*names)
    await engine.listeners.stop("back", engine.now(), "root")
    assert engine.sources.open == {}
    server.tick(10)
    names.append(server.write("Patient/2"))
    await engine.listeners.start(engine.feeds["back"].channel)
    await door.until(*names)
    before = engine.sources.open["back"]
    write(tmp_path, server.base, types=["Patient"])
    await engine.reload()
    assert engine.sources.open["back"] is not before
    server.tick(10)
    names.append(server.write("Patient/3"))
    await door.until(*names)
    assert await door.names() == names
    write(tmp_path, server.base, source="webhook")
    await engine.reload()
    assert engine.sources.open == {}


async def begun(engine: Engine, server: HistoryServer) -> None:
    """Let a source begin."""
    await engine.sources.open["back"].turn()
    server.tick(10)


async def test_an_alert_opens_and_clears(engine: Engine, server: HistoryServer) -> None:
    """Of the channel, with the reason; it clears with the round that succeeds."""
    server.unsupported = 501
    source = engine.sources.open["back"]
    await source.turn()
    monitor = Monitor(engine)
    await monitor.look(engine.now())
    assert [(one.kind, one.subject, one.detail) for one in engine.alerts.open() if "events" in one.kind] == [
        ("events-unread", "back", "history-unsupported")
    ]
    server.unsupported = 0
    await source.turn()
    await monitor.look(engine.now() + timedelta(seconds=5))
    assert not engine.alerts.is_open(AlertKind.EVENTS_UNREAD, "back")


@pytest.mark.parametrize("address", ["postgresql"], indirect=True)
async def test_of_two_nodes_one_brings_the_events(address: str, server: HistoryServer, tmp_path: Path) -> None:
    """Each version once; when the node that leads is stopped, the other goes on where it was."""
    write(tmp_path, server.base)
    files = [Files(tmp_path / "channels", None, tmp_path / name, address, name) for name in ("n1", "n2")]
    nodes = [await Engine.start(one) for one in files]
    doors = [Door(node.journal, filters=True) for node in nodes]
    for node, door in zip(nodes, doors, strict=True):
        node.sources.take = door.take
    try:
        first = await led(*(node.journal for node in nodes))
        second = 1 - first
        await begun(nodes[first], server)
        names = [server.write("Patient/1")]
        await doors[first].until(*names)
        await nodes[first].stop()
        server.tick(10)
        names.append(server.write("Patient/2"))
        await doors[second].until(names[1])
        assert await doors[second].names() == names
        assert (len(doors[first].handed), doors[second].recorded[-1].duplicate) == (1, False)
    finally:
        for node in nodes:
            await node.stop()

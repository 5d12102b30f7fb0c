"""Alerts of a whole engine: opened and cleared by what really happens, heard by log and webhook, kept over restarts."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import trustme

from engine import telemetry
from engine.database.connection import Connection
from engine.database.postgresql import connect
from engine.errors import StartError
from engine.journal.nodes import lease, telling
from engine.journal.read.reading import Reader
from engine.journal.state import uptime
from engine.journal.write.backend import SharedJournal
from engine.ops.access.access import Access
from engine.ops.access.actor import Actor, Role
from engine.ops.access.keys import Keys
from engine.ops.background import turned_away
from engine.ops.operations.runner import Operations
from engine.ops.operations.table import ALL
from engine.pipeline.configuration import Files
from engine.pipeline.engine import Engine
from engine.pipeline.maintenance.watch import Monitor
from engine.pipeline.post import HttpIntake
from engine.receive.block import Block, BlockKind
from engine.receive.reply import Peer
from tests.flow.rig import channel_file

NIGHT = datetime(2027, 3, 1, 2, tzinfo=UTC)
ROOT = Actor("root", Role.OWNER, "socket")
HERE = Peer("127.0.0.1", 4711)


def message(number: int, sender: str = "REG", authority: str = "RVB") -> bytes:
    """Return an A28 of one person."""
    head = f"MSH|^~\\&|{sender}|RIVERBEND|X|Y|20270301020000||ADT^A28|C{sender}{number}|P|2.5.1\rEVN||20270301020000\r"
    return f"{head}PID|1||{number}^^^{authority}^MR||Quint^Ada||19840229|F\r".encode()


class House:
    """An engine within the test, whose watch looks when the test says so, at the time that the test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = NIGHT
        self.journal = ""
        self.engine: Engine | None = None
        self.watch: Monitor | None = None
        self.access: Access | None = None

    def clock(self) -> datetime:
        """Tell the test's time."""
        return self.now

    def steady(self) -> float:
        """Tell seconds that go on with the test's time."""
        return self.now.timestamp()

    async def start(self, *destinations: dict[str, Any]) -> Engine:
        """Start an engine whose destination does not answer, or that has these instead."""
        (self.folder / "channels").mkdir(exist_ok=True)
        channel = channel_file("http://127.0.0.1:9") | {"contact": "desk 7"}
        channel["destinations"][0]["auth"] = {"type": "none"}
        if destinations:
            channel["destinations"] = destinations
        (self.folder / "channels" / "a.yaml").write_bytes(orjson.dumps(channel))
        files = Files(self.folder / "channels", None, self.folder / "data", journal=self.journal)
        self.engine = await Engine.start(files, self.clock, self.steady)
        keys = Keys.of(self.engine.files.data)
        self.access = access = Access(self.engine.journal, keys, self.clock)
        self.watch = Monitor(self.engine, turned_away=lambda: turned_away(access))
        return self.engine

    async def describe(self, **settings: Any) -> None:
        """Describe the destination anew, and put that in force."""
        assert self.engine
        file = self.folder / "channels" / "a.yaml"
        channel = orjson.loads(file.read_bytes())
        channel["destinations"][0] |= settings
        file.write_bytes(orjson.dumps(channel))
        await self.engine.reload()

    async def look(self, **later: float) -> list[str]:
        """Let some time go by, look, and return the kinds of the alerts that are open; the status says the same."""
        assert self.engine
        assert self.watch
        self.now += timedelta(**later)
        await self.watch.look(self.now)
        said = {(one["sentence"], one["severity"]) for one in (await self.act("status.show"))["incidents"]}
        fresh = [one for one in await self.act("alerts.list") if not one["acknowledged_at"]]
        assert {(one["sentence"], one["severity"]) for one in fresh} <= said
        return [alert.kind for alert in self.engine.alerts.open()]

    async def act(self, name: str, **given: Any) -> Any:
        """Do an act, as its owner."""
        assert self.engine
        return await Operations(self.engine, ALL).answer(name, ROOT, given)

    async def receive(self, *messages: bytes) -> None:
        """Take messages in, as if they came by the door."""
        assert self.engine
        for raw in messages:
            await self.engine.listeners.intakes["riverbend-adt"].answer(Block(raw, BlockKind.COMPLETE, 0.0, 0.0), HERE)

    async def stop(self) -> None:
        """Stop the engine."""
        if self.engine is not None:
            await self.engine.stop()
            self.engine = None


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    """A house with an engine."""
    found = House(tmp_path)
    await found.start()
    yield found
    await found.stop()


async def test_a_queue_that_grows_old_opens_an_alert_until_it_is_gone(house: House) -> None:
    """The destination is down: age, and nothing else; discarding what waits clears it."""
    await house.receive(message(1))
    assert await house.look() == []
    assert await house.look(minutes=14) == []
    assert await house.look(minutes=2) == ["queue-age"]
    (shown,) = await house.act("alerts.list")
    assert (shown["subject"], shown["can_wait"], bool(shown["next_step"])) == ("interchange", False, True)
    await house.act("messages.discard", entry=1, reason="a test")
    assert await house.look() == []


async def test_who_is_refused_for_want_of_room_is_named(house: House) -> None:
    """Address, count and limit, for as long as it goes on; a quarter of an hour after the last one it is over."""
    assert house.engine
    file = house.folder / "channels" / "a.yaml"
    file.write_bytes(orjson.dumps(orjson.loads(file.read_bytes()) | {"limits": {"connections_per_address": 8}}))
    await house.engine.reload()
    listener = house.engine.listeners.open["riverbend-adt"]
    assert await house.look() == []
    lines = [await asyncio.open_connection(listener.host, listener.port) for _ in range(10)]
    async with asyncio.timeout(30):
        for reader, _writer in lines[8:]:
            assert await reader.read() == b""
    assert await house.look() == ["connections-refused"]
    (shown,) = await house.act("alerts.list")
    told = (shown["subject"], shown["detail"], shown["severity"])
    assert told == ("riverbend-adt", "127.0.0.1 2 times by limits.connections_per_address 8", "urgent")
    assert await house.look(minutes=14) == ["connections-refused"]
    assert await house.look(minutes=2) == []
    for _reader, writer in lines:
        writer.close()


async def test_a_post_that_is_refused_for_want_of_room_is_named(house: House) -> None:
    """As connections are: by HTTP each message under way counts as one, by the same limits."""
    assert house.engine
    file = house.folder / "channels" / "a.yaml"
    doors: dict[str, Any] = {"listen": {"http": {"path": "adt"}}, "limits": {"connections_per_address": 2}}
    file.write_bytes(orjson.dumps(orjson.loads(file.read_bytes()) | doors))
    await house.engine.reload()
    assert await house.look() == []
    door = HttpIntake(house.engine)
    answers = await asyncio.gather(*(door.answer("adt", message(one), HERE) for one in range(1, 6)))
    assert sorted(status for status, _type, _text in answers) == [200, 200, 503, 503, 503]
    assert await house.look() == ["connections-refused"]
    (shown,) = await house.act("alerts.list")
    told = (shown["subject"], shown["detail"], shown["severity"])
    assert told == ("riverbend-adt", "127.0.0.1 3 times by limits.connections_per_address 2", "urgent")


async def test_an_address_off_the_allow_list_is_named(house: House) -> None:
    """By MLLP and by HTTP alike: a sender whose address changed is refused before a byte is read."""
    assert house.engine
    file = house.folder / "channels" / "a.yaml"
    doors: dict[str, Any] = {
        "listen": {"mllp": {"host": "127.0.0.1", "port": 0}, "http": {"path": "adt"}},
        "allow": ["10.0.0.0/8"],
    }
    file.write_bytes(orjson.dumps(orjson.loads(file.read_bytes()) | doors))
    await house.engine.reload()
    assert await house.look() == []
    listener = house.engine.listeners.open["riverbend-adt"]
    reader, writer = await asyncio.open_connection(listener.host, listener.port)
    assert await reader.read() == b""
    writer.close()
    status, _type, _text = await HttpIntake(house.engine).answer("adt", message(1), HERE)
    assert status == 403
    assert await house.look() == ["connections-refused"]
    (shown,) = await house.act("alerts.list")
    assert shown["sentence"] == "riverbend-adt refuses senders: 127.0.0.1 2 times by the allow list."


async def test_a_damaged_journal_is_urgent_until_its_file_is_sound(house: House) -> None:
    """What the daily look found (tests/pipeline/maintenance/test_checking.py) is said until it finds nothing."""
    assert house.engine
    assert await house.look() == []
    house.engine.damage = "table answered"
    assert await house.look() == ["journal-damaged"]
    (shown,) = await house.act("alerts.list")
    said = (shown["sentence"], shown["severity"])
    assert said == ("The journal's file is damaged: table answered.", "urgent")
    house.engine.damage = ""
    assert await house.look() == []


async def test_the_pages_certificate_is_watched_until_it_is_renewed(house: House, tmp_path: Path) -> None:
    """It can wait, is urgent on its last day, has ended, and is well once the renewed file is in its place."""
    assert house.engine
    file = tmp_path / "pages.pem"
    authority = trustme.CA()
    house.watch = Monitor(house.engine, certificate=file)

    async def seen(**later: float) -> list[tuple[str, str, str]]:
        await house.look(**later)
        found = await house.act("alerts.list")
        return [(one["kind"], one["severity"], one["detail"]) for one in found if one["subject"] == f"engine {file}"]

    def issue(ends: datetime) -> None:
        file.write_bytes(authority.issue_cert("127.0.0.1", not_after=ends).cert_chain_pems[0].bytes())

    issue(NIGHT + timedelta(days=20))
    days, at = (
        "pages.pem: 20 days left, until 2027-03-21 02:00 UTC",
        "pages.pem: ends in 12 h 0 min, at 2027-03-21 02:00 UTC",
    )
    assert await seen() == [("certificate-expiry", "can wait", days)]
    assert await seen(days=19, hours=12) == [("certificate-ends", "urgent", at)]
    assert [kind for kind, _, _ in await seen(hours=13)] == ["certificate-expired"]
    issue(NIGHT + timedelta(days=400))
    assert await seen() == []


async def test_the_engines_own_certificate_for_a_destination_is_watched(house: House, tmp_path: Path) -> None:
    """As that of a listener; the alert names destination and file, and ends with the renewed pair."""
    pair = (tmp_path / "own.pem", tmp_path / "own.key")
    authority = trustme.CA()

    def issue(days: float) -> None:
        made = authority.issue_cert("engine", not_after=house.now + timedelta(days=days))
        made.cert_chain_pems[0].write_to_path(str(pair[0]))
        made.private_key_pem.write_to_path(str(pair[1]))

    issue(20)
    await house.describe(client_certificate=str(pair[0]), client_key=str(pair[1]))
    assert await house.look() == ["certificate-expiry"]
    (alert,) = await house.act("alerts.list")
    assert alert["subject"] == f"interchange {pair[0]}"
    issue(400)
    assert await house.look() == []


async def test_a_destination_that_is_down_while_work_waits_opens_an_alert(house: House) -> None:
    """Half a minute after it was last known to answer; nothing is wrong while nothing waits."""
    assert house.engine
    throttle = house.engine.dispatches["interchange"].throttle
    throttle.poison_detector.down_since = throttle.now() - 31
    assert await house.look() == []
    await house.receive(message(1))
    assert await house.look() == ["destination-down"]
    await house.act("messages.discard", entry=1, reason="a test")
    assert await house.look() == []


async def test_what_waited_through_an_outage_is_known(house: House) -> None:
    """While the alert is open, and for the messages that came before it cleared; after a stop of more than minutes."""
    engine = house.engine
    assert engine
    health = engine.dispatches["interchange"].health
    assert health.blocked_until == NIGHT
    await house.act("destinations.pause", destination="interchange")
    for _minute in range(30):
        await house.look(minutes=1)
        await engine.journal.write(partial(uptime.seen, now=house.now))
    assert health.blocked_until == house.now
    await house.act("destinations.resume", destination="interchange")
    await house.look(seconds=5)
    over = house.now
    await house.look(seconds=5)
    assert health.blocked_until == over
    await engine.journal.write(partial(uptime.seen, now=house.now))
    for pause, since in ((timedelta(minutes=1), NIGHT), (timedelta(minutes=9), None)):
        await house.stop()
        house.now += pause
        engine = await house.start()
        assert engine.running_since == (since or house.now), "a restart is no outage, a stop of minutes is"
        await engine.journal.write(partial(uptime.seen, now=house.now))
    with Reader(engine.files.data) as reader:
        found = reader.outages(NIGHT, house.now)
    assert [(outage.kind, outage.subject) for outage in found] == [
        ("destination-paused", "interchange"),
        ("stopped", "engine"),
    ]


async def test_a_pause_is_one_alert_and_outlives_a_restart(house: House) -> None:
    """Opened once; the next life finds it open and clears it once."""
    await house.act("destinations.pause", destination="interchange")
    assert await house.look() == ["destination-paused"]
    await house.stop()
    engine = await house.start()
    heard: list[str] = []
    engine.alerts.listeners.append(lambda alert: heard.append(alert.kind))
    assert await house.look(seconds=10) == ["destination-paused"]
    assert heard == []
    await house.act("destinations.resume", destination="interchange")
    assert await house.look(seconds=10) == []
    assert heard == ["destination-paused"]
    assert [one["kind"] for one in await house.act("alerts.list", all=True)] == ["destination-paused"]


async def test_strangers_are_noticed_once(house: House) -> None:
    """The first source of a channel is its own; a second one, and an authority that is not listed, are news."""
    await house.receive(message(1))
    assert await house.look() == []
    await house.receive(message(2, sender="LAB"), message(3, authority="ELSEWHERE"))
    assert await house.look() == ["new-source", "unknown-authority"]
    for alert in await house.act("alerts.list"):
        assert alert["detail"].startswith("entry ")
        assert alert["contact"] == "desk 7"
        await house.act("alerts.acknowledge", alert=alert["id"])
    await house.receive(message(4, sender="LAB"), message(5, authority="ELSEWHERE"))
    assert await house.look() == []
    await house.stop()
    await house.start()
    await house.receive(message(6, sender="LAB"), message(7, authority="ELSEWHERE"))
    assert await house.look() == []


async def test_guessing_is_heard_of_once(house: House) -> None:
    """Wrong log-ins and wrong tokens open an alert each, those that must wait too; it clears once they have ended."""
    assert await house.look() == []
    heard: list[tuple[str, bool]] = []
    assert house.engine
    assert house.access
    house.engine.alerts.listeners.append(lambda alert: heard.append((alert.kind, alert.cleared_at is not None)))
    for number in range(20):
        await house.access.log_in("ann", f"guess {number}", "", "192.0.2.7")
        await house.access.actor_of("adt_guessed")
    assert await house.look(minutes=1) == ["log-in-failures", "token-failures"]
    details = [alert["detail"] for alert in await house.act("alerts.list")]
    assert details == ["20 in 15 minutes"] * 2
    await house.access.log_in("ann", "one more", "", "192.0.2.7")
    assert await house.look(minutes=1) == ["log-in-failures", "token-failures"]
    assert await house.look(minutes=16) == []
    assert heard == [(kind, over) for over in (False, True) for kind in ("log-in-failures", "token-failures")]


async def test_a_refused_reload_is_said_until_a_good_one(house: House) -> None:
    """The engine runs on with the old files, and somebody hears of it."""
    file = house.folder / "channels" / "b.yaml"
    file.write_text("channel: b\nauthoritees: {}\nmode: life\ntimezone: Mars\nstale: never\n")
    assert house.engine
    with pytest.raises(Exception, match="listen"):
        await house.engine.reload()
    assert await house.look() == ["reload-failed"]
    (alert,) = await house.act("alerts.list")
    assert f"{file}:2:1: authoritees: unknown key; did you mean authorities?" in alert["detail"]
    assert alert["detail"].endswith(" more")
    assert alert["detail"].count(str(file)) == 3
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        door = f"channel: b\nlisten: {{mllp: {{port: {port}}}}}\n"
        file.write_text(f"{door}destinations: [{{name: x, base_url: 'http://127.0.0.1:9'}}]\n")
        with pytest.raises(StartError):
            await house.engine.reload()
    assert await house.look() == ["reload-failed"]
    assert str(port) in (await house.act("alerts.list"))[0]["detail"]
    file.unlink()
    await house.engine.reload()
    assert await house.look() == []


async def test_a_channel_without_anybody_is_noticed_after_an_hour(house: House) -> None:
    """No sender, or nothing from one: which of the two is said, and neither where the channel is stopped."""
    assert await house.look(minutes=59) == []
    assert await house.look(minutes=2) == ["no-sender"]
    await house.act("channels.stop", channel="riverbend-adt")
    assert await house.look(minutes=1) == ["channel-stopped"]


async def test_refusals_open_an_alert_by_their_share(house: House) -> None:
    """Twenty of twenty are too many; a quarter of an hour of good ones clears it."""
    await house.look()
    await house.receive(*(message(number).replace(b"|P|", b"|T|") for number in range(20)))
    assert "refusal-ratio" in await house.look(seconds=10)
    assert "refusal-ratio" in await house.look(minutes=10)
    assert "refusal-ratio" not in await house.look(minutes=6)


def sample(name: str, **labels: str) -> float:
    """Return a metric's value."""
    return telemetry.REGISTRY.get_sample_value(name, labels) or 0.0


MOVED: tuple[Callable[[], float], ...] = (
    lambda: sample("adt_queue_depth", destination="interchange"),
    lambda: sample("adt_queue_age_seconds", destination="interchange"),
    lambda: sample("adt_journal_commits_total"),
    lambda: sample("adt_journal_operations_total"),
    lambda: sample("adt_journal_bytes"),
    lambda: sample("adt_disk_free_bytes"),
    lambda: sample("adt_ack_seconds_count", channel="riverbend-adt"),
    lambda: sample("adt_alerts_open"),
    lambda: sample("adt_destination_paused", destination="interchange"),
)


async def test_the_gauges_move(house: House) -> None:
    """Queue, age, commits, sizes, acknowledgements, alerts and pauses are seen in the metrics after a look."""
    before = sample("adt_ack_seconds_count", channel="riverbend-adt")
    await house.act("destinations.pause", destination="interchange")
    await house.receive(message(1), message(2))
    await house.look(minutes=1)
    values = [read() for read in MOVED]
    assert all(values), values
    assert values[0] == 2
    assert values[6] == before + 2
    host, port = "127.0.0.1", (await house.act("channels.list"))[0]["port"]
    _reader, writer = await asyncio.open_connection(host, port)
    async with asyncio.timeout(60):
        while not sample("adt_connections", channel="riverbend-adt"):
            await house.look()
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("journal", ["postgresql"], indirect=True)
async def test_nodes_that_differ_are_told_of_once(tmp_path: Path, journal: str) -> None:
    """However often the leading node looks, the alert opens once, and clears once they are the same."""
    house = House(tmp_path)
    house.journal = journal
    engine = await house.start()
    heard: list[tuple[str, bool]] = []
    engine.alerts.listeners.append(lambda one: heard.append((one.kind, one.cleared_at is not None)))
    async with asyncio.timeout(30):
        while not engine.journal.leads:  # noqa: ASYNC110 - its session takes the lead
            await asyncio.sleep(0)
    other = SharedJournal(journal, "other", "elsewhere", "test", "otherwise", lambda *_: None, lambda: None)
    incarnation = await asyncio.to_thread(_other_node, journal, other)
    for _ in range(3):
        assert "nodes-differ" in await house.look(seconds=5)
    assert heard.count(("nodes-differ", False)) == 1
    assert ("nodes-differ", True) not in heard
    await engine.journal.write(lambda connection: lease.end(connection, incarnation, "stopped") and None)
    assert "nodes-differ" not in await house.look(seconds=5)
    assert heard.count(("nodes-differ", True)) == 1
    await house.stop()


@pytest.mark.parametrize("journal", ["postgresql"], indirect=True)
async def test_a_node_that_is_lost_opens_an_alert_until_it_is_back(tmp_path: Path, journal: str) -> None:
    """Its lease ran out: the others say so, until a node of its name begins again; one that stops is not lost."""
    house = House(tmp_path)
    house.journal = journal
    engine = await house.start()
    async with asyncio.timeout(30):
        while not engine.journal.leads:  # noqa: ASYNC110 - its session takes the lead
            await asyncio.sleep(0)
    (runs,) = (await engine.journal.read(telling.configurations)).values()
    other = SharedJournal(journal, "other", "elsewhere", "test", runs, lambda *_: None, lambda: None)
    incarnation = await asyncio.to_thread(_other_node, journal, other)
    assert await house.look(seconds=5) == []
    await engine.journal.write(partial(_lose, incarnation=incarnation))
    assert await house.look(seconds=5) == ["node-lost"]
    (shown,) = await house.act("alerts.list")
    assert shown["sentence"].startswith("A node is gone, and the others do its work: other since ")
    assert shown["severity"] == "urgent"
    incarnation = await asyncio.to_thread(_other_node, journal, other)
    assert await house.look(seconds=5) == []
    await engine.journal.write(lambda connection: lease.end(connection, incarnation, "stopped") and None)
    assert await house.look(seconds=5) == []
    await house.stop()


def _lose(connection: Connection, incarnation: int) -> None:
    """End a node as the others do once its lease has run out."""
    connection.execute("UPDATE node SET until = moment() - 1 WHERE incarnation = ?", (incarnation,))
    assert lease.end(connection, incarnation, "expired")


def _other_node(address: str, other: SharedJournal) -> int:
    with contextlib.closing(connect(address)) as connection:
        return lease.begin(connection, other)

"""What stops by itself or by a person, through the whole engine: destinations, merges and channels, over restarts."""

import asyncio
import contextlib
from typing import Any

import orjson
import pytest

from tests.crash.checker import History, Verdict, judge
from tests.flow.feed import FeedMessage, make_feed
from tests.flow.proxy import Fault
from tests.flow.rig import Rig, Row, channel_file, destination, running

pytestmark = pytest.mark.parametrize("journal", ["sqlite", "postgresql"], indirect=True)

STORM = 60
HEAD = "MSH|^~\\&|REG|RVB|X|Y|20250701{at}||ADT^{event}|{name}|P|2.5.1\rEVN||20250701{at}\r"


def person(number: int, name: str = "") -> FeedMessage:
    """Return an A28 of one person."""
    name = name or f"P{number}"
    head = HEAD.format(at=f"10{number // 60 % 60:02d}{number % 60:02d}", event="A28", name=name)
    pid = f"PID|1||RB-{number}^^^RVB^MR||Quint{number:06d}^Ada||19840229|F\r"
    return FeedMessage(name, number, f"{head}{pid}".encode(), "")


def merge(number: int, at: str = "110000") -> FeedMessage:
    """Return an A40 that merges person `number` + 1 into `number`."""
    head = HEAD.format(at=at, event="A40", name=f"M{number}")
    pid = f"PID|1||RB-{number}^^^RVB^MR||Quint{number:06d}^Ada||19840229|F\r"
    return FeedMessage(f"M{number}", number, f"{head}{pid}MRG|RB-{number + 1}^^^RVB^MR\r".encode(), "")


def states(rows: list[Row]) -> set[tuple[str, str]]:
    """Return how entries stand, and why."""
    return {(row.state, row.reason) for row in rows}


async def up(rig: Rig) -> None:
    """Start the engine and wait until all of it runs."""
    await rig.engine.start()
    await rig.engine.line("started")


async def the(rig: Rig, act: str) -> dict[str, Any]:
    """Return what a list of one shows."""
    (row,) = (await rig.ask(act))["done"]
    found: dict[str, Any] = row
    return found


async def paused(rig: Rig) -> dict[str, Any]:
    """Wait until the destination is paused."""
    async with asyncio.timeout(60):
        while (found := await the(rig, "destinations.list"))["state"] != "paused":  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)
    return found


async def test_the_same_failure_in_many_lanes_pauses_the_destination(rig: Rig) -> None:
    """It is no matter of 50 patients but one of the server: nothing more is held, until a person resumes."""
    await up(rig)
    rig.proxy.script = lambda call: Fault(status=422) if call.writes else None
    await rig.sender([person(number) for number in range(STORM + 90)], 8).run()
    found = await paused(rig)
    assert (found["reason"], found["detail"], found["by"]) == ("hold-storm", "http-422", "adt-engine")
    assert await rig.engine.stop() == 0
    await up(rig)
    assert (await the(rig, "destinations.list"))["state"] == "paused"
    held = [row for row in rig.rows() if row.state == "held"]
    assert 50 <= len(held) < STORM + 30
    rig.proxy.script = lambda _call: None
    await rig.ask("destinations.resume", destination="interchange")
    for row in held:
        await rig.ask("messages.release", entry=row.seq)
    await rig.until(lambda rows: {row.state for row in rows} == {"delivered"})


async def test_a_paused_destination_claims_nothing_and_stays_so(rig: Rig) -> None:
    """What comes in is accepted and waits, over a restart, and leaves in order once somebody resumes."""
    await up(rig)
    shown = (await rig.ask("destinations.pause", destination="interchange", reason="upgrade"))["done"]
    assert (shown["state"], shown["reason"], shown["detail"]) == ("paused", "by-operator", "upgrade")
    feed = [person(1), person(2), FeedMessage("U1", 1, person(1).raw.replace(b"|P1|", b"|U1|"), "")]
    await rig.sender(feed, 1).run()
    assert await rig.engine.stop() == 0
    await up(rig)
    assert {row.state for row in rig.rows()} == {"received", "waiting"}
    assert (await the(rig, "destinations.list"))["waiting"] == 3
    resumed = (await rig.ask("destinations.resume", destination="interchange"))["done"]
    assert resumed["state"] != "paused"
    await rig.drained()
    assert {row.state for row in rig.rows()} == {"delivered"}


async def test_the_merge_limit_survives_a_restart_and_holds_the_channel(tmp_path: Any) -> None:
    """What was counted counts after a restart; past the limit all merges of the channel are held until let go."""
    async with running(tmp_path, merge_limit={"merges": 2, "minutes": 10}) as rig:
        await up(rig)
        await rig.sender([person(number) for number in range(10)], 4).run()
        await rig.drained()
        await rig.sender([merge(0), merge(2)], 1).run()
        await rig.drained()
        assert await rig.engine.stop() == 0
        await up(rig)
        await rig.sender([merge(4), merge(6, at="233000")], 1).run()
        rows = await rig.until(lambda rows: not [row for row in rows if row.state in {"received", "claimed"}])
        assert states(rows[12:]) == {("held", "merge-limit")}
        assert (await the(rig, "channels.list"))["merges_held"]["source"] == "REG|RVB"
        assert (await rig.ask("channels.allow-merge", channel="riverbend-adt"))["done"]["merges_held"] is None
        for row in rows[12:]:
            await rig.ask("messages.release", entry=row.seq)
        await rig.until(lambda rows: {row.state for row in rows} == {"delivered"})


async def test_a_stopped_channel_stays_stopped_and_the_others_keep_their_lines(rig: Rig) -> None:
    """Stop, restart, start: only a person opens the door again; another channel's connection stands throughout."""
    other = channel_file(rig.proxy.url) | {"channel": "east"}
    (rig.folder / "channels" / "east.yaml").write_bytes(orjson.dumps(other))
    await up(rig)
    channels = {row["channel"]: row for row in (await rig.ask("channels.list"))["done"]}
    reader, writer = await asyncio.open_connection("127.0.0.1", channels["east"]["port"])
    shown = (await rig.ask("channels.stop", channel="riverbend-adt"))["done"]
    assert (shown["state"], shown["port"]) == ("stopped", 0)
    with pytest.raises(OSError):  # noqa: PT011 - refused, whatever the system calls it
        await asyncio.open_connection("127.0.0.1", channels["riverbend-adt"]["port"])
    writer.write(b"\x0b" + person(1).raw + b"\x1c\r")
    async with asyncio.timeout(60):
        assert b"MSA|AA|P1" in await reader.readuntil(b"\x1c\r")
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    assert await rig.engine.stop() == 0
    await up(rig)
    assert any(line["event"] == "channel stays stopped" for line in rig.engine.lines)
    assert (await rig.ask("channels.start", channel="riverbend-adt"))["done"]["state"] == "listening"


async def test_drain_says_what_is_left(rig: Rig) -> None:
    """A drained channel takes nothing and counts down what it has accepted; held entries are no part of it."""
    await up(rig)
    await rig.ask("destinations.pause", destination="interchange")
    await rig.sender([person(1), person(2)], 1).run()
    assert (await rig.ask("channels.drain", channel="riverbend-adt"))["done"]["unfinished"] == 2
    await rig.ask("destinations.resume", destination="interchange")
    await rig.drained()
    assert (await rig.ask("channels.drain", channel="riverbend-adt"))["done"]["unfinished"] == 0


async def test_a_destination_is_exchanged_under_load_and_keeps_the_order(rig: Rig, seed: int) -> None:
    """Reloads that change a destination let what is under way end; every patient's messages stay in order."""
    await up(rig)
    feed = make_feed(seed, 200, 4)
    sender = rig.sender(feed, 8)
    sending = asyncio.create_task(sender.run())
    for concurrency in (3, 8, 2, 16):
        await asyncio.sleep(0.3)
        settings = [destination(rig.proxy.url, concurrency=concurrency)]
        text = orjson.dumps(channel_file(rig.proxy.url) | {"destinations": settings})
        (rig.folder / "channels" / "riverbend-adt.yaml").write_bytes(text)
        assert (await rig.ask("reload"))["done"] == {"changed": ["riverbend-adt"]}
    await sending
    await rig.drained()
    assert await rig.engine.stop() == 0
    patients = await rig.patients()
    visits = await rig.visits(patients)
    judgement = judge(
        History(sender.log, rig.rows(), rig.attempts(), rig.proxy.calls, patients, visits=visits, least_answers=180)
    )
    assert not judgement.violations, judgement.report()
    assert judgement.verdict is Verdict.VALID


async def test_a_destination_with_unfinished_work_is_not_removed(rig: Rig) -> None:
    """A reload that would leave work without its destination is refused, and nothing changes."""
    second = destination(rig.proxy.url, name="second")
    both = channel_file(rig.proxy.url) | {"destinations": [destination(rig.proxy.url), second]}
    file = rig.folder / "channels" / "riverbend-adt.yaml"
    file.write_bytes(orjson.dumps(both))
    await up(rig)
    await rig.ask("destinations.pause", destination="second")
    await rig.sender([person(1)], 1).run()
    file.write_bytes(orjson.dumps(channel_file(rig.proxy.url) | {"stale": "never", "mapping": "adtt"}))
    error = (await rig.ask("reload"))["error"]
    assert "second: has unfinished work" in error
    assert "stale: found 'never'" in error  # all at once, not one after the other
    assert "mapping: no mapping 'adtt'; did you mean adt?" in error
    file.write_bytes(orjson.dumps(channel_file(rig.proxy.url)))
    assert "second: has unfinished work" in (await rig.ask("reload"))["error"]
    await rig.ask("destinations.resume", destination="second")
    await rig.drained()
    assert (await rig.ask("reload"))["done"] == {"changed": ["riverbend-adt"]}
    assert [row["destination"] for row in (await rig.ask("destinations.list"))["done"]] == ["interchange"]


async def test_a_door_that_cannot_be_opened_leaves_the_old_one(rig: Rig) -> None:
    """A reload that moves a channel to a port in use keeps the old door, its connections and all policies."""
    await up(rig)
    host, port = await rig.address()
    reader, writer = await asyncio.open_connection(host, port)
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    taken = server.sockets[0].getsockname()[1]
    moved = channel_file(rig.proxy.url) | {"listen": {"mllp": {"port": taken}}, "contact": "desk 7"}
    (rig.folder / "channels" / "riverbend-adt.yaml").write_bytes(orjson.dumps(moved))
    assert str(taken) in (await rig.ask("reload"))["error"]
    writer.write(b"\x0b" + person(1).raw + b"\x1c\r")
    async with asyncio.timeout(60):
        assert b"MSA|AA|P1" in await reader.readuntil(b"\x1c\r")
    shown = await the(rig, "channels.list")
    assert (shown["port"], shown["contact"]) == (port, "")
    writer.close()
    server.close()
    await server.wait_closed()

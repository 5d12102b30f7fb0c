"""The FHIR door of a channel, within the test: an event is an entry by the bytes that came, or is refused in words."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import telemetry
from engine.clock import now
from engine.errors import ForbiddenMoveError, JournalError
from engine.fhir.event import NO_EVENT, NO_ID, NO_RESOURCE, NOT_JSON, split
from engine.ops.web.api.machine import readyz
from engine.pipeline import fhir_intake
from engine.pipeline.configuration import Files
from engine.pipeline.engine import Engine
from engine.pipeline.fhir_intake import FAULT, FHIR, NO_PAYLOAD, REMEDIES, URL_DIFFERS, Answer, outcome
from engine.receive.listener.admission import ALLOW_LIST
from engine.receive.reply import Peer

HERE: Final = Peer("127.0.0.1", 4711)
CHANNEL: Final = "registry-back"
ROWS: Final = """
SELECT e.seq, e.state, e.reason, e.control_id, p.raw FROM entry AS e JOIN payload AS p ON p.seq = e.seq ORDER BY e.seq
"""


def channel_file(**changes: Any) -> dict[str, Any]:
    """Return a channel of events whose relay does not answer."""
    server = {"name": "record", "base_url": "http://127.0.0.1:9/R4"}
    return {
        "channel": CHANNEL,
        "listen": {"fhir": {"path": "registry", "server": server}},
        "allow": ["127.0.0.0/8"],
        "destinations": [{"name": "ehr", "type": "mllp", "host": "127.0.0.1", "port": 9}],
    } | changes


def patient(logical_id: str, version: str = "1", **more: Any) -> dict[str, Any]:
    """Return a version of a Patient."""
    return {"resourceType": "Patient", "id": logical_id, "meta": {"versionId": version}} | more


class EventDoor:
    """An engine with one channel of events."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.numbers = itertools.count()

    async def send(self, body: Any, peer: Peer = HERE, content_type: str = FHIR, resource: str = "") -> Answer:
        """Send a body, or with None a deletion."""
        raw = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        return await self.engine.events.answer("registry", raw, peer, content_type, resource=resource)

    async def rows(self) -> list[tuple[int, str, str, str, bytes]]:
        """Return what the journal has."""
        return list(await self.engine.journal.read(lambda connection: connection.execute(ROWS).fetchall()))


async def opened(folder: Path, **changes: Any) -> EventDoor:
    """Start an engine."""
    (folder / "channels").mkdir(exist_ok=True)
    (folder / "channels" / "a.yaml").write_bytes(orjson.dumps(channel_file(**changes)))
    return EventDoor(await Engine.start(Files(folder / "channels", None, folder / "data")))


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[EventDoor]:
    """A channel with small limits."""
    one = await opened(tmp_path, limits={"block_bytes": 65_536, "connections_per_address": 2, "connections": 3})
    yield one
    await one.engine.stop()


def said(answer: Answer) -> str:
    """Return what a refusal says."""
    _, kind, content = answer
    found = orjson.loads(content)
    assert (kind, found["resourceType"]) == (FHIR, "OperationOutcome")
    (issue,) = found["issue"]
    assert issue["severity"] == "error"
    return str(issue["details"]["text"])


async def test_a_resource_is_stored_and_answered_without_a_body(door: EventDoor) -> None:
    """200 after the commit; the same again is no second entry, another version is one."""
    raw = orjson.dumps(patient("7"), option=orjson.OPT_INDENT_2)
    for kind in (FHIR, "application/fhir+json; charset=utf-8", "application/JSON;fhirVersion=4.0"):
        assert await door.send(raw, content_type=kind) == (200, FHIR, b"")
    assert await door.rows() == [(1, "received", "", "Patient/7/1", raw)]
    assert (await door.send(patient("7", "2"), resource="Patient/7"))[0] == 200
    assert [row[3] for row in await door.rows()] == ["Patient/7/1", "Patient/7/2"]
    counters = door.engine.counters[CHANNEL]
    assert (counters.messages, counters.duplicates, counters.refused) == (4, 2, 0)
    assert f'adt_messages_total{{channel="{CHANNEL}",code="accepted"}}' in telemetry.metrics_text()


async def test_a_deletion_is_an_event(door: EventDoor) -> None:
    """Of a type that is not taken it is filtered; of what is no resource, refused."""
    assert [(await door.send(None, resource=one))[0] for one in ("Patient/7", "Observation/7")] == [200, 200]
    assert said(await door.send(None, resource="Patient/a b")) == REMEDIES[NO_RESOURCE]
    assert [row[1:3] for row in await door.rows()] == [
        ("received", ""),
        ("filtered", "event-type-not-taken"),
        ("rejected", NO_RESOURCE),
    ]


async def test_a_bundle_without_events_is_filtered(door: EventDoor) -> None:
    """A handshake, or what is about other types: kept whole, and nothing for its sender to mend."""
    bundles: list[list[Any]] = [[], [{"resource": {"resourceType": "Parameters"}}]]
    for entries in bundles:
        assert (await door.send({"resourceType": "Bundle", "type": "history", "entry": entries}))[0] == 200
    assert [row[1:3] for row in await door.rows()] == [("filtered", "event-type-not-taken")] * 2


@pytest.mark.parametrize(
    ("body", "resource", "reason"),
    [
        (b"", "", NO_PAYLOAD),
        (b" \r\n", "Patient/7", NO_PAYLOAD),
        (b"MSH|^~\\&|", "", NOT_JSON),
        (b'{"resourceType": "Patient", "id": "\xff"}', "", NOT_JSON),
        (b"[]", "", NO_RESOURCE),
        (b"{}", "Patient/7", NO_RESOURCE),
        ({"resourceType": "Patient"}, "", NO_ID),
        ({"resourceType": "Patient", "id": "../x"}, "Patient/../x", NO_ID),
        (patient("7"), "Patient/8", URL_DIFFERS),
        (patient("7"), "Encounter/7", URL_DIFFERS),
        ({"resourceType": "Bundle", "entry": [{"resource": patient("7")}]}, "Patient/7", URL_DIFFERS),
    ],
)
async def test_what_is_no_event_is_kept_and_refused_in_words(
    door: EventDoor, body: Any, resource: str, reason: str
) -> None:
    """400, with what the sender has to do; the whole body is in the journal."""
    answer = await door.send(body, resource=resource, content_type="" if reason == NO_PAYLOAD else FHIR)
    assert (answer[0], said(answer)) == (400, REMEDIES[reason])
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    assert await door.rows() == [(1, "rejected", reason, "", raw)]
    assert door.engine.counters[CHANNEL].refused == 1
    assert f'adt_messages_total{{channel="{CHANNEL}",code="rejected"}}' in telemetry.metrics_text()
    assert set(REMEDIES) >= {NO_EVENT, FAULT}


async def test_of_a_bundle_the_good_events_are_taken(door: EventDoor) -> None:
    """One that is none does not cost the others; the sender hears how many."""
    entries = [{"resource": one} for one in (patient("1"), {"resourceType": "Patient"}, patient("2"))]
    answer = await door.send({"resourceType": "Bundle", "type": "transaction", "entry": entries})
    assert (answer[0], said(answer)) == (400, f"1 of 3 events were refused: {REMEDIES[NO_ID]}")
    assert [row[1:4] for row in await door.rows()] == [
        ("received", "", "Patient/1/1"),
        ("rejected", NO_ID, ""),
        ("received", "", "Patient/2/1"),
    ]


@pytest.mark.parametrize("number", [b"1" * 5_000, b"[" * 1_000 + b"]" * 1_000])
async def test_json_that_is_out_of_all_proportion(door: EventDoor, number: bytes) -> None:
    """It is taken or refused, and stored either way."""
    bundle = b'{"x": %b, "resourceType": "Bundle", "entry": [{"resource": %b}]}' % (number, orjson.dumps(patient("7")))
    assert (await door.send(bundle))[0] in {200, 400}
    assert len(await door.rows()) == 1


async def test_a_fault_of_ours_keeps_the_body(door: EventDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused for good: its sender would send it again for ever."""
    monkeypatch.setattr(fhir_intake, "split", lambda _raw: 1 / 0)
    answer = await door.send(patient("7"))
    assert (answer[0], said(answer)) == (400, REMEDIES[FAULT])
    assert [row[1:3] for row in await door.rows()] == [("rejected", FAULT)]


async def test_who_and_what_is_refused_unread(door: EventDoor) -> None:
    """Addresses, types, sizes and paths: nothing of it is stored."""
    large = patient("7", text="x" * 65_536)
    answers = {
        403: await door.send(patient("7"), Peer("192.0.2.1", 1)),
        415: await door.send(patient("7"), content_type="application/fhir+xml"),
        413: await door.send(large),
        404: await door.engine.events.answer("elsewhere", b"{}", HERE),
    }
    assert {status: answer[0] for status, answer in answers.items()} == {status: status for status in answers}
    texts = [said(answer) for answer in answers.values()]
    assert [word in text for word, text in zip(("allow", FHIR, "65536", "path"), texts, strict=True)] == [True] * 4
    assert (door.engine.events.limit("registry"), door.engine.events.limit("elsewhere")) == (65_536, 0)
    assert door.engine.listeners.refused(CHANNEL) == {("192.0.2.1", ALLOW_LIST): 1}
    assert await door.rows() == []


async def test_overload_is_503_and_nothing_is_stored_of_it(door: EventDoor) -> None:
    """By the limits of an address, and of the channel over all of them."""
    sent = [door.send(patient(f"p{number}"), Peer(f"127.0.0.{number % 2}", 1)) for number in range(10)]
    statuses = sorted([answer[0] for answer in await asyncio.gather(*sent)])
    assert statuses == [200] * 3 + [503] * 7
    assert len(await door.rows()) == 3


async def test_a_stopped_channel_takes_none(door: EventDoor) -> None:
    """503 until somebody starts it, over a reload; the engine is ready all the while."""
    engine = door.engine
    await engine.listeners.stop(CHANNEL, now(), "root")
    for body in (patient("7"), b"", None):
        answer = await door.send(body, resource="Patient/7")
        assert (answer[0], "send it again later" in said(answer)) == (503, True)
    (engine.files.channels / "a.yaml").write_bytes(orjson.dumps(channel_file(contact="the registry")))
    assert await engine.reload() == (CHANNEL,)
    assert ((await readyz(engine))[0], (await door.send(patient("7")))[0]) == (200, 503)
    await engine.listeners.start(engine.feeds[CHANNEL].channel)
    assert (await door.send(patient("7")))[0] == 200
    assert len(await door.rows()) == 1


async def test_a_path_that_moves_is_taken_at_once(door: EventDoor) -> None:
    """A reload swaps it; the old one leads nowhere."""
    files = door.engine.files
    moved = orjson.dumps(channel_file()).replace(b'"registry"', b'"moved"')
    (files.channels / "a.yaml").write_bytes(moved)
    await door.engine.reload()
    assert (await door.send(patient("7")))[0] == 404
    assert (await door.engine.events.answer("moved", orjson.dumps(patient("7")), HERE))[0] == 200


async def test_what_cannot_be_stored_is_503(door: EventDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender keeps it; who hands over a history hears of it."""
    reserve = door.engine.journal._writer._backend._reserve
    kept = reserve.free_bytes
    monkeypatch.setattr("engine.journal.write.backend.shrink", lambda _connection: None)
    reserve.free_bytes = 1 << 60
    answer = await door.send(patient("7"))
    assert (answer[0], said(answer)) == (503, "the event was not stored; send it again later")
    with pytest.raises(JournalError):
        await door.engine.events.take(CHANNEL, [orjson.dumps(patient("7"))], HERE)
    reserve.free_bytes = kept
    assert (await door.send(patient("7")))[0] == 200
    with pytest.raises(JournalError, match="not configured"):
        await door.engine.events.take("elsewhere", [b"{}"], HERE)


async def test_while_the_engine_stops_and_after(tmp_path: Path) -> None:
    """503: nothing is taken in that nobody would answer for."""
    door = await opened(tmp_path)
    assert (await door.send(patient("7")))[0] == 200
    await door.engine.stop()
    assert (await door.send(patient("8")))[0] == 503


async def test_pieces_are_recorded_in_their_order(door: EventDoor) -> None:
    """Also where more are handed over than are recorded at a time; what was there is a duplicate."""
    pieces = [orjson.dumps(patient("7", str(version))) for version in range(100)]
    taken = await door.engine.events.take(CHANNEL, pieces, HERE)
    assert [one.seq for one in taken] == list(range(1, 101))
    assert [row[4] for row in await door.rows()] == pieces
    again = await door.engine.events.take(CHANNEL, [*pieces[50:], b"{}"], HERE)
    assert [one.duplicate for one in again] == [True] * 50 + [False]
    assert await door.engine.events.take(CHANNEL, [], HERE) == []


async def test_many_at_once_are_each_stored_once(tmp_path: Path) -> None:
    """Whoever sends them, and however often."""
    door = await opened(tmp_path, limits={"connections": 500, "connections_per_address": 500})
    answers = await asyncio.gather(*(door.send(patient(f"p{number % 50}")) for number in range(200)))
    assert {answer[0] for answer in answers} == {200}
    assert sorted(row[3] for row in await door.rows()) == sorted(f"Patient/p{number}/1" for number in range(50))
    await door.engine.stop()


async def test_in_shadow_it_is_kept_and_makes_no_later_event_a_repeat(tmp_path: Path) -> None:
    """As a message is."""
    door = await opened(tmp_path, mode="shadow")
    assert (await door.send(patient("7")))[0] == 200
    (door.engine.files.channels / "a.yaml").write_bytes(orjson.dumps(channel_file()))
    await door.engine.reload()
    assert (await door.send(patient("7")))[0] == 200
    assert len(await door.rows()) == 2
    await door.engine.stop()


async def test_what_operators_do_with_an_event(door: EventDoor) -> None:
    """What was filtered is judged anew; what was no event is not."""
    operations = door.engine.entry_operations
    await door.send({"resourceType": "Observation", "id": "o"})
    await door.send(b"{")
    for seq, words in ((1, "would be filtered again: event-type-not-taken"), (2, "rejected again: not-json")):
        with pytest.raises(ForbiddenMoveError, match=words):
            await operations.replay(seq, "", force=False, by="root")
    limited = {"fhir": channel_file()["listen"]["fhir"] | {"types": ["Encounter"]}}
    channel = door.engine.files.channels / "a.yaml"
    channel.write_bytes(orjson.dumps(channel_file(listen=limited)))
    await door.engine.reload()
    await door.send(patient("7"))
    channel.write_bytes(orjson.dumps(channel_file()))
    await door.engine.reload()
    assert await operations.replay(3, "", force=False, by="root") == 1


def test_a_refusal_is_an_operation_outcome() -> None:
    """Its code is FHIR's, by the HTTP status."""
    status, kind, content = outcome(418, "no tea")
    assert (status, kind, orjson.loads(content)["issue"][0]["code"]) == (418, FHIR, "processing")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(['"', "\\", "[", "]", "{", "é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kinds=st.lists(st.sampled_from(["Patient", "Encounter", "Observation"]), max_size=5),
    more=VALUES,
    kind=st.sampled_from(["history", "transaction", "collection", "batch"]),
    indent=st.booleans(),
)
async def test_each_event_of_a_bundle_is_an_entry_by_its_text(
    door: EventDoor, kinds: list[str], more: Any, kind: str, indent: bool
) -> None:
    """Whatever is in it: in order, once, and sent again it changes nothing."""
    before = len(await door.rows())
    resources = [
        {"resourceType": one, "id": f"x{next(door.numbers)}", "meta": {"versionId": "1"}, "extension": more}
        for one in kinds
    ]
    whole = {"x": more, "resourceType": "Bundle", "type": kind, "entry": [{"resource": one} for one in resources]}
    raw = json.dumps(whole, indent=1 if indent else None).encode()
    assert (await door.send(raw))[0] == 200
    rows = (await door.rows())[before:]
    events = [one for one in resources if one["resourceType"] != "Observation"]
    names = [f"{one['resourceType']}/{one['id']}/1" for one in events]
    assert [row[3] for row in rows if row[1] == "received"] == (names[::-1] if kind == "history" else names)
    assert [row[4] for row in rows] == list(split(raw) or (raw,))
    assert (await door.send(raw))[0] == 200
    assert len([row for row in (await door.rows())[before:] if row[1] == "received"]) == len(events)

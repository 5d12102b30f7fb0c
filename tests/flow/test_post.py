"""The HTTP door of a channel, within the test: the same judgement, the same journal, and HTTP's own refusals."""

import asyncio
import errno
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from engine import telemetry
from engine.clock import now
from engine.ops.web.api.machine import livez, readyz
from engine.pipeline.configuration import Files
from engine.pipeline.engine import Engine
from engine.pipeline.outbound.pauses import Pause
from engine.pipeline.post import HL7, HttpIntake
from engine.receive.block import Block, BlockKind
from engine.receive.reply import Peer
from tests.flow.rig import channel_file

HERE = Peer("127.0.0.1", 4711)
HEAD = "MSH|^~\\&|REG|RIVERBEND|X|Y|20250701101500||ADT^A28|{id}|P|2.5.1{more}\rEVN||20250701101500\r"
PID = "PID|1||{id}^^^RVB^MR||Quint^Ada||19840229|F\r"


def message(control_id: str, more: str = "", pid: str = PID) -> bytes:
    """Return an A28 of one person."""
    return (HEAD + pid).format(id=control_id, more=more).encode()


class Door:
    """An engine with one channel that listens by HTTP alone, and its door."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.http = HttpIntake(engine)

    async def post(self, body: bytes, peer: Peer = HERE, content_type: str = HL7) -> tuple[int, str, bytes]:
        """Send a body."""
        return await self.http.answer("adt", body, peer, content_type)


async def opened(folder: Path, **changes: Any) -> Engine:
    """Start an engine whose destination does not answer."""
    (folder / "channels").mkdir()
    channel = channel_file("http://127.0.0.1:9") | {"listen": {"http": {"path": "adt"}}} | changes
    channel["destinations"][0]["auth"] = {"type": "none"}
    (folder / "channels" / "a.yaml").write_bytes(orjson.dumps(channel))
    return await Engine.start(Files(folder / "channels", None, folder / "data"))


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    """A door without any MLLP listener beside it."""
    engine = await opened(tmp_path, limits={"block_bytes": 2048, "connections_per_address": 2})
    yield Door(engine)
    await engine.stop()


async def test_a_message_is_stored_and_answered_with_its_ack(door: Door) -> None:
    """200 with AA; the same bytes again get the same ACK and no second entry."""
    status, content_type, ack = await door.post(message("A1"))
    assert (status, content_type) == (200, HL7)
    assert b"MSA|AA|A1" in ack
    assert (await door.post(message("A1"), content_type="application/hl7-v2; charset=utf-8"))[2] == ack
    assert door.engine.counters["riverbend-adt"].duplicates == 1


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        pytest.param(message("R1", pid="PID|1||||Quint^Ada\r"), 200, b"MSA|AE|R1", id="refused-with-an-ack"),
        pytest.param(b"hello", 400, b"no HL7", id="no-message"),
        pytest.param(b"", 400, b"no message", id="nothing"),
        pytest.param(message("N1", more="|||NE|NE"), 202, b"", id="no-ack-wanted"),
        pytest.param(message("B1") + b"NTE|1||" + b"x" * 2048, 413, b"at most 2048", id="too-large"),
        pytest.param(message("E1", more="|||AL|NE"), 200, b"MSA|CA|E1", id="enhanced"),
        pytest.param(message("L1", more="|||NE|AL"), 200, b"MSA|AA|L1", id="application-ack-alone"),
    ],
)
async def test_each_body_has_its_status(door: Door, body: bytes, status: int, said: bytes) -> None:
    """200 whenever an ACK can be built, whatever it says."""
    found = await door.post(body)
    assert found[0] == status
    assert said in found[2]


async def test_a_batch_is_answered_with_one(door: Door) -> None:
    """The envelope comes back around the acknowledgements."""
    batch = b"BHS|^~\\&|REG|RIVERBEND|X|Y|||||77\r" + message("C1") + message("C2") + b"BTS|2\r"
    status, _type, answer = await door.post(batch)
    assert status == 200
    assert (answer.startswith(b"BHS|"), b"MSA|AA|C1" in answer, b"MSA|AA|C2" in answer) == (True, True, True)


async def test_who_is_not_allowed_and_what_is_no_hl7(door: Door) -> None:
    """Addresses, types and doors are looked at before the body."""
    assert (await door.post(message("A1"), Peer("192.0.2.1", 1)))[0] == 403
    assert (await door.post(message("A1"), content_type="application/json"))[0] == 415
    assert (await door.http.answer("elsewhere", message("A1"), HERE))[0] == 404
    assert (door.http.limit("adt"), door.http.limit("elsewhere")) == (2048, 0)
    assert door.engine.counters["riverbend-adt"].messages == 0


async def test_overload_and_a_stopped_channel_are_503(door: Door) -> None:
    """Nothing is stored, and the sender is to try again."""
    answers = await asyncio.gather(*(door.post(message(f"O{number}")) for number in range(9)))
    statuses = sorted(status for status, _, _ in answers)
    assert statuses == [200] * 2 + [503] * 7
    await door.engine.listeners.stop("riverbend-adt", now(), "root")
    assert (await door.post(message("S1")))[0] == 503
    await door.engine.listeners.start(door.engine.feeds["riverbend-adt"].channel)
    assert (await door.post(message("S1")))[0] == 200


async def test_acknowledge_delivered_waits_over_http_too(tmp_path: Path) -> None:
    """Past its bound the answer is AE, stored, not yet delivered; a paused destination makes it no longer."""
    engine = await opened(tmp_path, acknowledge={"when": "delivered", "within_seconds": 0.2})
    await engine.pauses.pause(Pause("interchange", "by-operator", "", now(), "root"))
    status, _type, ack = await Door(engine).post(message("D1"))
    assert status == 200
    assert b"MSA|AE|D1" in ack
    assert b"not yet delivered" in ack
    await engine.stop()


async def test_health_says_what_can_be_taken(door: Door) -> None:
    """Ready with a destination that is down; not while stopping; dead once the journal has failed."""
    engine = door.engine
    assert livez(engine) == (200, {"alive": True})
    assert await readyz(engine) == (200, {"ready": True, "stopping": False, "journal": "ok"})
    assert [str(dispatch.condition) for dispatch in engine.dispatches.values()] == ["unreachable"]
    assert "adt_queue_depth" in telemetry.metrics_text()
    engine.listeners.intakes.clear()
    assert (await readyz(engine))[0] == 503
    engine.stopping = True
    assert (await door.post(message("X1")))[0] == 503
    engine.failed.set()
    assert livez(engine)[0] == 503


async def test_without_room_on_the_disk_the_answer_is_ar_and_the_engine_goes_on(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the log can be moved into the file: the sender is told to send again later, and then it is taken."""

    def full(_connection: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    reserve = door.engine.journal._writer._backend._reserve
    kept = reserve.free_bytes
    monkeypatch.setattr("engine.journal.write.backend.shrink", full)
    for turn in range(2):
        reserve.free_bytes = 1 << 60
        status, _, ack = await door.post(message(f"F{turn}"))
        assert (status, b"MSA|AR|" in ack, b"|207^" in ack) == (200, True, True)
        reserve.free_bytes = kept
        assert b"MSA|AA|" in (await door.post(message(f"F{turn}")))[2]
    assert not door.engine.failed.is_set()


async def test_a_large_batch_lets_other_senders_through(tmp_path: Path) -> None:
    """Whoever sends one message while thousands of another sender's come in one block is answered among the first."""
    engine = await opened(tmp_path)
    intake = engine.listeners.intakes["riverbend-adt"]
    count = 2000
    block = b"BHS|^~\\&|REG|RIVERBEND|X|Y|||||77\r" + b"".join(message(f"B{at}") for at in range(count)) + b"BTS|\r"
    batch = asyncio.ensure_future(intake.answer(Block(block, BlockKind.COMPLETE, 0.0, 0.0), HERE))
    while engine.journal.counts[0] < 2:  # noqa: ASYNC110 - until the first messages of the batch are stored
        await asyncio.sleep(0)
    reply = await intake.answer(Block(message("ONE"), BlockKind.COMPLETE, 0.0, 0.0), HERE)
    assert b"MSA|AA|ONE" in reply.now
    stored = await engine.journal.read(lambda connection: connection.execute("SELECT MAX(seq) FROM entry").fetchone())
    assert stored[0] < count // 2
    acks = (await batch).now
    assert acks.count(b"MSA|AA|B") == count
    order = await engine.journal.read(
        lambda connection: connection.execute("SELECT control_id FROM entry ORDER BY seq").fetchall()
    )
    assert [name for (name,) in order if name != "ONE"] == [f"B{at}" for at in range(count)]
    await engine.stop()


@pytest.mark.parametrize(("numbers", "code"), [(20, b"AA"), (21, b"AE")])
async def test_a_message_may_name_so_many_patients_and_no_more(tmp_path: Path, numbers: int, code: bytes) -> None:
    """Each number costs the journal a place and the server a search: past the limit the message is refused by name."""
    engine = await opened(tmp_path, limits={"identities": 20})
    listed = "~".join(f"{at + 1}^^^RVB^MR" for at in range(numbers))
    raw = message("N1", pid=f"PID|1||{listed}||Quint^Ada||19840229|F\r")
    status, _, ack = await Door(engine).post(raw)
    assert (status, b"MSA|" + code in ack) == (200, True)
    query = "SELECT state, reason FROM entry"
    kept = await engine.journal.read(lambda connection: connection.execute(query).fetchone())
    assert kept == (("received", "") if code == b"AA" else ("rejected", "too-many-identities"))
    await engine.stop()

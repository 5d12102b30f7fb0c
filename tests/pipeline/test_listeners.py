"""Doors that change while others stand: what fails leaves every one as it was."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from engine import telemetry
from engine.errors import ConfigurationError, StartError
from engine.ops.operations.channels import channel_view
from engine.ops.sender.line import send_messages
from engine.pipeline.configuration import Files
from engine.pipeline.engine import Engine
from engine.receive.conversation import Conversation
from tests.flow.rig import channel_file

PROBE = b"\x0bhello\x1c\r"


def write(folder: Path, name: str, **changes: Any) -> None:
    """Write a channel file."""
    channel = channel_file("http://127.0.0.1:9") | {"channel": name} | changes
    channel["destinations"][0]["auth"] = {"type": "none"}
    (folder / "channels").mkdir(exist_ok=True)
    (folder / "channels" / f"{name}.yaml").write_bytes(orjson.dumps(channel))


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    """An engine with two channels on ports that the system chose."""
    write(tmp_path, "a")
    write(tmp_path, "b")
    opened = await Engine.start(Files(tmp_path / "channels", None, tmp_path / "data"))
    yield opened
    await opened.stop()


async def test_who_is_turned_away_is_in_the_log_and_told_to_the_sender(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One connection too many of one address: a line a minute in the log, and a hint where `send` gets no answer."""
    write(tmp_path, "a", limits={"connections_per_address": 1})
    await engine.reload()
    port = ports(engine)["a"]
    _reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(3):
        (answer,) = await send_messages("127.0.0.1", port, [b"MSH|^~\\&|A|B|C|D|1||ADT^A08|C1|P|2.5.1\r"])
        assert "connections_per_address" in answer.failure
    writer.close()
    await writer.wait_closed()
    said = [line for line in capsys.readouterr().out.splitlines() if "connections refused" in line]
    assert len(said) == 1
    assert "refused-full" in said[0]


async def test_what_is_not_mllp_is_in_the_log_the_metrics_and_on_the_page(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytes without a frame, and blocks without CR, are said with the address and never with their content."""
    monkeypatch.setattr("engine.receive.conversation.UNFRAMED_SECONDS", 0.01)
    reader, writer = await asyncio.open_connection("127.0.0.1", ports(engine)["a"])
    writer.write(b"\x0bMSH|^~\\&|A|B|C|D|1||ADT^A08|C1|P|2.5.1\r\x1c")
    assert b"C1" in await reader.readuntil(b"\x1c\r")
    writer.write(b"\x02MSH|Osei\x03")
    async with asyncio.timeout(30):
        while "unframed" not in engine.listeners.strayed["a"]:  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.01)
    writer.close()
    await writer.wait_closed()
    lines = [line for line in capsys.readouterr().out.splitlines() if "not as MLLP has it" in line]
    assert ["unframed" in line for line in lines] == [False, True]
    assert all("127.0.0.1" in line and "Osei" not in line for line in lines)
    assert "bare-end" in lines[0]
    assert "stx" in lines[1]
    view = channel_view(engine, "a")
    assert view.strayed == {"bare-end": 1, "unframed": 1}
    metrics = telemetry.metrics_text()
    assert 'adt_mllp_unframed_total{address="127.0.0.1",channel="a",looks_like="stx"} 1.0' in metrics


async def test_a_fault_of_ours_on_a_connection_is_in_the_log(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A connection that a fault of the engine's own ended is said with its place, and nothing of the message."""

    def broken(*_: Any) -> Any:
        raise RuntimeError("Osei")

    monkeypatch.setattr(Conversation, "_put", broken)
    message = b"MSH|^~\\&|A|B|C|D|1||ADT^A08|C1|P|2.5.1\r"
    (answer,) = await send_messages("127.0.0.1", ports(engine)["a"], [message])
    assert answer.failure
    (said,) = [line for line in capsys.readouterr().out.splitlines() if "connection failed" in line]
    assert "connection-failed" in said
    assert "RuntimeError" in said
    assert "test_listeners:" in said
    assert "Osei" not in said


def ports(engine: Engine) -> dict[str, int]:
    """Return where the channels listen."""
    return {name: door.port for name, door in engine.listeners.open.items()}


async def test_a_door_that_was_changed_before_the_failure_goes_back_to_its_port(engine: Engine, tmp_path: Path) -> None:
    """The first channel has new limits already when the second one's port cannot be had: both are as they were."""
    before = ports(engine)
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    taken = server.sockets[0].getsockname()[1]
    write(tmp_path, "a", limits={"connections": 3})
    write(tmp_path, "b", listen={"mllp": {"port": taken}})
    with pytest.raises(StartError, match=str(taken)):
        await engine.reload()
    assert ports(engine) == before
    assert engine.listeners.open["a"].listener.limits.connections == 256
    assert engine.feeds["a"].channel.limits.connections == 256
    assert f":{taken}: the port is in use" in engine.refused_reload
    server.close()
    await server.wait_closed()
    assert set(await engine.reload()) == {"a", "b"}
    assert (engine.listeners.open["a"].listener.limits.connections, ports(engine)["b"]) == (3, taken)


async def test_a_certificate_that_cannot_be_used_closes_no_door(engine: Engine, tmp_path: Path) -> None:
    """The files are looked at before the old door is closed: its connections stand."""
    reader, writer = await asyncio.open_connection("127.0.0.1", ports(engine)["a"])
    before = ports(engine)
    tls = {"certificate": "/none/a.pem", "key": "/none/a.key"}
    write(tmp_path, "a", listen={"mllp": {"port": 0, "tls": tls}})
    with pytest.raises(ConfigurationError, match=r"/none/a\.pem cannot be read"):
        await engine.reload()
    assert ports(engine) == before
    writer.write(PROBE)
    async with asyncio.timeout(60):
        assert await reader.read() == b""  # no HL7: closed after it was journaled, by the door that still stands
    writer.close()
    assert engine.listeners.open["a"].listener.mllp.tls is None


async def test_a_new_channel_that_fails_is_gone_again(engine: Engine, tmp_path: Path) -> None:
    """Neither its feed nor its destination is left behind."""
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    taken = server.sockets[0].getsockname()[1]
    other = [{"name": "other", "base_url": "http://127.0.0.1:9/x"}]
    write(tmp_path, "c", listen={"mllp": {"port": taken}}, destinations=other)
    with pytest.raises(StartError):
        await engine.reload()
    assert (set(engine.feeds), set(engine.dispatches)) == ({"a", "b"}, {"interchange"})
    server.close()
    await server.wait_closed()
    await engine.reload()
    assert (set(engine.feeds), set(engine.dispatches)) == ({"a", "b", "c"}, {"interchange", "other"})
    (tmp_path / "channels" / "c.yaml").unlink()
    assert await engine.reload() == ("c",)
    assert (set(engine.listeners.open), set(engine.dispatches)) == ({"a", "b"}, {"interchange"})

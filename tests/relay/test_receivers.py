"""The engine's client side of MLLP and receivers that others wrote: plain, TLS and mutual TLS."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from engine.mllp.client import connect
from engine.ops.sender.feed import messages_of
from engine.ops.sender.line import read_acks
from tests.relay.receivers import Certificates, HapiReceiver, PythonReceiver, hapi, python_hl7
from tests.relay.rig import relay, relaying

# The first run on a machine installs HAPI.
pytestmark = pytest.mark.timeout(900)

SAMPLES: Final = Path(__file__).parents[2] / "samples"
# What HAPI takes or answers none of.
NOT_FOR_HAPI: Final = {
    "14-line-feeds.hl7": "segments that end in LF alone: AE",
    "16-batch.hl7": "a batch: no answer",
    "22-version-2.8.hl7": "MSH-2 of five characters, as 2.7 and later have it: taken, and no answer",
    "31-wrong-version.hl7": "HL7 3.0: AE",
    "34-no-header.hl7": "no MSH: no answer",
}
SECONDS: Final = 60.0
TLS: Final = ("plain", "tls", "mutual")


def sent() -> list[bytes]:
    """Return the samples that every receiver can read, in order of name."""
    return [
        message
        for file in sorted(SAMPLES.glob("*.hl7"))
        if file.name not in NOT_FOR_HAPI
        for message in messages_of(file)
    ]


@cache
def certificates(folder: Path) -> Certificates:
    """Return the certificates of this run."""
    return Certificates(folder)


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates, made once."""
    return certificates(tmp_path_factory.getbasetemp() / "certificates")


@contextlib.asynccontextmanager
async def running(
    kind: str, tls: str, own: Certificates, folder: Path, answers: Mapping[str, str] | None = None
) -> AsyncIterator[PythonReceiver | HapiReceiver]:
    """Run a receiver until the block ends."""
    mutual = tls == "mutual"
    if kind == "python-hl7":
        context = None if tls == "plain" else own.of_receiver(mutual=mutual)
        async with python_hl7(tls=context, answers=answers) as receiver:
            yield receiver
    else:
        used = None if tls == "plain" else own
        with hapi(folder, certificates=used, mutual=mutual, answers=answers) as other:
            yield other


async def exchanged(port: int, messages: list[bytes], tls: ssl.SSLContext | None = None) -> list[tuple[str, str]]:
    """Send messages one after another over one connection; return MSA-1 and MSA-2 of each answer."""
    line = await connect("127.0.0.1", port, seconds=30, limit_bytes=1_048_576, tls=tls)
    answered = []
    try:
        async with asyncio.timeout(SECONDS):
            for message in messages:
                await line.send(message)
                (ack,) = read_acks(await line.receive())
                answered.append((ack.code, ack.control_id))
    finally:
        await line.close()
    return answered


def control_id(message: bytes) -> str:
    """Return MSH-10."""
    return message.split(message[3:4])[9].decode()


@pytest.mark.parametrize("tls", TLS)
@pytest.mark.parametrize("kind", ["python-hl7", "HAPI"])
async def test_every_sample_arrives_byte_for_byte_and_is_answered(
    kind: str, tls: str, own: Certificates, tmp_path: Path
) -> None:
    """Over plain TCP, TLS and mutual TLS each answer is AA with the message's own number."""
    messages = sent()
    assert len(messages) > 40
    context = None if tls == "plain" else own.of_sender(mutual=tls == "mutual")
    async with running(kind, tls, own, tmp_path) as receiver:
        answered = await exchanged(receiver.port, messages, context)
        assert receiver.received == messages
    assert answered == [("AA", control_id(message)) for message in messages]


@pytest.mark.parametrize("tls", TLS)
@pytest.mark.parametrize("kind", ["python-hl7", "HAPI"])
async def test_a_relay_passes_the_samples_on(kind: str, tls: str, own: Certificates, tmp_path: Path) -> None:
    """What the engine takes in arrives there in the order of the journal, byte for byte and once."""
    proof = {"certificate": str(own.sender), "key": str(own.sender)} if tls == "mutual" else {}
    there = {"tls": {"ca_file": str(own.authority), **proof}} if tls != "plain" else {}
    for name in ("receiver", "engine"):
        (tmp_path / name).mkdir()
    async with running(kind, tls, own, tmp_path / "receiver") as receiver, relaying(tmp_path / "engine") as rig:
        rig.destinations.append(relay("ris", receiver.port, **there))
        await rig.begin()
        for message in sent():
            await rig.send(message)
        await rig.drained()
        passed = rig.raws()
        assert len(passed) > 30
        assert receiver.received == passed
        assert {(one.state, one.reason) for one in rig.deliveries()} == {("delivered", "acknowledged")}


@pytest.mark.parametrize("kind", ["python-hl7", "HAPI"])
async def test_a_refusal_by_trigger_event(kind: str, own: Certificates, tmp_path: Path) -> None:
    """A08 is answered AE and A40 AR, A28 as ever."""
    names = ("01-a28-add-person.hl7", "37-a40-merge.hl7", "38-a08-old-number.hl7")
    messages = [message for name in names for message in messages_of(SAMPLES / name)]
    async with running(kind, "plain", own, tmp_path, {"A08": "AE", "A40": "AR"}) as receiver:
        answered = await exchanged(receiver.port, messages)
    assert [code for code, _ in answered] == ["AA", "AR", "AE"]


@pytest.mark.parametrize("kind", ["python-hl7", "HAPI"])
async def test_without_a_certificate_nothing_is_taken(kind: str, own: Certificates, tmp_path: Path) -> None:
    """With mutual TLS a sender that shows no certificate has its connection broken."""
    async with running(kind, "mutual", own, tmp_path) as receiver:
        with pytest.raises((OSError, EOFError)):
            await exchanged(receiver.port, sent()[:1], own.of_sender(mutual=False))
        assert receiver.received == []

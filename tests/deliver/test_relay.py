"""A relay's line to its receiver: what ends a delivery and what does not, and when a message is sent again."""

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from engine.config.relay import Relay
from engine.deliver.relay import ApplicationAck, RelayDestination
from engine.deliver.verdict import Failure, Verdict, VerdictKind
from engine.errors import DeliveryError
from engine.http.request import HttpRequest
from tests.relay.receiver import Receiver, Step

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Line:
    """A relay and its receiver; `observed` are application acknowledgements, `intents` what was journaled first."""

    def __init__(self, receiver: Receiver, **keys: Any) -> None:
        self.receiver = receiver
        self.observed: list[ApplicationAck] = []
        self.intents: list[HttpRequest] = []
        self.fenced: Callable[[], None] = lambda: None
        settings = Relay.model_validate(
            {"name": "ris", "type": "mllp", "host": "127.0.0.1", "port": receiver.port, "connect_seconds": 20} | keys
        )
        self.relay = RelayDestination(settings, ticks=time.monotonic, fence=self._fence, observe=self.observed.append)

    async def _fence(self) -> None:
        self.fenced()
        # As a lease is waited for: meanwhile the loop hears what the other end does.
        for _ in range(5):
            await asyncio.sleep(0)

    async def _intend(self, request: HttpRequest) -> None:
        self.intents.append(request)

    async def send(self, control_id: str, entry: int = 1, **given: Any) -> Verdict:
        """Deliver a message."""
        raw = f"MSH|^~\\&|A|B|C|D|||ADT^A08|{control_id}|P|2.5\r".encode()
        given = {"at": NOW, "entry": entry, "attempts_made": 0} | given
        intend = self._intend if self.relay.holds_unknown else None
        return await self.relay.deliver(raw, control_id, intend, **given)


@contextlib.asynccontextmanager
async def line(receiver: Receiver | None = None, **keys: Any) -> AsyncIterator[Line]:
    """Give a relay and a receiver that runs."""
    there = await (receiver or Receiver()).start()
    made = Line(there, **keys)
    try:
        yield made
    finally:
        await made.relay.close()
        await there.stop()


def waiting(seconds: float, on_unknown: str = "resend", on_error: str = "hold") -> dict[str, Any]:
    """Return how an answer is waited for."""
    return {"acknowledgement": {"wait_seconds": seconds, "on_unknown": on_unknown, "on_error": on_error}}


def fate(verdict: Verdict) -> tuple[str, str, Failure]:
    """Return what became of a message."""
    return verdict.kind.name, verdict.reason, verdict.failure


@pytest.mark.parametrize(
    ("code", "on_error", "kind", "reason"),
    [
        ("AA", "hold", VerdictKind.DELIVERED, "acknowledged"),
        ("CA", "hold", VerdictKind.DELIVERED, "accepted"),
        ("AE", "hold", VerdictKind.HELD, "receiver-error"),
        ("CE", "hold", VerdictKind.HELD, "receiver-error"),
        ("AE", "retry", VerdictKind.RETRY, "receiver-error"),
        ("CE", "continue", VerdictKind.DELIVERED, "receiver-error"),
        ("AR", "continue", VerdictKind.HELD, "receiver-refused"),
        ("CR", "retry", VerdictKind.HELD, "receiver-refused"),
        (" aa ", "hold", VerdictKind.DELIVERED, "acknowledged"),
    ],
)
async def test_what_each_code_means(code: str, on_error: str, kind: VerdictKind, reason: str) -> None:
    """An error is as the relay says; a refusal always waits for a person."""
    async with line(**waiting(20, on_error=on_error)) as one:
        one.receiver.usual = (code,)
        verdict = await one.send("K1")
        assert (verdict.kind, verdict.reason) == (kind, reason)
        assert verdict.attempts[0].codes[0] == code.strip().upper()


@pytest.mark.parametrize("on_unknown", ["resend", "hold"])
@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ((), "timeout"),
        (("AA:K0",), "timeout"),
        (("close",), "connection-lost"),
        (("abort",), "connection-lost"),
        (("garbage",), "answer-unreadable"),
        (("nonsense",), "answer-unreadable"),
        (("ZZ",), "answer-unreadable"),
    ],
)
async def test_where_nobody_can_tell(steps: tuple[Step, ...], reason: str, on_unknown: str) -> None:
    """It is sent again, said to be so, over a new connection; or held, and once a person lets it go sent once more."""
    async with line(**waiting(0.3 if reason == "timeout" else 20, on_unknown)) as one:
        one.receiver.on("K1", steps)
        verdict = await one.send("K1")
        if on_unknown == "resend":
            assert fate(verdict) == ("RETRY", reason, Failure.AMBIGUOUS)
        else:
            assert fate(verdict)[:2] == ("HELD", "outcome-unknown")
            assert verdict.notes == (reason,)
            assert [one.number for one in one.intents] == [1]
        again = await one.send("K1", attempts_made=1)
        assert again.kind is VerdictKind.DELIVERED
        assert "sent-again" in again.notes
        assert [each.connection for each in one.receiver.received] == [1, 1 if steps == ("ZZ",) else 2]


async def test_an_open_intent_is_held_and_nothing_is_sent() -> None:
    """Of a receiver that does not recognise repeats."""
    async with line(**waiting(20, "hold")) as one:
        assert fate(await one.send("K1", ambiguous=True))[:2] == ("HELD", "outcome-unknown")
        assert one.receiver.received == []


async def test_an_empty_msa_2_is_taken() -> None:
    """Some receivers leave it out."""
    async with line() as one:
        one.receiver.usual = ("AA:",)
        assert (await one.send("K1")).kind is VerdictKind.DELIVERED


async def test_a_connection_that_ends_before_the_message_is_sent() -> None:
    """The lease is waited for, and meanwhile the receiver closes: nothing was sent, so a new connection is made."""
    async with line(**waiting(5, "hold")) as one:
        assert (await one.send("K1", 1)).kind is VerdictKind.DELIVERED
        one.fenced = one.receiver.cut
        verdict = await one.send("K2", 2)
        assert fate(verdict) == ("DELIVERED", "acknowledged", Failure.NONE)
        assert one.receiver.ids() == ["K1", "K2"]


async def test_a_receiver_that_closes_after_each_message() -> None:
    """It is known by its first answer: each message has a connection of its own, and none is in doubt."""
    async with line(**waiting(20, "hold")) as one:
        one.receiver.usual = ("AA", 0.02, "close")
        for number in range(10):
            verdict = await one.send(f"K{number}", number)
            assert fate(verdict) == ("DELIVERED", "acknowledged", Failure.NONE)
        assert one.receiver.ids() == [f"K{number}" for number in range(10)]
        assert one.receiver.connections == 10


async def test_a_receiver_that_starts_again() -> None:
    """The next message finds it, over a connection that is used for those after it too."""
    async with line() as one:
        await one.send("K1", 1)
        await one.receiver.stop()
        assert fate(await one.send("K2", 2)) == ("RETRY", "connection-refused", Failure.TRANSIENT)
        await one.receiver.start()
        for number in (2, 3, 4):
            assert (await one.send(f"K{number}", number)).kind is VerdictKind.DELIVERED
        assert one.receiver.connections == 2
        assert one.receiver.ids() == ["K1", "K2", "K3", "K4"]


async def test_an_application_acknowledgement_is_of_the_message_that_was_accepted() -> None:
    """It comes while another one waits, under the same MSH-10 or none at all: it ends nothing."""
    async with line(**waiting(0.5)) as one:
        one.receiver.on("K1", ("CA",), ("AE:K1",))
        assert fate(await one.send("K1", 1))[:2] == ("DELIVERED", "accepted")
        assert fate(await one.send("K1", 2))[:2] == ("RETRY", "timeout")
        assert [(each.entry, each.code) for each in one.observed] == [(1, "AE")]
        one.receiver.on("K2", ("CA",))
        one.receiver.on("K3", ("AE:",))
        assert fate(await one.send("K2", 3))[:2] == ("DELIVERED", "accepted")
        assert fate(await one.send("K3", 4))[:2] == ("RETRY", "timeout")


ACKS = st.lists(st.tuples(st.sampled_from(("AA", "AE", "CA", "CE")), st.integers(0, 3)), max_size=4)


@given(scripts=st.lists(ACKS, min_size=1, max_size=6))
def test_a_late_answer_never_ends_a_later_message(scripts: list[list[tuple[str, int]]]) -> None:
    """Whatever comes in whatever order: a message is ended by its own first answer, and by no other one's."""

    async def run() -> None:
        async with line(**waiting(20)) as one:
            for number, script in enumerate(scripts):
                steps = [f"{code}:K{number - back}" for code, back in script]
                one.receiver.on(f"K{number}", (*steps, "close"))
            for number, script in enumerate(scripts):
                verdict = await one.send(f"K{number}", number)
                own = next((code for code, back in script if not back), None)
                assert [each.codes[0] for each in verdict.attempts] == [own or "connection-lost"]
            accepted = {
                number for number, script in enumerate(scripts) if next((c for c, b in script if not b), "") == "CA"
            }
            assert {each.entry for each in one.observed} <= accepted
            assert all(each.code in {"AA", "AE"} for each in one.observed)

    asyncio.run(run())


@pytest.fixture
def authority() -> trustme.CA:
    """An authority for the receiver and for the engine."""
    return trustme.CA()


def server_tls(authority: trustme.CA, clients: trustme.CA | None = None) -> ssl.SSLContext:
    """Return the TLS of a receiver, which asks for certificates of `clients`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "ris.example").configure_cert(context)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        clients.configure_trust(context)
    return context


def files(folder: Path, authority: trustme.CA, own: trustme.CA | None = None, **more: str) -> dict[str, Any]:
    """Return the keys of TLS, with a certificate of its own by another authority."""
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    found = {"ca_file": str(folder / "ca.pem")}
    if own is not None:
        issued = own.issue_cert("engine.example")
        issued.cert_chain_pems[0].write_to_path(str(folder / "own.pem"))
        issued.private_key_pem.write_to_path(str(folder / "own.key"))
        found |= {"certificate": str(folder / "own.pem"), "key": str(folder / "own.key")}
    return {"tls": found | more}


async def test_tls_of_both_sides(tmp_path: Path, authority: trustme.CA) -> None:
    """The receiver's certificate is verified, under another name where one is given, and ours is shown."""
    own = trustme.CA()
    for more in ({}, {"server_name": "ris.example"}):
        async with line(Receiver(server_tls(authority, own)), **files(tmp_path, authority, own, **more)) as one:
            assert (await one.send("K1")).kind is VerdictKind.DELIVERED


async def test_a_receiver_of_another_authority(tmp_path: Path, authority: trustme.CA) -> None:
    """Nothing is sent there; the reason says what it is."""
    async with line(Receiver(server_tls(trustme.CA())), **files(tmp_path, authority)) as one:
        assert fate(await one.send("K1")) == ("RETRY", "tls-certificate", Failure.DESTINATION)
        with pytest.raises(DeliveryError, match="tls-certificate"):
            await one.relay.check()
        assert one.receiver.received == []


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_certificate_of_ours_that_is_refused(
    tmp_path: Path, authority: trustme.CA, version: ssl.TLSVersion
) -> None:
    """The receiver has read nothing: nothing is in doubt, also where repeats are not recognised."""
    context = server_tls(authority, trustme.CA())
    context.minimum_version = context.maximum_version = version
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.create_task(asyncio.to_thread(refuse, listening, context))
        receiver = Receiver()
        receiver.port = listening.getsockname()[1]
        one = Line(receiver, **files(tmp_path, authority, trustme.CA()), **waiting(20, "hold"))
        try:
            assert fate(await one.send("K1")) == ("RETRY", "client-certificate-refused", Failure.DESTINATION)
        finally:
            await one.relay.close()
            listening.shutdown(socket.SHUT_RDWR)
            await serving


def refuse(listening: socket.socket, context: ssl.SSLContext) -> None:
    """Take connections until nobody listens, say in TLS that their certificates are not trusted, read to their ends."""
    with contextlib.suppress(OSError):
        while True:
            taken, _peer = listening.accept()
            taken.settimeout(30)
            _refuse(taken, context)


def _refuse(taken: socket.socket, context: ssl.SSLContext) -> None:
    # The alert is read before the connection ends: what was not read here would reset it.
    with contextlib.closing(taken), contextlib.suppress(OSError):
        inner = context.wrap_socket(taken.dup(), server_side=True, do_handshake_on_connect=False)
        inner.settimeout(30)
        with contextlib.closing(inner), contextlib.suppress(ssl.SSLError):
            inner.do_handshake()
        taken.shutdown(socket.SHUT_WR)
        while taken.recv(65_536):
            """Nobody reads it."""


async def test_a_certificate_that_is_renewed(tmp_path: Path, authority: trustme.CA) -> None:
    """The next connection has the new one; half of it leaves the former in use."""
    first, second = trustme.CA(), trustme.CA()
    receiver = Receiver(server_tls(authority, first))
    async with line(receiver, **files(tmp_path, authority, first)) as one:
        assert (await one.send("K1", 1)).kind is VerdictKind.DELIVERED
        (tmp_path / "own.key").write_text("half")
        receiver.cut()
        verdicts = [await one.send("K2", 2) for _ in range(2)]
        assert verdicts[-1].kind is VerdictKind.DELIVERED
        await receiver.stop()
        receiver.tls = server_tls(authority, second)
        files(tmp_path, authority, second)
        await receiver.start()
        verdicts = [await one.send("K3", 3) for _ in range(2)]
        assert verdicts[-1].kind is VerdictKind.DELIVERED


@pytest.mark.parametrize("step", ["close", "abort"])
async def test_a_tls_connection_that_is_lost_after_the_message(
    tmp_path: Path, authority: trustme.CA, step: str
) -> None:
    """The receiver may have it: that is in doubt, whatever TLS calls the end."""
    async with line(Receiver(server_tls(authority)), **files(tmp_path, authority) | waiting(20, "hold")) as one:
        assert (await one.send("K1", 1)).kind is VerdictKind.DELIVERED
        one.receiver.on("K2", (step,))
        assert fate(await one.send("K2", 2))[:2] == ("HELD", "outcome-unknown")


async def test_bytes_after_the_message_that_tls_cannot_read(tmp_path: Path, authority: trustme.CA) -> None:
    """An error of TLS once the message has left is no refusal of a certificate."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\x1c\r")
        transport = writer.transport._ssl_protocol._transport  # type: ignore[attr-defined]
        transport.write(b"\x17\x03\x03\x00\x20" + b"x" * 32)
        await reader.read()

    receiver = Receiver()
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_tls(authority)) as server:
        receiver.port = server.sockets[0].getsockname()[1]
        one = Line(receiver, **files(tmp_path, authority), **waiting(20, "hold"))
        try:
            assert fate(await one.send("K1"))[:2] == ("HELD", "outcome-unknown")
        finally:
            await one.relay.close()

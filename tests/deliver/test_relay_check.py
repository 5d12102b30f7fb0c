"""A relay whose receiver is asked for nothing but a connection: what is wrong with that is told before a message."""

import asyncio
import contextlib
import os
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import trustme
import uvloop

from engine.clock import now
from engine.config.relay import Relay
from engine.deliver.relay import RelayDestination
from engine.deliver.verdict import Failure, Verdict, VerdictKind
from engine.errors import DeliveryError, DestinationError, StartError
from engine.http.request import HttpRequest

THERE: Final = {"name": "ris", "type": "mllp", "host": "127.0.0.1", "connect_seconds": 5}
PATIENCE: Final = 5.0  # for the end of a connection, which comes at once


@contextlib.asynccontextmanager
async def listening(context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Listen on a free port, take connections and say nothing."""
    lines: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _reader, writer: lines.append(writer), "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for line in lines:
            line.close()


async def refusal(patience: float = PATIENCE, **settings: Any) -> DeliveryError:
    """Return why no connection is had."""
    destination = RelayDestination(Relay.model_validate(THERE | settings), ticks=time.monotonic)
    try:
        with pytest.raises(DeliveryError) as caught:
            await destination.check(patience)
    finally:
        await destination.close()
    return caught.value


async def test_a_port_where_nobody_listens() -> None:
    """It is tried again by itself, and nothing but the receiver is blamed."""
    async with listening() as port:
        pass
    error = await refusal(port=port)
    assert (str(error), isinstance(error, DestinationError)) == ("connection-refused", False)


async def test_a_certificate_of_an_unknown_authority(tmp_path: Path) -> None:
    """The receiver's is always verified."""
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    async with listening(context) as port:
        error = await refusal(port=port, tls={"ca_file": str(tmp_path / "other.pem")})
    assert (str(error), isinstance(error, DestinationError)) == ("tls-certificate", True)


@pytest.mark.parametrize("most", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
@pytest.mark.parametrize("message", [False, True], ids=["checked", "sent"])
def test_a_receiver_that_takes_another_certificate(tmp_path: Path, most: ssl.TLSVersion, message: bool) -> None:
    """It is told before a message is sent, and where one was it is no lost answer: nobody has read it.

    On uvloop, as the engine runs: asyncio loses the alert where the receiver resets the connection after it.
    """
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    own = trustme.CA().issue_cert("engine")
    own.cert_chain_pems[0].write_to_path(tmp_path / "own.pem")
    own.private_key_pem.write_to_path(tmp_path / "own.key")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode, context.maximum_version = ssl.CERT_REQUIRED, most
    port = socket.create_server(("127.0.0.1", 0))

    def refuse() -> None:
        connection, _ = port.accept()
        with contextlib.suppress(OSError):
            context.wrap_socket(connection, server_side=True)

    refusing = threading.Thread(target=refuse)
    refusing.start()
    tls = {"ca_file": "ca.pem", "certificate": "own.pem", "key": "own.key"}
    settings = {
        "port": port.getsockname()[1],
        "tls": {key: str(tmp_path / name) for key, name in tls.items()},
        "acknowledgement": {"on_unknown": "hold"},
    }
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if message:
            verdict = runner.run(sent(settings))
            found = (verdict.reason, verdict.failure is Failure.DESTINATION)
        else:
            error = runner.run(refusal(**settings))
            found = (str(error), isinstance(error, DestinationError))
    refusing.join()
    port.close()
    assert found == ("client-certificate-refused", True)


def test_tls_that_breaks_after_the_message_is_a_lost_answer(tmp_path: Path) -> None:
    """The receiver may have read the message: it is not sent again by itself where that is not wanted."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    port = socket.create_server(("127.0.0.1", 0))

    def break_off() -> None:
        connection, _ = port.accept()
        with (
            context.wrap_socket(connection, server_side=True) as tls,
            socket.socket(fileno=os.dup(tls.fileno())) as raw,
        ):
            tls.recv(1000)
            raw.sendall(b"no record of TLS" * 4)
            tls.recv(1000)

    breaking = threading.Thread(target=break_off)
    breaking.start()
    tls = {"ca_file": str(tmp_path / "ca.pem")}
    settings = {"port": port.getsockname()[1], "tls": tls, "acknowledgement": {"on_unknown": "hold"}}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        verdict = runner.run(sent(settings))
    breaking.join()
    port.close()
    assert (verdict.kind, verdict.reason, verdict.notes) == (VerdictKind.HELD, "outcome-unknown", ("connection-lost",))


async def sent(settings: dict[str, Any]) -> Verdict:
    """Return the verdict on a message."""

    async def intend(_request: HttpRequest) -> None:
        pass

    destination = RelayDestination(Relay.model_validate(THERE | settings), ticks=time.monotonic)
    try:
        return await destination.deliver(
            b"MSH|^~\\&|A|B|||2025||ADT^A28|1|P|2.5\r", "1", intend, at=now(), entry=1, attempts_made=0
        )
    finally:
        await destination.close()


async def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    """It was there when the channel was read: a start is refused by its name, not as a network that fails."""
    gone = tmp_path / "gone.pem"
    async with listening() as port:
        with pytest.raises(StartError, match=str(gone)):
            await refusal(port=port, tls={"ca_file": str(gone)})

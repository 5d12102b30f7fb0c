"""Orders over real MLLP: what each answer, and each way of giving none, is taken for."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from engine.config.laboratory import LaboratoryConnector
from engine.interchange.kernel.outbound import Outbound
from engine.interchange.orders.laboratory.connectors.connector import SendVerdict
from engine.interchange.orders.laboratory.connectors.line import MllpConnector, read_acknowledgement
from engine.interchange.orders.laboratory.order import LaboratoryOrder
from engine.interchange.store.transmission import TransmissionOutcome
from tests.interchange.laboratory.orders import AT, kept, ordered, read
from tests.interchange.laboratory.scripted import Scripted, scripted

CONTROL_ID = "CONTROL1"
FEW_SECONDS = 20


@pytest.fixture(scope="module")
def order(tmp_path_factory: pytest.TempPathFactory) -> LaboratoryOrder:
    """The order of the tests."""
    with kept(tmp_path_factory.mktemp("order"), ordered()) as store:
        return read(store)


def settings(port: int, **more: Any) -> LaboratoryConnector:
    """Return the settings of a laboratory on this machine."""
    return LaboratoryConnector(**{"type": "hl7", "host": "127.0.0.1", "port": port, "timeout_s": FEW_SECONDS, **more})


def sent(order: LaboratoryOrder, port: int, **more: Any) -> SendVerdict:
    """Send an order, and return what is made of the answer."""
    return asyncio.run(MllpConnector(settings(port, **more), "T", AT, Outbound()).transmit(order, CONTROL_ID))


@pytest.mark.parametrize(
    ("step", "outcome", "code"),
    [
        ("AA", TransmissionOutcome.ACCEPTED, "AA"),
        ("CA", TransmissionOutcome.ACCEPTED, "CA"),
        ("AE no such test", TransmissionOutcome.REFUSED, "AE 207"),
        ("AR not today", TransmissionOutcome.REFUSED, "AR 207"),
        ("CE full", TransmissionOutcome.REFUSED, "CE 207"),
        ("CR no", TransmissionOutcome.REFUSED, "CR 207"),
        ("leave", TransmissionOutcome.UNREACHABLE, "unreachable"),
        ("half", TransmissionOutcome.UNKNOWN, "broken-off"),
        ("close", TransmissionOutcome.UNKNOWN, "broken-off"),
        ("part", TransmissionOutcome.UNKNOWN, "broken-off"),
        ("other", TransmissionOutcome.UNKNOWN, "wrong-id"),
        ("bare", TransmissionOutcome.UNKNOWN, "no-acknowledgement"),
        ("noise", TransmissionOutcome.UNKNOWN, "no-block"),
        ("AX", TransmissionOutcome.UNKNOWN, "no-code"),
    ],
)
def test_what_an_answer_is_taken_for(
    order: LaboratoryOrder, step: str, outcome: TransmissionOutcome, code: str
) -> None:
    """Only the acknowledgement of this very message says what became of it; no connection means that nothing left."""
    with scripted(step) as laboratory:
        verdict = sent(order, laboratory.port)
    assert (verdict.outcome, verdict.code) == (outcome, code)
    assert laboratory.connections == 1
    assert laboratory.control_ids == ([CONTROL_ID] if step not in {"leave", "half"} else [])
    if outcome is TransmissionOutcome.REFUSED:
        assert verdict.reason == step.partition(" ")[2]


def test_nobody_listens(order: LaboratoryOrder) -> None:
    """A port on which nobody listens is told with its place, for operators."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    verdict = sent(order, port)
    assert verdict.outcome is TransmissionOutcome.UNREACHABLE
    assert verdict.reason.startswith(f"127.0.0.1:{port} cannot be reached")


def test_an_answer_that_does_not_come_in_time(order: LaboratoryOrder) -> None:
    """It is unknown then, however soon it would have come."""
    with scripted("silent") as laboratory:
        verdict = sent(order, laboratory.port, timeout_s=0.2)
        assert laboratory.control_ids == [CONTROL_ID]
    assert (verdict.outcome, verdict.code) == (TransmissionOutcome.UNKNOWN, "no-answer")


@pytest.mark.parametrize(
    ("step", "outcome"),
    [
        ("CA AA", TransmissionOutcome.ACCEPTED),
        ("AA", TransmissionOutcome.ACCEPTED),
        ("CA", TransmissionOutcome.UNKNOWN),
        ("CR no", TransmissionOutcome.REFUSED),
    ],
)
def test_both_acknowledgements(order: LaboratoryOrder, step: str, outcome: TransmissionOutcome) -> None:
    """With `acknowledgement: application` CA is not enough; what refuses at the first level is not waited for."""
    with scripted(step) as laboratory:
        assert sent(order, laboratory.port, acknowledgement="application", timeout_s=3).outcome is outcome


def test_an_order_that_cannot_be_written(order: LaboratoryOrder) -> None:
    """It is refused before anybody is connected to."""
    broken = LaboratoryOrder(**{name: getattr(order, name) for name in order.__slots__} | {"tests": ()})
    with scripted("AA") as laboratory:
        verdict = sent(broken, laboratory.port)
    assert (verdict.outcome, verdict.code, laboratory.connections) == (TransmissionOutcome.REFUSED, "unwritable", 0)


def test_the_processing_id(order: LaboratoryOrder) -> None:
    """MSH-11 is what the service's environment, or the configuration, says."""
    with scripted("AA") as laboratory:
        sent(order, laboratory.port)
    assert laboratory.messages[0].split(b"|")[10] == b"T"


@pytest.mark.parametrize(
    ("errors", "code", "reason"),
    [
        (b"ERR|||204^Unknown key^HL70357|E||||No such\r test", "AE 204", "No such"),
        (b"ERR|||207^Internal error^HL70357|E", "AE 207", "Internal error"),
        (b"ERR|PID^1^3^103&Table value not found&HL70357", "AE 103", "Table value not found"),
        (b"ERR|||Quintero, Marisol^x|E||||Quintero", "AE", "Quintero"),
        (b"ERR|||204^x|E||||" + b"long " * 100, "AE 204", ("long " * 100)[:200]),
        (b"", "AE", "of MSA-3"),
    ],
)
def test_what_a_refusal_tells(errors: bytes, code: str, reason: str) -> None:
    """The code of an ERR, new or old, and a text of bounded length; what is no code is not taken for one."""
    block = b"MSH|^~\\&|LAB||CDIS||20260101||ACK|1|T|2.5.1\rMSA|AE|C1|of MSA-3\r" + errors + b"\r"
    _, verdict = read_acknowledgement(block, "C1")
    assert verdict == SendVerdict(TransmissionOutcome.REFUSED, code, reason)


class Authority:
    """A certificate authority of the tests, and what it has signed."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.ca_file = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(self.ca_file)
        ours = self.authority.issue_cert("cdis.example")
        self.certificate, self.key = folder / "own.pem", folder / "own.key"
        ours.cert_chain_pems[0].write_to_path(self.certificate)
        ours.private_key_pem.write_to_path(self.key)

    def server(self, *, clients: bool = False) -> ssl.SSLContext:
        """Return the context of a laboratory; with `clients` it wants a certificate of who calls."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert("127.0.0.1").configure_cert(context)
        if clients:
            self.authority.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One for all tests."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def trusting(authority: Authority) -> Iterator[Scripted]:
    """A laboratory that wants a certificate of who calls."""
    with scripted("AA", tls=authority.server(clients=True)) as laboratory:
        yield laboratory


def test_tls(order: LaboratoryOrder, authority: Authority) -> None:
    """Over TLS an order goes to a laboratory whose certificate is trusted, and to no other one."""
    with scripted("AA", tls=authority.server()) as laboratory:
        trusted = sent(order, laboratory.port, tls=True, ca_file=str(authority.ca_file))
        assert trusted.outcome is TransmissionOutcome.ACCEPTED
        stranger = sent(order, laboratory.port, tls=True)
        assert stranger.outcome is TransmissionOutcome.UNREACHABLE
        assert "is not trusted" in stranger.reason
        assert len(laboratory.messages) == 1


def test_a_laboratory_that_speaks_no_tls(order: LaboratoryOrder, authority: Authority) -> None:
    """It gets nothing of the order."""
    with scripted("half") as laboratory:
        verdict = sent(order, laboratory.port, tls=True, ca_file=str(authority.ca_file), timeout_s=3)
    assert verdict.outcome is TransmissionOutcome.UNREACHABLE
    assert laboratory.messages == []


def test_the_service_proves_itself(order: LaboratoryOrder, authority: Authority, trusting: Scripted) -> None:
    """A laboratory that wants our certificate gets it; without one it takes nothing, and that is certain."""
    own = {"tls": True, "ca_file": str(authority.ca_file)}
    assert sent(order, trusting.port, **own).outcome is TransmissionOutcome.UNREACHABLE
    proved = {**own, "certificate": str(authority.certificate), "key": str(authority.key)}
    assert sent(order, trusting.port, **proved).outcome is TransmissionOutcome.ACCEPTED
    assert len(trusting.messages) == 1


def test_tls_files_that_are_gone(order: LaboratoryOrder, tmp_path: Path) -> None:
    """Nothing leaves then, and the reason says where to look."""
    verdict = sent(order, 1, tls=True, ca_file=str(tmp_path / "no.pem"))
    assert verdict.outcome is TransmissionOutcome.UNREACHABLE
    assert "interchange check" in verdict.reason


def test_cancelled_on_its_way(order: LaboratoryOrder) -> None:
    """Stopped before there is a connection nothing has left; stopped behind the message nobody knows."""

    async def stopped(laboratory: Scripted, *, silent: bool) -> SendVerdict:
        line = MllpConnector(settings(laboratory.port, tls=not silent), "T", AT, Outbound())
        task = asyncio.create_task(line.transmit(order, CONTROL_ID))
        await asyncio.to_thread((laboratory.received if silent else laboratory.reached).acquire)
        task.cancel()
        return await task

    with scripted("silent") as laboratory:
        assert asyncio.run(stopped(laboratory, silent=True)).outcome is TransmissionOutcome.UNKNOWN
    # It does not answer the handshake.
    with scripted("silent") as laboratory:
        assert asyncio.run(stopped(laboratory, silent=False)).outcome is TransmissionOutcome.UNREACHABLE

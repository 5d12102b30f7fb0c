"""Receivers of MLLP that others wrote, for tests of what is sent to them: python-hl7's server, and HAPI's in Java."""

import asyncio
import contextlib
import hashlib
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import hl7
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificates
from hl7.mllp import start_hl7_server

from tests.interchange.clients.install import JAVA, MAVEN, installed
from tests.interchange.laboratory.answers import blocks

HERE: Final = Path(__file__).parent
SOURCE: Final = HERE / "HapiReceiver.java"
LONGEST_BYTES: Final = 16 * 1_048_576


class Certificates:
    """An authority of the test's own, and certificates of it for a receiver and a sender, as PEM files and PKCS 12."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        authority = trustme.CA()
        self.authority = folder / "authority.pem"
        self.receiver, self.sender = folder / "receiver.pem", folder / "sender.pem"
        self.keystore = folder / "receiver.p12"
        leaves = {self.receiver: authority.issue_cert("127.0.0.1"), self.sender: authority.issue_cert("relay.example")}
        authority.cert_pem.write_to_path(self.authority)
        for file, leaf in leaves.items():
            leaf.private_key_and_cert_chain_pem.write_to_path(file)
        pem = self.receiver.read_bytes()
        key: Any = serialization.load_pem_private_key(pem, None)
        certificate, *chain = load_pem_x509_certificates(pem)
        sealed = serialization.BestAvailableEncryption(b"receiver")  # as HapiReceiver.java opens it
        self.keystore.write_bytes(pkcs12.serialize_key_and_certificates(b"own", key, certificate, chain, sealed))

    def of_receiver(self, *, mutual: bool) -> ssl.SSLContext:
        """Return the context of a receiver; `mutual`: senders must show a certificate of the authority."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.authority)
        context.load_cert_chain(self.receiver)
        context.verify_mode = ssl.CERT_REQUIRED if mutual else ssl.CERT_NONE
        return context

    def of_sender(self, *, mutual: bool) -> ssl.SSLContext:
        """Return the context of a sender that trusts the authority; `mutual`: it shows a certificate, too."""
        context = ssl.create_default_context(cafile=self.authority)
        if mutual:
            context.load_cert_chain(self.sender)
        return context


@dataclass
class PythonReceiver:
    """A running server of python-hl7."""

    port: int = 0
    received: list[bytes] = field(default_factory=list)


@contextlib.asynccontextmanager
async def python_hl7(
    *, port: int = 0, tls: ssl.SSLContext | None = None, answers: Mapping[str, str] | None = None
) -> AsyncIterator[PythonReceiver]:
    """Run python-hl7's MLLP server until the block ends; it answers AA, or by the trigger event as `answers` says."""
    receiver = PythonReceiver()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: Any, writer: Any) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                block = await reader.readblock()
                receiver.received.append(block)
                message = hl7.parse(block.decode("latin-1"))
                code = (answers or {}).get(str(message.extract_field("MSH", 1, 9, 1, 2)), "AA")
                writer.writeblock(str(message.create_ack(code)).encode("latin-1"))
                await writer.drain()
        writer.close()

    def connected(reader: Any, writer: Any) -> None:
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(lambda _: writer.close())

    server = await start_hl7_server(connected, "127.0.0.1", port, limit=LONGEST_BYTES, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True)
class HapiReceiver:
    """A running HL7Service of HAPI: its port, and the file of what it received."""

    port: int
    file: Path

    @property
    def received(self) -> list[bytes]:
        """The messages, byte for byte, in the order received."""
        return blocks(self.file.read_bytes())


@contextlib.contextmanager
def hapi(
    folder: Path,
    *,
    port: int = 0,
    certificates: Certificates | None = None,
    mutual: bool = False,
    answers: Mapping[str, str] | None = None,
) -> Iterator[HapiReceiver]:
    """Run HAPI's HL7Service until the block ends; it answers AA, or by the trigger event as `answers` says.

    The test skips, with what is missing, where there is no JDK, no Maven or no registry and nothing is cached.
    """
    file = folder / "received"
    options = ["--port", str(port), "--out", str(file)]
    options += [word for trigger, code in (answers or {}).items() for word in ("--answer", f"{trigger}={code}")]
    options += ["--keystore", str(certificates.keystore)] if certificates else []
    options += ["--client-ca", str(certificates.authority)] if certificates and mutual else []
    log = folder / "hapi.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [*JAVA, "-cp", _class_path(), SOURCE.stem, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as run,
    ):
        assert run.stdin is not None
        assert run.stdout is not None
        try:
            said = run.stdout.readline()
            assert said.startswith("listening "), log.read_text()
            yield HapiReceiver(int(said.split()[1]), file)
        finally:
            run.stdin.close()
            try:
                run.wait(10)
            except subprocess.TimeoutExpired:
                run.kill()


@cache
def _class_path() -> str:
    """Return where Java finds the receiver and HAPI, installed and compiled once; the libraries have their digests."""
    jars = installed(MAVEN, str(HERE / "pom.xml"), programs=("java", "javac", "mvn")) / "jars"
    listed = "".join(f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.name}\n" for jar in sorted(jars.iterdir()))
    assert listed == (HERE / "jars.sha256").read_text(), f"{jars} holds other libraries than tests/relay/jars.sha256"
    compiling = ("javac", "-d", ".", "-cp", f"{jars}/*", SOURCE.name)
    return f"{jars}/*:{installed(compiling, str(SOURCE), programs=('javac',))}"

"""The pages' door: bound before anything is served, on loopback or over TLS, answered inside the engine's loop."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import uvicorn

from engine.config.network import is_loopback
from engine.errors import StartError, UsageError
from engine.ops.web.hosts import LOOPBACK_NAMES, names_of
from engine.ops.web.protocol import BoundedProtocol

KEEP_ALIVE_SECONDS: Final = 75
GRACE_SECONDS: Final = 3


@dataclass(frozen=True, slots=True)
class Doorway:
    """Where the pages are served: host, port (0 takes a free one), and the files of a certificate and its key."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None

    @property
    def tls(self) -> bool:
        """Whether the line is encrypted."""
        return self.certificate is not None

    @property
    def exposed(self) -> bool:
        """Whether others than this machine can reach it: then TLS and one-time codes are required."""
        return not is_loopback(self.host)

    @property
    def names(self) -> frozenset[str]:
        """The hosts that a request may name."""
        own = frozenset({self.host.lower()}) if self.exposed else LOOPBACK_NAMES
        return own | (names_of(self.certificate.read_bytes()) if self.certificate is not None else frozenset())


def doorway(admin: str, certificate: Path | None, key: Path | None) -> Doorway:
    """Return the doorway that options name; UsageError where they open it to others without TLS."""
    host, _, port = admin.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"--admin {admin} is not of the form HOST:PORT, such as 127.0.0.1:8081")
    if (certificate is None) != (key is None):
        raise UsageError("--admin-certificate and --admin-key belong together: name both")
    found = Doorway(host, int(port), certificate, key)
    if found.exposed and not found.tls:
        raise UsageError(
            f"--admin {admin} can be reached from other machines: name --admin-certificate and --admin-key "
            "(everybody then signs in with a one-time code too), or stay on 127.0.0.1"
        )
    tls_context(found)
    return found


def bind(where: Doorway) -> socket.socket:
    """Return a listening socket; StartError where the address cannot be had."""
    listening = socket.socket(socket.AF_INET6 if ":" in where.host else socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((where.host, where.port))
        listening.listen(256)
    except OSError as error:
        listening.close()
        raise StartError(
            f"the pages cannot listen on {where.host}:{where.port} ({error.strerror}): choose another --admin HOST:PORT"
        ) from error
    return listening


def tls_context(where: Doorway) -> ssl.SSLContext | None:
    """Return the context of a doorway with a certificate: TLS 1.3, or 1.2 with forward secrecy; else None."""
    if where.certificate is None or where.key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    try:
        context.load_cert_chain(where.certificate, where.key, _no_passphrase)
        names_of(where.certificate.read_bytes())
    except (OSError, ValueError) as error:
        raise StartError(
            f"--admin-certificate {where.certificate} and --admin-key {where.key} cannot be used"
        ) from error
    return context


@contextlib.asynccontextmanager
async def serving(app: Any, where: Doorway, listening: socket.socket, stopping: asyncio.Event) -> AsyncIterator[None]:
    """Serve an app on a bound socket until closed; `stopping` is set first, so that streams end."""
    context = tls_context(where)
    settings = uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", BoundedProtocol),
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_context_factory=(lambda _config, _default: context) if context is not None else None,
    )
    server = _Server(settings)
    task = asyncio.create_task(server.serve([listening]))
    try:
        yield
    finally:
        stopping.set()
        server.should_exit = True
        await asyncio.gather(task, return_exceptions=True)
        listening.close()


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to the process around it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield


def _no_passphrase() -> str:
    # Without this OpenSSL asks at the terminal, and the engine waits there for ever.
    raise StartError("--admin-key: the private key is encrypted; decrypt it (openssl pkey -in KEY -out FILE)")

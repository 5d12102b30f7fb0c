"""The MLLP listener: sockets, TLS, who may come in and how many; the one room of the stations that knows Twisted."""

import asyncio
import errno
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from twisted.internet import tcp
from twisted.internet.error import CannotListenError

from engine import fault
from engine.config.listener_settings import Limits, Mllp
from engine.config.network import Network, is_loopback
from engine.errors import StartError
from engine.receive.conversation import STALL_SECONDS, ConnectionSettings
from engine.receive.listener.admission import ConnectionFactory, TlsConnectionFactory
from engine.receive.listener.connection import Socket
from engine.receive.reactor import running_reactor
from engine.receive.reply import Answer, Observe
from engine.receive.tls import Certificates

BACKLOG: Final = 128


@dataclass(frozen=True, slots=True)
class Listener:
    """Where a channel listens, to whom, and within which bounds; an empty `allow` lets in every peer."""

    channel: str
    mllp: Mllp
    limits: Limits = field(default_factory=Limits)
    allow: tuple[Network, ...] = ()
    stall_seconds: float = STALL_SECONDS


class OpenListener:
    """A listener that is open."""

    def __init__(self, listener: Listener, factory: "ConnectionFactory", port: "_Port") -> None:
        self.listener = listener
        self._factory = factory
        self._port = port
        address: Any = port.getHost()  # type: ignore[no-untyped-call]
        self.host: str = address.host
        self.port: int = address.port

    @property
    def connections(self) -> int:
        """How many connections stand."""
        return len(self._factory.open)

    def refused(self) -> Mapping[tuple[str, str], int]:
        """Return who was refused for want of room since this was asked last, by address and limit, and how often."""
        return self._factory.refusals.take()

    @property
    def answering(self) -> int:
        """How many answers are under way, on all connections together."""
        return len(self._factory.settings.tasks)

    async def drain(self, seconds: float) -> bool:
        """Accept nothing more, finish what is under way within `seconds`, close; return whether it was finished."""
        await self._stop_accepting()
        for connection in tuple(self._factory.open):
            connection.drain()
        finished = await self._factory.emptied(seconds)
        await self.close()
        return finished

    async def close(self) -> None:
        """Close everything at once; answers that are still under way are cancelled."""
        await self._stop_accepting()
        for connection in tuple(self._factory.open):
            connection.abort()
        await self._factory.emptied(1.0)
        tasks = tuple(self._factory.settings.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)

    async def _stop_accepting(self) -> None:
        stopped = self._port.stopListening()  # type: ignore[no-untyped-call]
        if stopped is not None:
            await stopped.asFuture(asyncio.get_running_loop())


async def listen(listener: Listener, answer: Answer, observe: Observe, *, backlog: int = BACKLOG) -> OpenListener:
    """Open a listener on the running loop; `answer` is called once per block, in order, and may take its time.

    `observe` hears a short word for everything else that happens: `connected`, `refused-address`, `refused-full`,
    `gave-way`, `connection-failed`, `refused-certificate`, `tls-failed`, `probe`, `stray-bytes`, `bare-end`,
    `unframed`, `stalled`. StartError says in one line why the port cannot be had.
    """
    if fault.armed() and not is_loopback(listener.mllp.host):
        raise StartError(f"channel {listener.channel}: with ENGINE_FAULT set nothing listens beyond loopback")
    reactor = running_reactor()
    settings = ConnectionSettings(
        answer, observe, listener.limits, listener.mllp.commit_bytes, listener.stall_seconds, set()
    )
    factory = ConnectionFactory(settings, listener.allow, listener.mllp.tls.client_names if listener.mllp.tls else {})
    outer: Any = factory
    if listener.mllp.tls is not None:
        outer = TlsConnectionFactory(Certificates(listener.mllp.tls, observe), factory, reactor)
    port = (_SharedPort if listener.mllp.reuse_port else _Port)(
        listener.mllp.port, outer, backlog, listener.mllp.host, reactor
    )
    try:
        port.startListening()
    except CannotListenError as error:
        raise StartError(_refusal(listener, error)) from error
    return OpenListener(listener, factory, port)


def _refusal(listener: Listener, error: CannotListenError) -> str:
    where = f"channel {listener.channel} cannot listen on {listener.mllp.host}:{listener.mllp.port}"
    number = getattr(error.socketError, "errno", None)
    if number == errno.EADDRINUSE:
        return f"{where}: the port is in use; stop the other program or set another port in the channel file"
    if number in {errno.EACCES, errno.EPERM}:
        return f"{where}: not permitted; take a port above 1023 or give the process the right to bind it"
    return f"{where}: {getattr(error.socketError, 'strerror', None) or 'no such address'}; check listen.mllp.host"


class _Port(tcp.Port):
    transport = Socket


class _SharedPort(_Port):
    """A port that several processes listen on; the system gives each new connection to one of them."""

    def createInternetSocket(self) -> socket.socket:  # noqa: N802 - Twisted's name
        opened = cast(socket.socket, super().createInternetSocket())  # type: ignore[no-untyped-call]
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        return opened

"""One TCP connection as Twisted sees it, with TLS or without, and the conversation on it."""

import asyncio
import socket
from collections.abc import Mapping
from typing import Any, Final
from typing import Protocol as Interface

from twisted.internet import tcp
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHalfCloseableProtocol, IHandshakeListener
from twisted.internet.main import CONNECTION_LOST
from twisted.internet.protocol import Protocol, connectionDone
from twisted.protocols.tls import TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer  # type: ignore[import-untyped]

from engine.receive.conversation import FAILED, ConnectionSettings, Conversation, fault_of
from engine.receive.reply import Peer
from engine.receive.tls import source_name

HANDSHAKE_SECONDS: Final = 10.0
KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 6))
# Bytes that nobody acknowledges for this long end the connection, where the system knows this option.
USER_TIMEOUT_MILLISECONDS: Final = 120_000


class House(Interface):
    """What a connection needs of the door that it came in by."""

    settings: ConnectionSettings
    client_names: Mapping[str, str]

    def enter(self, connection: "ListenerConnection", host: str) -> None:
        """Called when the connection is made."""

    def leave(self, connection: "ListenerConnection", host: str) -> None:
        """Called when the connection is gone."""

    def refuse(self, host: str, by: str) -> None:
        """Called when TLS refuses a peer: a handshake that fails, or a certificate of no known source."""


class Socket(tcp.Server):
    """Twisted's server socket, which also sends at once and tells when its buffer is empty."""

    owner: "ListenerConnection | None" = None
    empty = True
    _at_once = False

    def doRead(self) -> Any:  # noqa: N802 - Twisted's name
        """Read; where the peer has reset the connection, read what came before, and say that it is lost.

        uvloop calls once at a reset and never again: see `receive/reactor.py`.
        """
        why = super().doRead()
        if why is None and not self._aborting and self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            while why is None and not self._aborting:
                why = super().doRead()
            return CONNECTION_LOST
        return why

    def startWriting(self) -> None:  # noqa: N802 - Twisted's name
        """Ask the reactor to write, unless that is being done at once."""
        self.empty = False
        if not self._at_once:
            super().startWriting()  # type: ignore[no-untyped-call]

    def stopWriting(self) -> None:  # noqa: N802 - Twisted's name
        """Hear that nothing is left to write."""
        super().stopWriting()  # type: ignore[no-untyped-call]
        if not self.empty and self.connected:
            self.empty = True
            if self.owner is not None and not self._at_once:
                self.owner.flushed()

    def abortConnection(self) -> None:  # noqa: N802 - Twisted's name
        """Drop the connection; what its buffer holds is lost, and is not to be taken for sent."""
        self.owner = None
        super().abortConnection()  # type: ignore[no-untyped-call]

    def send(self, outer: Any, data: bytes) -> bool:
        """Write through `outer` (TLS or this socket); return whether all of it is in the system's hands.

        Saves the round through the reactor, two system calls a reply. What goes wrong here goes wrong again in the
        reactor's turn, which then closes the connection.
        """
        if not self.empty:
            outer.write(data)
            return False
        self._at_once = True
        try:
            outer.write(data)
            if not self.empty and self.connected:
                self.doWrite()
        finally:
            self._at_once = False
        if not self.empty:
            super().startWriting()
        return self.empty


class Encrypted(TLSMemoryBIOProtocol):
    """The TLS side of a connection, which knows whether a byte came in."""

    silent = True

    def makeConnection(self, transport: Any) -> None:  # noqa: N802 - Twisted's name
        """Begin a handshake; where that fails, the connection ends."""
        try:
            super().makeConnection(transport)  # type: ignore[no-untyped-call]
        except Exception as error:  # noqa: BLE001 - whatever went wrong, no socket stays open that nobody serves
            self.wrappedProtocol.failed(error)
            transport.abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802 - Twisted's name
        """End TLS, and the connection in any case."""
        inner: Any = self.wrappedProtocol
        try:
            super().connectionLost(reason)  # type: ignore[no-untyped-call]
        finally:
            inner.connectionLost(reason)

    def dataReceived(self, bytes: bytes) -> None:  # noqa: A002, N802 - Twisted's names
        """Pass bytes to TLS."""
        self.silent = False
        super().dataReceived(bytes)  # type: ignore[no-untyped-call]


@implementer(IHalfCloseableProtocol, IHandshakeListener)
class ListenerConnection(Protocol):
    """One connection, as Twisted sees it."""

    transport: Any

    def __init__(self, house: House, address: str, port: int) -> None:
        self._house = house
        self._peer = Peer(address, port)
        self._conversation: Conversation | None = None
        self._discarding = self._half_closed = self._lost = self._counted = False
        self._socket: Any = None
        self._timer: asyncio.TimerHandle | None = None
        self.since = 0.0

    @property
    def silent(self) -> bool:
        """Whether no byte of a message has come in so far."""
        return self._conversation is None or self._conversation.silent

    # -- called by Twisted

    def connectionMade(self) -> None:  # noqa: N802 - Twisted's name
        """Enter the door; behind TLS the conversation waits for the handshake."""
        self._house.enter(self, self._peer.address)
        try:
            self._begin()
        except Exception as error:  # noqa: BLE001 - a connection that cannot be begun is not left open
            self.failed(error)
            self.abort()

    def _begin(self) -> None:
        self.since = asyncio.get_running_loop().time()
        encrypted = isinstance(self.transport, Encrypted)
        self._socket = self.transport.transport if encrypted else self.transport
        self._socket.owner = self
        _tune(self._socket)
        if encrypted:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(HANDSHAKE_SECONDS, self.abort)
        else:
            self._converse(self._peer)

    def handshakeCompleted(self) -> None:  # noqa: N802 - Twisted's name
        """Called after the handshake; a certificate of no known source ends the connection before a byte is parsed."""
        if self._timer is not None:
            self._timer.cancel()
        certificate = self.transport.getPeerCertificate()
        name: str | None = ""
        if certificate is not None:
            name = source_name(certificate.to_cryptography(), self._house.client_names)
        if name is None:
            self._counted = True
            self._refuse("refused-certificate", "its certificate, of no known source")
            self.abort()
            return
        self._converse(Peer(self._peer.address, self._peer.port, name))

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Pass bytes on."""
        if self._conversation is not None and not self._discarding:
            self._conversation.received(data)

    def readConnectionLost(self) -> None:  # noqa: N802 - Twisted's name
        """Hear that the peer has closed its side."""
        self._half_closed = True
        if self._discarding:
            self.transport.loseConnection()
        elif self._conversation is not None:
            self._conversation.ended()

    def writeConnectionLost(self) -> None:  # noqa: N802 - Twisted's name
        """Nothing to do: the peer has its answer, and closes."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802 - Twisted's name
        """Hear that the connection is gone; whatever else fails, its place is free again."""
        if self._lost:
            return
        self._lost = True
        self._house.leave(self, self._peer.address)
        if self._timer is not None:
            self._timer.cancel()
        if self._conversation is not None:
            self._conversation.lost(closed=isinstance(reason.value, ConnectionDone))
        elif not self._counted:
            self._end_unheard()

    def _end_unheard(self) -> None:
        """Count a connection that ended before its handshake: one without a byte is a load balancer's probe."""
        if self.transport.silent:
            self._house.settings.observe("probe")
        else:
            self._refuse("tls-failed", "a TLS handshake that failed")

    def _refuse(self, event: str, by: str) -> None:
        self._house.settings.observe(event)
        self._house.refuse(self._peer.address, by)

    def failed(self, error: Exception) -> None:
        """Count a connection that ends because something of ours went wrong."""
        self._counted = True
        self._house.settings.observe(FAILED, **fault_of(error))

    # -- called by the socket and by admission

    def flushed(self) -> None:
        """Hear from the socket that its buffer is empty."""
        if self._conversation is not None:
            self._conversation.flushed()

    def drain(self) -> None:
        """Finish what is under way, then close."""
        if self._conversation is not None:
            self._conversation.drain()
        else:
            self.abort()

    # -- asked by the conversation

    def send(self, data: bytes) -> bool:
        """Send bytes; see `conversation.Line`."""
        return bool(self._socket.send(self.transport, data))

    def pause(self) -> None:
        """Stop reading."""
        self.transport.pauseProducing()

    def resume(self) -> None:
        """Read again."""
        if not self._half_closed:
            self.transport.resumeProducing()

    def finish(self) -> None:
        """Close our side; what the peer still sends is dropped."""
        self._discarding = True
        if self._half_closed or self.transport is not self._socket:
            self.transport.loseConnection()
        else:
            self._socket.loseWriteConnection()

    def abort(self) -> None:
        """Drop the connection at once."""
        if not self._lost:
            self.transport.abortConnection()

    def _converse(self, peer: Peer) -> None:
        self._house.settings.observe("connected")
        self._conversation = Conversation(self, self._house.settings, peer)


def _tune(connection: Any) -> None:
    connection.setTcpNoDelay(True)
    connection.setTcpKeepAlive(True)
    handle = connection.getHandle()
    for option, value in KEEPALIVE:
        handle.setsockopt(socket.IPPROTO_TCP, option, value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MILLISECONDS)

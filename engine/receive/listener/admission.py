"""Who may come in by a door, and how many: looked at before a byte is read; and who was refused, by what."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from twisted.internet.protocol import Factory
from twisted.protocols.tls import TLSMemoryBIOFactory
from zope.interface import implementer  # type: ignore[import-untyped]

from engine.config.network import Network, is_allowed
from engine.receive.conversation import ConnectionSettings
from engine.receive.listener.connection import Encrypted, ListenerConnection
from engine.receive.tls import Certificates

ALLOW_LIST: Final = "the allow list"
# How many refused addresses are remembered between two looks.
MOST_REFUSED: Final = 100


class Refusals:
    """Counts of those refused, of at most 100 addresses."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, address: str, by: str) -> None:
        """Count one, refused by a limit (`limits.connections 8`), the allow list, or TLS."""
        if len(self._counts) < MOST_REFUSED or (address, by) in self._counts:
            self._counts[address, by] += 1

    def take(self) -> Mapping[tuple[str, str], int]:
        """Return who was refused since this was asked last, and how often."""
        found, self._counts = self._counts, Counter()
        return found


# So long may a connection stand without a byte while the door is full; then it gives way to the next one.
SILENT_SECONDS: Final = 5.0


class ConnectionFactory(Factory):
    """Accepts connections of allowed peers up to the limits; a full listener drops the longest silent one."""

    noisy = False

    def __init__(self, settings: ConnectionSettings, allow: Sequence[Network], client_names: Mapping[str, str]) -> None:
        self.settings = settings
        self.open: set[ListenerConnection] = set()
        self.client_names = client_names
        self._allow: Sequence[Network] = allow
        self._addresses: Counter[str] = Counter()
        self._emptied: asyncio.Event | None = None
        self.refusals = Refusals()

    def buildProtocol(self, addr: Any) -> ListenerConnection | None:  # noqa: N802 - Twisted's name
        """Return the connection for a peer; None, and Twisted closes the socket, where it may not come in."""
        refusal = self._refusal(addr.host)
        if refusal:
            self.settings.observe(refusal)
            return None
        return ListenerConnection(self, addr.host, addr.port)

    def _refusal(self, host: str) -> str:
        limits = self.settings.limits
        if self._allow and not is_allowed(host, self._allow):
            return self._refused(host, "refused-address", ALLOW_LIST)
        if self._addresses[host] >= limits.connections_per_address:
            return self._refused(
                host, "refused-full", f"limits.connections_per_address {limits.connections_per_address}"
            )
        if self._addresses.total() >= limits.connections and not self._make_room():
            return self._refused(host, "refused-full", f"limits.connections {limits.connections}")
        return ""

    def _refused(self, host: str, event: str, by: str) -> str:
        self.refusals.add(host, by)
        return event

    def _make_room(self) -> bool:
        """Drop the connection that has stood longest without ever sending a byte; False where none has for long."""
        late = asyncio.get_running_loop().time() - SILENT_SECONDS
        silent = [connection for connection in self.open if connection.silent and connection.since <= late]
        if not silent:
            return False
        self.settings.observe("gave-way")
        min(silent, key=lambda connection: connection.since).abort()
        return True

    def enter(self, connection: ListenerConnection, host: str) -> None:
        """Give a connection its place among those that stand."""
        self.open.add(connection)
        self._addresses[host] += 1

    def refuse(self, host: str, by: str) -> None:
        """Count a connection that TLS refused."""
        self.refusals.add(host, by)

    def leave(self, connection: ListenerConnection, host: str) -> None:
        """Free the place of a connection that is gone."""
        if connection not in self.open:
            return
        self.open.discard(connection)
        self._addresses[host] -= 1
        if not self._addresses[host]:
            del self._addresses[host]
        if self._emptied is not None and not self.open:
            self._emptied.set()

    async def emptied(self, seconds: float) -> bool:
        """Wait until no connection is open, at most `seconds`."""
        if not self.open:
            return True
        self._emptied = asyncio.Event()
        try:
            await asyncio.wait_for(self._emptied.wait(), seconds)
        except TimeoutError:
            return False
        return True


class TlsConnectionFactory(TLSMemoryBIOFactory):
    """TLS around the conversations; who is not let in never comes to a handshake."""

    protocol = Encrypted

    def __init__(self, certificates: Certificates, inner: Any, clock: Any) -> None:
        creator: Any = _TlsCreator(certificates)
        super().__init__(creator, isClient=False, wrappedFactory=inner, clock=clock)
        self._inner: ConnectionFactory = inner

    def buildProtocol(self, addr: Any) -> Any:  # noqa: N802 - Twisted's name
        """Return the TLS side of a connection; None where the peer may not come in."""
        connection = self._inner.buildProtocol(addr)
        return None if connection is None else self.protocol(self, connection)  # type: ignore[no-untyped-call]


@implementer(IOpenSSLServerConnectionCreator)
class _TlsCreator:
    """Creates the TLS side of a connection with the current certificate files."""

    def __init__(self, certificates: Certificates) -> None:
        self._certificates = certificates

    def serverConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:  # noqa: ARG002, N802, N803 - Twisted's names
        """Return the OpenSSL side of a new connection."""
        return SSL.Connection(self._certificates.context(), None)

"""The servers that webhooks may go to: allowed addresses, pooled connections, a limit of concurrent requests.

A connection belongs to one tenant and one host, as its certificate was checked for this host and by this tenant's
authorities.

A host is looked up for each delivery. The connection goes to the address that was checked, without a second lookup.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from time import monotonic
from typing import Final, NamedTuple

from engine.interchange.kernel.outbound import Outbound, OutboundPeer

# Global unicast of IPv6; all else (loopback, local, IPv4 within IPv6, NAT64, segment routing) is not public.
UNICAST: Final = ip_network("2000::/3")
# Never public, whatever the version of Python: protocols and Teredo, documentation, 6to4 and its relays.
SPECIAL: Final = tuple(
    map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
)


class AddressError(Exception):
    """A host has no address that webhooks may be sent to; the text gives the reason, without the host."""


def is_network(text: str) -> bool:
    """True if an entry of `webhook_allow` is an address or a network; else it is a host name."""
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


def permits(address: str, host: str, allow: Sequence[str]) -> bool:
    """True if webhooks may be sent to an address of a host; `allow` has hosts, addresses and networks."""
    ip: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    if any(ip in ip_network(entry) if is_network(entry) else entry.lower() == host.lower() for entry in allow):
        return True
    special = any(ip in network for network in SPECIAL) or (isinstance(ip, IPv6Address) and ip not in UNICAST)
    return ip.is_global and not ip.is_multicast and not special


async def resolve(host: str, port: int, allow: Sequence[str]) -> str:
    """Return the first address of a host that webhooks may be sent to; AddressError for none.

    Of a host with public and private addresses only the public ones count.
    """
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise AddressError("its name has no address") from error
    addresses = [str(info[4][0]) for info in infos]
    allowed = [address for address in addresses if permits(address, host, allow)]
    if not allowed:
        raise AddressError("its address is not public, and not in webhook_allow")
    return allowed[0]


# Requests to one server of a tenant at the same time.
AT_ONCE: Final = 8
IDLE_SECONDS: Final = 30.0


class ServerAddress(NamedTuple):
    """The address of a server for a tenant's subscriptions: tenant number, `host:port`, and trusted CAs."""

    tenant: int
    server: str
    ca_bundle: str | None


@dataclass(slots=True, eq=False)
class WebhookServer:
    """The connections to one server; `users` counts the sends under way, `used` is the time of the last one."""

    stack: AsyncExitStack
    peer: OutboundPeer
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    users: int = 0
    used: float = 0.0


class Servers:
    """Opens connections to servers, and closes idle ones."""

    def __init__(self, outbound: Outbound, seconds: float) -> None:
        self._outbound = outbound
        self._seconds = seconds
        self._known: dict[ServerAddress, WebhookServer] = {}

    @asynccontextmanager
    async def turn(self, place: ServerAddress) -> AsyncIterator[OutboundPeer]:
        """Wait for a turn with a server and keep it for the block; OutboundError."""
        server = self._known.get(place)
        if server is None:
            stack = AsyncExitStack()
            opened = self._outbound.peer(place.ca_bundle, self._seconds, also_public=True)
            peer = await stack.enter_async_context(opened)
            # Another task may have opened it meanwhile; an unused peer has no connection to close.
            server = self._known.setdefault(place, WebhookServer(stack, peer))
        server.users += 1
        try:
            async with server.turns:
                yield server.peer
        finally:
            server.users -= 1
            server.used = monotonic()

    async def close_idle(self, seconds: float = IDLE_SECONDS) -> None:
        """Close the connections to servers that were not used for `seconds`."""
        now = monotonic()
        for place, server in tuple(self._known.items()):
            if not server.users and now - server.used >= seconds:
                del self._known[place]
                await server.stack.aclose()

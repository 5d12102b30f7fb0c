"""Where webhooks may be sent: to public addresses, and to those that the tenant's `webhook_allow` names.

A name is looked up each time, and the address that was found to be allowed is the one that is connected to: no second
lookup can lead elsewhere.
"""

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

# IPv4 addresses within IPv6 ones, through which what is not public could be reached: NAT64, 6to4, Teredo.
WRAPPING: Final = tuple(map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))


class AddressError(Exception):
    """No address of a host may be sent to; the text says why, without the host."""


def is_network(text: str) -> bool:
    """Say whether an entry of `webhook_allow` is an address or a network; else it is the name of a host."""
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


def permits(address: str, host: str, allow: Sequence[str]) -> bool:
    """Say whether webhooks may be sent to an address of a host: `allow` has hosts, addresses and networks."""
    found: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if any(found in ip_network(one) if is_network(one) else one.lower() == host.lower() for one in allow):
        return True
    wrapped = isinstance(found, IPv6Address) and any(found in one for one in WRAPPING)
    return found.is_global and not found.is_multicast and not wrapped


async def resolve(host: str, port: int, allow: Sequence[str]) -> str:
    """Return an address of a host that webhooks may be sent to; AddressError for none."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise AddressError("its name has no address") from error
    addresses = [str(one[4][0]) for one in found]
    allowed = [one for one in addresses if permits(one, host, allow)]
    if not allowed:
        raise AddressError("its address is not public, and not in webhook_allow")
    return allowed[0]

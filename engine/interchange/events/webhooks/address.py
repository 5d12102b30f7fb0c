"""Where webhooks may be sent: to public addresses, and to those that the tenant's `webhook_allow` names.

A host is looked up for each delivery. The connection goes to the address that was checked, without a second lookup.
"""

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

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

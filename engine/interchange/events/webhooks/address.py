"""Where webhooks may be sent: to public addresses, and to those that the tenant's `webhook_allow` names.

A name is looked up each time, and the address that was found to be allowed is the one that is connected to: no second
lookup can lead elsewhere.
"""

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

# What IANA gives to the public of IPv6; all else (loopback, local, IPv4 within IPv6, NAT64, segment routing) is not.
UNICAST: Final = ip_network("2000::/3")
# Not public whatever the version of Python says: protocols and Teredo, documentation, 6to4 and its relays.
SPECIAL: Final = tuple(
    map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
)


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
    special = any(found in one for one in SPECIAL) or (isinstance(found, IPv6Address) and found not in UNICAST)
    return found.is_global and not found.is_multicast and not special


async def resolve(host: str, port: int, allow: Sequence[str]) -> str:
    """Return the first address of a host that webhooks may be sent to; AddressError for none.

    Of a name with public and private addresses none but the public ones counts.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise AddressError("its name has no address") from error
    addresses = [str(one[4][0]) for one in found]
    allowed = [one for one in addresses if permits(one, host, allow)]
    if not allowed:
        raise AddressError("its address is not public, and not in webhook_allow")
    return allowed[0]

"""Addresses of machines: the networks that may come in, and which host only this machine can reach."""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Annotated, Any

from pydantic import BeforeValidator


def _network(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("write one such as 10.20.0.0/16 or 192.0.2.7/32")
    try:
        return ip_network(value)
    except ValueError as error:
        reason = "has bits beyond its mask" if "host bits" in str(error) else "is no network"
        raise ValueError(f"{value!r} {reason}; write one such as 10.20.0.0/16 or 192.0.2.7/32") from error


Network = Annotated[IPv4Network | IPv6Network, BeforeValidator(_network)]


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach `host`; a name other than localhost counts as reachable by others."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_allowed(host: str, networks: Iterable[Network]) -> bool:
    """Say whether a peer's address is in one of the networks, also where it comes as IPv4 in IPv6; no name ever is."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in networks)

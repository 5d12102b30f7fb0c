"""Addresses of machines: networks that may come in, hosts that only this machine can reach, URLs that take a token."""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator

from engine.config.model import Placed
from engine.config.text import is_host


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


def in_the_clear(key: str, url: str) -> Iterator[Placed]:
    """Yield a URL that sends to another machine without TLS."""
    parts = urlsplit(url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        yield (
            (key,),
            f"{url} sends patients' data or credentials in the clear",
            "use https:// where others share the line",
        )


def encrypted_url(text: str) -> str:
    """Return a URL that may be sent a token: https, or http on this machine, at no reserved host; else ValueError."""
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ValueError("write a whole https URL, its port at most 65535") from error
    try:
        address = ip_address(host)
    except ValueError:
        address = None
    here = is_loopback(host)
    if parts.scheme != "https" and not (parts.scheme == "http" and here):
        raise ValueError("write an https URL; http is for this machine only")
    if not is_host(host) or parts.username is not None or not text.isprintable() or any(mark in text for mark in "# "):
        raise ValueError("write a whole URL without user, password or fragment; a token goes into `token`")
    if address is not None and not here and (address.is_link_local or address.is_multicast or address.is_unspecified):
        raise ValueError("name a server by its own address: nothing is sent to such a one")
    return text


def is_allowed(host: str, networks: Iterable[Network]) -> bool:
    """Say whether a peer's address is in one of the networks, also where it comes as IPv4 in IPv6; no name ever is."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in networks)

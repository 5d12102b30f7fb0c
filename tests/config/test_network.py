"""Addresses of machines."""

from ipaddress import ip_network

import pytest

from engine.config.network import is_allowed, is_loopback


def test_only_this_machine_is_loopback() -> None:
    """All addresses of the loopback net, both families, and the name; no other name, and not every address."""
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "10.0.0.1", "::", "engine.example", ""))  # noqa: S104


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("10.20.255.1", True),
        ("::ffff:10.20.0.1", True),
        ("fe80::1%eth0", True),
        ("10.21.0.1", False),
        ("::1", False),
        ("engine.example", False),
        ("", False),
    ],
)
def test_a_peer_comes_in_by_its_address(host: str, *, allowed: bool) -> None:
    """IPv4 inside IPv6 is the IPv4 that it is, the name of an interface does not matter, and no name is looked up."""
    assert is_allowed(host, (ip_network("10.20.0.0/16"), ip_network("fe80::/10"))) is allowed

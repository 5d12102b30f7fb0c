"""Where webhooks may be sent: nothing within the service's own network, unless `webhook_allow` names it."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from engine.config.service import Tenant
from engine.interchange.events.webhooks.servers import AddressError, permits, resolve
from tests.interchange.kit import Running, running
from tests.interchange.subscriptions.subscribing import subscribe
from tests.interchange.webhooks.receiver import Receiver
from tests.interchange.webhooks.told import tries

PUBLIC = ["93.184.216.34", "192.88.98.1", "2606:2800:220:1:248:1893:25c8:1946", "2001:500:88:200::8", "3ffe::1"]
WITHIN = [
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.1"),
    *("224.0.0.1", "255.255.255.255", "198.18.0.1", "240.0.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1"),
    *("ff02::1", "::ffff:127.0.0.1", "::ffff:10.1.2.3", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::"),
    # IPv4 within IPv6 in its older forms, site-local, segment routing, documentation, protocols, relays of 6to4.
    *("::127.0.0.1", "::10.1.2.3", "::ffff:0:7f00:1", "::ffff:0:10.1.2.3", "64:ff9b:1::7f00:1", "fec0::1", "feff::1"),
    *("5f00::1", "3fff::1", "3fff:fff::1", "2001:db8::1", "2001:10::1", "100::1", "100:0:0:1::1", "4000::1"),
    *("192.88.99.1", "192.0.0.1", "192.0.0.9", "192.0.2.1", "203.0.113.1"),
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    """Whatever is public may be sent to."""
    assert permits(address, "hooks.example", ())


@pytest.mark.parametrize("address", WITHIN)
def test_addresses_within(address: str) -> None:
    """Loopback, private, link-local, shared, reserved and wrapped addresses are not sent to."""
    assert not permits(address, "hooks.example", ())
    assert not permits(address, "hooks.example", ("198.51.100.0/24", "other.example"))


@pytest.mark.parametrize(
    ("address", "entry"),
    [
        ("10.1.2.3", "10.1.0.0/16"),
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("fc00::1", "fc00::/7"),
        ("10.1.2.3", "Hooks.example"),
    ],
)
def test_what_is_allowed(address: str, entry: str) -> None:
    """A network, an address or a host of `webhook_allow` opens just that."""
    assert permits(address, "hooks.example", (entry,))
    assert not permits("10.2.0.1", "another.example", (entry,))


@pytest.mark.parametrize(
    ("addresses", "allow", "chosen"),
    [
        (["10.1.2.3", "93.184.216.34"], (), "93.184.216.34"),
        (["::1", "2606:2800:220:1::1", "93.184.216.34"], (), "2606:2800:220:1::1"),
        (["93.184.216.34", "127.0.0.1"], (), "93.184.216.34"),
        (["::1", "10.1.2.3", "93.184.216.34"], ("10.1.0.0/16",), "10.1.2.3"),
        (["10.1.2.3", "127.0.0.1", "::ffff:0:7f00:1"], (), ""),
    ],
)
def test_of_several_addresses_the_first_that_is_allowed_counts(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str], allow: tuple[str, ...], chosen: str
) -> None:
    """A name with public and private addresses leads to a public one, in whatever order they come; else nowhere."""

    def found(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET6 if ":" in one else socket.AF_INET, 1, 6, "", (one, 443)) for one in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    if chosen:
        assert asyncio.run(resolve("hooks.example", 443, allow)) == chosen
    else:
        with pytest.raises(AddressError, match="its address is not public"):
            asyncio.run(resolve("hooks.example", 443, allow))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_nothing_within_is_connected_to(own_service: Running, hook: Receiver, host: str) -> None:
    """Without `webhook_allow` no connection to this machine is opened; the attempt says why, without the address."""
    told = subscribe(own_service, "Patient", channel={"endpoint": f"https://{host}:{hook.port}/x"})["id"]
    own_service.create()
    assert tries(own_service, told, 1) == [(0, "its address is not public, and not in webhook_allow")]
    assert own_service.http.get(f"{own_service.url}/_test/outbound").json() == {"connections": 0}


def test_a_name_without_address(own_service: Running) -> None:
    """A host that nobody knows is a failure that says so."""
    told = subscribe(own_service, "Patient", channel={"endpoint": "https://hooks.invalid/x"})["id"]
    own_service.create()
    assert tries(own_service, told, 1) == [(0, "its name has no address")]


def test_each_tenant_has_its_own(tmp_path: Path, hook: Receiver) -> None:
    """What one tenant may send to is closed to another."""
    tenants = {"riverbend": Tenant(webhook_allow=("localhost",)), "lakeside": Tenant(), "lax": Tenant()}
    with running(tmp_path, tenants=tenants) as service:
        of = {}
        for client in ("physician", "other"):
            endpoint = {"endpoint": f"https://localhost:{hook.port}/x"}
            of[client] = subscribe(service, "Patient", client=client, channel=endpoint)["id"]
            service.create(client=client)
        refused = "its address is not public, and not in webhook_allow"
        assert tries(service, of["other"], 1) == [(0, refused)]
        assert tries(service, of["physician"], 1) != [(0, refused)]

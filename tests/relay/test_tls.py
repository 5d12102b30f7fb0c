"""A relay over TLS, in the whole engine: mutual, refused, renewed."""

import ssl
from pathlib import Path
from typing import Any

import trustme

from tests.relay.receiver import Receiver
from tests.relay.rig import RelayRig, series


def server_tls(authority: trustme.CA, clients: trustme.CA) -> ssl.SSLContext:
    """Return the TLS of a receiver that asks for certificates of `clients`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    clients.configure_trust(context)
    return context


def written(folder: Path, authority: trustme.CA, own: trustme.CA) -> dict[str, Any]:
    """Write the files of the engine's side and return the keys that name them."""
    issued = own.issue_cert("engine.example")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    issued.cert_chain_pems[0].write_to_path(str(folder / "own.pem"))
    issued.private_key_pem.write_to_path(str(folder / "own.key"))
    names = {"ca_file": "ca.pem", "certificate": "own.pem", "key": "own.key"}
    return {key: str(folder / name) for key, name in names.items()}


async def test_mutual_tls_and_a_renewal(hub: RelayRig) -> None:
    """The receiver trusts another authority from one day on: with the new files in place all goes on, in order."""
    authority, first, second = trustme.CA(), trustme.CA(), trustme.CA()
    receiver = await hub.receiver(
        receiver=Receiver(server_tls(authority, first)), tls=written(hub.folder, authority, first)
    )
    await hub.begin()
    raws = series(30)
    await hub.taken(*raws[:10])
    await receiver.until(10)
    await receiver.stop()
    receiver.tls = server_tls(authority, second)
    await receiver.start()
    await hub.taken(*raws[10:20])
    await hub.when(lambda all_: any(one.tries for one in all_))
    written(hub.folder, authority, second)
    await hub.taken(*raws[20:])
    await hub.settled(30)
    assert receiver.raws == raws
    assert any(line["event"] == "certificate renewed" for line in hub.engine.lines)


async def test_a_receiver_that_is_not_who_it_says(hub: RelayRig) -> None:
    """Its certificate is of another authority: nothing is sent, the destination says why, others go on."""
    authority = trustme.CA()
    keys = written(hub.folder, authority, trustme.CA())
    wrong = await hub.receiver("wrong", receiver=Receiver(server_tls(trustme.CA(), trustme.CA())), tls=keys)
    other = await hub.receiver("other")
    await hub.begin()
    await hub.taken(*series(5))
    await other.until(5)
    await hub.engine.line("destination does not answer")
    [view] = [one for one in await hub.done("destinations.list") if one["destination"] == "wrong"]
    assert (view["state"], view["reason"]) == ("failing", "tls-certificate")
    assert wrong.received == []

"""TLS on real sockets: versions, client certificates, and certificate files that change."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509

from engine.config.listener_settings import Mllp, Tls
from engine.errors import StartError
from engine.receive.block import enclose
from engine.receive.listener import Listener, listen
from engine.receive.tls import ends_of, source_name

Eventually = Callable[[Callable[[], object]], Awaitable[None]]

ACK_A = enclose(b"ACK of A")


@pytest.fixture
def files(tmp_path: Path, authority: trustme.CA) -> Tls:
    """Server certificate, key and authority as files."""
    write(authority.issue_cert("localhost"), tmp_path)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return Tls(certificate=str(tmp_path / "server.pem"), key=str(tmp_path / "server.key"))


def write(leaf: trustme.LeafCert, folder: Path) -> None:
    """Put a certificate and its key where the listener looks for them."""
    (folder / "server.pem").write_bytes(b"".join(pem.bytes() for pem in leaf.cert_chain_pems))
    leaf.private_key_pem.write_to_path(folder / "server.key")


def client(authority: trustme.CA, leaf: trustme.LeafCert | None = None) -> ssl.SSLContext:
    """Return a client that trusts the authority, with or without a certificate of its own."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if leaf is not None:
        leaf.configure_cert(context)
    return context


def mutual(files: Tls, **names: str) -> Tls:
    """Ask for client certificates; `names` maps their identities."""
    folder = Path(files.certificate).parent
    return files.model_copy(update={"client_ca": str(folder / "ca.pem"), "client_names": names})


@pytest.mark.parametrize(
    "version", [pytest.param(ssl.TLSVersion.TLSv1_2, id="1.2"), pytest.param(ssl.TLSVersion.TLSv1_3, id="1.3")]
)
async def test_blocks_over_tls(
    open_door: Any, dial: Any, files: Tls, authority: trustme.CA, version: ssl.TLSVersion
) -> None:
    """Blocks and replies go over TLS 1.2 and 1.3, small ones and such as need many records."""
    context = client(authority)
    context.minimum_version = context.maximum_version = version
    heard = await open_door(tls=files)
    script = await dial(heard, context)
    big = b"M" * 500_000
    await script.play(
        ("send", enclose(b"A")), ("expect", ACK_A), ("send", enclose(big)), ("expect", enclose(b"ACK of " + big))
    )
    assert heard.written == [True, True]


async def test_a_closing_reply_over_tls(open_door: Any, dial: Any, files: Tls, authority: trustme.CA) -> None:
    """A line that the listener closes ends with the whole reply and TLS's own goodbye."""
    heard = await open_door(tls=files, limits={"block_bytes": 1024})
    script = await dial(heard, client(authority))
    await script.play(("send", b"\x0b" + b"M" * 5000), ("closed", enclose(b"ACK of " + b"M" * 1024)))


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
async def test_old_tls_is_refused(
    open_door: Any, dial: Any, files: Tls, authority: trustme.CA, eventually: Eventually
) -> None:
    """TLS 1.1 does not get through the handshake."""
    context = client(authority)
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    heard = await open_door(tls=files)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await dial(heard, context)
    await eventually(lambda: heard.events == {"tls-failed": 1})


async def test_plaintext_on_a_tls_port_is_refused(
    open_door: Any, dial: Any, files: Tls, eventually: Eventually
) -> None:
    """A block in the clear is never parsed."""
    heard = await open_door(tls=files)
    script = await dial(heard)
    await script.send(enclose(b"MSH|^~\\&|"))
    await eventually(lambda: heard.events == {"tls-failed": 1})
    assert not heard.blocks


async def test_client_certificates_name_the_source(
    open_door: Any, dial: Any, files: Tls, authority: trustme.CA
) -> None:
    """With mTLS the peer carries the source name that its certificate is mapped to."""
    heard = await open_door(tls=mutual(files, **{"epic.example": "EPIC"}))
    script = await dial(heard, client(authority, authority.issue_cert("epic.example")))
    await script.play(("send", enclose(b"A")), ("expect", ACK_A))
    assert [peer.tls_name for peer in heard.peers] == ["EPIC"]


@pytest.mark.parametrize(
    "who",
    [
        pytest.param("nobody", id="without-a-certificate"),
        pytest.param("stranger", id="of-another-authority"),
        pytest.param("unmapped", id="that-stands-for-no-source"),
    ],
)
async def test_other_clients_are_refused(
    open_door: Any, dial: Any, files: Tls, authority: trustme.CA, eventually: Eventually, who: str
) -> None:
    """A client without a certificate that is known here is refused before a byte is parsed."""
    leaf = {"nobody": lambda: None, "stranger": lambda: trustme.CA().issue_cert("epic.example")}.get(
        who, lambda: authority.issue_cert("other.example")
    )()
    heard = await open_door(tls=mutual(files, **{"epic.example": "EPIC"}))
    try:
        script = await dial(heard, client(authority, leaf))
        await script.send(enclose(b"A"))
    except (ssl.SSLError, ConnectionError):
        pass
    word = "refused-certificate" if who == "unmapped" else "tls-failed"
    await eventually(lambda: heard.events == {word: 1})
    by = "its certificate, of no known source" if who == "unmapped" else "a TLS handshake that failed"
    assert heard.listening.refused() == {("127.0.0.1", by): 1}
    assert not heard.blocks


async def test_a_new_certificate_is_used_without_dropping_connections(
    open_door: Any, dial: Any, files: Tls, authority: trustme.CA
) -> None:
    """New handshakes use the new file, connections that stand go on; a key that does not fit yet changes nothing."""
    heard = await open_door(tls=files)
    old = await dial(heard, client(authority))
    await old.play(("send", enclose(b"A")), ("expect", ACK_A))
    other = trustme.CA()
    leaf = other.issue_cert("localhost")
    leaf.cert_chain_pems[0].write_to_path(files.certificate)
    half = await dial(heard, client(authority))
    await half.play(("send", enclose(b"A")), ("expect", ACK_A))
    leaf.private_key_pem.write_to_path(files.key)
    new = await dial(heard, client(other))
    await new.play(("send", enclose(b"A")), ("expect", ACK_A))
    await old.play(("send", enclose(b"A")), ("expect", ACK_A))
    assert heard.events == {"connected": 3, "certificate-unusable": 1, "certificate-renewed": 1}


async def test_a_handshake_has_its_time(open_door: Any, dial: Any, files: Tls, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who connects and does not begin TLS is closed."""
    monkeypatch.setattr("engine.receive.listener.connection.HANDSHAKE_SECONDS", 0.05)
    heard = await open_door(tls=files)
    await (await dial(heard)).play(("send", b"\x0bA"), ("closed", b""))
    assert heard.events == {"tls-failed": 1}


async def test_a_probe_of_a_tls_port(open_door: Any, dial: Any, files: Tls, eventually: Eventually) -> None:
    """A connection closed without a byte is a probe behind TLS too."""
    heard = await open_door(tls=files)
    await (await dial(heard)).close()
    await eventually(lambda: heard.events == {"probe": 1})


async def test_who_may_not_come_in_gets_no_handshake(
    open_door: Any, dial: Any, files: Tls, authority: trustme.CA
) -> None:
    """The caps hold before TLS begins."""
    heard = await open_door(tls=files, limits={"connections": 1})
    await dial(heard, client(authority))
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await dial(heard, client(authority))
    assert heard.events["refused-full"] == 1


async def test_drain_over_tls(open_door: Any, dial: Any, files: Tls, authority: trustme.CA) -> None:
    """A drained door says goodbye on its TLS connections."""
    heard = await open_door(tls=files)
    script = await dial(heard, client(authority))
    await script.play(("send", enclose(b"A")), ("expect", ACK_A))
    finished, _ = await asyncio.gather(heard.listening.drain(5), script.closed(b""))
    assert finished


async def test_missing_files_are_said_in_one_line(files: Tls) -> None:
    """A certificate that is not there is a StartError which names the files."""
    tls = files.model_copy(update={"key": "/nowhere/server.key"})
    with pytest.raises(StartError, match=r"key /nowhere/server\.key") as refused:
        await listen(Listener("test", Mllp(port=0, tls=tls)), unasked, lambda _: None)
    assert "\n" not in str(refused.value)


async def unasked(*_: object) -> Any:
    """Never called."""
    raise AssertionError


def test_source_names(authority: trustme.CA) -> None:
    """A certificate is known by its fingerprint, by an alternative name, or by its common name."""
    leaf = authority.issue_cert("epic.example", common_name="Epic Interfaces")
    certificate = x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes())
    from_digest = {"sha256:" + certificate.fingerprint(certificate.signature_hash_algorithm or unasked).hex(): "X"}
    assert source_name(certificate, from_digest) == "X"
    assert source_name(certificate, {"Epic Interfaces": "Y"}) == "Y"
    assert source_name(certificate, {"epic.example": "Z"}) == "Z"
    assert source_name(certificate, {"other": "Z"}) is None
    assert source_name(certificate, {}) == "epic.example"


def test_the_end_of_each_file_is_known(tmp_path: Path) -> None:
    """A listener's certificate and its client authority, by the first that ends; what cannot be read is left out."""
    authority = trustme.CA()
    certificate = tmp_path / "server.pem"
    issued = authority.issue_cert("127.0.0.1", not_after=datetime(2031, 5, 6, tzinfo=UTC))
    certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    (tmp_path / "junk.pem").write_text("no certificate")
    junk, gone = tmp_path / "junk.pem", tmp_path / "gone.pem"
    assert ends_of((str(certificate), junk, None)) == ((certificate, datetime(2031, 5, 6, tzinfo=UTC)),)
    assert ends_of((gone,)) == ()

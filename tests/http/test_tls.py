"""The files of a server's TLS."""

import ssl
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from engine.errors import StartError
from engine.http.tls import KeyPair, client_context, renew, server_context

NAMES = ("tls.certificate", "tls.key")


def issued(folder: Path, name: str) -> KeyPair:
    """Write the certificate and key of an authority of their own, and return them."""
    made = trustme.CA().issue_cert("127.0.0.1")
    pair = KeyPair(folder / f"{name}.pem", folder / f"{name}.key", NAMES)
    made.cert_chain_pems[0].write_to_path(pair.certificate)
    made.private_key_pem.write_to_path(pair.key)
    return pair


def test_nothing_older_than_tls_1_2_is_spoken(tmp_path: Path) -> None:
    """1.2 is the least, and of it only what keeps former traffic secret."""
    context = server_context(issued(tmp_path, "own"))
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert all(cipher["name"].startswith(("TLS_", "ECDHE-")) for cipher in context.get_ciphers())


def test_a_pair_that_cannot_be_used(tmp_path: Path) -> None:
    """What is wrong with the files is said of the file that it is wrong with; nobody is asked a passphrase."""
    own, other = issued(tmp_path, "own"), issued(tmp_path, "other")
    key = serialization.load_pem_private_key(own.key.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"sesame")
    (tmp_path / "locked.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    )
    said = {
        tmp_path / "nothing.key": r"^tls\.key: .*nothing\.key cannot be read \(No such file",
        other.key: r"^tls\.certificate and tls\.key: .*other\.key do not belong together",
        own.certificate: "cannot be read as PEM",
        tmp_path / "locked.key": r"^tls\.key: the private key is encrypted; decrypt it",
    }
    for file, text in said.items():
        with pytest.raises(StartError, match=text):
            server_context(KeyPair(own.certificate, file, NAMES))
    with pytest.raises(StartError, match=r"^tls\.certificate: .*nothing\.pem"):
        server_context(KeyPair(tmp_path / "nothing.pem", own.key, NAMES))


def test_files_that_cannot_be_used_leave_the_former_pair(tmp_path: Path) -> None:
    """A context that is renewed with a key of another certificate is as it was."""
    own, other = issued(tmp_path, "own"), issued(tmp_path, "other")
    context = server_context(own)
    own.key.write_bytes(other.key.read_bytes())
    with pytest.raises(StartError, match="do not belong together"):
        renew(context, own)
    own.certificate.write_bytes(other.certificate.read_bytes())
    renew(context, own)


def test_a_client_trusts_what_it_is_given(tmp_path: Path) -> None:
    """An authority is trusted instead of the system's, or with them; the other end is verified in any case."""
    own = issued(tmp_path, "own")
    alone = client_context(own.certificate, certificate=own.certificate, key=own.key)
    with_public = client_context(own.certificate, also_public=True)
    assert alone.cert_store_stats()["x509"] == 1
    assert with_public.cert_store_stats()["x509"] == client_context().cert_store_stats()["x509"] + 1
    for context in (alone, with_public):
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_client_with_files_that_cannot_be_used(tmp_path: Path) -> None:
    """Each caller has its own words for it."""
    own, other = issued(tmp_path, "own"), issued(tmp_path, "other")
    with pytest.raises(FileNotFoundError):
        client_context(tmp_path / "nothing.pem")
    with pytest.raises(ssl.SSLError):
        client_context(certificate=own.certificate, key=other.key)

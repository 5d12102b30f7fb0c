"""TLS of listeners: 1.2 or later, client certificates mapped to source names, files re-read when they change."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import NameOID
from OpenSSL import SSL

from engine.config.listener_settings import Tls
from engine.errors import StartError

# RFC 9325: ephemeral keys and authenticated encryption only. TLS 1.3 has nothing else.
CIPHERS: Final = b"ECDHE+AESGCM:ECDHE+CHACHA20"

Stamp = tuple[tuple[int, int, int], ...]


class Certificates:
    """The TLS context of a listener, built anew once its files have changed.

    Files that cannot be used (a key that does not fit yet, half a certificate) leave the former context in use, and
    `observe` hears of it once per change.
    """

    def __init__(self, tls: Tls, observe: Callable[[str], None]) -> None:
        self._tls = tls
        self._observe = observe
        self._files = [Path(name) for name in (tls.certificate, tls.key, tls.client_ca) if name]
        self._stamp = self._stamps()
        try:
            self._context = _context(tls)
        except (OSError, SSL.Error, ValueError) as error:
            raise StartError(
                f"TLS cannot start with certificate {tls.certificate}, key {tls.key}"
                + (f", client_ca {tls.client_ca}" if tls.client_ca else "")
                + f": {_unreadable(self._files)}; correct the paths in the channel file"
            ) from error

    def context(self) -> SSL.Context:
        """Return the context for a new connection; connections that stand keep theirs."""
        stamp = self._stamps()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._context = _context(self._tls)
                self._observe("certificate-renewed")
            except (OSError, SSL.Error, ValueError):
                self._observe("certificate-unusable")
        return self._context

    def _stamps(self) -> Stamp:
        return tuple(_stamp(path) for path in self._files)


def _unreadable(files: list[Path]) -> str:
    """Say which of the files is missing or cannot be read, or that they do not fit one another."""
    for path in files:
        try:
            path.open("rb").close()
        except OSError as error:
            return f"{path} cannot be read ({error.strerror})"
    return "one is no PEM, or does not fit the others"


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def _context(tls: Tls) -> SSL.Context:
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_cipher_list(CIPHERS)
    context.set_options(
        SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_TICKET | SSL.OP_CIPHER_SERVER_PREFERENCE
    )
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.use_certificate_chain_file(tls.certificate)
    context.use_privatekey_file(tls.key)
    context.check_privatekey()
    if tls.client_ca:
        context.load_verify_locations(tls.client_ca)
        context.load_client_ca(tls.client_ca.encode())
        context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT)
    return context


def ends_of(files: Iterable[str | Path | None]) -> tuple[tuple[Path, datetime], ...]:
    """Return when the first certificate of each file of a listener ends; what cannot be read is left out."""
    found = []
    for name in files:
        try:
            known = x509.load_pem_x509_certificates(Path(name).read_bytes()) if name else []
        except (OSError, ValueError):
            continue
        if known:
            found.append((Path(str(name)), min(one.not_valid_after_utc for one in known)))
    return tuple(found)


def source_name(certificate: x509.Certificate, names: Mapping[str, str]) -> str | None:
    """Return the source name that a client certificate belongs to; None where `names` knows none of its identities.

    Identities are tried in this order: `sha256:<hex of the certificate>`, subject alternative names (DNS, e-mail, URI,
    address), common name. Without `names` the first identity after the fingerprint is the source name itself.
    """
    identities = _identities(certificate)
    if not names:
        return next(iter(identities[1:]), identities[0])
    return next((names[identity] for identity in identities if identity in names), None)


def _identities(certificate: x509.Certificate) -> list[str]:
    found = ["sha256:" + certificate.fingerprint(hashes.SHA256()).hex()]
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        found += [str(name.value) for name in alternatives if not isinstance(name, x509.DirectoryName | x509.OtherName)]
    except (x509.ExtensionNotFound, ValueError):
        pass
    found += [str(attribute.value) for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    return found

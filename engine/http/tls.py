"""TLS of servers and of clients: 1.3, or 1.2 with forward secrecy (RFC 9325); a peer is always verified."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final

from engine.errors import StartError

# What becomes of files that have changed.
RENEWED: Final = "certificate-renewed"
UNUSABLE: Final = "certificate-unusable"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate chain and its private key, PEM files both, and what the two are called where they are set."""

    certificate: Path
    key: Path
    names: tuple[str, str]


def server_context(pair: KeyPair) -> ssl.SSLContext:
    """Return the context of a TLS server; StartError names the file that cannot be used, and why."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    for name, file in zip(pair.names, (pair.certificate, pair.key), strict=True):
        try:
            file.open("rb").close()
        except OSError as error:
            raise StartError(f"{name}: {file} cannot be read ({error.strerror})") from error
    try:
        _load(context, pair)
    except ssl.SSLError as error:
        matched = error.reason != "KEY_VALUES_MISMATCH"
        fault = "cannot be read as PEM, certificate chain and private key" if matched else "do not belong together"
        names = " and ".join(pair.names)
        raise StartError(f"{names}: {pair.certificate} and {pair.key} {fault} ({error.reason or 'no PEM'})") from error
    return context


def client_context(
    authority: str | PathLike[str] | None = None,
    *,
    also_public: bool = False,
    certificate: str | PathLike[str] | None = None,
    key: str | PathLike[str] | None = None,
) -> ssl.SSLContext:
    """Return the context of a TLS client; OSError, which ssl.SSLError is too, for a file that cannot be used.

    `authority`: the PEM file to trust instead of the system's authorities, or with them where `also_public`.
    `certificate` and `key`: the client's own; without `key` the file of the certificate holds both.
    """
    context = ssl.create_default_context(cafile=None if also_public else authority)
    if also_public and authority is not None:
        context.load_verify_locations(cafile=authority)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context


class ClientTls:
    """The context of a TLS client with a certificate of its own, made anew once its files have changed.

    Files that cannot be used (a key that does not fit yet, half a certificate) leave the former context in use, and
    `observe` hears `certificate-unusable` once per change, or `certificate-renewed`.
    """

    def __init__(self, pair: KeyPair, authority: str | None, observe: Callable[[str], None]) -> None:
        """Read the files; StartError names the one that cannot be used, and why."""
        self._pair = pair
        self._authority = authority
        self._observe = observe
        self._stamp = self._stamps()
        self._context = self._made()

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection; connections that are open keep theirs."""
        stamp = self._stamps()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._context = self._made()
                self._observe(RENEWED)
            except (OSError, StartError):
                self._observe(UNUSABLE)
        return self._context

    def _made(self) -> ssl.SSLContext:
        # Its faults are told by the name of the file, and a key with a passphrase asks nobody at a terminal.
        server_context(self._pair)
        return client_context(self._authority, certificate=self._pair.certificate, key=self._pair.key)

    def _stamps(self) -> tuple[tuple[int, int, int], ...]:
        return tuple(_stamp(file) for file in (self._pair.certificate, self._pair.key))


def _stamp(file: Path) -> tuple[int, int, int]:
    try:
        status = file.stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def renew(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Let new connections use the files as they are now. StartError: they cannot be used, and nothing has changed."""
    # Tried apart from the one in use, which a key of another certificate would leave with half of each.
    server_context(pair)
    _load(context, pair)


def _load(context: ssl.SSLContext, pair: KeyPair) -> None:
    def no_passphrase() -> str:
        # Without this OpenSSL asks at the terminal, and a server waits there for ever.
        raise StartError(
            f"{pair.names[1]}: the private key is encrypted; decrypt it"
            " (openssl pkey -in KEY -out FILE; chmod 600 FILE)"
        )

    context.load_cert_chain(pair.certificate, pair.key, no_passphrase)

"""Where the pages are served: the options that say so, checked, and the socket, bound before the engine starts."""

import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

from engine.config.network import Network, is_loopback
from engine.errors import StartError, UsageError
from engine.http import binding
from engine.http.tls import KeyPair, server_context
from engine.ops.web.origin import LOOPBACK_NAMES, names_of


@dataclass(frozen=True, slots=True)
class PagesListener:
    """Where the pages are served: host, port (0 takes a free one), and the files of a certificate and its key.

    `allow`: the networks that are answered; none for all.
    """

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    allow: tuple[Network, ...] = ()

    @property
    def tls(self) -> bool:
        """Whether the line is encrypted."""
        return self.certificate is not None

    @property
    def exposed(self) -> bool:
        """Whether others than this machine can reach it: then TLS and one-time codes are required."""
        return not is_loopback(self.host)

    @property
    def names(self) -> frozenset[str]:
        """The hosts that a request may name."""
        own = frozenset({self.host.lower()}) if self.exposed else LOOPBACK_NAMES
        return own | (names_of(self.certificate.read_bytes()) if self.certificate is not None else frozenset())


def pages_listener(
    admin: str, certificate: Path | None, key: Path | None, allow: Sequence[str] | None = None
) -> PagesListener:
    """Return the listener that options name; UsageError where they open it to others without TLS."""
    host, _, port = admin.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"--admin {admin} is not of the form HOST:PORT, such as 127.0.0.1:8081")
    if (certificate is None) != (key is None):
        raise UsageError("--admin-certificate and --admin-key belong together: name both")
    found = PagesListener(host, int(port), certificate, key, tuple(_network(one) for one in allow or ()))
    if found.exposed and not found.tls:
        raise UsageError(
            f"--admin {admin} can be reached from other machines: name --admin-certificate and --admin-key "
            "(everybody then signs in with a one-time code too), or stay on 127.0.0.1"
        )
    tls_context(found)
    return found


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise UsageError(f"--admin-allow {text!r} is not a network: write one such as 10.20.0.0/16") from error


def bind(where: PagesListener) -> socket.socket:
    """Return a listening socket; StartError where the address cannot be had."""
    try:
        return binding.bind(where.host, where.port, backlog=256)
    except OSError as error:
        raise StartError(
            f"the pages cannot listen on {where.host}:{where.port} ({error.strerror}): choose another --admin HOST:PORT"
        ) from error


def tls_context(where: PagesListener) -> ssl.SSLContext | None:
    """Return the context of a listener with a certificate, else None; StartError where it cannot be used."""
    if where.certificate is None or where.key is None:
        return None
    context = server_context(KeyPair(where.certificate, where.key, ("--admin-certificate", "--admin-key")))
    try:
        names_of(where.certificate.read_bytes())
    except ValueError as error:
        raise StartError(f"--admin-certificate: the names in {where.certificate} cannot be read ({error})") from error
    return context

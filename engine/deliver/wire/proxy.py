"""The way through a proxy: a tunnel to https (CONNECT, RFC 9110, 9.3.6), the whole address in a request to http.

Until a tunnel is open nothing of a request has left. So its failures are never ambiguous, and have codes of their own.
"""

import asyncio
import base64
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

from engine.config.destination import Destination as Settings
from engine.config.http_client import ENVIRONMENT, ProxyAddress, environment_proxy, is_bypassed, proxy_address
from engine.config.secret import Secret
from engine.errors import StartError

# What a proxy answers who is not known to it.
NOT_KNOWN: Final = 407
# Refusals that pass: too slow, too early, too often.
_PASSING: Final = frozenset({408, 425, 429})
_MOST_HEAD_BYTES: Final = 65_536
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)(?: [^\r\n]*)?\r?\n")
_END: Final = re.compile(rb"\r?\n\r?\n")


class ProxyError(Exception):
    """The proxy opened no way; nothing was sent to the server."""


class ProxyUnreachableError(ProxyError):
    """The proxy takes no connection."""


class ProxyAuthenticationError(ProxyError):
    """The proxy does not accept the engine's credentials, or wants some."""


class ProxyForbidsError(ProxyError):
    """The proxy lets nobody, or not the engine, to the server."""


class ProxyFailedError(ProxyError):
    """The proxy does not reach the server, or does not answer as a proxy."""


class ProxySecretError(ProxyError):
    """The password for the proxy cannot be read."""


class ProxyHop(NamedTuple):
    """The proxy on the way to a server; `tunnel`: it carries bytes that it does not read."""

    address: ProxyAddress
    tunnel: bool
    authorization: Callable[[], str]


class ProxyRoute:
    """Which proxy leads to a server, by the settings of a destination; the environment is read once."""

    def __init__(self, proxy: str, user: str = "", password: Secret | None = None) -> None:
        """Read the environment where `proxy` says so; StartError names a variable that cannot be used."""
        self._user = user
        self._password = password
        self._of_environment = proxy == ENVIRONMENT
        self._hops: dict[bool, ProxyHop | None] = {}
        for tls in (False, True):
            self._hops[tls] = self._found(tls=tls) if self._of_environment else self._hop(proxy_address(proxy), tls)

    def hop(self, host: str, port: int, *, tls: bool) -> ProxyHop | None:
        """Return the proxy on the way to a server, None where it is reached without one."""
        hop = self._hops[tls]
        return None if hop is None or (self._of_environment and is_bypassed(host, port)) else hop

    def _found(self, *, tls: bool) -> ProxyHop | None:
        try:
            found = environment_proxy("https" if tls else "http")
        except LookupError as error:
            raise StartError(f"proxy: {error}") from error
        if found is None:
            return None
        credentials = found.credentials
        if credentials is None or self._user:
            return self._hop(found.address, tls)
        return ProxyHop(found.address, tls, lambda: _basic(*credentials))

    def _hop(self, address: ProxyAddress, tls: bool) -> ProxyHop:
        return ProxyHop(address, tls, self._authorization)

    def _authorization(self) -> str:
        if self._password is None:
            return ""
        try:
            password = self._password.read()
        except LookupError as error:
            raise ProxySecretError from error
        return _basic(self._user, password)


def route_of(settings: Settings) -> ProxyRoute | None:
    """Return the way to a destination, None where its settings name no proxy; StartError as of `ProxyRoute`."""
    return ProxyRoute(settings.proxy, settings.proxy_user, settings.proxy_password) if settings.proxy else None


def _basic(user: str, password: str) -> str:
    """Return credentials as of RFC 7617."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode('ascii')}"


async def reach(hop: ProxyHop) -> "ProxyTunnel":
    """Connect to a proxy; OSError where it takes no connection."""
    _, tunnel = await asyncio.get_running_loop().create_connection(ProxyTunnel, hop.address.host, hop.address.port)
    return tunnel


def _connect_request(host: str, port: int, authorization: str) -> bytes:
    name = f"[{host}]" if ":" in host else host.encode("idna").decode("ascii")
    lines = [f"CONNECT {name}:{port} HTTP/1.1", f"Host: {name}:{port}", "User-Agent: adt-engine"]
    if authorization:
        lines.append(f"Proxy-Authorization: {authorization}")
    return "\r\n".join((*lines, "", "")).encode("ascii")


def _failure_of(status: int) -> ProxyError | None:
    """Return what an answer to CONNECT means; None where the tunnel is open."""
    if 200 <= status < 300:
        return None
    if status == NOT_KNOWN:
        return ProxyAuthenticationError()
    if 400 <= status < 500 and status not in _PASSING:
        return ProxyForbidsError()
    return ProxyFailedError()


class ProxyTunnel(asyncio.Protocol):
    """A connection to a proxy, and the tunnel that it becomes; asyncio calls what is named as its protocols are."""

    def __init__(self) -> None:
        self._status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._head = b""
        self._transport: Any = None

    async def open(self, host: str, port: int, authorization: str) -> asyncio.Transport:
        """Ask for the way to a server and return it; ProxyError where there is none."""
        self._transport.write(_connect_request(host, port, authorization))
        failure = _failure_of(await self._status)
        if failure is not None:
            raise failure
        return cast(asyncio.Transport, self._transport)

    def abort(self) -> None:
        """End the connection, and the tunnel with it."""
        self._transport.abort()

    def connection_made(self, transport: Any) -> None:
        """Take up the connection."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Read the answer to CONNECT; nothing may follow a good one, as a server of TLS is silent at first."""
        if self._status.done():
            self._transport.abort()
            return
        self._head += data
        end = _END.search(self._head)
        if end is None and len(self._head) <= _MOST_HEAD_BYTES:
            return
        found = _STATUS.match(self._head)
        is_clean = end is not None and (found is None or found[1][:1] != b"2" or end.end() == len(self._head))
        if found is None or not is_clean:
            self._status.set_exception(ProxyFailedError())
        else:
            self._status.set_result(int(found[1]))

    def connection_lost(self, _exc: Exception | None) -> None:
        """Fail where the answer has not come."""
        if not self._status.done():
            self._status.set_exception(ProxyFailedError())

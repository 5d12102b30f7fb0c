"""The servers that webhooks go to: pooled connections, and a limit of concurrent requests.

A connection belongs to one tenant and one host, as its certificate was checked for this host and by this tenant's
authorities.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, NamedTuple

from engine.interchange.kernel.outbound import Outbound, OutboundPeer

# Requests to one server of a tenant at the same time.
AT_ONCE: Final = 8
IDLE_SECONDS: Final = 30.0


class ServerAddress(NamedTuple):
    """The address of a server for a tenant's subscriptions: tenant number, `host:port`, and trusted CAs."""

    tenant: int
    server: str
    ca_bundle: str | None


@dataclass(slots=True, eq=False)
class WebhookServer:
    """The connections to one server; `users` counts the sends under way, `used` is the time of the last one."""

    stack: AsyncExitStack
    peer: OutboundPeer
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    users: int = 0
    used: float = 0.0


class Servers:
    """Opens connections to servers, and closes idle ones."""

    def __init__(self, outbound: Outbound, seconds: float) -> None:
        self._outbound = outbound
        self._seconds = seconds
        self._known: dict[ServerAddress, WebhookServer] = {}

    @asynccontextmanager
    async def turn(self, place: ServerAddress) -> AsyncIterator[OutboundPeer]:
        """Wait for a turn with a server and keep it for the block; OutboundError."""
        server = self._known.get(place)
        if server is None:
            stack = AsyncExitStack()
            opened = self._outbound.peer(place.ca_bundle, self._seconds, also_public=True)
            peer = await stack.enter_async_context(opened)
            # Another task may have opened it meanwhile; an unused peer has no connection to close.
            server = self._known.setdefault(place, WebhookServer(stack, peer))
        server.users += 1
        try:
            async with server.turns:
                yield server.peer
        finally:
            server.users -= 1
            server.used = monotonic()

    async def close_idle(self, seconds: float = IDLE_SECONDS) -> None:
        """Close the connections to servers that were not used for `seconds`."""
        now = monotonic()
        for place, server in tuple(self._known.items()):
            if not server.users and now - server.used >= seconds:
                del self._known[place]
                await server.stack.aclose()

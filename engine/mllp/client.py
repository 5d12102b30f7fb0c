"""An MLLP client: one connection, blocks out and blocks in, over TCP or TLS."""

import asyncio
import ssl
from typing import Any, Final

from hl7.mllp import InvalidBlockError, open_hl7_connection

CLOSE_SECONDS: Final = 1.0


class NoBlockError(ValueError):
    """What came does not begin as an MLLP block."""


class MllpConnection:
    """A connection that is open until it is closed by either end."""

    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def closed(self) -> bool:
        """Whether one of the two ends has closed it, and all that came before was read."""
        return self._reader.at_eof() or self._reader.exception() is not None or self._writer.is_closing()

    async def send(self, content: bytes) -> None:
        """Send one block; OSError."""
        self._writer.writeblock(content)
        await self._writer.drain()

    async def receive(self) -> bytes:
        """Return the content of the next block.

        NoBlockError where it is none, another ValueError where it is too long, asyncio.IncompleteReadError where the
        other end closes before its end, OSError where the connection breaks.
        """
        try:
            content: bytes = await self._reader.readblock()
        except InvalidBlockError as error:
            raise NoBlockError(str(error)) from error
        return content

    async def close(self) -> None:
        """Close it; after a second without the other end's consent it is aborted."""
        self._writer.close()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._writer.wait_closed()
        except (TimeoutError, OSError):
            self._writer.transport.abort()


async def connect(
    host: str, port: int, *, seconds: float, limit_bytes: int, tls: ssl.SSLContext | None, server_name: str = ""
) -> MllpConnection:
    """Open a connection within `seconds`, whose blocks have up to `limit_bytes`; OSError, which TimeoutError is too.

    `server_name`: the name in the other end's certificate, where it is not the host.
    """
    named = {"server_hostname": server_name} if server_name and tls is not None else {}
    async with asyncio.timeout(seconds):
        return MllpConnection(*await open_hl7_connection(host, port, limit=limit_bytes, ssl=tls, **named))

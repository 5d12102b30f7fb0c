"""The MLLP client against real sockets: blocks, and each way in which there is none."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from engine.mllp.client import MllpConnection, NoBlockError, connect


@asynccontextmanager
async def answered(answer: bytes) -> AsyncIterator[MllpConnection]:
    """Give a connection to a server that answers whatever block comes with these bytes, and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        block = await reader.readuntil(b"\x1c\r")
        writer.write(answer.replace(b"ECHO", block))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        connection = await connect("127.0.0.1", port, seconds=30, limit_bytes=100, tls=None)
        try:
            yield connection
        finally:
            await connection.close()


async def test_blocks_go_out_and_come_in() -> None:
    """Only the content is given; once the other end has closed, that is known."""
    async with answered(b"ECHO") as connection:
        assert not connection.closed
        await connection.send(b"MSH|^~\\&|")
        assert await connection.receive() == b"MSH|^~\\&|"
        with pytest.raises(asyncio.IncompleteReadError):
            await connection.receive()
        assert connection.closed


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(b"HTTP/1.1 400\x1c\r", NoBlockError, id="no start"),
        pytest.param(b"\x0b" + b"x" * 200 + b"\x1c\r", ValueError, id="too long"),
        pytest.param(b"\x0bhalf", asyncio.IncompleteReadError, id="half a block"),
    ],
)
async def test_what_is_no_block(answer: bytes, error: type[Exception]) -> None:
    """Each is an error of its own."""
    async with answered(answer) as connection:
        await connection.send(b"MSH|")
        with pytest.raises(error) as raised:
            await connection.receive()
        assert raised.type is error


async def test_where_nobody_listens() -> None:
    """The system's own error says so."""
    async with await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        await connect("127.0.0.1", port, seconds=30, limit_bytes=100, tls=None)

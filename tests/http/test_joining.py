import asyncio
from typing import cast

from engine.http.connection import JoiningTransport


class Inner:
    """A transport that notes what is asked of it."""

    def __init__(self) -> None:
        self.done: list[object] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        """Note what is sent."""
        self.done.append(data)

    def write_eof(self) -> None:
        """Note the end."""
        self.done.append("eof")

    def close(self) -> None:
        """Note the close."""
        self.done.append("close")
        self.closed = True

    def is_closing(self) -> bool:
        """Say whether it was closed."""
        return self.closed


def joining() -> tuple[JoiningTransport, Inner]:
    """Return a joining transport and the one below it."""
    inner = Inner()
    return JoiningTransport(cast("asyncio.Transport", inner), asyncio.get_running_loop()), inner


async def test_what_is_written_in_one_turn_goes_at_once() -> None:
    """Head and body of an answer are one write; those of the next turn are another."""
    transport, inner = joining()
    transport.write(b"head ")
    transport.write(b"body")
    assert inner.done == []
    await asyncio.sleep(0)
    assert inner.done == [b"head body"]
    transport.write(b"next")
    await asyncio.sleep(0)
    assert inner.done == [b"head body", b"next"]


async def test_nothing_is_left_behind_at_the_end() -> None:
    """What is held goes before the end of the line, and before the close; once."""
    transport, inner = joining()
    transport.write(b"a")
    transport.write_eof()
    transport.write(b"b")
    transport.close()
    await asyncio.sleep(0)
    assert inner.done == [b"a", "eof", b"b", "close"]


async def test_nothing_is_written_to_a_closed_line() -> None:
    """A line that was closed below takes nothing more, as a transport of its own would not."""
    transport, inner = joining()
    transport.write(b"late")
    inner.close()
    await asyncio.sleep(0)
    assert inner.done == ["close"]
    assert transport.is_closing()

"""What the door costs: CPU of this process per MLLP message with its reply, without journal and mapping.

    python tests/benchmarks/bench_receive.py [--messages N]

The sender runs in another process on the same machine. A 2 kB ADT^A01 comes in on 1, 8 and 32 connections, one message
at a time on each, and on 4 connections with 16 under way; then the acknowledgement message alone.
"""

import argparse
import asyncio
import multiprocessing
import platform
import time
from datetime import UTC, datetime

import uvloop

from engine.acknowledge.build import build
from engine.acknowledge.code import AckCode
from engine.config.listener_settings import Limits, Mllp
from engine.hl7.header import read_header
from engine.receive.block import Block, enclose
from engine.receive.listener import Listener, listen
from engine.receive.reply import BlockReply, Peer

MESSAGE = (
    b"MSH|^~\\&|EPIC|RVB|ENGINE|HUB|20260101120000||ADT^A01^ADT_A01|MSG0001|P|2.5.1\rPID|1||" + b"x" * 1900 + b"\r"
)
ACK = b"MSH|^~\\&|ENGINE|HUB|EPIC|RVB|20260101120000+0000||ACK^A01^ACK|1|P|2.5.1\rMSA|AA|MSG0001\r"


def send(port: int, messages: int, connections: int, window: int) -> None:
    """Send messages, keeping `window` of them unanswered on each connection."""

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        left, unanswered = messages // connections, 0
        while left or unanswered:
            while left and unanswered < window:
                writer.write(enclose(MESSAGE))
                left -= 1
                unanswered += 1
            await reader.readuntil(b"\x1c\r")
            unanswered -= 1
        writer.close()

    async def every() -> None:
        await asyncio.gather(*(one() for _ in range(connections)))

    uvloop.run(every())


class Stored:
    """Answers as a journal with group commit would: all that waits, once in a turn of the loop."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[None]] = []

    async def answer(self, _block: Block, _peer: Peer) -> BlockReply:
        """Answer once the commit has come."""
        loop = asyncio.get_running_loop()
        if not self.waiting:
            loop.call_soon(self.commit)
        done = loop.create_future()
        self.waiting.append(done)
        await done
        return BlockReply(ACK, written=lambda _: None)

    def commit(self) -> None:
        """Wake all that wait."""
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done.set_result(None)


async def measure(messages: int, connections: int, window: int) -> str:
    """Return one line of the table."""
    limits = Limits(connections_per_address=64)
    connected = asyncio.Event()
    listening = await listen(Listener("bench", Mllp(port=0), limits), Stored().answer, lambda _: connected.set())
    sender = multiprocessing.get_context("spawn").Process(
        target=send, args=(listening.port, messages, connections, window)
    )
    sender.start()
    await connected.wait()
    cpu, clock = time.process_time(), time.perf_counter()
    await asyncio.to_thread(sender.join)
    cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
    await listening.close()
    return f"{connections:>11} {window:>6} {cpu / messages * 1e6:>11.1f} {messages / clock:>10.0f}"


def acknowledgement() -> float:
    """Return microseconds per acknowledgement message built."""
    header = read_header(MESSAGE)
    if header is None:
        raise SystemExit("the message has no header")
    at, rounds = datetime(2026, 1, 1, tzinfo=UTC), 50_000
    begun = time.process_time()
    for _ in range(rounds):
        build(header, AckCode.AA, (), "77", at, "utf-8")
    return (time.process_time() - begun) / rounds * 1e6


async def table(messages: int) -> None:
    """Print the table."""
    print(f"{platform.machine()}, Python {platform.python_version()}, uvloop {uvloop.__version__}")  # noqa: T201
    print("connections window us/message messages/s")  # noqa: T201
    for connections, window in ((1, 1), (8, 1), (32, 1), (4, 16)):
        print(await measure(messages, connections, window))  # noqa: T201
    print(f"acknowledgement message: {acknowledgement():.1f} us")  # noqa: T201


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Cost of the MLLP door per message.")
    parser.add_argument("--messages", type=int, default=20_000)
    uvloop.run(table(parser.parse_args().messages))

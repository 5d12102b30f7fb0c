"""A laboratory for the tests, as a process: it takes orders over MLLP as it is told to, and sends results.

  python -m tests.interchange.laboratory listen --folder lab                        prints where it listens
  python -m tests.interchange.laboratory result --folder lab --to 127.0.0.1:2575    results of the last order

In the folder: `orders.mllp`, every block that it received, written before it answers; `behaviour`, what it does with
the next orders, one line for each, of which the last one stays: AA, CA, or a refusal with its reason (`AR no such
test`), `nothing` (never answers), `close` (closes the line instead), `late SECONDS AA`.
"""

import argparse
import asyncio
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.interchange.laboratory.answers import (
    CR,
    EB,
    SB,
    Result,
    acknowledgement,
    blocks,
    field,
    ordered_at,
    results,
    segments,
)

STATUS: Final = {"final": "F", "corrected": "C", "preliminary": "P"}
ORDERS: Final = "orders.mllp"
BEHAVIOUR: Final = "behaviour"
ANSWER_SECONDS: Final = 30


def main() -> int:
    """Listen, or send results: 0 where they were taken, 1 where they were not."""
    parser = argparse.ArgumentParser(prog="python -m tests.interchange.laboratory", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    listening = commands.add_parser("listen")
    listening.add_argument("--port", type=int, default=0)
    sending = commands.add_parser("result")
    sending.add_argument("--to", metavar="HOST:PORT", required=True)
    sending.add_argument("--status", choices=STATUS, default="final")
    sending.add_argument("--value", type=float, help="of the first measure; by default the usual one")
    sending.add_argument("--observed", type=datetime.fromisoformat, help="when; by default as it was ordered")
    sending.add_argument("--order", default="", help="its number (ORC-4), or that of one of its tests; the last one")
    sending.add_argument("--only", metavar="CODE", default="", help="one test of it")
    sending.add_argument("--patient", metavar="MRN", default="", help="told as the result of somebody else")
    for command in (listening, sending):
        command.add_argument("--folder", type=Path, required=True)
    asked = parser.parse_args()
    asked.folder.mkdir(exist_ok=True)
    return asyncio.run(_listen(asked) if asked.command == "listen" else _send(asked))


async def _listen(asked: argparse.Namespace) -> int:
    folder: Path = asked.folder

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                block = await reader.readuntil(EB + CR)
                with (folder / ORDERS).open("ab") as received:
                    received.write(block)
                if not await _answer(block.partition(SB)[2][:-2], _next(folder), writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", asked.port, limit=1 << 24)
    sys.stdout.write(f"127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()
    return 0


async def _answer(message: bytes, behaviour: str, writer: asyncio.StreamWriter) -> bool:
    """Do with an order as the script says; False where the line is to be closed."""
    what, _, text = behaviour.partition(" ")
    if what == "late":
        seconds, _, behaviour = text.partition(" ")
        await asyncio.sleep(float(seconds))
        what, _, text = behaviour.partition(" ")
    if what not in {"nothing", "close"}:
        writer.write(SB + acknowledgement(message, what, text, time.time_ns()) + EB + CR)
        await writer.drain()
    return what != "close"


def _next(folder: Path) -> str:
    """Return what is to be done with the next order, and strike it out where more follows."""
    file = folder / BEHAVIOUR
    lines = file.read_text().split("\n") if file.exists() else []
    lines = [line for line in lines if line.strip()]
    if len(lines) > 1:
        file.write_text("\n".join(lines[1:]))
    return lines[0].strip() if lines else "AA"


async def _send(asked: argparse.Namespace) -> int:
    order = _order(asked.folder / ORDERS, asked.order)
    observed = asked.observed.astimezone(UTC) if asked.observed else ordered_at(order)
    told = Result(STATUS[asked.status], observed, asked.value, asked.patient, asked.only)
    message = results(order, told, time.time_ns())
    host, _, port = asked.to.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(SB + message + EB + CR)
    async with asyncio.timeout(ANSWER_SECONDS):
        answer = (await reader.readuntil(EB + CR)).partition(SB)[2][:-2]
    writer.close()
    found = {segment[0]: segment for segment in segments(answer)}
    sys.stdout.write(f"{field(found['MSA'], 1)} {field(found.get('ERR', []), 8)}".rstrip() + "\n")
    return int(field(found["MSA"], 1) not in {"AA", "CA"})


def _order(received: Path, named: str) -> bytes:
    """Return the last order message that names an order or a test, or the last of all; SystemExit where none does."""
    for message in reversed(blocks(received.read_bytes()) if received.exists() else []):
        numbers = {field(one, at, 1) for one in segments(message) if one[0] in {"ORC", "OBR"} for at in (2, 4)}
        if not named or named in numbers:
            return message
    raise SystemExit("no such order was received")


if __name__ == "__main__":
    sys.exit(main())

"""One life of a journal in a process of its own, made to be cut short: it tells what it was told is durable.

    python -m tests.journal.lives FOLDER FIRST COUNT [FAULT]

Prints `ack N` once entry N is durable, `intent N` and `done N` likewise, `refused N` where there was no room, `failed`
when the journal stops. Exits with 75 if it stopped, as the engine does.
"""

import asyncio
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Final

from engine import fault
from engine.errors import DiskReserveError, JournalFailedError
from engine.journal.journal import Journal
from tests.journal.desk import NOW, RequestOutcome, entry, intent, settlement

PATIENTS: Final = 5
STOPPED: Final = 75


def tell(line: str) -> None:
    """Print at once, past every buffer."""
    os.write(1, f"{line}\n".encode())


async def send(journal: Journal, numbers: range) -> None:
    """Record messages one after the other."""
    for number in numbers:
        try:
            recorded = await journal.record(
                entry(f"m{number}", (f"s|{number % PATIENTS}",), raw=f"m{number}".encode() * 400)
            )
            tell(f"ack {recorded.seq} m{number}")
        except DiskReserveError:
            tell(f"refused 0 m{number}")


async def carry_out(journal: Journal, sent: "asyncio.Future[object]") -> None:
    """Deliver until everything sent is delivered."""
    while True:
        ended = sent.done()
        claims = await journal.claim("d", 8, NOW)
        for claimed in claims:
            number = claimed.attempts_made + 1
            await journal.intend(claimed.seq, "d", intent(number))
            tell(f"intent {claimed.seq} {number}")
            outcome = RequestOutcome(number, 200, (), "", 1.0)
            await journal.settle(settlement(claimed.seq, outcomes=(outcome,), applied_at=NOW, source="s"))
            tell(f"done {claimed.seq}")
        if ended and not claims:
            return
        await asyncio.sleep(0)


async def live(folder: Path, first: int, count: int) -> int:
    """Return the exit code."""
    failures: list[BaseException] = []
    journal = await Journal.open(folder, clock=lambda: NOW, fail=failures.append, reserve_bytes=6 << 20)
    parts = [send(journal, range(first + part, first + count, 4)) for part in range(4)]
    sent = asyncio.ensure_future(asyncio.gather(*parts))
    try:
        await asyncio.gather(sent, carry_out(journal, sent))
    except JournalFailedError:
        await asyncio.sleep(0.05)
        tell(f"failed {len(failures)}")
        return STOPPED
    finally:
        await journal.close()
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 4:
        if sys.argv[4].startswith("bytes:"):
            most = int(sys.argv[4].partition(":")[2])
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        else:
            fault.arm(sys.argv[4])
    sys.exit(asyncio.run(live(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))

"""One life of a journal on a disk that somebody else fills to the last byte, and empties again.

    python -m tests.journal.starved FOLDER [stop]

Prints a line a step. `stop`: it is closed while the disk is full.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

from engine.errors import DiskReserveError
from engine.journal.journal import Journal
from engine.journal.write.writer import IDLE_SECONDS
from tests.journal.desk import NOW, RequestOutcome, entry, intent, settlement
from tests.journal.lives import tell

RESERVE: Final = 2 << 20
OTHERS: Final = "others"


def fill(folder: Path) -> None:
    """Take every free byte of the disk."""
    with (folder / OTHERS).open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                continue


async def fill_on(folder: Path) -> None:
    """Take every byte that becomes free, again and again."""
    while True:
        fill(folder)
        await asyncio.sleep(0.01)


async def refused(journal: Journal, control_id: str) -> bool:
    """Say whether a message is refused for want of room."""
    try:
        await asyncio.wait_for(journal.record(entry(control_id, ("s|9",))), 20)
    except DiskReserveError:
        return True
    return False


async def live(folder: Path, *, stop: bool) -> int:
    """Return 0 where everything went as it should."""
    failures: list[BaseException] = []
    journal = await Journal.open(folder, clock=lambda: NOW, fail=failures.append, reserve_bytes=RESERVE)
    seqs = [(await journal.record(entry(str(n), (f"s|{n}",), raw=b"x" * 9000))).seq for n in range(200)]
    others = asyncio.ensure_future(fill_on(folder))
    await asyncio.sleep(0.1)
    assert os.statvfs(folder).f_bavail == 0
    for turn in range(3):
        assert await refused(journal, f"r{turn}")
        (claimed,) = await journal.claim("d", 1, NOW)
        journal.acknowledged(claimed.seq, entry("").ack_outcome)
        await asyncio.sleep(IDLE_SECONDS * 4)
    tell("refused")
    intended = asyncio.ensure_future(journal.intend(claimed.seq, "d", intent()))
    await asyncio.sleep(1.5)
    assert await refused(journal, "again")
    assert not failures
    tell("waiting")
    if not stop:
        others.cancel()
        (folder / OTHERS).unlink()
        await asyncio.wait_for(intended, 20)
        await journal.settle(settlement(claimed.seq, outcomes=(RequestOutcome(1, 200, (), "", 1.0),)))
        assert not await refused(journal, "after")
        assert len(seqs) == 200
        tell("went on")
    await journal.close()
    others.cancel()
    await asyncio.gather(intended, return_exceptions=True)
    tell(f"closed {len(failures)}")
    return len(failures)


if __name__ == "__main__":
    sys.exit(asyncio.run(live(Path(sys.argv[1]), stop="stop" in sys.argv[2:])))

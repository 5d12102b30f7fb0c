"""A life of a store on a disk that becomes full, in a process: `python -m tests.interchange.lives FOLDER`."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.store import Store
from engine.interchange.store.writer import StoreFailedError
from tests.interchange.kit import patient

TOGETHER = 20
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def opened(folder: Path) -> Store:
    """Open the store of a folder."""
    return Store(folder / "s.db", ["t"], lambda: MOMENT, INDEXERS)


async def write(store: Store, number: int) -> str:
    """Create a patient and say its id once it is answered; '' where it is refused."""
    try:
        made: Any = await store.write("t", lambda inner: inner.create("Patient", f"p{number}", patient()))
    except StoreFailedError:
        return ""
    return str(made.id)


async def until_refused(store: Store, most: int) -> list[str]:
    """Create patients, some at a time, until one is refused, and return those that were answered."""
    answered: list[str] = []
    for first in range(0, most, TOGETHER):
        told = await asyncio.gather(*(write(store, first + number) for number in range(TOGETHER)))
        answered += [one for one in told if one]
        if not all(told):
            break
    return answered


def main(folder: Path) -> None:
    """Fill the disk, give room, open the store again and tell what was answered, what is kept and what is whole."""
    filler = folder / "filler"
    filler.write_bytes(bytes(2_000_000))
    store = opened(folder)
    answered = asyncio.run(until_refused(store, 100_000))
    again = asyncio.run(write(store, 200_000))
    readable = store.read("t", lambda inner: inner.get("Patient", answered[-1])) is not None
    failed = store.failed
    store.close()
    filler.unlink()
    store = opened(folder)
    kept = store.read("t", lambda inner: [one for one in answered if inner.get("Patient", one)])
    check = store.reader().execute("PRAGMA integrity_check").fetchone()[0]
    later = asyncio.run(write(store, 300_000))
    store.close()
    sys.stdout.write(f"{len(answered)} {len(kept)} {check} {failed} {bool(again)} {readable} {later}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""What makes this engine a node of a journal that several share: its name, its home, and how long it may write.

A node whose lease ends may have been taken for dead: it sends nothing more, and goes on as a new one.
"""

import asyncio
import socket
import uuid
from collections.abc import Awaitable, Callable
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from engine import __version__, telemetry
from engine.config.channels import channel_files
from engine.database.connection import Connection
from engine.errors import JournalFailedError
from engine.journal.file.lock import give_to_owner
from engine.journal.journal import Journal
from engine.journal.opening import address_of, keep_address
from engine.journal.state.pausing import pause_everywhere
from engine.journal.write.backend import SharedJournal
from engine.journal.write.recording import newest_entry
from engine.pipeline.alerts.kind import PauseReason
from engine.pipeline.configuration import Configuration, Files

HOME_FILE: Final = "node.id"
NEWEST_FILE: Final = "node.newest"
# A write is begun only while so much of the lease is left, or as much as its answer may take.
MOST_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.1

_log = telemetry.logger()


def shared_of(files: Files, configuration: Configuration, heard: Callable[[], None]) -> SharedJournal | None:
    """Return the journal that this engine shares; None where it has one of its own in its data folder.

    `heard` is called in another thread where another node may have changed something.
    JournalUnusableError: the folder belongs to another journal.
    """
    if files.journal:
        keep_address(files.data, files.journal)
    address = address_of(files.data)
    if not address:
        return None
    home = _home_of(files.data)
    name = files.node or f"{socket.gethostname()}-{home[:4]}"
    return SharedJournal(address, name, home, __version__, digest_of(files.channels, configuration), _took_over, heard)


async def notice_restored(journal: Journal, folder: Path, now: datetime) -> bool:
    """Pause every destination of a shared journal that has gone back behind what this folder's node recorded there.

    A database that was restored, or a standby that took over and lacks the last commits: senders hold acknowledgements
    of messages that are not there, and destinations hold what the journal does not know of. Say whether it was so.
    """
    path = folder / NEWEST_FILE
    known = int(path.read_text(encoding="ascii")) if path.exists() else 0

    def look(connection: Connection) -> bool:
        if newest_entry(connection) >= known:
            return False
        pause_everywhere(connection, PauseReason.RESTORED, now)
        return True

    restored = await journal.write(look)
    if restored:
        _log.error("journal went back", count=known)
        path.unlink()
    return restored


def keep_newest(journal: Journal, folder: Path) -> None:
    """Keep in the data folder which entry is the newest that this node has recorded."""
    if journal.newest:
        part = folder / f"{NEWEST_FILE}.part"
        part.write_text(str(journal.newest), encoding="ascii")
        part.replace(folder / NEWEST_FILE)


def digest_of(channels: Path, configuration: Configuration) -> str:
    """Return a digest of channels and mappings: nodes that run the same have the same."""
    digest = sha256()
    for path in channel_files(channels):
        digest.update(f"{path.name}\0".encode() + path.read_bytes())
    for mark in sorted(configuration.marks):
        digest.update(mark.encode())
    return digest.hexdigest()[:16]


def fence(journal: Journal, answer_seconds: float) -> Callable[[], Awaitable[None]] | None:
    """Return what a write waits for before it is sent; None where nobody could take over.

    Waits until enough of the lease is left. JournalFailedError once the lease is lost.
    """
    if not journal.is_shared:
        return None
    least = min(answer_seconds, MOST_SECONDS)

    async def may_write() -> None:
        while journal.lease_seconds < least:
            if journal.failed:
                raise JournalFailedError
            await asyncio.sleep(LOOK_SECONDS)

    return may_write


def _home_of(folder: Path) -> str:
    """Return what names a data folder for as long as it exists, made at the first time."""
    path = folder / HOME_FILE
    if not path.exists():
        with path.open("x", encoding="ascii") as file:
            give_to_owner(file.fileno(), folder)
            file.write(f"{uuid.uuid4().hex}\n")
    return path.read_text(encoding="ascii").strip()


def _took_over(node: str, count: int) -> None:
    _log.warning("node expired", node=node, count=count)

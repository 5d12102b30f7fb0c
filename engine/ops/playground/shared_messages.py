"""Messages shared with authors: de-identified copies in the data folder, few and for a month."""

from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import orjson

from engine.database.durable import make_folder, sync
from engine.errors import UsageError

FOLDER: Final = "shared-messages"
MOST_SHARED: Final = 50
KEPT: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class SharedMessage:
    """One copy: its number, when it was shared, by whom, its channel and trigger event, and its text.

    Which entry it is of is in the audit trail alone.
    """

    number: int
    at: str
    by: str
    channel: str
    event: str
    text: str

    def has_expired(self, now: datetime) -> bool:
        """True after 30 days."""
        return now - datetime.fromisoformat(self.at) >= KEPT


def shared_messages(data: Path, now: datetime) -> list[SharedMessage]:
    """Return the copies of a data folder, the newest first; those that have expired are deleted."""
    found = []
    for file in sorted((data / FOLDER).glob("*.json"), reverse=True):
        one = SharedMessage(**orjson.loads(file.read_bytes()))
        if one.has_expired(now):
            file.unlink(missing_ok=True)
        else:
            found.append(one)
    return found


def share(data: Path, now: datetime, by: str, channel: str, event: str, text: str) -> SharedMessage:
    """Keep a copy; UsageError where there are 50 already."""
    there = shared_messages(data, now)
    if len(there) >= MOST_SHARED:
        raise UsageError(f"{MOST_SHARED} messages are shared already: delete one in the playground first")
    folder = data / FOLDER
    make_folder(folder)
    for number in count(max((one.number for one in there), default=0) + 1):
        made = SharedMessage(number, now.isoformat(timespec="milliseconds"), by, channel, event, text)
        with suppress(FileExistsError):  # somebody else shares at this moment
            _write(folder, _file(data, number), orjson.dumps(asdict(made)))
            return made
    raise AssertionError


def _write(folder: Path, file: Path, content: bytes) -> None:
    """Write a new file, whole or not at all, for its owner only; FileExistsError where there is one."""
    with NamedTemporaryFile(dir=folder) as temporary:
        temporary.write(content)
        temporary.flush()
        sync(Path(temporary.name))
        file.hardlink_to(temporary.name)
    sync(folder)


def delete(data: Path, number: int) -> None:
    """Delete a copy; UsageError where there is none of that number."""
    try:
        _file(data, number).unlink()
    except FileNotFoundError as error:
        raise UsageError("there is no shared message of that number; `mappings.shared` lists them") from error


def _file(data: Path, number: int) -> Path:
    return data / FOLDER / f"{number:06}.json"

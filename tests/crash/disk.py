"""A disk that loses power: what a process did to a folder is recorded, and played back without what was not synced.

`disk_log.c` records each write, sync, rename and removal. A power cut keeps what a sync had covered. Of everything else
a random part survives: whole writes or the first sectors of them, in any order, and names in the order of their
changes, as file systems with a journal of metadata keep them.
"""

import shutil
import struct
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

SECTOR_BYTES: Final = 512
# How many of the writes that survive without a sync are cut off after some sectors.
TORN: Final = 0.2
HEAD: Final = struct.Struct("=IIIIQQQ")
# SQLite makes its index of the log anew whenever it opens a file that nobody has open.
REBUILT: Final = "-shm"


class Record(NamedTuple):
    """One call that was carried out; `kind` is the letter of `disk_log.c`."""

    kind: str
    thread: int
    inode: int
    path: str
    other: str
    offset: int
    data: bytes


@dataclass(slots=True, eq=False)
class _File:
    """The bytes of a file that are safe, and the changes that no sync has covered, oldest first.

    `synced` counts the changes that are safe.
    """

    safe: bytearray = field(default_factory=bytearray)
    changes: list[Record] = field(default_factory=list)
    synced: int = 0

    def sync(self, until: int) -> None:
        """Make safe what was written before the change of this number; another thread may have done so already."""
        covered = max(0, until - self.synced)
        for change in self.changes[:covered]:
            _apply(self.safe, change)
        del self.changes[:covered]
        self.synced += covered

    def content(self, kept: Callable[[Record], Record | None]) -> bytes:
        """Return the bytes with those changes that are kept, as they are kept."""
        content = bytearray(self.safe)
        for change in self.changes:
            if (survivor := kept(change)) is not None:
                _apply(content, survivor)
        return bytes(content)


def build_recorder(folder: Path) -> Path:
    """Compile the library that records; LookupError where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise LookupError("no C compiler")
    library = folder / "disk_log.so"
    source = Path(__file__).with_name("disk_log.c")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


class Disk:
    """The disk under a folder; files that are there when it is made are safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[int, _File] = defaultdict(_File)
        self._names: dict[str, _File] = {}
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.endswith(REBUILT):
                file = self._files[path.stat().st_ino]
                file.safe[:] = path.read_bytes()
                self._names[str(path)] = file
        self._safe_names = dict(self._names)
        self._name_changes: list[tuple[str, _File | None]] = []
        self._safe_name_changes = 0

    def play(self, log: Path) -> "Disk":
        """Carry out everything that a log holds."""
        begun: dict[tuple[int, int], tuple[_File, int, int]] = {}
        for record in records(log):
            if record.path.endswith(REBUILT):
                continue
            match record.kind:
                case "w" | "t":
                    self._files[record.inode].changes.append(record)
                case "n":
                    self._create(record)
                case "r":
                    self._name(record.other, self._names[record.path])
                    self._name(record.path, None)
                case "u":
                    self._name(record.path, None)
                case "b":
                    file = self._files[record.inode]
                    names = self._safe_name_changes + len(self._name_changes)
                    begun[record.thread, record.inode] = file, file.synced + len(file.changes), names
                case "s":
                    file, changes, names = begun.pop((record.thread, record.inode))
                    file.sync(changes)
                    if Path(record.path).is_dir():
                        self._sync_names(names)
        return self

    def state(self) -> dict[Path, bytes]:
        """Return all files as the process saw them."""
        return {Path(path): file.content(lambda change: change) for path, file in self._names.items()}

    def cut(self, random: Random) -> None:
        """Lose power: leave in the folder what is safe, and a random part of the rest."""
        names = dict(self._safe_names)
        _rename(names, self._name_changes[: random.randint(0, len(self._name_changes))])
        survives = random.choice((0.0, 0.5, 0.9, 1.0))

        def kept(change: Record) -> Record | None:
            if random.random() >= survives:
                return None
            if change.kind == "w" and random.random() < TORN:
                first = SECTOR_BYTES - change.offset % SECTOR_BYTES
                sectors = random.randint(0, len(change.data) // SECTOR_BYTES)
                return change._replace(data=change.data[: first + sectors * SECTOR_BYTES])
            return change

        contents = {Path(path): file.content(kept) for path, file in names.items()}
        for path in self._folder.rglob("*"):
            if not path.is_dir():
                path.unlink()
        for path, content in contents.items():
            path.write_bytes(content)
            path.chmod(0o600)

    def _create(self, record: Record) -> None:
        if self._files[record.inode] not in self._names.values():
            # The number of a file that was removed is given out again.
            self._files[record.inode] = _File()
        self._name(record.path, self._files[record.inode])

    def _name(self, path: str, file: _File | None) -> None:
        if self._names.get(path) is not file:
            self._name_changes.append((path, file))
            _rename(self._names, self._name_changes[-1:])

    def _sync_names(self, until: int) -> None:
        covered = max(0, until - self._safe_name_changes)
        _rename(self._safe_names, self._name_changes[:covered])
        del self._name_changes[:covered]
        self._safe_name_changes += covered


def records(log: Path) -> Iterator[Record]:
    """Read a log; a last record that a kill cut off is left out."""
    data = log.read_bytes() if log.exists() else b""
    place = 0
    while place + HEAD.size <= len(data):
        kind, path, other, thread, inode, offset, length = HEAD.unpack_from(data, place)
        start = place + HEAD.size
        place = start + path + other + length
        if place > len(data):
            return
        texts = data[start : start + path].decode(), data[start + path : start + path + other].decode()
        yield Record(chr(kind), thread, inode, *texts, offset, data[start + path + other : place])


def _rename(names: dict[str, _File], changes: Iterable[tuple[str, _File | None]]) -> None:
    for path, file in changes:
        if file is None:
            names.pop(path, None)
        else:
            names[path] = file


def _apply(content: bytearray, change: Record) -> None:
    end = change.offset + len(change.data)
    if change.kind == "t":
        del content[change.offset :]
        end = change.offset
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if change.kind == "w":
        content[change.offset : end] = change.data

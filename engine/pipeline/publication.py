"""Mapping files put in force by the running engine: written together, those before kept, taken back in one step.

Each publication is a file of the data folder, with the text of every file before and after. It is on disk before a
mapping file is touched, and says so until the engine has the new files in force: what a crash left half-done is put
back at the next start, before anything is read. That it was is noted in the audit trail by a command that has one
(`untold`), at that start or, where it broke off, the next.
"""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

import orjson

from engine import fault
from engine.database.durable import sync
from engine.errors import StartError, UsageError

FOLDER: Final = "publications"
READABLE: Final = 0o644
Texts = Mapping[str, str | None]


class PublicationState(StrEnum):
    """What became of a publication; `writing`: nobody knows yet whether all its files are there."""

    WRITING = "writing"
    IN_FORCE = "in force"
    REFUSED = "refused"
    TAKEN_BACK = "taken back"


@dataclass(frozen=True, slots=True)
class Publication:
    """Files by their path below the mapping `folder`, with their text before and after, None where there is no file.

    `undoes`: the publication that it takes back, 0 for none. `told` is False while it is not noted that a start put it
    back.
    """

    number: int
    at: str
    by: str
    reason: str
    folder: str
    before: Texts
    after: Texts
    state: PublicationState = PublicationState.WRITING
    undoes: int = 0
    told: bool = True


def publications(data: Path) -> list[Publication]:
    """Return all publications of a data folder, the newest first."""
    files = sorted((data / FOLDER).glob("*.json"), reverse=True)
    return [_read(file) for file in files]


def text_of(folder: Path, name: str) -> str | None:
    """Return the text of a mapping file, None where there is none; UsageError where it cannot be read."""
    file = _inside(folder, name)
    try:
        return file.read_bytes().decode("utf-8") if file.is_file() else None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{name} cannot be read as it is: mend the file first") from error


def put(data: Path, publication: Publication) -> None:
    """Write the files of a publication; UsageError, with all as it was, where they are other than before or locked."""
    folder = Path(publication.folder)
    if _file(data, publication).exists():
        raise UsageError("somebody else put files in force at this moment: look at what they changed, then try again")
    changed = [name for name, text in publication.before.items() if text_of(folder, name) != text]
    if changed:
        raise UsageError(f"{', '.join(changed)} changed meanwhile: open it again and put your edit into that")
    _keep(data, publication)
    try:
        _write(folder, publication.after)
    except OSError as error:
        put_back(data, publication)
        raise UsageError(
            f"{folder} cannot be written ({error.strerror}): may the engine's user write there, also under systemd "
            "(ReadWritePaths)?"
        ) from error


def put_back(data: Path, publication: Publication, *, told: bool = True) -> None:
    """Write the files as they were before; the publication is refused. StartError where they cannot be written."""
    folder = Path(publication.folder)
    try:
        _write(folder, {name: text for name, text in publication.before.items() if text_of(folder, name) != text})
    except OSError as error:
        raise StartError(
            f"{folder} cannot be written ({error.strerror}), and is half-way to a version that was not put in force: "
            f"put back what {data / FOLDER} keeps as before"
        ) from error
    settle(data, replace(publication, told=told), PublicationState.REFUSED)


def settle(data: Path, publication: Publication, state: PublicationState) -> None:
    """Note what became of a publication, and of one that it takes back."""
    _keep(data, replace(publication, state=state))
    if state is PublicationState.IN_FORCE:
        _take_back(data, publication)


def _take_back(data: Path, publication: Publication) -> None:
    """Note of the publication that one in force takes back, if any, that it is taken back."""
    for one in publications(data) if publication.undoes else ():
        if one.number == publication.undoes and one.state is not PublicationState.TAKEN_BACK:
            _keep(data, replace(one, state=PublicationState.TAKEN_BACK))


def recover(data: Path) -> int:
    """Put back what a crash left half-done, and return the number of that publication; 0 where nothing was.

    What was in force by then stays, and what it takes back is taken back.
    """
    newest = next(iter(publications(data)), None)
    if newest is None:
        return 0
    if newest.state is PublicationState.IN_FORCE:
        _take_back(data, newest)
    if newest.state is not PublicationState.WRITING:
        return 0
    put_back(data, newest, told=False)
    for name in newest.before:
        with contextlib.suppress(OSError):  # what had not taken its place yet is in nobody's way
            _temporary(_inside(Path(newest.folder), name)).unlink(missing_ok=True)
    return newest.number


def untold(data: Path) -> list[int]:
    """Return the numbers of publications that a start put back and nobody has noted yet, the oldest first."""
    return [publication.number for publication in reversed(publications(data)) if not publication.told]


def tell(data: Path, number: int) -> None:
    """Note that it is known that a publication was put back."""
    for publication in publications(data):
        if publication.number == number:
            _keep(data, replace(publication, told=True))


def _inside(folder: Path, name: str) -> Path:
    """Return the resolved path of a file; UsageError where a link leads out of the folder."""
    file = (folder / name).resolve()
    if not file.is_relative_to(folder.resolve()):
        raise UsageError(f"{name} is a link that leads out of the mapping folder: change the file there")
    return file


def _read(file: Path) -> Publication:
    kept = orjson.loads(file.read_bytes())
    return Publication(**{**kept, "state": PublicationState(kept["state"])})


def _keep(data: Path, publication: Publication) -> None:
    folder = data / FOLDER
    _make(folder, 0o700)
    _replace(_file(data, publication), orjson.dumps(asdict(publication)), 0o600)


def _file(data: Path, publication: Publication) -> Path:
    return data / FOLDER / f"{publication.number:06}.json"


def _write(folder: Path, texts: Texts) -> None:
    for name, text in texts.items():
        file = _inside(folder, name)
        if text is None:
            file.unlink(missing_ok=True)
            sync(file.parent)
        else:
            _make(file.parent)
            _replace(file, text.encode(), file.stat().st_mode & 0o777 if file.exists() else READABLE)


def _make(folder: Path, mode: int = 0o777) -> None:
    if not folder.is_dir():
        folder.mkdir(mode=mode)
        sync(folder.parent)


def _temporary(file: Path) -> Path:
    return file.with_name(f".{file.name}.new")


def _replace(file: Path, content: bytes, mode: int) -> None:
    """Put a file in place of another, whole or not at all, and on the disk before this returns."""
    temporary = _temporary(file)
    with temporary.open("wb") as out:
        out.write(content)
        out.flush()
        os.fchmod(out.fileno(), mode)
        os.fsync(out.fileno())
    fault.point("F50")
    temporary.replace(file)
    sync(file.parent)

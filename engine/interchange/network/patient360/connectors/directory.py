"""A folder as a source: C-CDA and FHIR documents that an exchange gateway writes there.

`FOLDER/{identifier}/…` are the documents of the patient with that identifier (percent-encoded, `%2F` for a slash).
A document in FOLDER itself belongs to the patient that it names. Not read are names that begin with a dot or end with
`.part` or `.tmp`, links, and files that were changed within the last seconds, as they may not be complete.
"""

import asyncio
import os
import stat
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote

import orjson

from engine.config.connector import Connector as Settings
from engine.fhir.schema import FhirVersion
from engine.interchange.clinical.ccda.reading.document import read_identity
from engine.interchange.clinical.facts import DocumentIdentity
from engine.interchange.network.patient360.connectors.connector import (
    CCDA,
    FHIR,
    RequestedPatient,
    RetrievedDocument,
    SourceError,
)
from engine.interchange.network.patient360.connectors.server import MOST_BYTES, identities, patients_of
from engine.interchange.network.patient360.match import matches

A = TypeVar("A")
T = TypeVar("T")

KINDS: Final = {".xml": CCDA, ".cda": CCDA, ".json": FHIR}
# The name of an STU3 file ends so; other JSON is R4.
STU3: Final = ".stu3.json"
UNFINISHED: Final = (".part", ".tmp")
SETTLED_SECONDS: Final = 5.0
MOST_FILES: Final = 1000
LONGEST_NAME: Final = 255


@dataclass(frozen=True, slots=True)
class DirectorySource:
    """A connector to a folder."""

    name: str
    settings: Settings
    organizations: int = 1

    async def retrieve(self, subject: RequestedPatient) -> AsyncIterator[RetrievedDocument]:
        """Yield the documents in the patient's folders, in the order of their names; SourceError."""
        until = asyncio.get_running_loop().time() + self.settings.timeout_s
        for path in await self._within(until, self._files, subject):
            document = await self._within(until, self._document, path)
            if document is not None:
                yield document

    async def _within(self, until: float, work: Callable[[A], T], about: A) -> T:
        """Run `work` in a thread until a moment of the loop's clock; SourceError."""
        try:
            async with asyncio.timeout_at(until):
                return await asyncio.to_thread(work, about)
        except TimeoutError as error:
            text = f"The source {self.name} took longer than timeout_s ({self.settings.timeout_s:g} s)."
            raise SourceError(text) from error
        except OSError as error:
            text = f"The source {self.name} cannot read its folder ({error.strerror}); mend it."
            raise SourceError(text) from error

    def _files(self, subject: RequestedPatient) -> list[Path]:
        root = Path(str(self.settings.folder))
        system = self.settings.identifier_system
        names = {quote(value, safe="") for own, value in subject.identifiers if system in {"", own}}
        own = [root / name for name in sorted(names) if name.strip(".") and len(name) <= LONGEST_NAME]
        files = [path for folder in own if _is_folder(folder) for path, _ in _ready(folder)]
        for path, status in _ready(root):
            people = _identities(path, status.st_mtime_ns, status.st_size)
            if any(matches(identity, subject.patient) for identity in people):
                files.append(path)
        return files

    def _document(self, path: Path) -> RetrievedDocument | None:
        """Return a file as a document; None if it was removed meanwhile."""
        try:
            body, changed = _read(path)
        except OSError:
            return None
        kind = KINDS[path.suffix.lower()]
        version = FhirVersion.STU3 if path.name.lower().endswith(STU3) else FhirVersion.R4
        organization = self.settings.organization or self.name
        number = f"urn:sha256:{sha256(body).hexdigest()}"
        return RetrievedDocument(organization, number, changed, kind, body, version)


def _is_folder(path: Path) -> bool:
    """True if the path is a folder, not a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _ready(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """Return the complete documents of a folder, by name; OSError if it cannot be read."""
    files = []
    latest = time.time() - SETTLED_SECONDS
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name.lower()
            if name.startswith(".") or name.endswith(UNFINISHED) or Path(name).suffix not in KINDS:
                continue
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and status.st_mtime <= latest:
                files.append((Path(entry.path), status))
    return sorted(files)[:MOST_FILES]


def _read(path: Path) -> tuple[bytes, str]:
    """Return content and instant of a file, not of a link; at most MOST_BYTES + 1 bytes."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        changed = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
        return file.read(MOST_BYTES + 1), changed.isoformat(timespec="seconds")


@lru_cache(maxsize=10_000)
def _identities(path: Path, _changed_ns: int, size: int) -> tuple[DocumentIdentity, ...]:
    """Return the identities of a document's patient, () if it cannot be read; cached until the file changes."""
    try:
        if size > MOST_BYTES:
            return ()
        body, _ = _read(path)
        if KINDS[path.suffix.lower()] == CCDA:
            return (read_identity(body),)
        patients = patients_of(orjson.loads(body))
    except (OSError, ValueError):
        return ()
    return identities(patients[0]) if len(patients) == 1 else ()

"""Bodies sealed at rest: AES-256-GCM under a key of the day, wrapped by a key file that is not in the journal.

What is sealed names the key that it needs, and is bound to its place, so that nothing can be moved to another. Keys of
patients (`system|value`) and visit numbers become HMACs under a key of their own, as they are looked up. Once no body
is left of the entries that a key served, the key goes too: what deleted pages, logs and later backups still hold of
them is unreadable from then on.
"""

import base64
import binascii
import os
from collections.abc import Callable
from datetime import datetime
from hmac import digest
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from engine.config.settings import environment
from engine.database.connection import Connection
from engine.database.sqlite import SqliteConnection
from engine.errors import JournalUnusableError, SealError, UsageError
from engine.journal.moment import to_micros

KEY_FILE_VARIABLE: Final = "ADT_ENGINE_JOURNAL_KEY_FILE"
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
NUMBER_BYTES: Final = 4
NAMED: Final = "sealed:"
# Marks sealed content in a text column; content in clear begins with a bracket.
TEXTUAL: Final = "sealed-text:"
# The key under which names are made; days count from 1970, so that none is below 0.
NAMES: Final = -1
# The number, which no key of a day has, of the key for what outlives bodies; it is made of the names' key.
LASTING: Final = 0
DAY_MICROS: Final = 86_400_000_000

# The newest key of a day.
NEWEST: Final = "SELECT id, day, wrapped FROM seal_key WHERE day >= 0 ORDER BY id DESC LIMIT 1"
# No entry that the key served has a higher number than the newest one now.
END: Final = (
    "UPDATE seal_key SET last_seq = (SELECT COALESCE(MAX(seq), 0) FROM entry) WHERE last_seq IS NULL AND day >= 0"
)
# A new key, wrapped.
ADD: Final = "INSERT INTO seal_key (day, wrapped) VALUES (?, ?) RETURNING id"
# A key by its number.
BY_NUMBER: Final = "SELECT day, wrapped FROM seal_key WHERE id = ?"
# The key that seals names.
OF_NAMES: Final = "SELECT wrapped FROM seal_key WHERE day = -1"
# Every key, to be wrapped anew.
ALL: Final = "SELECT id, day, wrapped FROM seal_key"
# A key under another key file.
REWRAP: Final = "UPDATE seal_key SET wrapped = ? WHERE id = ?"
# Drop the keys that no body needs any more.
SHRED: Final = """
DELETE FROM seal_key WHERE last_seq IS NOT NULL
AND last_seq < (SELECT COALESCE(MIN(seq), 9223372036854775807) FROM payload)
"""
# Whether the journal is of a version that seals.
HAS_KEYS: Final = "SELECT 1 FROM sqlite_schema WHERE name = 'seal_key'"
# Whether anything was recorded.
HAS_ENTRIES: Final = "SELECT EXISTS (SELECT 1 FROM entry)"


class Sealing:
    """Seals and unseals; knows the keys that it has used so far.

    `fetch` returns day and wrapped key by number from the journal, None for one that was taken away.
    """

    def __init__(self, master: bytes, names: bytes, fetch: Callable[[int], tuple[int, bytes] | None]) -> None:
        self._master = master
        self._names = names
        self._fetch = fetch
        self._ciphers: dict[int, AESGCM] = {LASTING: AESGCM(digest(names, b"lasting", "sha256"))}
        self._number = LASTING
        self.day = NAMES

    def prepare(self, connection: Connection, at: datetime) -> None:
        """Seal under the key of that moment's day from now on; on the writing connection, inside its transaction."""
        day = to_micros(at) // DAY_MICROS
        if day != self.day:
            self.begin(*key_of(connection, self._master, day))

    def forget(self) -> None:
        """Ask the journal again which key is the newest; to be called after a rollback."""
        self.day = NAMES

    def begin(self, number: int, day: int, wrapped: bytes) -> None:
        """Seal under this key from now on."""
        self._ciphers[number] = AESGCM(_unwrap(self._master, wrapped, day))
        self._number, self.day = number, day

    def seal(self, content: bytes, place: str) -> bytes:
        """Return content as it is stored at a place until its body leaves; what is empty stays empty."""
        return self._sealed(self._number, content, place) if content else content

    def seal_text(self, content: bytes, place: str) -> str:
        """Return content as `seal` does, for a column of text."""
        return textual(self.seal(content, place)) if content else ""

    def seal_lasting(self, content: bytes, place: str) -> str:
        """Return content as it is stored, in a column of text, at a place that retention leaves alone."""
        return textual(self._sealed(LASTING, content, place))

    def unseal(self, content: bytes, place: str) -> bytes:
        """Return what is stored at a place as it was; SealError where it was changed, or its key was taken away."""
        if not content:
            return content
        number = int.from_bytes(content[:NUMBER_BYTES], "big")
        rest = content[NUMBER_BYTES:]
        try:
            return self._cipher(number).decrypt(rest[:NONCE_BYTES], rest[NONCE_BYTES:], place.encode())
        except (InvalidTag, ValueError):
            raise SealError(f"the content at {place} was changed, or belongs elsewhere") from None

    def unseal_text(self, kept: str | bytes, place: str) -> str | bytes:
        """Return what is stored in a column of text as it was, in clear or sealed; SealError as `unseal`.

        Journals of older versions hold sealed bytes there.
        """
        if isinstance(kept, bytes):
            return self.unseal(kept, place)
        return self.unseal(_of_textual(kept, place), place) if kept.startswith(TEXTUAL) else kept

    def legible_text(self, kept: str | bytes, place: str) -> str | bytes:
        """Return what is stored in a column of text as it was; empty where `unseal_text` raises SealError."""
        try:
            return self.unseal_text(kept, place)
        except SealError:
            return ""

    def legible(self, content: bytes, place: str) -> bytes:
        """Return what is stored at a place as it was; empty where `unseal` raises SealError."""
        try:
            return self.unseal(content, place)
        except SealError:
            return b""

    def name(self, key: str) -> str:
        """Return a patient's key or a visit number as it is stored; what is empty, or is stored so, stays."""
        if not key or key.startswith(NAMED):
            return key
        return NAMED + base64.urlsafe_b64encode(digest(self._names, key.encode(), "sha256")).decode().rstrip("=")

    def _sealed(self, number: int, content: bytes, place: str) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return (
            number.to_bytes(NUMBER_BYTES, "big") + nonce + self._ciphers[number].encrypt(nonce, content, place.encode())
        )

    def _cipher(self, number: int) -> AESGCM:
        cipher = self._ciphers.get(number)
        if cipher is None:
            found = self._fetch(number)
            if found is None:
                raise SealError(f"the key {number} was taken away with the bodies that it sealed")
            cipher = self._ciphers[number] = AESGCM(self._own(number, *found))
        return cipher

    def _own(self, number: int, day: int, wrapped: bytes) -> bytes:
        """Return a key; the key file is the right one, as it gave the key of the names when the journal was opened."""
        try:
            return _unwrap(self._master, wrapped, day)
        except JournalUnusableError:
            raise SealError(f"the key {number} was changed") from None


def textual(sealed: bytes) -> str:
    """Return sealed content in the form for a text column, in which PostgreSQL keeps no bytes."""
    return TEXTUAL + base64.b64encode(sealed).decode()


def _of_textual(kept: str, place: str) -> bytes:
    try:
        return base64.b64decode(kept.removeprefix(TEXTUAL), validate=True)
    except ValueError:
        raise SealError(f"the content at {place} was changed, or belongs elsewhere") from None


def message_at(seq: int) -> str:
    """Return the place of an entry's message."""
    return f"message {seq}"


def request_at(seq: int, destination: str, number: int) -> str:
    """Return the place of a request's headers and body."""
    return f"request {seq} {destination} {number}"


def answer_at(attempt: int) -> str:
    """Return the place of the answer to a request."""
    return f"answer {attempt}"


def plan_at(seq: int, destination: str) -> str:
    """Return the place of an entry's plan."""
    return f"plan {seq} {destination}"


def owned_at(destination: str, resource: str, source: str) -> str:
    """Return the place of what a source owns of a resource."""
    return f"owned {destination} {resource} {source}"


def edit_at(seq: int) -> str:
    """Return the place of what an edit changed."""
    return f"edit {seq}"


def configured() -> bytes | None:
    """Return the key of the key file that the environment names; None where it names none."""
    path = environment(KEY_FILE_VARIABLE)
    return read_key(Path(path)) if path else None


def stored_patient(sealing: Sealing | None, patient: str) -> str:
    """Return a patient that somebody asks for (`system|value`, or a value) as it is stored.

    UsageError for a bare value where the journal is sealed: it can only be found with its system.
    """
    if sealing is None or not patient or patient.startswith(NAMED):
        return patient
    if "|" not in patient:
        raise UsageError("this journal is sealed: name the patient as system|value, with the system of the identifier")
    return sealing.name(patient)


def new_key() -> str:
    """Return a new key as a key file holds it: 32 random bytes in base64."""
    return base64.b64encode(os.urandom(KEY_BYTES)).decode()


def read_key(path: Path) -> bytes:
    """Return the key of a key file; JournalUnusableError where it is missing, readable by others, or no key."""
    try:
        status = path.stat()
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise JournalUnusableError(f"the journal's key file {path} cannot be read: mend its path or owner") from error
    if status.st_mode & 0o077:
        raise JournalUnusableError(f"the journal's key file {path} may be read by others: chmod 600 {path}")
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        raise JournalUnusableError(f"{path} is no key file: make one with `adt-engine journal key --out {path}`")
    return key


def opened(connection: Connection, master: bytes | None) -> Sealing | None:
    """Return the sealing of a journal, None for one that is not sealed; for any connection.

    JournalUnusableError: it is sealed and no key is given or another one; or a key is given and it is not sealed.
    """
    # A backup of an older program has no such table, and was not sealed.
    old = isinstance(connection, SqliteConnection) and connection.execute(HAS_KEYS).fetchone() is None
    row = None if old else connection.execute(OF_NAMES).fetchone()
    if row is None:
        if master is not None and connection.execute(HAS_ENTRIES).fetchone()[0]:
            raise JournalUnusableError(
                "this journal is not sealed, and holds messages: sealing begins with an empty data folder"
            )
        return None
    if master is None:
        raise JournalUnusableError("the journal is sealed: name its key file in ADT_ENGINE_JOURNAL_KEY_FILE")

    def fetch(number: int) -> tuple[int, bytes] | None:
        found: tuple[int, bytes] | None = connection.execute(BY_NUMBER, (number,)).fetchone()
        return found

    return Sealing(master, _unwrap(master, row[0], NAMES), fetch)


def begun(connection: Connection, master: bytes) -> None:
    """Make an empty journal a sealed one; for the writing connection."""
    if connection.execute(OF_NAMES).fetchone() is None:
        connection.execute(ADD, (NAMES, _wrap(master, os.urandom(KEY_BYTES), NAMES))).fetchone()


def sealing_of(connection: Connection, master: bytes | None) -> Sealing | None:
    """Return the sealing of a journal that is opened for writing, begun where it is empty and a key is given.

    JournalUnusableError: as `opened`.
    """
    sealing = opened(connection, master)
    if sealing is None and master is not None:
        begun(connection, master)
        sealing = opened(connection, master)
    return sealing


def key_of(connection: Connection, master: bytes, day: int) -> tuple[int, int, bytes]:
    """Return number, day and wrapped key of a day (since 1970), made where the newest is another day's.

    For the writing connection. A clock that was set back gets a new key as well: an older one serves older entries. So
    does a day whose key the disk changed.
    """
    row: tuple[int, int, bytes] | None = connection.execute(NEWEST).fetchone()
    if row is None or row[1] != day or not _is_whole(master, row):
        connection.execute(END)
        wrapped = _wrap(master, os.urandom(KEY_BYTES), day)
        row = (connection.execute(ADD, (day, wrapped)).fetchone()[0], day, wrapped)
    return row


def _is_whole(master: bytes, row: tuple[int, int, bytes]) -> bool:
    _number, day, wrapped = row
    try:
        return bool(_unwrap(master, wrapped, day))
    except JournalUnusableError:
        return False


def shred(connection: Connection) -> int:
    """Take away the keys of which no entry has a body any more; return how many."""
    return int(connection.execute(SHRED).rowcount)


def rewrap(connection: Connection, old: bytes, new: bytes) -> int:
    """Wrap every key anew under another key file; return how many. Bodies stay as they are."""
    rows = connection.execute(ALL).fetchall()
    for number, day, wrapped in rows:
        connection.execute(REWRAP, (_wrap(new, _unwrap(old, wrapped, day), day), number))
    return len(rows)


def _wrap(master: bytes, key: bytes, day: int) -> bytes:
    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(master).encrypt(nonce, key, str(day).encode())


def _unwrap(master: bytes, wrapped: bytes, day: int) -> bytes:
    try:
        return AESGCM(master).decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], str(day).encode())
    except InvalidTag:
        raise JournalUnusableError(
            "the journal is sealed under another key: name its key file, after `journal reseal` the new one"
        ) from None

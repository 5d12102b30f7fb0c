"""The key file of a data folder, what is made with it, and how the journal knows it: a missing one is never made up.

With another key all second factors are void, and the audit trail finds no patient of before.
"""

import base64
import contextlib
import hmac
import os
import secrets
import tempfile
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from engine.database.connection import Connection
from engine.database.durable import sync
from engine.errors import StartError
from engine.journal.journal import Journal

FILE: Final = "access.key"
KEY_BYTES: Final = 32
MARK_CHARACTERS: Final = 32
_NONCE_BYTES: Final = 12


class Keys:
    """Keys for each purpose, drawn from one secret of 32 bytes; `mark` tells it from others, and opens nothing."""

    def __init__(self, secret: bytes) -> None:
        self._csrf = _drawn(secret, b"adt-engine csrf")
        self._marks = _drawn(secret, b"adt-engine audit patients")
        self.mark = _drawn(secret, b"adt-engine key mark").hex()[:MARK_CHARACTERS]
        self._sealing = AESGCM(_drawn(secret, b"adt-engine second factors"))

    @classmethod
    def of(cls, folder: Path) -> "Keys":
        """Return the keys of a data folder, making its file at the first call; StartError where it cannot be used."""
        return cls(private_bytes(folder / FILE, lambda: secrets.token_bytes(KEY_BYTES)))

    def csrf(self, cookie: str) -> str:
        """Return the token that forms of this session carry."""
        return base64.urlsafe_b64encode(_mac(self._csrf, cookie)).decode().rstrip("=")

    def is_csrf(self, cookie: str, given: str) -> bool:
        """Say whether a form's token is of this session; takes as long whatever was given."""
        return hmac.compare_digest(self.csrf(cookie).encode(), given.encode("utf-8", "replace"))

    def marks(self, patient: str) -> tuple[str, ...]:
        """Return what a patient is found by in the audit trail: a mark of `system|value` and one of the value.

        Of a bare value there is only the second.
        """
        system, bar, value = patient.rpartition("|")
        names = (patient, value) if bar and system else (value,)
        return tuple(_mac(self._marks, text).hex()[:MARK_CHARACTERS] for text in names)

    def seal(self, account: str, secret: str) -> bytes:
        """Return a secret that only this key opens, and only for this account."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._sealing.encrypt(nonce, secret.encode(), account.encode())

    def unseal(self, account: str, sealed: bytes) -> str:
        """Return a sealed secret; empty where it is none, or of another key or account."""
        try:
            opened = self._sealing.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], account.encode())
        except (InvalidTag, ValueError):
            return ""
        return opened.decode()


def private_bytes(path: Path, new: Callable[[], bytes]) -> bytes:
    """Return the bytes of a file that only its owner may read, made with `new` where it is missing.

    StartError: it cannot be read or made, is empty, or others may read it.
    """
    try:
        if not path.exists():
            _make(path, new())
        status = path.stat()
        held = path.read_bytes()
    except OSError as error:
        raise StartError(f"the key file {path} cannot be used ({error.strerror}): fix its owner and folder") from error
    if status.st_mode & 0o077 or status.st_uid not in {0, os.geteuid()}:
        raise StartError(f"the key file {path} can be read by others: chown it to the engine's user, and chmod 600 it")
    if not held:
        raise StartError(f"the key file {path} is empty: restore it from where it is kept safe")
    return held


def _make(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, and once: of two who make it at the same moment one finds the other's."""
    descriptor, draft = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        Path(draft).unlink()
    sync(path.parent)


def _drawn(secret: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=purpose).derive(secret)


def _mac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode("utf-8", "replace"), sha256)


# What marks the key that a journal is used with.
MARK: Final = "SELECT mark FROM key_mark WHERE id = 1"
# A journal is used with a key from now on.
KEEP: Final = "INSERT INTO key_mark (id, mark) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET mark = excluded.mark"
# Whether anything was made with a key in a journal of before such marks: accounts, or rows of the audit trail.
IS_USED: Final = "SELECT EXISTS (SELECT 1 FROM account) OR EXISTS (SELECT 1 FROM audit)"
OPTION: Final = "--accept-new-access-key"
WAYS: Final = (
    f"restore it from where it is kept safe (of several nodes: from another one's data folder), or start once with "
    f"{OPTION}: second factors have to be set up again, and `audit list --patient` finds nothing of before"
)


async def keys_of(journal: Journal, folder: Path, *, accept_new: bool = False) -> Keys:
    """Return the keys of a data folder, which are those that its journal is used with; a new journal takes any.

    StartError where the file is missing, or holds another key, unless a new one is accepted.
    """
    mark, is_used = await journal.read(_known)
    if is_used and not accept_new and not (folder / FILE).exists():
        raise StartError(f"{folder / FILE} is missing, and the journal was used with it: {WAYS}")
    keys = Keys.of(folder)
    if mark and mark != keys.mark and not accept_new:
        raise StartError(f"{folder / FILE} holds another key than the journal was used with: {WAYS}")
    if mark != keys.mark:
        await journal.write(partial(_keep, mark=keys.mark))
    return keys


def _known(connection: Connection) -> tuple[str, bool]:
    row = connection.execute(MARK).fetchone()
    if row is not None:
        return str(row[0]), True
    return "", bool(connection.execute(IS_USED).fetchone()[0])


def _keep(connection: Connection, mark: str) -> None:
    connection.execute(KEEP, (mark,))

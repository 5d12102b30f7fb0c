"""Anchors: the end of the audit trail, signed every 1,000 rows or 10 minutes, in a file that is kept elsewhere too.

The chain alone shows neither a cut at its end nor a trail that was computed anew; an anchor that somebody else holds
shows both. One anchor is one line of JSON, signed with Ed25519.
"""

import asyncio
import base64
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final

import orjson
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from engine import telemetry
from engine.config.settings import ANCHOR_KEY_VARIABLE, ANCHORS_VARIABLE, environment
from engine.errors import AdtEngineError, StartError, UsageError
from engine.journal.access import audit
from engine.journal.access.audit import canonical
from engine.journal.access.audited import AuditFault, Witness
from engine.journal.journal import Journal
from engine.ops.access.keys import private_bytes
from engine.ops.audit.trail import AuditTrail

FILE: Final = "audit-anchors.jsonl"
KEY_FILE: Final = "audit-anchors.key"
_SIGNED: Final = ("at", "hash", "key", "seq")


@dataclass(frozen=True, slots=True)
class Anchor:
    """The trail's last row at a moment and its hash; `key`: which key signed it, `signature` in base64."""

    seq: int
    at: str
    hash: str
    key: str
    signature: str = ""


class Anchors:
    """The anchors of one data folder: their file, and the key that signs them."""

    def __init__(self, file: Path, key_file: Path) -> None:
        self.file = file
        self._key_file = key_file

    @classmethod
    def of(cls, folder: Path) -> "Anchors":
        """Return the anchors of a data folder; the environment may name another file and another key."""
        file, key = environment(ANCHORS_VARIABLE), environment(ANCHOR_KEY_VARIABLE)
        return cls(Path(file) if file else folder / FILE, Path(key) if key else folder / KEY_FILE)

    def add(self, seq: int, hashed: bytes, at: datetime) -> Anchor:
        """Sign an anchor and add it to the file, durably; the key is made at the first one.

        StartError for a key that cannot be used, OSError for a file that cannot be written.
        """
        key = self._key()
        anchor = Anchor(seq, at.isoformat(timespec="seconds"), hashed.hex(), fingerprint(key.public_key()))
        signature = base64.b64encode(key.sign(_signed(anchor))).decode()
        line = canonical(asdict(anchor) | {"signature": signature}) + b"\n"
        descriptor = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return Anchor(anchor.seq, anchor.at, anchor.hash, anchor.key, signature)

    def last(self) -> Anchor | None:
        """Return the newest anchor of the file; None where there is none that can be read."""
        try:
            anchors = read_anchors(self.file)
        except UsageError:
            return None
        return anchors[-1] if anchors else None

    def public_key(self) -> Ed25519PublicKey | None:
        """Return the key that anchors are checked with; None where none was made yet."""
        return self._key().public_key() if self._key_file.exists() else None

    def public_pem(self) -> str:
        """Return the public key with which anchors are checked elsewhere; it is made where it is missing."""
        return self._key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def _key(self) -> Ed25519PrivateKey:
        try:
            key = load_pem_private_key(private_bytes(self._key_file, _new_key), None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise StartError(f"{self._key_file} holds no private key: name another, or move it away") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise StartError(f"{self._key_file} holds no Ed25519 key: openssl genpkey -algorithm ed25519 makes one")
        return key


def read_anchors(file: Path) -> tuple[Anchor, ...]:
    """Return the anchors of a file, none where it is not there; UsageError names a line that is none."""
    if not file.exists():
        return ()
    try:
        lines = file.read_bytes().splitlines()
        return tuple(_anchor(file, number, line) for number, line in enumerate(lines, 1) if line.strip())
    except OSError as error:
        raise UsageError(f"the anchors in {file} cannot be read ({error.strerror})") from error


def read_public_key(file: Path) -> Ed25519PublicKey:
    """Return a public key from a PEM file; UsageError where it holds none of Ed25519."""
    try:
        key = load_pem_public_key(file.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise UsageError(f"{file} holds no public key: `adt-engine audit key` prints it") from error
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(f"{file} holds no Ed25519 key: `adt-engine audit key` prints it")
    return key


def checked(anchors: Iterable[Anchor], key: Ed25519PublicKey) -> tuple[list[Witness], list[AuditFault]]:
    """Return what anchors witness, and those whose signature is not of this key."""
    witnesses, faults = [], []
    for anchor in anchors:
        if _is_signed(anchor, key):
            witnesses.append(Witness(anchor.seq, anchor.hash))
        else:
            text = f"the anchor of row {anchor.seq} ({anchor.at}) is not signed by the key {fingerprint(key)}"
            faults.append(AuditFault(anchor.seq, "forged", text))
    return witnesses, faults


def fingerprint(key: Ed25519PublicKey) -> str:
    """Return what a key is known by: the first 16 digits of its SHA-256."""
    return sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:16]


def _is_signed(anchor: Anchor, key: Ed25519PublicKey) -> bool:
    try:
        key.verify(base64.b64decode(anchor.signature, validate=True), _signed(anchor))
    except (InvalidSignature, ValueError):
        return False
    return True


def _signed(anchor: Anchor) -> bytes:
    return b"adt-engine anchor " + canonical({name: getattr(anchor, name) for name in _SIGNED})


def _anchor(file: Path, number: int, line: bytes) -> Anchor:
    try:
        found = orjson.loads(line)
        return Anchor(int(found["seq"]), *(str(found[name]) for name in ("at", "hash", "key", "signature")))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{file}:{number}: this line is not an anchor") from error


def _new_key() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


ROWS: Final = 1000
EVERY: Final = timedelta(minutes=10)
LOOK_SECONDS: Final = 5.0

_log = telemetry.logger()


class Anchoring:
    """Adds an anchor where one is due; `failing` says why the last one could not be added, empty where it was."""

    def __init__(self, journal: Journal, anchors: Anchors, clock: Callable[[], datetime]) -> None:
        self._journal = journal
        self._anchors = anchors
        self._clock = clock
        self._last: int | None = None
        self._due: datetime | None = None
        self.failing = ""

    async def tick(self, *, at_once: bool = False) -> Anchor | None:
        """Add an anchor where there are new rows and it is time, or `at_once`; None where nothing was added.

        A file or key that fails is logged; the rows stay due.
        """
        if self._last is None:
            self._last = await asyncio.to_thread(self._known)
        seq, hashed = await self._journal.read(audit.head)
        new = seq - self._last if seq >= self._last else seq
        if not new:
            return None
        now = self._clock()
        self._due = self._due or now + EVERY
        if not at_once and new < ROWS and now < self._due:
            return None
        self._due = now + EVERY
        return await self._add(seq, hashed, now)

    async def _add(self, seq: int, hashed: bytes, now: datetime) -> Anchor | None:
        try:
            anchor = await asyncio.to_thread(self._anchors.add, seq, hashed, now)
        except (AdtEngineError, OSError) as error:
            self.failing = f"{self._anchors.file.name}: {type(error).__name__}"
            _log.error("audit not anchored", error=type(error).__name__, file=str(self._anchors.file), count=seq)
            return None
        self.failing = ""
        self._last, self._due = seq, None
        _log.info("audit anchored", count=seq, digest=anchor.hash)
        return anchor

    def _known(self) -> int:
        last = self._anchors.last()
        return 0 if last is None else last.seq


@contextlib.asynccontextmanager
async def watched(trail: AuditTrail, anchoring: Anchoring) -> AsyncIterator[None]:
    """Write into the trail that the engine runs, and that it stops; keep the trail anchored meanwhile."""
    await trail.note("engine.started")
    task = asyncio.create_task(_keep(anchoring))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with contextlib.suppress(AdtEngineError):
            await trail.note("engine.stopped")
            await anchoring.tick(at_once=True)


async def _keep(anchoring: Anchoring) -> None:
    with contextlib.suppress(AdtEngineError):  # a journal that failed stops the engine
        while True:
            await anchoring.tick()
            await asyncio.sleep(LOOK_SECONDS)

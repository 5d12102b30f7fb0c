"""Anchors: signed, kept in a file, added when it is time, and held against the trail."""

import asyncio
import contextlib
import sqlite3
import stat
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from engine.config.settings import ANCHOR_KEY_VARIABLE, ANCHORS_VARIABLE
from engine.errors import StartError, UsageError
from engine.journal.access import audit
from engine.journal.access.audit import AuditRecord
from engine.journal.file.database import FILE as JOURNAL
from engine.journal.journal import Journal
from engine.ops.access.keys import Keys
from engine.ops.audit.anchors import (
    FILE,
    KEY_FILE,
    ROWS,
    Anchoring,
    Anchors,
    checked,
    read_anchors,
    read_public_key,
    watched,
)
from engine.ops.audit.trail import AuditTrail
from engine.ops.views.auditing import verified

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Yard:
    """A journal with its anchoring and the clock of both."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        self.folder = folder
        self.journal = journal
        self.now = NOW
        self.anchors = Anchors.of(folder)
        self.anchoring = Anchoring(journal, self.anchors, lambda: self.now)

    async def act(self, count: int = 1) -> None:
        """Add rows to the trail."""
        record = AuditRecord(self.now, "ann", "operator", "page", "messages.show")

        def work(connection: sqlite3.Connection) -> None:
            for _ in range(count):
                audit.append(connection, record)

        await self.journal.write(work)

    def seqs(self) -> list[int]:
        """Return which rows are anchored."""
        return [anchor.seq for anchor in read_anchors(self.anchors.file)]


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    """Give an open journal that nobody has written to."""
    journal = await Journal.open(tmp_path, clock=lambda: NOW, fail=lambda _error: None)
    yield Yard(tmp_path, journal)
    await journal.close()


async def test_an_anchor_is_added_after_ten_minutes_or_a_thousand_rows(yard: Yard) -> None:
    """And not before; nothing new means no anchor."""
    assert await yard.anchoring.tick() is None
    await yard.act()
    assert await yard.anchoring.tick() is None
    yard.now += timedelta(minutes=10)
    assert await yard.anchoring.tick() is not None
    yard.now += timedelta(hours=1)
    assert await yard.anchoring.tick() is None
    await yard.act(ROWS - 1)
    assert await yard.anchoring.tick() is None
    await yard.act()
    assert await yard.anchoring.tick() is not None
    await yard.act()
    assert await yard.anchoring.tick(at_once=True) is not None
    assert yard.seqs() == [1, ROWS + 1, ROWS + 2]


async def test_after_a_restart_it_goes_on_behind_the_last_anchor(yard: Yard) -> None:
    """What is anchored is not anchored again; a journal that was restored, and is shorter, is anchored anew."""
    await yard.act(3)
    await yard.anchoring.tick(at_once=True)
    later = Anchoring(yard.journal, yard.anchors, lambda: yard.now)
    assert await later.tick(at_once=True) is None
    yard.anchors.add(99, b"\x00" * 32, NOW)
    again = Anchoring(yard.journal, yard.anchors, lambda: yard.now)
    assert await again.tick(at_once=True) is not None
    assert yard.seqs() == [3, 99, 3]


async def test_a_file_that_cannot_be_written_is_logged_and_tried_again(yard: Yard) -> None:
    """The rows stay due, acts go on meanwhile; why it fails is told until it no longer does."""
    yard.anchors.file.mkdir()
    await yard.act()
    assert await yard.anchoring.tick(at_once=True) is None
    assert yard.anchoring.failing == f"{FILE}: IsADirectoryError"
    yard.anchors.file.rmdir()
    yard.now += timedelta(minutes=10)
    assert await yard.anchoring.tick() is not None
    assert yard.anchoring.failing == ""


async def test_the_engine_s_own_life_is_in_the_trail_and_anchored_at_its_end(yard: Yard) -> None:
    """A start without the stop before it tells of a kill, and that what was asked last may not have been done."""
    async with watched(AuditTrail(yard.journal, Keys.of(yard.folder), lambda: NOW), yard.anchoring):
        await asyncio.sleep(0)
    rows = await yard.journal.read(
        lambda connection: connection.execute("SELECT actor, via, act FROM audit ORDER BY seq").fetchall()
    )
    assert rows == [("adt-engine", "engine", "engine.started"), ("adt-engine", "engine", "engine.stopped")]
    assert yard.seqs() == [2]


async def test_the_key_is_made_once_and_for_its_owner_only(yard: Yard) -> None:
    """Its public half proves the anchors elsewhere."""
    await yard.act()
    await yard.anchoring.tick(at_once=True)
    assert stat.S_IMODE((yard.folder / KEY_FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE((yard.folder / FILE).stat().st_mode) == 0o600
    public = yard.folder / "public.pem"
    public.write_text(yard.anchors.public_pem())
    found = verified(yard.folder, yard.anchors.file, read_public_key(public))
    assert (found.rows, found.anchors, found.agreed, found.anchored_to) == (1, 1, 1, 1)
    assert found.faults == ()


async def test_an_anchor_that_somebody_else_made_is_found(yard: Yard) -> None:
    """A changed line and one of another key do not count as witnesses, and are named."""
    await yard.act(2)
    good = yard.anchors.add(1, b"\x01" * 32, NOW)
    stranger = Anchors(yard.anchors.file, yard.folder / "stranger.key")
    stranger.add(2, b"\x02" * 32, NOW)
    line = orjson.loads(yard.anchors.file.read_bytes().splitlines()[0])
    with yard.anchors.file.open("ab") as file:
        file.write(orjson.dumps(line | {"seq": 2}) + b"\n" + orjson.dumps(line | {"signature": "é"}) + b"\n")
    key = yard.anchors.public_key()
    assert key is not None
    witnesses, faults = checked(read_anchors(yard.anchors.file), key)
    assert [(witness.seq, witness.hash) for witness in witnesses] == [(1, good.hash)]
    assert [(fault.seq, fault.kind) for fault in faults] == [(2, "forged"), (2, "forged"), (1, "forged")]


async def test_a_cut_shows_by_the_folder_s_own_anchors(yard: Yard) -> None:
    """Whoever takes the last rows away must take the anchors too, and those are kept elsewhere."""
    await yard.act(5)
    await yard.anchoring.tick(at_once=True)
    await yard.journal.close()
    with contextlib.closing(sqlite3.connect(yard.folder / JOURNAL)) as file, file:
        file.execute("DROP TRIGGER audit_delete")
        file.execute("DELETE FROM audit WHERE seq > 3")
    found = verified(yard.folder)
    assert [(fault.seq, fault.kind) for fault in found.faults] == [(5, "truncated")]


async def test_file_and_key_may_stand_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names them: another disk, a key that systemd hands over."""
    monkeypatch.setenv(ANCHORS_VARIABLE, str(tmp_path / "elsewhere.jsonl"))
    monkeypatch.setenv(ANCHOR_KEY_VARIABLE, str(tmp_path / "own.pem"))
    key = Ed25519PrivateKey.generate()
    (tmp_path / "own.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (tmp_path / "own.pem").chmod(0o400)
    data = tmp_path / "data"
    data.mkdir()
    Anchors.of(data).add(1, b"\x01" * 32, NOW)
    witnesses, faults = checked(read_anchors(tmp_path / "elsewhere.jsonl"), key.public_key())
    assert (len(witnesses), faults) == (1, [])
    assert list(data.iterdir()) == []


@pytest.mark.parametrize("content", [b"no key", b""])
def test_a_key_that_is_none_is_named(tmp_path: Path, content: bytes) -> None:
    """The error names the file."""
    (tmp_path / KEY_FILE).write_bytes(content)
    (tmp_path / KEY_FILE).chmod(0o600)
    with pytest.raises(StartError, match=KEY_FILE):
        Anchors.of(tmp_path).add(1, b"\x01" * 32, NOW)


def test_a_key_of_another_kind_is_named(tmp_path: Path) -> None:
    """The error says how to make one that will do."""
    key = generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / KEY_FILE).write_bytes(key)
    (tmp_path / KEY_FILE).chmod(0o600)
    with pytest.raises(StartError, match="ed25519"):
        Anchors.of(tmp_path).public_pem()


def test_files_that_hold_something_else_are_named(tmp_path: Path) -> None:
    """A line that is no anchor by its number; a file that is not there or holds no key."""
    (tmp_path / FILE).write_text('\n{"seq": 1}\n')
    with pytest.raises(UsageError, match=":2:"):
        read_anchors(tmp_path / FILE)
    with pytest.raises(UsageError, match="audit key"):
        read_public_key(tmp_path / FILE)
    with pytest.raises(UsageError, match="nowhere"):
        verified(tmp_path, tmp_path / "nowhere")


async def test_anchors_need_a_key_to_be_checked(yard: Yard) -> None:
    """Without its public half nothing is claimed of them."""
    await yard.act()
    await yard.anchoring.tick(at_once=True)
    (yard.folder / KEY_FILE).unlink()
    with pytest.raises(UsageError, match="--key"):
        verified(yard.folder)


async def test_rows_and_anchors_made_at_once_agree(yard: Yard) -> None:
    """An anchor that is added while rows come is of a row that stands."""
    works = [yard.act(7) for _ in range(30)]
    ticks = [yard.anchoring.tick(at_once=True) for _ in range(10)]
    await asyncio.gather(*works, *ticks)
    found = await asyncio.to_thread(partial(verified, yard.folder))
    assert found.rows == 210
    assert found.faults == ()
    assert found.agreed == found.anchors >= 1

"""The daily look through the journal's file, on a real one that somebody has damaged."""

import asyncio
import contextlib
import sqlite3 as oracle
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.errors import JournalUnusableError
from engine.journal.file.database import FILE, open_reader, open_writer
from engine.journal.maintenance.verify import damage_of
from engine.pipeline.maintenance import journal
from tests.journal.desk import Opener

LOG = 64 * 4096


def damage(folder: Path, table: str) -> None:
    """Write over the first page of a table."""
    with contextlib.closing(oracle.connect(folder / FILE)) as file:
        size = file.execute("PRAGMA page_size").fetchone()[0]
        root = file.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()[0]
    with (folder / FILE).open("r+b") as content:
        content.seek((root - 1) * size)
        content.write((bytes(range(1, 256)) * 16)[:size])


async def test_a_damaged_page_is_found_and_told(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is named; what it holds is not. A sound file says nothing."""
    monkeypatch.setattr(journal, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(journal, "CHECK_EVERY_SECONDS", 0.01)
    async with opened() as desk:
        await desk.record("1", ("s|1",))
    assert damage_of(tmp_path, bool) == ""
    damage(tmp_path, "answered")
    engine = SimpleNamespace(files=SimpleNamespace(data=tmp_path), damage="")
    async with asyncio.timeout(20), journal.checked(engine):
        while not engine.damage:  # noqa: ASYNC110 - the check says so
            await asyncio.sleep(0.01)
    assert engine.damage == "table answered"


async def test_a_small_file_that_is_damaged_is_not_gone_on_with(opened: Opener, tmp_path: Path) -> None:
    """At the start already, whatever table it is: what was acknowledged could be written over."""
    async with opened() as desk:
        await desk.record("1", ("s|1",))
    damage(tmp_path, "answered")
    with pytest.raises(JournalUnusableError, match=r"damaged|SQLITE_CORRUPT"):
        open_writer(tmp_path)


def test_a_log_that_a_reader_kept_is_cut_once_it_is_gone(tmp_path: Path) -> None:
    """While somebody reads one moment it grows; afterwards it goes back to twice its usual length."""
    log = tmp_path / f"{FILE}-wal"
    fill = "INSERT INTO worn (acknowledgement, at) VALUES (zeroblob(100000), 0)"
    with contextlib.closing(open_writer(tmp_path, LOG)) as writer:
        writer.execute(fill)
        with contextlib.closing(open_reader(tmp_path)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT COUNT(*) FROM worn").fetchone()
            for _row in range(30):
                writer.execute(fill)
            assert log.stat().st_size > 2 * LOG
        for _row in range(10):
            writer.execute(fill)
        assert log.stat().st_size <= 2 * LOG + 200_000

"""Care of the journal from the command line: proven, saved, brought back, pruned."""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from engine.journal.file.database import FILE, sqlite3
from engine.ops.operations.messages import Stats
from engine.ops.sender.line import send_messages
from engine.ops.socket import client
from tests.flow.rig import Rig
from tests.ops.at_work import at_work, message
from tests.ops.command import command

ALL_CHECKED = {"attempt": 0, "delivery": 0, "known": 0, "owned": 0}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """An engine at work that keeps everything for the usual days."""
    async with at_work(tmp_path) as opened:
        yield opened


@pytest.fixture
async def forgetful(tmp_path: Path) -> AsyncIterator[Rig]:
    """An engine at work that need not keep what was delivered."""
    async with at_work(tmp_path, retention={"delivered": {"bodies_days": 0, "entries_days": 0}}) as opened:
        yield opened


async def journal(*arguments: str, data: Path) -> subprocess.CompletedProcess[str]:
    """Run `adt-engine journal` on a data folder."""
    return await command("journal", *arguments, data=data)


async def told(*arguments: str, data: Path) -> dict[str, Any]:
    """Return what a command tells a program, once it has succeeded."""
    done = await journal(*arguments, "--json", data=data)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = orjson.loads(done.stdout)
    return found


async def test_a_running_journal_is_counted_proven_and_saved(rig: Rig, tmp_path: Path) -> None:
    """Stats, verify and backup work beside the engine, and the backup is proven by name afterwards."""
    data = rig.folder / "data"
    stats = await told("stats", data=data)
    assert (stats["entries"], stats["last"]) == (2, 2)
    assert stats["journal_bytes"] > 0 < stats["free_bytes"]
    assert await told("verify", data=data) == {"sound": True, "entries": 2, "faults": [], "unchecked": ALL_CHECKED}
    saved = await told("backup", "--to", str(tmp_path / "saved.db"), data=data)
    assert (saved["entries"], saved["unfinished"]) == (2, 1)
    assert (await told("verify", "--backup", str(tmp_path / "saved.db"), data=data))["sha256"] == saved["sha256"]
    again = await journal("backup", "--to", str(tmp_path / "saved.db"), data=data)
    assert again.returncode == 1
    assert "exists" in again.stderr


async def test_a_restored_journal_listens_but_delivers_nothing_before_a_person_says_so(
    rig: Rig, tmp_path: Path
) -> None:
    """After a restore the engine accepts, and every destination stands paused with the reason."""
    data = rig.folder / "data"
    await told("backup", "--to", str(tmp_path / "saved.db"), data=data)
    refused = await journal("restore", str(tmp_path / "saved.db"), "--replace", data=data)
    assert refused.returncode == 1
    assert "stop it" in refused.stderr
    assert await rig.engine.stop() == 0
    plain = await journal("restore", str(tmp_path / "saved.db"), data=data)
    assert plain.returncode == 1
    assert "--replace" in plain.stderr
    done = await journal("restore", str(tmp_path / "saved.db"), "--replace", data=data)
    assert done.returncode == 0, done.stderr
    assert "Every destination is paused" in done.stderr
    await rig.engine.start()
    await rig.engine.line("started")
    host, port = await rig.address()
    await send_messages(host, port, [message(b"C3", b"RB-3")])
    await asyncio.sleep(1)
    assert [row.state for row in rig.rows()] == ["delivered", "held", "received"]


async def test_damage_is_told_with_the_entry_and_the_next_step(rig: Rig) -> None:
    """A body that was changed under the engine makes verify fail and name its entry, and nothing of it."""
    data = rig.folder / "data"
    assert await rig.engine.stop() == 0
    with contextlib.closing(sqlite3.connect(data / FILE)) as connection:
        connection.execute("UPDATE payload SET raw = CAST(raw || x'20' AS BLOB) WHERE seq = 2")
        connection.commit()
    done = await journal("verify", data=data)
    assert done.returncode == 1
    assert "digest" in done.stdout
    assert "restore" in done.stderr
    assert "RB-2" not in done.stdout + done.stderr


async def test_a_row_that_the_disk_changed_is_told_and_one_that_cannot_be_checked_is_counted(rig: Rig) -> None:
    """A number that leads to another record is a fault; what an older version wrote is none, and is said beside it."""
    data = rig.folder / "data"
    assert await rig.engine.stop() == 0
    with contextlib.closing(sqlite3.connect(data / FILE)) as connection:
        connection.execute("UPDATE owned SET crc = NULL")
        connection.commit()
    done = await journal("verify", data=data)
    assert (done.returncode, "sound: 2 entries" in done.stdout) == (0, True)
    assert "cannot be checked: owned 1 " in done.stderr
    with contextlib.closing(sqlite3.connect(data / FILE)) as connection:
        connection.execute("UPDATE known SET logical_id = logical_id || '1'")
        connection.commit()
    done = await journal("verify", "--json", data=data)
    told = orjson.loads(done.stdout)
    assert (done.returncode, told["sound"], told["unchecked"]) == (1, False, {**ALL_CHECKED, "owned": 1})
    assert {(one["rule"], one["entry"]) for one in told["faults"]} == {("row-digest", 0)}
    assert "RB-" not in done.stdout + done.stderr


@pytest.mark.timeout(180)
async def test_a_damaged_page_is_told_by_every_command_and_stops_the_engine(rig: Rig, tmp_path: Path) -> None:
    """Each says what is wrong in one line and what to do; the engine does not start on it, and no copy is kept."""
    data = rig.folder / "data"
    assert await rig.engine.stop() == 0
    with contextlib.closing(sqlite3.connect(data / FILE)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'delivery_open'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with (data / FILE).open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    verified = await journal("verify", data=data)
    assert (verified.returncode, "Not sound" in verified.stderr) == (1, True)
    saved = await journal("backup", "--to", str(tmp_path / "saved.db"), data=data)
    assert (saved.returncode, "was not kept" in saved.stderr) == (1, True)
    counted = await journal("stats", data=data)
    assert (counted.returncode, "journal verify" in counted.stderr) == (1, True)
    assert all("Traceback" not in one.stderr for one in (verified, saved, counted))
    await rig.engine.spawn()
    assert await rig.engine.ended() == 1
    assert b"is damaged: keep a copy of the folder as it is, see `journal verify`" in b"".join(rig.engine.said)


async def test_prune_counts_asks_and_takes_away(forgetful: Rig) -> None:
    """A dry run takes nothing; with --yes what is over its days leaves, what is held stays."""
    rig = forgetful
    data, channels = rig.folder / "data", str(rig.folder / "channels")
    dry = await told("prune", "--dry-run", "--channels", channels, data=data)
    assert dry == {"bodies": 1, "entries": 1, "dry_run": True}
    unsaid = await journal("prune", "--json", "--channels", channels, data=data)
    assert unsaid.returncode == 2
    assert (await asyncio.to_thread(client.ask, data, Stats, {})).entries == 2
    done = await told("prune", "--yes", "--channels", channels, data=data)
    assert done == {"bodies": 1, "entries": 1, "dry_run": False}
    assert [(row.seq, row.state) for row in rig.rows()] == [(2, "held")]
    assert await rig.engine.stop() == 0
    offline = await journal("prune", "--yes", "--channels", channels, data=data)
    assert offline.returncode == 1
    assert "start it" in offline.stderr


async def test_the_engine_prunes_by_itself(forgetful: Rig) -> None:
    """What is over its days leaves at the next start, and every hour from then on."""
    assert await forgetful.engine.stop() == 0
    await forgetful.engine.start()
    await forgetful.engine.line("pruned")
    assert [(row.seq, row.state) for row in forgetful.rows()] == [(2, "held")]

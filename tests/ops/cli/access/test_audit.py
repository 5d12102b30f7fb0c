"""`adt-engine audit` beside a running engine and without one; and what a kill leaves of an act."""

import asyncio
import contextlib
import csv
import io
import shutil
import sqlite3
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import Result
from typer.testing import CliRunner

from engine.errors import AdtEngineError, UsageError
from engine.journal.access import audit
from engine.journal.access.audit import AuditRecord
from engine.journal.access.audited import AuditFilter
from engine.journal.file.database import FILE as JOURNAL
from engine.journal.file.sealing import KEY_FILE_VARIABLE, new_key
from engine.journal.journal import Journal
from engine.ops.cli.access.audit import app
from engine.ops.operations.audit import ListTrail
from engine.ops.operations.entries import ReplayMessage
from engine.ops.socket import client
from engine.ops.views.auditing import exported
from tests.flow.rig import Rig
from tests.journal.desk import NOW, entry
from tests.ops.at_work import at_work
from tests.ops.operations.stage import Stage, actor
from tests.ops.reading import reading


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A service and an engine that run, with one entry delivered and one held."""
    async with at_work(tmp_path) as opened:
        yield opened


async def _start(rig: Rig, **environment: str) -> None:
    await rig.engine.start(**environment)
    await rig.engine.line("started")


async def cli(rig: Rig, *arguments: str) -> Result:
    """Run a command of `adt-engine audit`."""
    return await asyncio.to_thread(
        CliRunner().invoke, app, [*arguments, "--data", str(rig.folder / "data")], env={"COLUMNS": "200"}
    )


async def told(rig: Rig, *arguments: str) -> Any:
    """Run a command that succeeds and return its JSON."""
    done = await cli(rig, *arguments, "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    return orjson.loads(done.stdout)


async def test_who_saw_whom_is_found_with_and_without_an_engine(rig: Rig) -> None:
    """What was done at the terminal is listed by person, act, entry and patient; reading the trail is in it too."""
    await rig.ask("messages.show", entry=1)
    await rig.ask("messages.discard", entry=2, reason="sent by mistake")
    await rig.ask("messages.list", limit=1)
    acts = [(row["act"], row["entry"], row["reason"]) for row in await told(rig, "list")]
    expected = [
        ("messages.discard", 2, "sent by mistake"),
        ("messages.show", 1, ""),
        ("engine.started", None, ""),
    ]
    assert acts == [("audit.list", None, ""), *expected]
    assert [row["act"] for row in await told(rig, "list", "--patient", "RB-1")] == ["audit.list", "messages.show"]
    assert "messages.discard" in (await cli(rig, "list", "--act", "messages.", "--limit", "1")).stdout
    await rig.engine.stop()
    rows = await told(rig, "list", "--act", "messages.")
    assert [(row["act"], row["via"], row["role"]) for row in rows] == [
        ("messages.discard", "socket", "owner"),
        ("messages.show", "socket", "owner"),
    ]
    assert [row["row"] for row in await told(rig, "list", "--entry", "2")] == [rows[0]["row"]]
    assert (await told(rig, "list"))[0]["act"] == "engine.stopped"


async def test_an_export_has_every_row_and_no_formula(rig: Rig, tmp_path: Path) -> None:
    """Both forms name the same rows; a reason that begins as a formula does is text for a spreadsheet."""
    await rig.ask("messages.discard", entry=2, reason="=cmd|' /C calc'!A0")
    done = await cli(rig, "export", "--format", "csv")
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["act"] for row in rows] == ["engine.started", "messages.discard", "audit.export"]
    assert rows[1]["reason"] == "'=cmd|' /C calc'!A0"
    assert not [cell for row in rows for cell in row.values() if cell.startswith(("=", "+", "-", "@"))]
    target = tmp_path / "trail.ndjson"
    assert (await cli(rig, "export", "--to", str(target))).exit_code == 0
    lines = [orjson.loads(line) for line in target.read_bytes().splitlines()]
    assert [line["row"] for line in lines] == [1, 2, 3, 4]
    assert lines[1]["reason"] == "=cmd|' /C calc'!A0"
    assert target.stat().st_mode & 0o077 == 0
    again = await cli(rig, "export", "--to", str(target))
    assert isinstance(again.exception, AdtEngineError)
    assert isinstance((await cli(rig, "export", "--format", "xls")).exception, UsageError)


async def test_an_export_may_be_taken_by_many_threads_while_rows_come(tmp_path: Path) -> None:
    """It ends where it began to, whoever takes the next piece."""
    journal = await Journal.open(tmp_path, clock=lambda: NOW, fail=lambda _error: None)
    record = AuditRecord(NOW, "ann", "operator", "page", "messages.show")

    def add(connection: Any) -> None:
        for _ in range(1500):
            audit.append(connection, record)

    await journal.write(add)
    pieces = exported(tmp_path, AuditFilter(), "ndjson")
    taken = [await asyncio.to_thread(next, pieces)]
    await journal.write(add)
    with ThreadPoolExecutor(1) as other:
        taken.append(other.submit(next, pieces).result())
    assert list(pieces) == []
    await journal.close()
    assert [orjson.loads(line)["row"] for line in b"".join(taken).splitlines()] == list(range(1, 1501))


async def test_in_a_sealed_journal_a_patient_is_found_by_system_and_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries name patients by HMACs there: who saw one and who searched for one is found, a bare value refused."""
    (tmp_path / "seal.key").write_text(new_key())
    (tmp_path / "seal.key").chmod(0o600)
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(tmp_path / "seal.key"))
    stage = await Stage.open(tmp_path)
    key = "https://mrn.riverbend.example|4711"
    seq = (await stage.journal.record(entry("C1", (key,)))).seq
    operations = stage.operations(stage.operation("messages.show"), stage.operation("messages.search"))
    await operations.answer("messages.show", actor(), {"entry": seq})
    await operations.answer("messages.search", actor(), {"patient": key})
    await operations.answer("messages.show", actor(), {"entry": seq + 1})
    assert [row["row"] for row in reading(ListTrail)(tmp_path, {"patient": key})] == [2, 1]
    with pytest.raises(UsageError, match="sealed"):
        reading(ListTrail)(tmp_path, {"patient": "4711"})
    await stage.journal.close()


async def test_it_is_proved_and_what_was_changed_is_named(rig: Rig, tmp_path: Path) -> None:
    """A sound trail ends with 0, a changed copy with 1 and the place."""
    await rig.ask("messages.show", entry=1)
    made = await told(rig, "anchor")
    found = await told(rig, "verify")
    assert (found["faults"], found["agreed"], found["anchored_to"]) == ([], 1, made["seq"])
    assert "none changed" in (await cli(rig, "verify")).stdout
    public = tmp_path / "public.pem"
    public.write_text((await cli(rig, "key")).stdout)
    kept = shutil.copy(rig.folder / "data" / "audit-anchors.jsonl", tmp_path / "kept.jsonl")
    await rig.engine.stop()
    assert (await told(rig, "verify"))["anchors"] == 2
    with contextlib.closing(sqlite3.connect(rig.folder / "data" / JOURNAL)) as file, file:
        file.execute("DROP TRIGGER audit_update")
        file.execute("UPDATE audit SET entry = 9 WHERE act = 'messages.show'")
    done = await cli(rig, "verify", "--anchors", str(kept), "--key", str(public))
    assert done.exit_code == 1
    assert "row 2 does not continue row 1" in done.stdout.replace("\n", " ")


async def test_an_anchor_can_be_added_without_an_engine(rig: Rig) -> None:
    """Before a disk is taken out, say."""
    await rig.engine.stop()
    before = (await told(rig, "verify"))["anchors"]
    assert "is anchored" in (await cli(rig, "anchor")).stdout
    found = await told(rig, "verify")
    assert (found["anchors"], found["agreed"], found["faults"]) == (before + 1, before + 1, [])


async def test_killed_between_the_record_and_the_replay_nothing_was_done(rig: Rig) -> None:
    """At F19 the trail says what was asked; the entry stands as it stood, and a later replay works."""
    await rig.engine.stop()
    before, tried = rig.rows(), rig.attempts()
    await _start(rig, ENGINE_FAULT="F19:kill")
    with pytest.raises(AdtEngineError, match="audit list"):
        await asyncio.to_thread(client.ask, rig.folder / "data", ReplayMessage, {"entry": 1})
    await rig.engine.ended()
    await _start(rig)
    await asyncio.sleep(0.3)  # time to do what must not be done
    assert (rig.rows(), rig.attempts()) == (before, tried)
    rows = await told(rig, "list")
    assert [(row["act"], row["outcome"], row["follows"]) for row in rows[1:4]] == [
        ("engine.started", "asked", None),
        ("messages.replay", "asked", None),
        ("engine.started", "asked", None),
    ]
    assert (await told(rig, "verify"))["faults"] == []
    assert await rig.ask("messages.replay", entry=1) == {"done": {"destinations": 1}}
    await rig.until(lambda rows: rows[0].state == "delivered" and rig.attempts() != before)


async def test_without_a_journal_it_says_so(tmp_path: Path) -> None:
    """Each command names the folder, and what to do."""
    for command in ("list", "verify", "anchor", "key"):
        done = await asyncio.to_thread(CliRunner().invoke, app, [command, "--data", str(tmp_path / "nowhere")])
        assert isinstance(done.exception, AdtEngineError), command
        assert "nowhere" in str(done.exception)

"""A sealed journal: nothing of a patient stands in its files, and everything still works for whoever has the key."""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from engine.journal.file.database import FILE, sqlite3
from engine.journal.file.sealing import KEY_FILE_VARIABLE, new_key
from engine.ops.sender.line import send_messages
from tests.flow.rig import SECRET, SYSTEM, Rig, running
from tests.interchange.nursery import ran
from tests.ops.command import command

# What is said of files.
pytestmark = pytest.mark.parametrize("journal", ["sqlite"], indirect=True)

FAMILY: Final = "Kanarivogel"
CANARIES: Final = (
    FAMILY,
    "Quetzalina",
    "Pelikanstieg",
    "KNRMRN1",
    "KNRMRN2",
    "KNRMRN4",
    "KNRVISIT",
    "19470611",
    "1947-06-11",
)


def message(control_id: str, number: str, trigger: str = "A01", born: str = "19470611", more: str = "") -> bytes:
    """Return a message full of canaries."""
    return (
        f"MSH|^~\\&|REG|RVB|X|Y|20260302060000||ADT^{trigger}|{control_id}|P|2.5.1\r"
        f"EVN|{trigger}|20260302060000\r"
        f"PID|1||{number}^^^RVB^MR||{FAMILY}^Quetzalina||{born}|F|||77 Pelikanstieg^^Flamingohausen\r"
        f"{more or f'PV1|1|I|3W^312^A||||||||||||||||KNRVISIT{number}'}\r"
    ).encode()


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A key file."""
    path = tmp_path / "journal.key"
    path.write_text(new_key())
    path.chmod(0o600)
    return path


@pytest.fixture
async def rig(tmp_path: Path, key: Path) -> AsyncIterator[Rig]:
    """An engine on a sealed journal: two patients, one held, one merged into the other."""
    async with running(tmp_path) as opened:
        await opened.engine.start(**{KEY_FILE_VARIABLE: str(key)})
        await opened.engine.line("started")
        feed = [
            message("C1", "KNRMRN1"),
            message("C2", "KNRMRN2"),
            message("C3", "KNRMRN3", born=""),
            message("C4", "KNRMRN1", "A40", more="MRG|KNRMRN2^^^RVB^MR"),
            message("C1", "KNRMRN1"),
        ]
        answers = await send_messages(*await opened.address(), feed)
        assert [answer.code for answer in answers] == ["AA"] * 5
        await opened.until(lambda rows: [row.state for row in rows] == ["delivered", "delivered", "held", "delivered"])
        yield opened


async def cli(rig: Rig, *arguments: str, key: Path | None) -> subprocess.CompletedProcess[str]:
    """Run a command on the rig's data, with the key or without."""
    environment = {"ENGINE_SECRET": SECRET, **({KEY_FILE_VARIABLE: str(key)} if key else {})}
    return await command(*arguments, data=rig.folder / "data", environment=environment)


async def told(rig: Rig, *arguments: str, key: Path) -> Any:
    """Return what a command tells a program."""
    done = await cli(rig, *arguments, "--json", key=key)
    assert done.returncode == 0, done.stderr
    return orjson.loads(done.stdout)


def files(rig: Rig) -> dict[str, bytes]:
    """Return the bytes of every file of the data folder, the log and the index with it."""
    return {path.name: path.read_bytes() for path in (rig.folder / "data").iterdir() if path.is_file()}


async def test_no_file_of_the_journal_holds_anything_of_a_patient(rig: Rig) -> None:
    """Neither running nor stopped: not in the database, its log, nor any file beside it."""
    assert await rig.engine.stop() == 0
    found = files(rig)
    assert found["journal.db"]
    for name, content in found.items():
        for canary in CANARIES:
            assert canary.encode() not in content, (name, canary)


async def test_a_search_that_failed_is_shown_and_stands_nowhere_in_clear(rig: Rig, key: Path) -> None:
    """Its URL asks by the patient's number: whoever has the key sees it, no file of the journal does."""
    await rig.service.kill()
    await send_messages(*await rig.address(), [message("C5", "KNRMRN4", "A08")])
    await rig.until(lambda _rows: any(attempt.seq == 5 and attempt.method == "GET" for attempt in rig.attempts()))
    shown = await told(rig, "messages", "show", "5", key=key)
    assert "KNRMRN4" in shown["deliveries"][0]["attempts"][0]["url"]
    assert await rig.engine.stop() == 0
    assert [name for name, content in files(rig).items() for canary in CANARIES if canary.encode() in content] == []


async def test_the_patients_are_as_a_journal_in_clear_would_have_them(rig: Rig) -> None:
    """Lanes, look-ups and the merge work on sealed names; a resend is recognised."""
    (survivor,) = await rig.numbered("KNRMRN1")
    assert {link["type"] for link in survivor["link"]} == {"replaces"}
    rows = rig.rows()
    assert len(rows) == 4


async def test_whoever_has_the_key_sees_and_does_everything(rig: Rig, key: Path) -> None:
    """Show, search by patient and visit, replay, verify: through the engine and on its file."""
    whole = await told(rig, "messages", "show", "1", key=key)
    assert FAMILY in whole["message"]
    assert FAMILY in str(whole["deliveries"][0]["attempts"][0]["body"])
    by_patient = await told(rig, "messages", "list", "--patient", f"{SYSTEM}|KNRMRN2", key=key)
    assert [row["entry"] for row in by_patient["entries"]] == [4, 2]
    by_visit = await told(rig, "messages", "list", "--visit", "KNRVISITKNRMRN1", key=key)
    assert [row["entry"] for row in by_visit["entries"]] == [1]
    bare = await cli(rig, "messages", "list", "--patient", "KNRMRN2", key=key)
    assert (bare.returncode, "system|value" in bare.stderr) == (2, True)
    assert (await told(rig, "journal", "verify", key=key))["sound"] is True
    assert "error" not in await rig.ask("messages.replay", entry=4)
    await rig.until(lambda rows: all(row.state in {"delivered", "held"} for row in rows))
    assert await rig.engine.stop() == 0
    assert (await told(rig, "messages", "show", "1", key=key))["message"] == whole["message"]
    views = await told(rig, "audit", "list", "--patient", f"{SYSTEM}|KNRMRN1", key=key)
    assert {row["act"] for row in views} >= {"messages.show", "messages.replay"}


async def test_without_the_key_nothing_is_read_and_the_engine_does_not_start(rig: Rig, tmp_path: Path) -> None:
    """The error says which variable names the key file; another key is told from none."""
    assert await rig.engine.stop() == 0
    none = await cli(rig, "messages", "show", "1", key=None)
    assert (none.returncode, KEY_FILE_VARIABLE in none.stderr) == (1, True)
    other = tmp_path / "other.key"
    other.write_text(new_key())
    other.chmod(0o600)
    wrong = await cli(rig, "messages", "show", "1", key=other)
    assert (wrong.returncode, "another key" in wrong.stderr) == (1, True)
    await rig.engine.spawn()
    assert await rig.engine.ended() == 1


async def test_a_new_key_file_takes_over(rig: Rig, key: Path, tmp_path: Path) -> None:
    """After `journal reseal` the new file opens everything and the old one nothing."""
    fresh = tmp_path / "fresh.key"
    made = await asyncio.to_thread(ran, "journal", "key", "--out", str(fresh))
    assert made.returncode == 0
    assert fresh.stat().st_mode & 0o777 == 0o600
    running_still = await cli(rig, "journal", "reseal", "--new-key", str(fresh), key=key)
    assert running_still.returncode == 1
    assert await rig.engine.stop() == 0
    done = await cli(rig, "journal", "reseal", "--new-key", str(fresh), key=key)
    assert done.returncode == 0, done.stderr
    assert FAMILY in (await told(rig, "messages", "show", "1", key=fresh))["message"]
    assert (await cli(rig, "messages", "show", "1", key=key)).returncode == 1


async def test_a_backup_of_a_sealed_journal_is_sealed_and_comes_back(rig: Rig, key: Path, tmp_path: Path) -> None:
    """The copy holds nothing in clear, is proven with the key, and a kill in the middle of the day loses nothing."""
    saved = tmp_path / "saved.db"
    assert (await told(rig, "journal", "backup", "--to", str(saved), key=key))["entries"] == 4
    assert not [canary for canary in CANARIES if canary.encode() in saved.read_bytes()]
    await rig.engine.kill()
    await rig.engine.start(**{KEY_FILE_VARIABLE: str(key)})
    await send_messages(*await rig.address(), [message("C9", "KNRMRN1", "A08")])
    await rig.until(lambda rows: rows[-1].state == "delivered" and len(rows) == 5)
    assert await rig.engine.stop() == 0
    back = await cli(rig, "journal", "restore", str(saved), "--replace", key=key)
    assert back.returncode == 0, back.stderr
    assert (await told(rig, "messages", "show", "4", key=key))["event"] == "A40"


DAMAGE: Final = {
    "a body": "UPDATE payload SET raw = CAST(substr(raw, 1, 40) || x'0000' || substr(raw, 43) AS BLOB) WHERE seq = 1",
    "the key of its day": "UPDATE seal_key SET wrapped = CAST(substr(wrapped, 1, 20) || x'00' AS BLOB) WHERE day >= 0",
}


@pytest.mark.parametrize("damaged", DAMAGE)
async def test_a_body_that_cannot_be_unsealed_holds_its_patient_only(
    tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch, damaged: str
) -> None:
    """The engine starts, holds it by name, delivers everybody else, and shows the entry as not sound."""
    environment = {KEY_FILE_VARIABLE: str(key)}
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(key))
    async with running(tmp_path) as rig:
        await rig.engine.start(**environment)
        await rig.engine.line("started")
        assert "error" not in await rig.ask("destinations.pause", destination="interchange")
        await send_messages(*await rig.address(), [message("C1", "KNRMRN1"), message("C2", "KNRMRN1", "A08")])
        assert await rig.engine.stop() == 0
        with contextlib.closing(sqlite3.connect(tmp_path / "data" / FILE)) as connection:
            connection.execute(DAMAGE[damaged])
            connection.commit()
        await rig.engine.start(**environment)
        await rig.engine.line("started")
        assert "error" not in await rig.ask("destinations.resume", destination="interchange")
        await send_messages(*await rig.address(), [message("C3", "KNRMRN2")])
        rows = await rig.until(lambda rows: rows[-1].state == "delivered")
        assert [(row.state, row.reason) for row in rows[:2]] == [("held", "body-damaged"), ("waiting", "")]
        shown = await told(rig, "messages", "show", "1", key=key)
        assert (shown["sound"], shown["message"]) == (False, "")
        assert await rig.engine.stop() == 0
        await rig.engine.start(**environment)
        await rig.engine.line("started")
        assert "error" not in await rig.ask("messages.discard", entry=1, reason="the disk changed it")
        assert await rig.engine.stop() == 0


async def test_a_patient_is_shown_whole_to_whoever_has_the_key(rig: Rig, key: Path) -> None:
    """Numbers that the journal keeps as marks are read out of the messages: their system, their record, the merge."""
    (found,) = await told(rig, "patients", "find", f"{SYSTEM}|KNRMRN2", key=key)
    shown = await told(rig, "patients", "show", str(found["entry"]), key=key)
    assert shown["name"] == f"{FAMILY}, Quetzalina"
    assert sorted(one["value"] for one in shown["numbers"]) == ["KNRMRN1", "KNRMRN2"]
    assert {one["at"][0]["status"] for one in shown["numbers"]} == {"current", "merged-away"}
    (merge,) = shown["merges"]
    assert (merge["source"], merge["survivor"]) == (f"{SYSTEM}|KNRMRN2", f"{SYSTEM}|KNRMRN1")
    assert shown["destinations"][0]["records"][0]["name"] == f"{FAMILY}, Quetzalina"
    held = await told(rig, "patients", "show", "3", key=key)
    assert [(one["entry"], one["reason"]) for one in held["held"]] == [(3, "missing-required")]

"""Starting, reloading and stopping the engine: what is wrong is named, and nothing half-done runs."""

import asyncio
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.config.settings import shipped
from engine.ops.operations.channels import ShowAlive
from engine.ops.socket import client
from tests.flow.program import Program
from tests.interchange.nursery import ran
from tests.ops.alone import CHANNEL, alone, write_channel


def _run(tmp_path: Path, *more: str) -> subprocess.CompletedProcess[str]:
    arguments = ["run", "--channels", "channels", "--data", "data", "--admin", "127.0.0.1:0", *more]
    return ran(*arguments, folder=tmp_path)


# What an engine reads once it listens, and what it never needs.
LATER = {"argon2", "uvicorn", "starlette", "jinja2", "markdown_it", "engine.ops.operations.table", "engine.ops.web.app"}
NEVER = {"engine.interchange", "engine.simulation", "fhir.resources", "hl7apy", "lxml", "jsonpatch"}


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Program]:
    """An engine whose destination does not answer."""
    async with alone(tmp_path) as program:
        yield program


def test_an_engine_listens_before_it_reads_the_rest() -> None:
    """Pages and operations are read after the start, so that senders wait half as long; what it never needs is not."""
    code = (
        "import sys, engine.ops.cli.run\n"
        f"early = {LATER | NEVER} & set(sys.modules)\n"
        "import engine.ops.cli.surfaces\n"
        f"needless = {NEVER} & set(sys.modules)\n"
        "assert not early | needless, (early, needless)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_problem_of_every_file_stops_the_start(tmp_path: Path) -> None:
    """Two channel files and a mapping with mistakes: each is named with file, line and column, and the exit is 2."""
    write_channel(tmp_path, CHANNEL.format(name="a", port=0).replace("timezone: America", "timezone: Amerika"))
    write_channel(tmp_path, "channel: b\nlisten: {mllp: {port: x}}\n", "b.yaml")
    done = _run(tmp_path)
    assert done.returncode == 2
    assert "a.yaml:3:" in done.stderr
    assert "b.yaml:2:" in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_mapping_with_a_mistake_stops_the_start(tmp_path: Path) -> None:
    """A misspelt table of the site's own mapping file is named where it stands."""
    write_channel(tmp_path)
    resources = tmp_path / "mine" / "resources"
    resources.mkdir(parents=True)
    text = (shipped("mappings") / "resources" / "patient.yaml").read_text()
    (resources / "patient.yaml").write_text(text.replace("code(administrative-sex)", "code(administrativ-sex)"))
    done = _run(tmp_path, "--mappings", "mine")
    assert done.returncode == 2
    assert "patient.yaml:" in done.stderr
    assert "administrative-sex" in done.stderr  # the nearest name


def test_a_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    """Somebody else's port is named, with the next step, and the exit is 1."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        write_channel(tmp_path, CHANNEL.format(name="a", port=port))
        done = _run(tmp_path)
    said = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert done.returncode == 1
    assert len(said) == 1
    assert str(port) in said[0]


def test_a_data_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    """A data folder under a file is refused with what to do."""
    write_channel(tmp_path)
    (tmp_path / "data").write_text("no folder")
    done = _run(tmp_path)
    assert done.returncode == 1
    assert "--data" in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_second_engine_on_one_folder_is_refused(engine: Program, tmp_path: Path) -> None:
    """One journal has one writer; the second engine names the process that holds it."""
    done = _run(tmp_path)
    assert done.returncode == 1
    assert str(engine.pid) in done.stderr


async def test_files_are_for_their_owner_only(engine: Program, tmp_path: Path) -> None:
    """Folder, socket and journal are closed to other users."""
    data = tmp_path / "data"
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    for name in ("journal.db", client.SOCKET_NAME):
        assert stat.S_IMODE((data / name).stat().st_mode) == 0o600


async def test_a_bad_reload_leaves_everything_as_it_was(engine: Program, tmp_path: Path) -> None:
    """After SIGHUP with a mistake in a file the old channel listens on; the mistake is in the log."""
    port = (await _alive(tmp_path))["channels"]["a"]["port"]
    write_channel(tmp_path, CHANNEL.format(name="a", port=0).replace("mllp", "mlp"))
    os.kill(engine.pid, signal.SIGHUP)
    await engine.line("reload refused")
    assert (await _alive(tmp_path))["channels"]["a"]["port"] == port


async def test_a_reload_that_cannot_open_a_port_is_never_silent(engine: Program, tmp_path: Path) -> None:
    """A new channel on somebody else's port: the log names the port, the old channel listens on."""
    port = (await _alive(tmp_path))["channels"]["a"]["port"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        write_channel(tmp_path, CHANNEL.format(name="b", port=taken.getsockname()[1]), "b.yaml")
        os.kill(engine.pid, signal.SIGHUP)
        assert str(taken.getsockname()[1]) in (await engine.line("reload failed"))["error"]
    assert (await _alive(tmp_path))["channels"]["a"]["port"] == port


async def test_a_changed_destination_takes_over_without_a_restart(engine: Program, tmp_path: Path) -> None:
    """A destination that is described anew is exchanged once what is under way has ended."""
    write_channel(tmp_path, CHANNEL.format(name="a", port=0).replace("127.0.0.1:9/", "127.0.0.1:10/"))
    os.kill(engine.pid, signal.SIGHUP)
    await engine.line("destination exchanged")
    assert any(line["event"] == "reloaded" for line in engine.lines)


async def test_a_good_reload_opens_new_doors_and_keeps_the_others(engine: Program, tmp_path: Path) -> None:
    """A second channel starts without the first one being touched."""
    port = (await _alive(tmp_path))["channels"]["a"]["port"]
    write_channel(tmp_path, CHANNEL.format(name="b", port=0), "b.yaml")
    os.kill(engine.pid, signal.SIGHUP)
    await engine.line("reloaded")
    channels = (await _alive(tmp_path))["channels"]
    assert channels["a"]["port"] == port
    assert set(channels) == {"a", "b"}


PATIENT = "resource: Patient\nextends: shipped/patient\nelements:\n  maritalStatus: {rule}\n"
CASES = """\
tests:
  - case: a married patient
    message: PID|1||1^^^RVB^MR||A^B|||||||||||M
    expect: {{patient: {{maritalStatus: {{text: {text}}}}}}}
"""


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Program]:
    """An engine with a mapping folder of its own, and a case beside it."""
    _site(tmp_path, "PID-16 | coded(marital-status)", "Married")
    async with alone(tmp_path, "--mappings", "mine") as program:
        yield program


def _site(tmp_path: Path, rule: str, text: str) -> None:
    for name in ("resources", "tests"):
        (tmp_path / "mine" / name).mkdir(parents=True, exist_ok=True)
    (tmp_path / "mine" / "resources" / "patient.yaml").write_text(PATIENT.format(rule=rule))
    (tmp_path / "mine" / "tests" / "own.yaml").write_text(CASES.format(text=text))


async def _reloaded(program: Program, event: str) -> dict[str, Any]:
    program.lines.clear()
    os.kill(program.pid, signal.SIGHUP)
    return await program.line(event)


async def test_a_mapping_is_tested_before_it_is_put_in_force(site: Program, tmp_path: Path) -> None:
    """A file that checks but fails a case leaves the old one; the log names the case, and no value of it."""
    _site(tmp_path, "PID-17 | coded(marital-status)", "Married")
    line = await _reloaded(site, "reload refused")
    assert line["file"].endswith("own.yaml:2:1")
    assert "the case differs in patient.maritalStatus;" in line["error"]
    assert "Married" not in str(line)
    _site(tmp_path, "PID-16 | coded", "M")
    await _reloaded(site, "reloaded")


async def test_messages_flow_while_mappings_change(site: Program, tmp_path: Path) -> None:
    """One connection sends on through bad and good reloads: every message is answered, each by one whole version."""
    port = (await _alive(tmp_path))["channels"]["a"]["port"]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answered = asyncio.create_task(_converse(reader, writer, 200))
    for number in range(4):
        _site(tmp_path, "PID-16 | coded" + ("(nothing)" if number % 2 else ""), "M")
        await _reloaded(site, "reload refused" if number % 2 else "reloaded")
    assert await answered == ["AA"] * 200
    writer.close()
    await writer.wait_closed()
    with closing(sqlite3.connect(f"file:{tmp_path}/data/journal.db?mode=ro", uri=True)) as journal:
        versions = [row[0] for row in journal.execute("SELECT mapping FROM entry ORDER BY seq")]
    assert len(versions) == 200
    assert len(set(versions)) == 2
    assert versions == sorted(versions, key=versions.index)  # the old one, then the new one


async def _converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int) -> list[str]:
    codes = []
    for number in range(count):
        head = f"MSH|^~\\&|H|R|||20250701093000||ADT^A31|N{number}|P|2.5.1\rPID|1||{number + 1}^^^RVB^MR||A^B\r"
        writer.write(b"\x0b" + head.encode() + b"\x1c\r")
        answer = await reader.readuntil(b"\x1c\r")
        codes.append(answer.split(b"\rMSA|")[1][:2].decode())
        await asyncio.sleep(0.01)
    return codes


async def test_it_stops_gracefully(engine: Program) -> None:
    """SIGTERM ends it with exit code 0."""
    assert await engine.stop() == 0


async def _alive(tmp_path: Path) -> dict[str, dict[str, dict[str, int]]]:
    found: dict[str, dict[str, dict[str, int]]] = ShowAlive.to_json(client.ask(tmp_path / "data", ShowAlive, {}))
    return found


@pytest.mark.parametrize(
    "left", ["access.key", "audit-anchors.jsonl", "audit-anchors.key", "text.db", "interchange.db"]
)
@pytest.mark.parametrize("is_empty", [False, True], ids=["missing", "empty"])
async def test_a_journal_that_vanished_is_never_made_anew_in_silence(tmp_path: Path, left: str, is_empty: bool) -> None:
    """What an engine leaves in its folder says that there was one: the error names both, and the two ways on."""
    write_channel(tmp_path, CHANNEL.format(name="a", port=0))
    data = tmp_path / "data"
    data.mkdir()
    (data / "journal.lock").touch()
    (data / left).write_bytes(b"k" * 32)
    if is_empty:
        (data / "journal.db").touch()
    done = _run(tmp_path)
    assert done.returncode == 1
    what = f"journal.db is {'empty' if is_empty else 'missing'}, and {left} beside it says that there was one"
    assert what in done.stderr
    assert "journal restore FILE" in done.stderr
    assert "--accept-empty-journal" in done.stderr
    assert not (data / "journal.db").exists() or (data / "journal.db").stat().st_size == 0


async def test_an_engine_whose_journal_vanished_starts_once_somebody_accepts_that(
    engine: Program, tmp_path: Path
) -> None:
    """The flag is for one start: from then on there is a journal, and the key that was there goes on."""
    assert await engine.stop() == 0
    for file in (tmp_path / "data").glob("journal.db*"):
        file.unlink()
    assert "missing" in _run(tmp_path).stderr
    accepted = Program(tmp_path, "run", "--channels", "channels", "--data", "data", "--accept-empty-journal")
    await accepted.start()
    await accepted.line("started")
    assert await accepted.stop() == 0
    await engine.start()
    await engine.line("started")


@pytest.mark.parametrize("other", [None, b"x" * 32], ids=["missing", "another"])
async def test_a_key_that_the_journal_does_not_know_is_refused(
    engine: Program, tmp_path: Path, other: bytes | None
) -> None:
    """Second factors would be void and nobody found in the audit trail: the error says so, and the two ways on."""
    await engine.line("started")
    assert await engine.stop() == 0
    key = tmp_path / "data" / "access.key"
    key.unlink()
    if other is not None:
        key.touch(0o600)
        key.write_bytes(other)
    done = _run(tmp_path)
    assert done.returncode == 1
    assert ("access.key is missing" if other is None else "access.key holds another key") in done.stderr
    assert "restore it" in done.stderr
    assert "--accept-new-access-key" in done.stderr
    accepted = Program(tmp_path, "run", "--channels", "channels", "--data", "data", "--accept-new-access-key")
    await accepted.start()
    await accepted.line("started")
    assert await accepted.stop() == 0
    await engine.start()
    await engine.line("started")

"""Entries from the command line: through the running engine, or from its file; never a second writer."""

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.flow.rig import Rig
from tests.ops.at_work import at_work, message
from tests.ops.command import command


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A service and an engine that run, with one entry delivered, one held and one refused."""
    async with at_work(tmp_path, message(b"C3", b""), ended=("rejected",)) as opened:
        yield opened


async def cli(rig: Rig, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of `adt-engine messages` on the rig's data folder."""
    return await command("messages", *arguments, data=rig.folder / "data")


async def listed(rig: Rig, *arguments: str) -> list[dict[str, Any]]:
    """Return rows of `messages list`."""
    done = await cli(rig, "list", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = orjson.loads(done.stdout)["entries"]
    return rows


async def test_list_and_show_read_the_same_with_and_without_an_engine(rig: Rig) -> None:
    """What the running engine tells is what the file holds once it has stopped."""
    rows = await listed(rig)
    assert [(row["entry"], row["state"]) for row in rows] == [(3, "rejected"), (2, "held"), (1, "delivered")]
    assert [row["entry"] for row in await listed(rig, "--state", "held")] == [2]
    assert [row["entry"] for row in await listed(rig, "--patient", "RB-1")] == [1]
    assert [row["entry"] for row in await listed(rig, "--text", "quintero rb-1")] == [1]
    page = await cli(rig, "list", "--text", "quintero", "--limit", "2")
    assert (page.stdout.count("\n"), page.stderr.endswith("next page: --before 2\n")) == (3, True)
    whole = orjson.loads((await cli(rig, "show", "1", "--json")).stdout)
    assert whole["deliveries"][0]["attempts"][0]["method"] == "POST"
    assert whole["acknowledgement"].split("\r")[1].startswith("MSA|AA|C1")
    assert await rig.engine.stop() == 0
    assert await listed(rig) == rows
    again = orjson.loads((await cli(rig, "show", "1", "--json")).stdout)
    # The channel's character set is known to the running engine alone.
    assert (whole.pop("charset"), again.pop("charset")) == ("UTF-8", "")
    assert again == whole


async def test_show_prints_what_an_operator_needs(rig: Rig) -> None:
    """State, reason, message, acknowledgement and each request stand on the screen."""
    done = await cli(rig, "show", "1")
    for said in ("Entry 1: delivered", "PID|1||RB-1^^^RVB^MR", "Acknowledgement AA (sent)", "POST", "201"):
        assert said in done.stdout


async def test_replay_of_what_is_true_changes_nothing(rig: Rig) -> None:
    """The entry is delivered again as unchanged, and the patient keeps its version."""
    before = await rig.patients()
    done = await cli(rig, "replay", "1")
    assert done.returncode == 0, done.stderr
    await rig.until(lambda rows: (rows[0].state, rows[0].reason) == ("delivered", "unchanged"))
    assert await rig.patients() == before


async def test_an_entry_that_was_refused_cannot_be_replayed(rig: Rig) -> None:
    """The refusal says why, names the entry and exits 1."""
    done = await cli(rig, "replay", "3")
    assert done.returncode == 1
    assert done.stderr.startswith("3: ")


async def test_replay_without_an_engine_says_so(rig: Rig) -> None:
    """Only a running engine writes; the next step is named and nothing changes."""
    await rig.engine.stop()
    before = rig.rows()
    done = await cli(rig, "replay", "1")
    assert done.returncode == 1
    assert "adt-engine run" in done.stderr
    assert rig.rows() == before


async def test_a_held_entry_is_released_or_discarded(rig: Rig) -> None:
    """Released, it is tried again and held again; discarded, it is done, with the reason kept."""
    assert (await cli(rig, "release", "2")).returncode == 0
    await rig.until(lambda rows: rows[1].state == "held")
    assert (await cli(rig, "discard", "2", "--reason", "sent by mistake")).returncode == 0
    shown = orjson.loads((await cli(rig, "show", "2", "--json")).stdout)
    assert (shown["state"], shown["deliveries"][0]["reason"]) == ("discarded", "sent by mistake")


async def test_wrong_use_is_told(rig: Rig) -> None:
    """A state or a time that is none exits 2 and names what would do; an unknown entry exits 1."""
    done = await cli(rig, "list", "--state", "lost")
    assert (done.returncode, "delivered" in done.stderr) == (2, True)
    done = await cli(rig, "list", "--since", "yesterday")
    assert done.returncode == 2
    done = await cli(rig, "show", "99")
    assert (done.returncode, "99" in done.stderr) == (1, True)


async def test_why_a_message_came_out_so_is_told(rig: Rig) -> None:
    """The rule of one element, and what a field went into; an engine must run."""
    done = await cli(rig, "explain", "1", "--element", "Patient.birthDate")
    assert done.returncode == 0, done.stderr
    assert "Patient.birthDate = 1984-02-29" in done.stdout
    told = orjson.loads((await cli(rig, "explain", "1", "--field", "PID-8", "--json")).stdout)
    assert [one["element"] for one in told["elements"]] == ["Patient.gender"]
    whole = orjson.loads((await cli(rig, "show", "1", "--json")).stdout)
    assert told["mapping"] == whole["deliveries"][0]["mapping"]
    await rig.engine.stop()
    done = await cli(rig, "explain", "1")
    assert (done.returncode, "mappings explain" in done.stderr) == (1, True)


async def test_messages_are_exported_with_a_reason(rig: Rig, tmp_path: Path) -> None:
    """Byte for byte into a folder, as lines, as CSV; for nobody else, and over nothing that is there."""
    why = ("--reason", "ticket 4711")
    done = await cli(rig, "export", "--to", str(tmp_path / "out"), "--format", "hl7", "--state", "delivered", *why)
    assert done.returncode == 0, done.stderr
    assert [(file.name, file.read_bytes()) for file in (tmp_path / "out").iterdir()] == [
        ("1.hl7", message(b"C1", b"RB-1"))
    ]
    file = tmp_path / "out.ndjson"
    assert (await cli(rig, "export", "--to", str(file), *why)).returncode == 0
    assert [orjson.loads(line)["control_id"] for line in file.read_bytes().splitlines()] == ["C3", "C2", "C1"]
    assert file.stat().st_mode & 0o077 == 0
    assert (await cli(rig, "export", "--to", str(tmp_path / "out.csv"), "--format", "csv", *why)).returncode == 0
    assert (tmp_path / "out.csv").read_text().startswith("entry,received_at,")
    assert (await cli(rig, "export", "--to", str(file), *why)).returncode == 2
    assert (await cli(rig, "export", "--to", str(tmp_path / "out"), "--format", "hl7", *why)).returncode == 2
    await rig.engine.stop()
    done = await cli(rig, "export", "--to", str(tmp_path / "none"), *why)
    assert (done.returncode, "audit trail" in done.stderr) == (1, True)


async def test_fields_are_shown_with_their_names(rig: Rig) -> None:
    """As the message's version names them."""
    done = await cli(rig, "show", "1", "--fields")
    assert "Patient identifier list" in done.stdout
    assert "PID-5.1" in done.stdout

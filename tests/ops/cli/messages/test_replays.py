"""Replay, edit, resolve and lanes from the command line, against an engine that runs."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from engine.__main__ import app
from engine.errors import AdtEngineError, UsageError
from tests.flow.operator import alike, configured, ended, merged, message, sent, started
from tests.flow.rig import SYSTEM, Rig, running


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A service and an engine that run, with one entry delivered, one held with one behind it, and one refused."""
    async with running(tmp_path, contact="ADT desk 4711") as opened:
        await started(opened)
        await sent(
            opened,
            message("C1", "RB-1", event="A28"),
            message("C2", "RB-2", event="A28", born=""),
            message("C3", "RB-2", born=""),
            message("C4", "RB-3", mode="T"),
        )
        await opened.until(ended("delivered", "held", "waiting", "rejected"))
        yield opened


@dataclass(frozen=True, slots=True)
class Said:
    """What a command said and how it ended."""

    code: int
    out: str
    error: str
    shown: str = ""


async def cli(rig: Rig, *arguments: str, typed: str = "") -> Said:
    """Run a command on the rig's data folder, as `adt-engine` does."""
    line = [*arguments, "--data", str(rig.folder / "data")]
    result = await asyncio.to_thread(CliRunner().invoke, app, line, input=typed)
    error = result.exception if isinstance(result.exception, AdtEngineError) else None
    return Said(
        2 if isinstance(error, UsageError) else result.exit_code, result.stdout, str(error or ""), result.stderr
    )


async def said(rig: Rig, *arguments: str, typed: str = "") -> str:
    """Run a command that succeeds and return what it says."""
    done = await cli(rig, *arguments, typed=typed)
    assert done.code == 0, done
    return done.out


async def test_a_bulk_replay_is_shown_asked_for_and_watched(rig: Rig) -> None:
    """What it will do, the question, the end; declined, nothing is done. It is listed afterwards."""
    told = await said(rig, "messages", "replay", "--event", "A28", typed="n\n")
    assert "1 entries, 1 to 1: 1 A28" in told
    assert "about 0 seconds" in told
    assert orjson.loads(await said(rig, "messages", "replays", "--json")) == []
    told = await said(rig, "messages", "replay", "--event", "A28", "--rate", "50", typed="y\n")
    assert "run 1 done: 1 of 1 processed: 1 delivered" in told
    assert "1 of 1" in await said(rig, "messages", "replays")
    told = await said(rig, "messages", "replay", "--state", "delivered", "--yes")
    assert "run 2 done" in told
    assert "no entries match" in await said(rig, "messages", "replay", "--event", "A40", "--yes")


async def test_a_run_is_stopped_and_resumed(rig: Rig) -> None:
    """By its number; a run that has ended is refused with the next step."""
    await said(rig, "messages", "replay", "--event", "A28", "--yes")
    done = await cli(rig, "messages", "replay", "--resume", "1")
    assert (done.code, "start another one" in done.error) == (1, True)
    assert "no run 9" in (await cli(rig, "messages", "replays", "--stop", "9")).error


async def test_a_dry_run_prints_each_call_and_difference(rig: Rig) -> None:
    """Of named entries, or of those that a filter means; nothing is done, and no patient is changed."""
    before = await rig.patients()
    told = await said(rig, "messages", "replay", "1", "2", "--dry-run")
    assert "would be delivered unchanged" in told
    assert "would be held missing-required" in told
    bulk = await said(rig, "messages", "replay", "--event", "A28", "--dry-run")
    assert bulk.startswith("1 entries, 1 to 1: 1 A28\n")
    assert "Entry 1" in bulk
    assert await said(rig, "messages", "replay", "--event", "A40", "--dry-run") == "no entries match\n"
    assert "409" in (await cli(rig, "messages", "replay", "1", "--dry-run")).shown
    told = await said(rig, "messages", "replay", "4", "--dry-run")
    assert "would be refused: processing-id" in told
    assert await rig.patients() == before
    assert [row.state for row in rig.rows()] == ["delivered", "held", "waiting", "rejected"]


async def test_a_refused_entry_is_replayed_once_its_channel_is_mended(rig: Rig) -> None:
    """Until then it is refused again, and the command says so."""
    done = await cli(rig, "messages", "replay", "4")
    assert (done.code, "processing-id" in done.error) == (1, True)
    await configured(rig, processing_ids=["P", "T"])
    assert "4 replayed" in await said(rig, "messages", "replay", "4")
    await rig.until(lambda rows: rows[3].state == "delivered")


async def test_an_edit_is_shown_and_done(rig: Rig, tmp_path: Path) -> None:
    """The difference, the planned call, the question, the new entry; by parts or with a file."""
    told = await said(rig, "messages", "edit", "2", "--set", "PID-7=19840229", typed="n\n")
    assert "edited PID-7: nothing -> 19840229" in told
    assert "POST Patient" in told
    assert len(rig.rows()) == 4
    more = ("--discard-original", "--reason", "typo", "--yes")
    told = await said(rig, "messages", "edit", "2", "--set", "PID-7=19840229", *more)
    assert "entry 5 made from 2, which is discarded" in told
    file = tmp_path / "mended.hl7"
    file.write_bytes(message("C3", "RB-2"))
    assert "edited PID-7" in await said(rig, "messages", "edit", "3", "--file", str(file), "--dry-run")
    done = await cli(rig, "messages", "edit", "1", "--set", "PID-3=")
    assert (done.code, "no-identity" in done.out) == (1, True)


async def test_a_file_is_read_in_the_character_set_of_its_channel(rig: Rig, tmp_path: Path) -> None:
    """MSH-18 is empty and the channel says ISO 8859-1; a file in UTF-8 is refused, never misread."""
    await configured(rig, charset="8859/1")
    file = tmp_path / "mended.hl7"
    text = message("C2", "RB-2", event="A28", family="Müller").decode()
    file.write_bytes(text.encode("latin-1"))
    edit = ("messages", "edit", "2", "--file", str(file))
    assert "Müller" in await said(rig, *edit, "--dry-run")
    file.write_bytes(text.encode())
    refused = await cli(rig, *edit, "--dry-run")
    assert (refused.code, "is written in UTF-8, and the channel reads 8859/1" in refused.error) == (2, True)


WRONG = {
    ("messages", "replay"): "a filter such as --since",
    ("messages", "replay", "1", "--state", "held"): "not both",
    ("messages", "replay", "--since", "yesterday"): "is not a time",
    ("messages", "replay", "--state", "lost"): "delivered",
    ("messages", "edit", "1"): "--set PID-5.1=TEXT",
    ("messages", "edit", "1", "--set", "PID-5.1"): "says no value",
    ("messages", "edit", "1", "--set", "NOPE=1"): "PID-5.1",
    ("messages", "edit", "1", "--file", "nowhere"): "cannot be read",
}


async def test_wrong_use_is_told(rig: Rig) -> None:
    """Exit 2, and what would do."""
    for arguments, told in WRONG.items():
        done = await cli(rig, *arguments)
        assert (done.code, told in done.error) == (2, True), (arguments, done)


async def test_resolve_says_where_a_release_is_enough(rig: Rig) -> None:
    """Of two records one is to be chosen; once they were merged there, the entry is to be released."""
    pair = [await alike(rig) for _ in range(2)]
    await sent(rig, message("C5", "RB-7", event="A28", family="Alike"))
    await rig.until(lambda rows: [row.reason for row in rows[4:]] == ["multiple-matches"])
    assert (await said(rig, "messages", "resolve", "5")).endswith("choose one: --patient ID\n")
    found = await told(rig, "messages", "resolve", "5")
    assert {one["patient"] for one in found["matches"]} == set(pair)
    asked = await cli(rig, "messages", "resolve", "5", "--patient", pair[0], "--json", typed="y\n")
    assert (asked.code, asked.out, "--yes" in asked.error) == (2, "", True)
    await merged(rig, *pair)
    said_now = await said(rig, "messages", "resolve", "5")
    assert said_now.endswith("\none record is left: release the entry (adt-engine messages release 5)\n")


async def test_held_lanes_are_listed_shown_and_released(rig: Rig) -> None:
    """With what waits and whom to call; released in bulk, they are tried again."""
    (row,) = orjson.loads(await said(rig, "lanes", "list", "--json"))
    assert (row["entry"], row["reason"], row["waiting"]) == (2, "missing-required", {"entries": 1, "patients": 1})
    listed = await cli(rig, "lanes", "list")
    assert (listed.out.count("\n"), "call ADT desk" in listed.shown) == (2, True)
    told = await said(rig, "lanes", "show", "2")
    assert "behind it 1 entries of 1 patients" in told
    assert "Quintero" not in told
    assert await said(rig, "lanes", "release", "--reason", "stale", "--yes") == "nothing held matches\n"
    assert "run 1 done" in await said(rig, "lanes", "release", "--reason", "missing-required", "--yes")
    assert "2 is retried now" in await said(rig, "messages", "retry", "2")


async def told(rig: Rig, *arguments: str, code: int = 0) -> Any:
    """Run a command with --json and return what it wrote, which is one value and nothing else."""
    done = await cli(rig, *arguments, "--json")
    assert done.code == code, done
    return orjson.loads(done.out)


async def test_what_is_done_to_entries_is_told_to_programs(rig: Rig) -> None:
    """Each entry with the operation's own answer, or why it was refused; an edit the new entry."""
    (plan,) = await told(rig, "messages", "replay", "2", "--dry-run")
    assert (plan["entry"], plan["destinations"][0]["verdict"]) == (2, "held")
    refused = await told(rig, "messages", "replay", "1", "4", code=1)
    assert refused[0] == {"entry": 1, "destinations": 1}
    assert (refused[1]["entry"], "processing-id" in refused[1]["refused"]) == (4, True)
    plan = await told(rig, "messages", "edit", "2", "--set", "PID-7=19840229", "--dry-run")
    assert [one["path"] for one in plan["differences"]] == ["PID-7"]
    assert await told(rig, "messages", "discard", "2", "--reason", "typo") == [{"entry": 2, "runnable": 1}]
    await rig.until(lambda rows: rows[2].state == "held")
    to = rig.folder / "out.ndjson"
    wrote = await told(rig, "messages", "export", "--to", str(to), "--reason", "ticket")
    assert wrote == {"messages": 4, "to": str(to)}
    made = await told(rig, "messages", "edit", "3", "--set", "PID-7=19840229", "--yes")
    assert (made["entry"], made["parent"]) == (5, 3)


async def test_releases_are_told_to_programs(rig: Rig) -> None:
    """At how many destinations an entry is tried again."""
    assert await told(rig, "messages", "release", "2") == [{"entry": 2, "destinations": 1}]


async def test_bulk_runs_are_told_to_programs(rig: Rig) -> None:
    """The run once it has ended, or the plan where it takes up nothing."""
    run = await told(rig, "messages", "replay", "--event", "A28", "--state", "delivered", "--yes")
    assert (run["run"], run["state"], run["counts"]) == (1, "done", {"delivered": 1})
    assert (await told(rig, "messages", "replay", "--event", "A40", "--yes"))["count"] == 0
    assert (await told(rig, "lanes", "release", "--reason", "stale", "--yes"))["count"] == 0
    run = await told(rig, "lanes", "release", "--reason", "missing-required", "--yes")
    assert (run["run"], run["state"]) == (2, "done")
    assert (await told(rig, "channels", "reload"))["changed"] == []


@pytest.mark.parametrize(
    "words",
    [
        ("messages", "replay", "--event", "A28"),
        ("messages", "edit", "2", "--set", "PID-7=19840229"),
        ("lanes", "release"),
    ],
    ids=" ".join,
)
async def test_a_program_is_asked_nothing(rig: Rig, words: tuple[str, ...]) -> None:
    """With --json a question is wrong use, and nothing is done."""
    done = await cli(rig, *words, "--json", typed="y\n")
    assert (done.code, done.out, "--yes" in done.error) == (2, "", True)
    assert [row.state for row in rig.rows()] == ["delivered", "held", "waiting", "rejected"]


async def test_without_an_engine_each_says_so(rig: Rig) -> None:
    """Only a running engine writes; the next step is named."""
    await rig.engine.stop()
    for arguments in (("messages", "replay", "--state", "held"), ("lanes", "list"), ("messages", "retry", "2")):
        done = await cli(rig, *arguments)
        assert (done.code, "adt-engine run" in done.error) == (1, True)


async def test_a_patient_is_found_and_shown(rig: Rig) -> None:
    """By the number, with the newest entry; then the record, the numbers, what is held, and every message."""
    told = await said(rig, "patients", "find", "RB-2")
    assert "adt-engine patients show --entry 3" in told
    told = await said(rig, "patients", "show", "3")
    for line in ("Held", "missing-required", "At interchange", "RB-2", "Messages"):
        assert line in told, line
    told = await said(rig, "patients", "show", "1")
    assert "active" in told
    assert "current" in told
    assert "adt-engine" not in await said(rig, "patients", "find", "nobody")
    await rig.service.kill()
    assert "interchange does not answer" in await said(rig, "patients", "show", "1")


async def test_a_patient_is_shown_by_a_number_with_what_happened_first(rig: Rig) -> None:
    """By value, by system|value, or by an entry; the verdict is the second line, the same sentence as in --json."""
    for asked in (["RB-2"], [f"{SYSTEM}|RB-2"], ["3"], ["--entry", "3"]):
        lines = (await said(rig, "patients", "show", *asked)).splitlines()
        assert re.fullmatch(
            r"Held behind 2 since [\d: -]+: the destination requires .* \(.*\); 1 message waits", lines[1]
        )
        shown = orjson.loads(await said(rig, "patients", "show", *asked, "--json"))
        assert shown["verdict"] == {"kind": "held", "sentence": lines[1]}
    assert "Delivered: its one message is at interchange, at" in await said(rig, "patients", "show", "RB-1")


async def test_several_who_are_meant_are_listed_and_one_is_chosen(rig: Rig) -> None:
    """A number that is an entry's as well: both are named with how to choose; nobody by that number is said so."""
    await sent(rig, message("C5", "3", event="A28"))
    await rig.until(ended("delivered", "held", "waiting", "rejected", "delivered"))
    done = await cli(rig, "patients", "show", "3")
    assert (done.code, "2 patients are meant" in done.out) == (1, True)
    assert "the patient of entry 3" in done.out
    assert "choose one: adt-engine patients show --entry 5 --lane" in done.out
    assert len(orjson.loads((await cli(rig, "patients", "show", "3", "--json")).out)) == 2
    lines = (await said(rig, "patients", "show", f"{SYSTEM}|3")).splitlines()
    assert lines[1].startswith("Delivered: its one message is at interchange")
    for arguments, error in (
        (["RB-999"], "nobody has this number"),
        ([], "name a patient"),
        (["RB-1", "--entry", "1"], ""),
    ):
        done = await cli(rig, "patients", "show", *arguments)
        assert (done.code, error in done.error) == (2, True), arguments


async def test_patients_are_found_by_parts_at_the_terminal(rig: Rig) -> None:
    """Part of a number; nobody found says what was searched."""
    assert "RB-2" in await said(rig, "patients", "find", "b-2")
    done = await cli(rig, "patients", "find", "giraffe")
    assert (done.code, "nobody found in 4 messages, the oldest of 20" in done.shown) == (0, True), done
    done = await cli(rig, "patients", "find", "zz")
    assert (done.code, done.error) == (2, "type at least 3 characters of a name or number")


async def test_held_work_in_bulk_says_what_is_held_again(rig: Rig) -> None:
    """Before the question and after the run; no discard without a reason; one with it lets who waits go on."""
    told = await said(rig, "lanes", "release", "2", typed="y\n")
    assert "1 would be held again: missing-required (2)" in told
    assert "dry run of the oldest 1, without a write: 0 would be delivered" in told
    assert "2 is held again: missing-required" in told
    done = await cli(rig, "lanes", "discard", "2")
    assert (done.code, "--because TEXT" in done.error) == (2, True)
    assert "1 discarded" in await said(rig, "lanes", "discard", "2", "--because", "ticket 7", "--yes")
    await rig.until(ended("delivered", "discarded", "held", "rejected"))


async def test_what_failed_since_a_time_is_tried_at_the_terminal(rig: Rig) -> None:
    """A dry run changes nothing and asks nothing, as text and as JSON; the time of day is the last one."""
    told = await said(rig, "lanes", "retry", "--since", "1h", "--dry-run")
    assert "dry run of the oldest" in told
    assert "would be held again: missing-required" in told
    plan = orjson.loads(await said(rig, "lanes", "retry", "--since", "12h", "--dry-run", "--json"))
    assert (plan["tried"], plan["deliver"]) == (plan["count"], 0)
    assert plan["count"] > 0
    assert "nothing held matches" in await said(rig, "lanes", "retry", "--since", "2100-01-01", "--dry-run")
    failed = orjson.loads(await said(rig, "messages", "list", "--state", "failed", "--json"))
    assert len(failed["entries"]) == plan["count"]
    assert orjson.loads(await said(rig, "messages", "replays", "--json")) == []


async def test_a_run_is_paused_at_the_terminal(rig: Rig) -> None:
    """By its number; both pause and stop are not one wish."""
    run = (await rig.ask("replays.start", state="delivered", rate=0.01))["done"]["run"]
    (shown,) = orjson.loads(await said(rig, "messages", "replays", "--pause", str(run), "--json"))
    assert shown["state"] == "paused"
    done = await cli(rig, "messages", "replays", "--pause", str(run), "--stop", str(run))
    assert (done.code, "not both" in done.error) == (2, True)
    (shown,) = orjson.loads(await said(rig, "messages", "replays", "--stop", str(run), "--json"))
    assert shown["state"] == "stopped"


async def test_possible_duplicates_are_compared_and_decided(rig: Rig) -> None:
    """A person registered twice: listed, side by side, decided, and open no longer."""
    await sent(rig, message("D1", "RB-8", event="A28", family="QuinteroB"))
    await rig.until(lambda rows: rows[-1].state == "delivered")
    told = await said(rig, "duplicates", "show", "5")
    assert "RB-1" in told
    assert "RB-8" in told
    assert "entry 5: sent" in await said(rig, "duplicates", "decide", "5", "sent", "--reason", "ticket 7")
    assert "sent" in await said(rig, "duplicates", "list", "--show", "sent")
    assert (await cli(rig, "duplicates", "decide", "5", "perhaps")).code == 2

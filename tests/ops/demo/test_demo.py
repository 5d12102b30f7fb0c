"""The demo ends as its samples say, over real processes and sockets."""

import asyncio
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import orjson
import pytest

from engine.ops.demo.demo_days import Days
from engine.ops.demo.way_back import TELEPHONE
from tests.flow.program import Program
from tests.ops.web.person import Person


def _demo(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "engine", "demo", *arguments], cwd=cwd, capture_output=True, timeout=280, check=False
    )


@pytest.mark.smoke
def test_every_sample_ends_as_expected(tmp_path: Path) -> None:
    """`demo --once` runs from any folder, sends every sample and some days, compares all of it, and exits 0."""
    done = _demo("--once", "--json", "--events", "250", "--data", str(tmp_path / "demo"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    told = orjson.loads(done.stdout)
    assert told["as_expected"] == told["of"] == len(told["messages"]) >= 25
    by_file = {one["file"]: one for one in told["messages"]}
    merge = by_file["37-a40-merge.hl7"]
    assert (merge["ack"], merge["outcome"], merge["reason"]) == ("AA", "delivered", "merged")
    assert merge["calls"].startswith("POST Patient/$merge 200")
    refused = by_file["42-a40-self-merge.hl7"]
    assert (refused["ack"], refused["outcome"], refused["calls"]) == ("AE", "rejected", "self-merge")
    days = told["days"]
    assert (days["sent"], days["answers"], days["missing"]) == (250, {"AA": 250}, 0)
    ends = {(one["state"], one["reason"]): one["messages"] for one in days["ends"]}
    assert ends["delivered", "created"] > 20
    assert 240 <= sum(ends.values()) <= 250
    # What was taken in and not filtered is passed on as well, also what the FHIR server's side holds.
    passed = sum(one["outcome"] in {"delivered", "held"} for one in told["messages"])
    passed += sum(count for (state, _), count in ends.items() if state != "filtered")
    assert told["radiology"]["received"] == passed
    lines = (tmp_path / "demo" / "radiology.txt").read_text("utf-8").splitlines()
    assert len(lines) == passed
    assert re.fullmatch(r"\d\d:\d\d:\d\d ADT\^A28 RVB0001, \d+ bytes", lines[0])
    # Of all that changed at the service registration is told what the clinician did, and nothing that the feed did.
    back = told["registration"]
    assert (back["event"], back["echoes"]) == ("A31", 0)
    assert back["own"] > 100
    (pid,) = (segment.split("|") for segment in back["message"] if segment.startswith("PID"))
    assert (pid[3].split("~")[0], pid[13].split("^")[0]) == ("100022^^^RVB^MR", TELEPHONE)
    text = (tmp_path / "demo" / "registration.txt").read_text("utf-8")
    assert [line[2:] for line in text.splitlines()[1:]] == back["message"]


async def test_the_way_to_the_pages_is_shown(tmp_path: Path) -> None:
    """While the demo stays up it shows a link that makes an operator, and a command whose change comes out."""
    arguments = ("demo", "--events", "0", "--rate", "0", "--data", str(tmp_path / "demo"))
    demo = Program(tmp_path, *arguments, forked=False)
    await demo.spawn()
    try:
        async with asyncio.timeout(280):
            while b"Still running" not in (said := b"".join(demo.said)) or b"registration is told\n" not in said:
                assert demo.alive, demo.log()
                await asyncio.sleep(0.1)
        (port, token) = re.findall(rb"http://127\.0\.0\.1:(\d+)/set-up\?name=operator&token=(\S+)", said)[0]
        person = Person(int(port))
        assert (await person.set_up(token.decode(), "operator")).status_code == 303
        assert "riverbend-adt" in (await person.get("/messages")).text
        await person.close()
        (command,) = re.findall(r"change   (curl .*?)\n +changes", said.decode(), re.DOTALL)
        changed = await asyncio.to_thread(subprocess.run, ["bash", "-c", command], capture_output=True, check=False)
        assert changed.returncode == 0, changed.stderr
        async with asyncio.timeout(60):
            while "(555)555-0177" not in (tmp_path / "demo" / "registration.txt").read_text("utf-8"):
                assert demo.alive, demo.log()
                await asyncio.sleep(0.1)
    finally:
        assert await demo.stop() == 0


def test_a_folder_that_is_in_use_is_refused(tmp_path: Path) -> None:
    """The demo starts from nothing and says so where it cannot."""
    (tmp_path / "something").write_text("kept")
    done = _demo("--once", "--data", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 2
    assert b"is not empty" in done.stderr
    assert (tmp_path / "something").read_text() == "kept"


@pytest.mark.parametrize(
    ("answers", "ends", "missing", "good"),
    [
        pytest.param({"AA": 2}, {("delivered", "created"): 1, ("waiting", ""): 1}, 0, True, id="waits behind held"),
        pytest.param({"AA": 1, "AE": 1}, {("delivered", "created"): 2}, 0, False, id="one refused"),
        pytest.param({"AA": 2}, {("delivered", "created"): 1}, 1, False, id="one lost"),
        pytest.param({"AA": 2}, {("received", ""): 2}, 0, False, id="not delivered in time"),
        pytest.param({"no answer": 1}, {}, 0, False, id="no answer"),
    ],
)
def test_what_good_days_are(
    answers: dict[str, int], ends: dict[tuple[str, str], int], missing: int, *, good: bool
) -> None:
    """The days are good where all was taken, kept, and ended or waits behind a held entry."""
    assert Days(2, Counter(answers), Counter(ends), missing).good is good

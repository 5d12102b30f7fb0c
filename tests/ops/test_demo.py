"""The demo ends as its samples say, over real processes and sockets."""

import subprocess
import sys
from pathlib import Path

import orjson
import pytest


def _demo(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "engine", "demo", *arguments], cwd=cwd, capture_output=True, timeout=100, check=False
    )


@pytest.mark.timeout(150)
def test_every_sample_ends_as_expected(tmp_path: Path) -> None:
    """`demo --once` runs from any folder, sends every sample, compares all of it, and exits 0."""
    done = _demo("--once", "--json", "--data", str(tmp_path / "demo"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    told = orjson.loads(done.stdout)
    assert told["as_expected"] == told["of"] == len(told["messages"]) >= 25
    by_file = {one["file"]: one for one in told["messages"]}
    merge = by_file["37-a40-merge.hl7"]
    assert (merge["ack"], merge["outcome"], merge["reason"]) == ("AA", "delivered", "merged")
    assert merge["calls"].startswith("POST Patient/$merge 200")
    refused = by_file["42-a40-self-merge.hl7"]
    assert (refused["ack"], refused["outcome"], refused["calls"]) == ("AE", "rejected", "self-merge")


def test_a_folder_that_is_in_use_is_refused(tmp_path: Path) -> None:
    """The demo starts from nothing and says so where it cannot."""
    (tmp_path / "something").write_text("kept")
    done = _demo("--once", "--data", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 2
    assert b"is not empty" in done.stderr
    assert (tmp_path / "something").read_text() == "kept"

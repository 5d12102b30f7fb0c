"""`adt-engine doctor` as a command."""

import subprocess
import sys
from pathlib import Path

import orjson

CHANNEL = """\
channel: a
listen: {mllp: {host: 127.0.0.1, port: 0}}
destinations:
  - {name: nowhere, base_url: "http://127.0.0.1:9/fhir/R4"}
"""


def doctor(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the doctor on a folder."""
    (folder / "channels").mkdir(exist_ok=True)
    (folder / "channels" / "a.yaml").write_text(CHANNEL)
    return subprocess.run(
        [sys.executable, "-m", "engine", "doctor", "--channels", "channels", "--data", "data", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_what_is_to_be_mended_ends_with_exit_1(tmp_path: Path) -> None:
    """A destination that does not answer is named with its address and the next step."""
    done = doctor(tmp_path, "--json")
    assert done.returncode == 1
    checks = {one["what"]: one for one in orjson.loads(done.stdout)}
    assert checks["destination nowhere"]["standing"] == "mend"
    assert checks["destination nowhere"]["do"].startswith("start it")
    assert checks["port of a"]["standing"] == "ok"
    assert checks["engine"]["found"] == "not running"


def test_alive_asks_only_whether_the_engine_runs(tmp_path: Path) -> None:
    """Without an engine it fails in one line, as a container's health check needs it."""
    done = doctor(tmp_path, "--alive")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "no engine answers on data\n")

"""The commands `mappings diff` and `coverage`, over files and over a journal, which is only read."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.errors import UsageError
from tests.journal.desk import open_desk
from tests.ops.command import group

app = group("mappings")
RUNNER = CliRunner()
HEAD = "MSH|^~\\&|H|R|||20250701093000||ADT^{}|{}|P|2.5.1\r"
PID = "PID|1||RB-1^^^RVB^MR||QUINTERO^MARISOL||19840229|F||||||||{}\r"
CHANNEL = "channel: {}\nlisten: {{mllp: {{port: 2575}}}}\ndestinations: [{{name: d, base_url: http://127.0.0.1:1}}]\n"


def _raw(event: str, control_id: str, married: str = "ZZ") -> bytes:
    return (HEAD.format(event, control_id) + PID.format(married)).encode()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of two messages, with a code that no table has."""
    path = tmp_path / "two.hl7"
    path.write_bytes(_raw("A31", "M1") + _raw("A31", "M2"))
    return path


@pytest.fixture
async def data(tmp_path: Path) -> Path:
    """A journal with an A31 on one channel, an A08 on another, and bytes that are no message."""
    (tmp_path / "data").mkdir()
    async with open_desk(tmp_path / "data") as desk:
        for number, (channel, event) in enumerate([("one", "A31"), ("two", "A08"), ("one", "")]):
            raw = _raw(event, f"M{number}") if event else b"x"
            await desk.record(f"M{number}", channel=channel, event=event, raw=raw)
    return tmp_path / "data"


def test_diff_of_files(file: Path, site: Path) -> None:
    """Both messages lose the element: one group, two messages, one example with its values."""
    text = RUNNER.invoke(app, ["diff", "shipped", str(site), str(file)]).stdout
    assert "element removed:\n       2  Patient.birthDate\n" in text
    assert f"{file} #1: 1984-02-29 -> nothing" in text
    assert "2 messages, 2 come out differently" in text
    assert RUNNER.invoke(app, ["diff", "shipped", str(site), str(file)]).exit_code == 0
    assert RUNNER.invoke(app, ["diff", "shipped", str(site), str(file), "--fail-on-change"]).exit_code == 1
    same = RUNNER.invoke(app, ["diff", str(site), str(site), str(file), "--fail-on-change"])
    assert (same.exit_code, same.stdout) == (0, "2 messages, 0 come out differently\n")


async def test_diff_of_a_journal_shows_values_only_if_told(data: Path, site: Path) -> None:
    """Entries are chosen by filters and named by number; values of patients stay out unless asked for."""
    arguments = ["diff", "shipped", str(site), "--data", str(data), "--json"]
    whole = json.loads(RUNNER.invoke(app, arguments).stdout)
    assert (whole["messages"], whole["unreadable"], whole["differing"]) == (2, 1, 2)
    (change,) = [one for one in whole["changes"] if one["path"] == "Patient.birthDate"]
    assert change == {"kind": "element removed", "path": "Patient.birthDate", "count": 2, "example": "entry 2"}
    some = json.loads(RUNNER.invoke(app, [*arguments, "--event", "A31", "--values"]).stdout)
    assert some["messages"] == 1
    assert "1984-02-29" in json.dumps(some)


async def test_a_channel_chooses_its_entries(data: Path, site: Path, tmp_path: Path) -> None:
    """With a channel file only that channel's entries are read, with its authorities."""
    (tmp_path / "two.yaml").write_text(CHANNEL.format("two"))
    arguments = ["--data", str(data), "--channel", str(tmp_path / "two.yaml"), "--json"]
    found = json.loads(RUNNER.invoke(app, ["coverage", *arguments]).stdout)
    assert [(one["event"], one["count"]) for one in found["outcomes"]] == [("A08", 1)]


def test_coverage_of_files(file: Path) -> None:
    """Unmapped codes with their table and field, elements and rules that were never used."""
    text = RUNNER.invoke(app, ["coverage", str(file)]).stdout
    assert len(text.splitlines()) < 12
    assert re.search(r"\nnever produced: \d+ elements; never used: \d+ rules \(--unused lists them\)\n$", text)
    text = RUNNER.invoke(app, ["coverage", str(file), "--unused"]).stdout
    assert "2 messages\n" in text
    assert "codes that no table has:\n       2  marital-status           ZZ           PID-16\n" in text
    assert "    Patient.deceasedDateTime\n" in text
    assert "patient.yaml:" in text


async def test_coverage_of_a_journal_counts_codes_without_showing_them(data: Path) -> None:
    """A code of the journal is a value: it is counted by table and field."""
    found = json.loads(RUNNER.invoke(app, ["coverage", "--data", str(data), "--json"]).stdout)
    assert {"table": "marital-status", "field": "PID-16", "count": 2} in found["unmapped"]
    assert "ZZ" not in json.dumps(found["unmapped"])
    shown = json.loads(RUNNER.invoke(app, ["coverage", "--data", str(data), "--json", "--values"]).stdout)
    assert {"table": "marital-status", "code": "ZZ", "field": "PID-16", "count": 2} in shown["unmapped"]


def test_files_or_a_journal(file: Path, tmp_path: Path) -> None:
    """Neither, or both, is wrong use; so is a folder that is not there."""
    for wrong in (
        ["coverage"],
        ["coverage", str(file), "--data", str(tmp_path)],
        ["diff", "shipped", "nowhere", str(file)],
    ):
        assert isinstance(RUNNER.invoke(app, wrong).exception, UsageError)

"""`mappings try --destination` of a relay: what would leave, and why."""

import json
from pathlib import Path

import pytest

from engine.errors import ConfigurationError
from tests.ops.cli.mapping.test_filters import HEAD, PID, RUNNER, app, ran

CHANNEL = """\
channel: riverbend
listen: {mllp: {port: 0}}
destinations:
  - {name: wards, base_url: http://127.0.0.1:1}
  - name: radiology
    type: mllp
    host: 127.0.0.1
    port: 1
    send: edited
    control_id: own
    edit:
      - set: {MSH-5: RIS, PV1-2: I}
      - {set: {PID-5.1: Łuk}, when: PID-8 = F}
  - {name: copy, type: mllp, host: 127.0.0.1, port: 2}
filters:
  - {rule: nobody, when: PID-5.1 = NOBODY, do: refuse}
  - {rule: to-radiology, when: PID-5.1 = Okafor, send_to: [radiology]}
"""
ON = ("FOLDER/a.hl7", "--channel", "FOLDER/a.yaml", "--destination")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a channel."""
    (tmp_path / "a.yaml").write_text(CHANNEL)
    return tmp_path


def put(folder: Path, family: str, more: str = "") -> None:
    """Write the message that is tried."""
    (folder / "a.hl7").write_text(
        HEAD.format(id="1").replace("2.5.1", f"2.5.1{more}") + PID.format(id="1", family=family)
    )


def test_what_would_leave_is_shown(folder: Path) -> None:
    """Each step with its place, its differences and its notes; then the segments."""
    put(folder, "Okafor")
    shown = ran(folder, "try", *ON, "radiology")
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert f"  step         1 ({folder}/a.yaml:12)" in lines
    assert "    MSH-5        \N{EM DASH} -> RIS" in lines
    assert "    PV1-2: the message has no PV1" in lines
    assert "  MSH-10       becomes a number of the engine's own" in lines
    assert lines[-2:] == [
        "    MSH|^~\\&|REG|RVB|RIS||20260302080300||ADT^A01|1|P|2.5.1",
        "    PID|1||1^^^RVB^MR||Łuk^Ada||19800101|F",
    ]
    (found,) = json.loads(ran(folder, "try", *ON, "radiology", "--json").stdout)
    assert (found["relay"], found["send"], found["own_control_id"]) == ("radiology", "edited", True)
    assert found["filter"]["send_to"] == ["radiology"]
    assert [one["path"] for one in found["differences"]] == ["MSH-5", "PID-5.1"]
    assert [(one["step"], one["line"], one["held"]) for one in found["steps"]] == [(1, 12, True), (2, 13, True)]
    assert found["segments"] == [line.strip() for line in lines[-2:]]


def test_the_original_leaves_as_it_came(folder: Path) -> None:
    """Without an edit there is nothing to show but that."""
    put(folder, "Okafor")
    assert "copy: the bytes leave as they came in" in ran(folder, "try", *ON, "copy").stdout
    (found,) = json.loads(ran(folder, "try", *ON, "copy", "--json").stdout)
    assert (found["send"], found["differences"], found["steps"]) == ("original", [], [])


def test_what_would_be_held_or_refused_is_no_success(folder: Path) -> None:
    """With the reason and the part; a message that is refused at the door leaves for nobody."""
    put(folder, "Okafor", "||||||8859/1")
    shown = ran(folder, "try", *ON, "radiology")
    assert (shown.exit_code, "edit-value at PID-5.1" in shown.stdout) == (1, True)
    put(folder, "NOBODY")
    assert ran(folder, "try", *ON, "radiology").exit_code == 1


def test_a_faulty_edit_is_told_with_its_place(folder: Path) -> None:
    """As by `channels check`."""
    put(folder, "Okafor")
    (folder / "a.yaml").write_text(CHANNEL.replace("PV1-2: I", "PV1-99: I"))
    shown = RUNNER.invoke(app, ["try", *(word.replace("FOLDER", str(folder)) for word in ON), "radiology"])
    assert isinstance(shown.exception, ConfigurationError)
    assert "a.yaml:12:27: destinations.1.edit.0.set.PV1-99: unknown field PV1-99" in str(shown.exception)

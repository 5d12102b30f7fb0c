"""What every command tells programs: `--json`, one value on standard output and nothing else."""

import json
from pathlib import Path
from typing import Final

from engine.config.settings import shipped
from engine.ops.views.handbook import PAGES
from tests.interchange.nursery import ran
from tests.ops.alone import CHANNEL, write_channel
from tests.ops.command import leaves

# What prints no answer, and why it has no --json.
WITHOUT: Final = {
    "run": "a process, whose log is JSON",
    "interchange": "a process, whose log is JSON",
    "deploy unit": "prints a file",
    "deploy container": "prints a file",
    "deploy compose": "prints a file",
    "deploy kubernetes": "prints a file",
    "deploy grafana": "prints a file",
    "top": "for people to watch: programs ask for status, channels, destinations or metrics",
    "mappings lsp": "a process, which answers an editor in JSON",
    "audit export": "writes rows, as JSON lines or CSV",
    "interchange audit export": "writes rows, as JSON lines or CSV",
}


def test_every_command_that_prints_tells_programs() -> None:
    """A new command has --json, or its reason for none here."""
    without = {words for words, command in leaves() if not any("--json" in param.opts for param in command.params)}
    assert without == set(WITHOUT)


def told(*words: str, code: int = 0) -> object:
    """Run a command with --json and return what it wrote."""
    done = ran(*words, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_pages_are_told() -> None:
    """All of them, or one with its text."""
    pages = told("help")
    assert isinstance(pages, list)
    assert [page["page"] for page in pages] == list(PAGES)
    assert told("help", "repair") == {
        "page": "repair",
        "title": "Repair",
        "purpose": PAGES["repair"].purpose,
        "text": PAGES["repair"].text(),
    }


def test_a_check_is_told(tmp_path: Path) -> None:
    """The channels, and each problem and warning with its place; exit 2 where a check for people has it."""
    assert told("channels", "check", "--channels", str(shipped("channels")), "--offline") == {
        "channels": ["riverbend-adt"],
        "problems": [],
        "warnings": [],
    }
    write_channel(tmp_path, CHANNEL.format(name="a", port=0).replace("timezone", "timezon"))
    found = told("channels", "check", "--channels", str(tmp_path / "channels"), "--offline", code=2)
    assert isinstance(found, dict)
    (problem,) = found["problems"]
    assert (problem["path"], problem["line"], problem["expected"]) == ("timezon", 3, "did you mean timezone?")
    write_channel(tmp_path, CHANNEL.format(name="a", port=0).replace("127.0.0.1:9", "fhir.example"))
    words = ("channels", "check", "--channels", str(tmp_path / "channels"), "--offline")
    (warning,) = told(*words)["warnings"]  # type: ignore[index]
    assert warning["path"] == "destinations.0.base_url"
    assert told(*words, "--strict", code=2)["warnings"] == [warning]  # type: ignore[index]


SERVICE: Final = """\
environment: sandbox
base_url: http://127.0.0.1:0
service_identifier_system: https://cdis.example
tenants: {a: {}}
"""


def test_the_service_is_checked_for_programs_as_well(tmp_path: Path) -> None:
    """As the engine's files are."""
    file = tmp_path / "interchange.yaml"
    file.write_text(SERVICE)
    assert told("interchange", "check", "--config", str(file)) == {"file": str(file), "problems": [], "warnings": []}
    file.write_text(SERVICE.replace("sandbox", "beach"))
    found = told("interchange", "check", "--config", str(file), code=2)
    assert [one["path"] for one in found["problems"]] == ["environment"]  # type: ignore[index]


def test_what_is_made_is_named(tmp_path: Path) -> None:
    """A key file with the variable that names it; charts with their folder."""
    key, charts = tmp_path / "journal.key", tmp_path / "charts"
    assert told("journal", "key", "--out", str(key)) == {"file": str(key), "variable": "ADT_ENGINE_JOURNAL_KEY_FILE"}
    made = told("interchange", "simulate", "--patients", "2", "--facts", "1", "--folder", str(charts))
    assert made == {"charts": 2, "facts": 1, "folder": str(charts)}
    assert len(list(charts.iterdir())) == 2

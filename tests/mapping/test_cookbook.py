"""The cookbook: the files of each answer are written, and its cases run by the mapping that they make."""

import re
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from engine.__main__ import app
from engine.config.channels import load_channels
from engine.config.settings import shipped
from engine.mapping.authoring.case import cases_for, cases_of
from engine.mapping.compile import load
from engine.ops.views.plans import failed_cases
from tests.guides import BLOCK

SHIPPED: Final = shipped("mappings")
PAGE: Final = (SHIPPED / "cookbook.md").read_text("utf-8")
COMMAND: Final = re.compile(r"adt-engine (mappings test [^\n`]+)")
ANSWERS: Final = dict(one.split("\n", 1) for one in PAGE.split("\n## ")[1:])


def files_of(answer: str) -> dict[str, str]:
    """Return the files that an answer shows, by name."""
    return {block["file"] or "": block["text"] for block in BLOCK.finditer(answer)}


def test_the_page_is_long_enough() -> None:
    """Each answer has a file that changes something and a case; the table at the top leads to each."""
    assert len(ANSWERS) >= 15
    for title, answer in ANSWERS.items():
        files = files_of(answer)
        assert [*files][-1].startswith("tests/"), title
        assert len(files) > 1, title
        assert "" not in files, title
        place = re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        assert f"(#{place})" in PAGE.partition("\n## ")[0], title


def written(title: str, folder: Path) -> None:
    """Write the files of an answer, as its reader does."""
    for name, text in files_of(ANSWERS[title]).items():
        file = folder / ("" if name.startswith("channels/") else "my-mappings") / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")


@pytest.mark.parametrize("title", ANSWERS)
def test_an_answer_does_what_it_shows(title: str, tmp_path: Path) -> None:
    """The shown files pass the checks, and each shown message becomes what is shown."""
    written(title, tmp_path)
    cases = cases_of(tmp_path / "my-mappings")
    mapping = load([tmp_path / "my-mappings", SHIPPED], cases[0].mapping or "adt")
    folder = tmp_path / "channels"
    channels = {channel.channel: channel for channel in load_channels(folder)} if folder.is_dir() else {}
    assert cases_for(cases, mapping, channels) == [*cases]
    assert [failed_case.differences for failed_case in failed_cases(cases, mapping, channels)] == []


# What integration analysts asked for, each the title of its answer.
REQUESTS: Final = (
    "Map a Z field",
    "Route by ward",
    "Filter VIP patients",
    "Map local codes",
    "Take the visit number from another field",
    "Strip leading zeros",
    "Take merges from one sender only",
    "Send allergies, too",
    "Send insurance, too",
    "Take the name from Z fields",
    "Map another resource type",
    "Map results of a laboratory",
    "Write to two servers by two mappings",
    "Pass messages on to another system",
    "Use a lookup file",
    "Collapse a storm of updates",
    "A test copy without names",
)


@pytest.mark.parametrize("title", REQUESTS)
def test_an_everyday_request_takes_at_most_15_lines(title: str) -> None:
    """Of YAML; its case, and the rows of a table, aside."""
    files = {name: text for name, text in files_of(ANSWERS[title]).items() if not name.startswith("tests/")}
    lines = [
        line for name, text in files.items() if name.endswith(".yaml") for line in text.splitlines() if line.strip()
    ]
    assert len(lines) <= 15, len(lines)


@pytest.mark.text
@pytest.mark.parametrize("title", REQUESTS)
def test_an_everyday_request_in_the_terminal(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files and the commands of the page are all that is needed."""
    written(title, tmp_path)
    monkeypatch.chdir(tmp_path)
    shown = COMMAND.findall(ANSWERS[title]) or COMMAND.findall(PAGE.partition("\n## ")[0])
    command = shown[0].split()
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert re.search(r"[1-9]\d* cases?, 0 differ", done.output), done.output

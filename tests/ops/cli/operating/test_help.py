"""`adt-engine help`: the pages in a terminal and through a pipe."""

import orjson
import pytest
from rich.console import Console
from typer.testing import CliRunner

from engine.__main__ import app
from engine.errors import UsageError
from engine.ops.cli.operating import help as command
from engine.ops.views.handbook import PAGES

RUNNER = CliRunner()


def test_without_a_page_all_are_listed() -> None:
    """Each with one line of what it is for."""
    done = RUNNER.invoke(app, ["help"])
    assert done.exit_code == 0
    for page in PAGES.values():
        assert any(line.split() == [page.name, *page.purpose.split()] for line in done.stdout.splitlines()), page.name


def test_a_pipe_gets_the_markdown() -> None:
    """What is piped is the page as written, without the marks of generated tables."""
    done = RUNNER.invoke(app, ["help", "alerts"])
    assert done.stdout.startswith("# Alerts\n")
    assert "| `webhook.url` |" in done.stdout
    assert "<!--" not in done.stdout


def test_a_terminal_gets_a_page_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headings and tables are drawn, and a link says which page to ask for; a reason stands as its code."""
    console = Console(force_terminal=True, width=100, record=True)
    monkeypatch.setattr(command, "output", lambda: console)
    command.help_(["control"])
    told = " ".join(console.export_text().split())
    assert "hold-storm). Fix the cause" in told
    assert "](" not in told
    command.help_(["upgrade"])
    assert "the way back is the backup (help backup)." in " ".join(console.export_text().split())


@pytest.mark.parametrize(("typed", "meant"), [("replair", "repair"), ("dayone", "day-one"), ("xyzzy", "valid here: ")])
def test_an_unknown_page_names_the_nearest(typed: str, meant: str) -> None:
    """A page that is not there ends as wrong use, and says which one may be meant."""
    done = RUNNER.invoke(app, ["help", typed])
    assert isinstance(done.exception, UsageError)
    assert meant in str(done.exception)


def test_words_find_sections() -> None:
    """Words that name no page are searched: page, heading and line of each section that holds them all."""
    done = RUNNER.invoke(app, ["help", "hold", "storm"])
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows[0] == ["Page", "Section", "Says"]
    assert rows[1][:2] == ["reasons", "Reasons"]
    assert rows[1][2].startswith("hold-storm")
    assert ["control", "What stops by itself"] in [row[:2] for row in rows]
    assert "adt-engine help reasons" in done.stderr


def test_a_long_list_is_cut_off_and_says_so() -> None:
    """A frequent word shows the best sections, and how many more there are; JSON has all."""
    done = RUNNER.invoke(app, ["help", "patient"])
    found = orjson.loads(RUNNER.invoke(app, ["help", "patient", "--json"]).stdout)
    assert len(done.stdout.splitlines()) == command.SHOWN + 1
    assert f"{len(found) - command.SHOWN} more sections hold this word" in done.stderr
    assert {*found[0]} == {"page", "section", "excerpt"}


@pytest.mark.parametrize("typed", [["day-one"], ["day", "one"], ["Day", "One"]])
def test_a_page_may_be_named_in_words(typed: list[str]) -> None:
    """A page's name is no search, whether it is written with a hyphen or a blank."""
    assert RUNNER.invoke(app, ["help", *typed]).stdout.startswith("# Day one\n")

"""`adt-engine help`: the pages in a terminal and through a pipe."""

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
    command.help_("control")
    told = " ".join(console.export_text().split())
    assert "hold-storm). Fix the cause" in told
    assert "](" not in told
    command.help_("upgrade")
    assert "the way back is the backup (help backup)." in " ".join(console.export_text().split())


@pytest.mark.parametrize(("typed", "meant"), [("replair", "repair"), ("dayone", "day-one"), ("xyzzy", "valid here: ")])
def test_an_unknown_page_names_the_nearest(typed: str, meant: str) -> None:
    """A page that is not there ends as wrong use, and says which one may be meant."""
    done = RUNNER.invoke(app, ["help", typed])
    assert isinstance(done.exception, UsageError)
    assert meant in str(done.exception)

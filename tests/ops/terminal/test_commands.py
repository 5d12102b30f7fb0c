"""The tables of commands: what they say is what the commands say, and help, version and lists import what they need."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from engine.__main__ import app
from engine.terminal.lazy_group import Command, LazyGroup, load
from tests.interchange.nursery import ran
from tests.journal.desk import open_desk

# What takes long to import, and neither `--help` nor `--version` needs.
HEAVY = {"asyncio", "cryptography", "fhir", "hl7apy", "joserfc", "lxml", "prometheus_client", "pydantic", "ssl"}
HEAVY |= {"starlette", "structlog", "twisted", "uvicorn", "yaml", "engine.ops.operations", "engine.pipeline"}
# What `messages list` needs: its request is a model of pydantic, and a journal may be sealed.
OF_LIST = {"asyncio", "cryptography", "pydantic", "ssl", "engine.ops.operations"}


def _listed(group: Any, context: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Command, Any]]:
    for name, one in group.listed.items():
        command = group.get_command(context, name)
        yield (*words, name), one, command
        if isinstance(command, LazyGroup):
            yield from _listed(command, context, (*words, name))


def _all() -> dict[str, tuple[Command, Any]]:
    root = typer.main.get_command(app)
    with root.make_context("adt-engine", ["--help"], resilient_parsing=True) as context:
        return {" ".join(words): (one, command) for words, one, command in _listed(root, context)}


ALL = _all()


@pytest.mark.parametrize("words", ALL)
def test_a_line_of_the_table_is_the_first_of_the_command(words: str) -> None:
    """Of a group that its module makes, it is what the module says of the group."""
    line, command = ALL[words]
    said = load(line.place).info.help if line.commands and line.place else command.help
    assert line.help == said.partition("\n\n")[0]


@pytest.mark.parametrize("words", [words for words, (line, _) in ALL.items() if line.commands and line.place])
def test_the_table_has_every_command_of_a_module(words: str) -> None:
    """A command that the module's application has, and the table has not, could not be called."""

    def names(group: Any) -> dict[str, Any]:
        return {name: names(one) for name, one in group.commands.items()} if getattr(group, "commands", {}) else {}

    def tabled(line: Command) -> dict[str, Any]:
        return {name: tabled(one) for name, one in line.commands.items()}

    line, _ = ALL[words]
    assert tabled(line) == names(typer.main.get_group(load(line.place)))


@pytest.mark.parametrize("words", ["", *(words for words, (line, _) in ALL.items() if line.commands)])
def test_help_shows_every_line(words: str) -> None:
    """With the words of the table, whatever the width."""
    shown = CliRunner().invoke(app, [*words.split(), "--help"], env={"COLUMNS": "300"}).stdout
    lines = {name: one for name, (one, _) in ALL.items() if name.rpartition(" ")[0] == words}
    assert lines
    for name, one in lines.items():
        assert f"{name.rpartition(' ')[2]} " in shown
        assert one.help.replace("`", "") in shown.replace("`", "")


def test_a_mistyped_command_is_told_with_the_nearest() -> None:
    """In a group as at the top, and nothing is imported for it."""
    done = CliRunner().invoke(app, ["messages", "lst"])
    assert done.exit_code == 2
    assert "Did you mean 'list'?" in done.output
    assert "Did you mean 'messages'" in CliRunner().invoke(app, ["massages"]).output


def _imported(*arguments: str) -> set[str]:
    """Return what a command imports, in a process of its own."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('imported', *sys.modules, file=sys.stderr))\n"
        "from engine.__main__ import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.partition("imported ")[2].split())


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_import_no_command(option: str) -> None:
    """Nor what takes long."""
    found = _imported(option)
    assert not found & HEAVY
    assert {one for one in found if one.startswith("engine.ops.cli.")} == {"engine.ops.cli.commands"}


@pytest.mark.parametrize("group", ["messages", "users token", "interchange", "interchange jobs"])
def test_the_help_of_a_group_imports_no_command_of_it(group: str) -> None:
    """The service's options are in the module of its table."""
    found = _imported(*group.split(), "--help")
    assert not found & (HEAVY - {"pydantic"})  # typer reads options with it
    assert {one for one in found if one.startswith(("engine.ops.", "engine.interchange.app.commands."))} <= {
        "engine.ops.cli",
        "engine.ops.cli.commands",
        "engine.interchange.app.commands.interchange",
    }


async def test_a_list_of_messages_imports_no_engine(tmp_path: Path) -> None:
    """Neither the engine, nor another command, nor the compiler of mappings."""
    async with open_desk(tmp_path) as desk:
        await desk.record("c1", ("s|1",))
    found = _imported("messages", "list", "--data", str(tmp_path))
    assert not found & (HEAVY - OF_LIST)
    assert not found & {"engine.mapping.compile", "engine.ops.operations.table"}
    assert "engine.ops.cli.messages.listing" in found
    assert "engine.ops.cli.messages.showing" not in found


def test_completion_offers_the_names_of_the_table() -> None:
    """Of a group within a group too."""
    asked = {"COMP_WORDS": "adt-engine users token r", "COMP_CWORD": "3", "_ADT_ENGINE_COMPLETE": "complete_bash"}
    assert ran(environment=asked).stdout.split() == ["revoke"]

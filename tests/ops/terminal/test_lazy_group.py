"""What holds for all commands: -h, the nearest name for a mistyped one, the data folder of the environment."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.__main__ import app
from engine.config.settings import DATA_VARIABLE
from tests.interchange.nursery import ran
from tests.ops.command import leaves

# Whose `--data` is no data folder of an engine that stands somewhere: a new one, and one of several sources.
OTHER_DATA = {"demo", "mappings diff", "mappings coverage", "channels check"}


def test_every_command_takes_h() -> None:
    """As everybody tries it first."""
    runner = CliRunner()
    wrong = [words for words, _ in leaves() if "Usage" not in runner.invoke(app, [*words.split(), "-h"]).stdout]
    assert wrong == []
    assert "Usage" in runner.invoke(app, ["-h"]).stdout


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [
        ("lanez", "lanes"),
        ("messages lst", "list"),
        ("mappings tst", "test"),
        ("interchange orders lisst", "list"),
        ("messages list --sinse", "--since"),
    ],
)
def test_a_mistyped_word_is_told_with_the_nearest(typed: str, nearest: str) -> None:
    """Exit 2, and what was probably meant: of commands that are read late as of others."""
    done = CliRunner().invoke(app, typed.split())
    assert done.exit_code == 2
    assert nearest in done.output.partition("Error")[2].partition(typed.rsplit(maxsplit=1)[-1])[2]


def test_what_is_nothing_like_a_command_gets_no_advice() -> None:
    """Only the way to the help."""
    done = CliRunner().invoke(app, ["qqq"])
    assert done.exit_code == 2
    assert "No such command 'qqq'." in done.output
    assert "Did you mean" not in done.output


def test_the_data_folder_of_the_environment_is_that_of_every_command(tmp_path: Path) -> None:
    """`--data` goes before it."""
    options = {words: param for words, command in leaves() for param in command.params if "--data" in param.opts}
    assert len(options) > 30
    assert {words for words, one in options.items() if one.envvar != DATA_VARIABLE} == OTHER_DATA
    there = {DATA_VARIABLE: str(tmp_path / "there")}
    assert f"no journal in {tmp_path / 'there'}" in ran("messages", "list", environment=there).stderr
    told = ran("messages", "list", "--data", str(tmp_path / "here"), environment=there).stderr
    assert f"no journal in {tmp_path / 'here'}" in told

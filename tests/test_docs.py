"""The README says what is so: every command, setting, metric and file that it names, and the blocks it shows."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import typer.main
from pydantic import BaseModel
from typer.testing import CliRunner

from engine import telemetry
from engine.__main__ import app
from engine.config.alerting import Alerting
from engine.config.channel import Channel
from engine.config.reference import setting_rows, settings_table
from engine.config.service import ServiceConfiguration

ROOT: Final = Path(__file__).parent.parent
README: Final = (ROOT / "README.md").read_text()


def _between(mark: str) -> str:
    return README.split(f"<!-- {mark} -->\n", 1)[1].split(f"<!-- /{mark} -->", 1)[0].strip()


def _commands() -> list[str]:
    root = typer.main.get_command(app)
    found = []
    with root.make_context("adt-engine", ["--help"], resilient_parsing=True) as context:
        for name in root.list_commands(context):  # type: ignore[attr-defined]
            command = root.get_command(context, name)  # type: ignore[attr-defined]
            children = command.list_commands(context) if hasattr(command, "list_commands") else []
            found += [name, *(f"{name} {child}" for child in children)]
    return found


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("mark", "model"), [("settings", Channel), ("service settings", ServiceConfiguration), ("alert settings", Alerting)]
)
def test_the_table_of_settings_is_the_one_of_the_models(mark: str, model: type[BaseModel]) -> None:
    """Key, default, unit and meaning are generated; after a change, paste `settings_table(model)` between the marks."""
    assert _between(mark) == settings_table(model).strip()
    assert all(row.meaning for row in setting_rows(model))


@pytest.mark.parametrize("command", _commands())
def test_every_command_is_in_the_readme(command: str) -> None:
    """Whoever reads the README knows all commands."""
    assert f"adt-engine {command}" in README


@pytest.mark.parametrize("command", _commands())
def test_every_command_has_help_with_an_example(command: str) -> None:
    """`--help` works for each command, and the ones that do something show an example."""
    done = CliRunner().invoke(app, [*command.split(), "--help"], prog_name="adt-engine")
    assert done.exit_code == 0
    if "Commands" not in done.stdout or command == "interchange":
        assert "Example" in done.stdout


def test_every_metric_is_in_the_readme() -> None:
    """Each metric's name stands in the operating section."""
    names = {family.name for family in telemetry.REGISTRY.collect()}
    assert names
    for name in names:
        assert name in README, name


def test_every_path_is_there() -> None:
    """Folders and files that the README names in backquotes exist."""
    for name in re.findall(r"`((?:engine|tests|mappings|channels|samples)/[\w./-]*)`", README):
        assert (ROOT / name).exists(), name


def test_every_section_is_led_to() -> None:
    """The table of what to read names every section, and nothing that is none."""
    prose = re.sub(r"^```.*?^```", "", README, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^##+ (.+)$", prose, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", README)) == anchors - {"promises"}


def test_the_shown_commands_work(tmp_path: Path) -> None:
    """The offline commands of the README run as they stand and end well."""
    shown = [line for block in _blocks("sh") for line in block.splitlines()]
    offline = [
        line.split("#")[0].strip()
        for line in shown
        if line.startswith(("adt-engine mappings try", "adt-engine mappings test"))
    ]
    assert offline
    for line in offline:
        done = subprocess.run(
            [sys.executable, "-m", "engine", *shlex.split(line)[1:]], cwd=ROOT, capture_output=True, check=False
        )
        assert done.returncode == 0, (line, done.stderr.decode())


def test_the_test_command_of_ci_is_the_readmes() -> None:
    """CI runs what a reader would run."""
    command = "-m pytest"
    assert command in README
    assert command in (ROOT / ".ci" / "run").read_text()


def test_every_log_line_of_the_service_is_in_the_readme() -> None:
    """Whoever is on call finds each event of the service's log, with what to do."""
    sources = [file.read_text() for file in (ROOT / "engine/interchange/http").glob("*.py")]
    events = {name for text in sources for name in re.findall(r'logger\(\)\.\w+\(\s*"([^"]+)"', text)}
    assert len(events) > 8
    for name in events:
        assert f"`{name}`" in README, name

"""Commands of `adt-engine`, as a process and within the test's own."""

import asyncio
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import typer
from typer.testing import CliRunner

from engine.__main__ import app as adt_engine
from engine.errors import AdtEngineError
from engine.ops.cli.commands import COMMANDS
from engine.terminal.lazy_group import Command, LazyGroup, nothing
from tests.interchange.nursery import ran


async def command(
    *arguments: str, data: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command on a data folder to its end; `environment` is added to that of the tests."""
    return await asyncio.to_thread(ran, *arguments, "--data", str(data), environment=environment)


def invoked(app: typer.Typer, *arguments: str) -> tuple[int, str]:
    """Run a command here; return exit code and standard output. An error of ours is raised, as `main` expects."""
    result = CliRunner().invoke(app, list(arguments))
    if isinstance(result.exception, AdtEngineError):
        raise result.exception
    return result.exit_code, result.stdout


def group(name: str) -> typer.Typer:
    """Return a group of the table of commands as an application of its own."""

    class Listed(LazyGroup):
        table: ClassVar[Mapping[str, Command]] = COMMANDS[name].commands

    return typer.Typer(cls=Listed, callback=nothing)


def leaves() -> Iterator[tuple[str, Any]]:
    """Yield every command that does something, by its words: `messages list`, `users token add`."""
    root = typer.main.get_command(adt_engine)
    with root.make_context("adt-engine", ["--help"], resilient_parsing=True) as context:
        yield from _below(root, context, ())


def _below(command: Any, context: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "list_commands"):
        yield " ".join(words), command
        return
    if command.invoke_without_command:
        yield " ".join(words), command
    for name in command.list_commands(context):
        yield from _below(command.get_command(context, name), context, (*words, name))

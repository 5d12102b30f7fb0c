"""Commands of `adt-engine`, as a process and within the test's own."""

import asyncio
import subprocess
from pathlib import Path

import typer
from typer.testing import CliRunner

from engine.errors import AdtEngineError
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

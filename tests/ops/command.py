"""Commands of `adt-engine`, as a process and within the test's own."""

import asyncio
import subprocess
import sys
from pathlib import Path

import typer
from typer.testing import CliRunner

from engine.errors import AdtEngineError


async def command(
    *arguments: str, data: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command on a data folder to its end, by default in this process's environment."""
    line = [sys.executable, "-m", "engine", *arguments, "--data", str(data)]
    return await asyncio.to_thread(
        subprocess.run, line, capture_output=True, text=True, timeout=60, check=False, env=environment
    )


def invoked(app: typer.Typer, *arguments: str) -> tuple[int, str]:
    """Run a command here; return exit code and standard output. An error of ours is raised, as `main` expects."""
    result = CliRunner().invoke(app, list(arguments))
    if isinstance(result.exception, AdtEngineError):
        raise result.exception
    return result.exit_code, result.stdout

"""Planting: a copy of the project with one bug in it, and whether its tests die of that."""

import os
import shutil
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Final

from tests.seeded.bugs import Bug

ROOT: Final = Path(__file__).resolve().parents[2]
PARTS: Final = (
    "engine", "mappings", "channels", "samples", "tests", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE",
)  # fmt: skip
SECONDS: Final = 900


class Fate(StrEnum):
    """What became of a bug, or of the tests without one."""

    CAUGHT = "caught"
    HUNG = "hung"
    SURVIVED = "SURVIVED"


def copied(folder: Path) -> Path:
    """Copy the project into a folder that is to be, and return it."""
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / part)
    return folder


def planted(text: str, bug: Bug) -> str:
    """Return a file's text with a bug in it; ValueError where it does not stand there exactly once."""
    if text.count(bug.was) != 1:
        raise ValueError(f"{bug.file}: {bug.harm}: the text to change stands there {text.count(bug.was)} times")
    return text.replace(bug.was, bug.now)


def fate_of(bug: Bug, copy: Path) -> Fate:
    """Plant a bug in a copy, run its tests, take the bug out, and say what became of it."""
    path = copy / "engine" / bug.file
    sound = path.read_text(encoding="utf-8")
    path.write_text(planted(sound, bug), encoding="utf-8")
    try:
        return Fate.SURVIVED if passes(copy, bug.tests) else Fate.CAUGHT
    except subprocess.TimeoutExpired:
        return Fate.HUNG
    finally:
        path.write_text(sound, encoding="utf-8")


def passes(copy: Path, tests: tuple[str, ...]) -> bool:
    """Say whether these tests (paths below tests/) pass in a copy; subprocess.TimeoutExpired after a quarter hour."""
    alone = ("-n", "0", "-p", "no:cacheprovider", "-p", "no:randomly", "--hypothesis-profile", "seeded")
    command = [sys.executable, "-m", "pytest", "-q", "-x", *alone]
    named = [f"tests/{test}" for test in tests]
    around = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*command, *named], cwd=copy, env=around, timeout=SECONDS, capture_output=True, check=False, text=True
    )
    if done.returncode not in {0, 1}:
        raise RuntimeError(f"pytest could not run {' '.join(named)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 0

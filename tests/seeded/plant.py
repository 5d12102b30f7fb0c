"""Planting: a copy of the project with one bug in it, and whether its tests fail of that."""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

from tests.seeded.bug import Bug

ROOT: Final = Path(__file__).resolve().parents[2]
PARTS: Final = (
    "engine", "mappings", "channels", "samples", "tests", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE",
)  # fmt: skip
SECONDS: Final = 900
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


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
    """Return a module's text with a bug in it; ValueError where the change does not have exactly one place."""
    tree = ast.parse(text)
    try:
        top, function = _defined(tree, bug.name)
        bug.change.apply(function)
    except ValueError as error:
        raise ValueError(f"{bug.function}: {bug.harm}: {error}") from error
    lines = text.splitlines(keepends=True)
    decorators = top.decorator_list if isinstance(top, _Definition) else []
    first = min(node.lineno for node in (top, *decorators)) - 1
    changed = ast.unparse(ast.fix_missing_locations(top))
    return "".join([*lines[:first], f"{changed}\n", *lines[top.end_lineno :]])


def _defined(tree: ast.Module, name: str) -> tuple[ast.stmt, ast.stmt]:
    """Return the statement of a module that defines a name or has its definition within, and that definition."""
    found: list[ast.stmt] = []
    scope: ast.AST = tree
    for part in name.split("."):
        several = [node for node in _statements(scope) if _name_of(node) == part]
        if len(several) != 1:
            raise ValueError(f"{part} is defined {len(several)} times")
        scope = several[0]
        found.append(several[0])
    (top,) = [node for node in tree.body if any(inner is found[0] for inner in ast.walk(node))]
    return top, found[-1]


def _statements(scope: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements of a scope, those within `if`, `for`, `with` and `try` too."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, _Definition):
            yield from _statements(node)


def _name_of(node: ast.stmt) -> str:
    if isinstance(node, _Definition):
        return node.name
    target = (
        node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
    )
    return target.id if isinstance(target, ast.Name) else ""


def fate_of(bug: Bug, copy: Path) -> Fate:
    """Plant a bug in a copy, run its tests, take the bug out, and say what became of it."""
    path = copy / bug.file
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

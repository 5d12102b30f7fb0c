"""A laboratory's file read whole: what it says, and every problem in it and in its table."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.config.source import Looked, look, scan
from engine.errors import ConfigurationError, Problem
from engine.interchange.orders.compendium.files.authored import Authored, AuthoredLaboratory, Orderable, TestTable
from engine.interchange.orders.compendium.files.examine import Asking, FileCheck
from engine.interchange.orders.compendium.files.table import look_at_table

MAX_BYTES: Final = 16_777_216
# A file that was read, and its tests.
Part = tuple[Looked[Authored] | Looked[TestTable], tuple[Orderable, ...]]


@dataclass(frozen=True, slots=True)
class Compendium:
    """What a file says: a laboratory, and its tests in their order."""

    laboratory: AuthoredLaboratory
    tests: tuple[Asking, ...]


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file that was read: what it says where it says anything, every problem, and what is rarely meant."""

    compendium: Compendium | None
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...] = ()


def load_file(path: Path) -> Compendium:
    """Return what a laboratory's file says; ConfigurationError holds every problem in it and in its table."""
    read = read_file(path)
    if read.problems or read.compendium is None:
        raise ConfigurationError(read.problems)
    return read.compendium


def read_file(path: Path) -> ReadFile:
    """Read a laboratory's file, and the table that it names; a path in it goes from the file's folder."""
    try:
        looked = look(scan(path, MAX_BYTES), Authored)
    except ConfigurationError as error:
        return ReadFile(None, error.problems)
    if looked.value is None:
        return ReadFile(None, looked.problems)
    problems = list(looked.problems)
    sources: list[Part] = [(looked, looked.value.tests)]
    if looked.value.table:
        try:
            table = look_at_table(path.parent / looked.value.table)
            problems += table.problems
            sources.append((table, table.value.tests if table.value else ()))
        except ConfigurationError as error:
            problems += error.problems
    examined = FileCheck(looked.value)
    problems += looked.located(examined.sets())
    for one, tests in sources:
        problems += one.located(examined.tests(one.source, tests))
    said = tuple(examined.asking(test) for _, tests in sources for test in tests)
    warnings = tuple(looked.located(examined.warnings()))
    return ReadFile(Compendium(looked.value.laboratory, said), tuple(sorted(problems, key=_place)), warnings)


def _place(problem: Problem) -> tuple[str, int, int]:
    return problem.file, problem.line, problem.column

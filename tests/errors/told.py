"""What authors were told, by which broken files, and which statements of the code told it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from coverage import Coverage

from engine.config.source import AuthoredFile
from engine.errors import Problem
from tests.errors.sites import ROOT, Site, asked, modules, sites


class Told(NamedTuple):
    """One problem that a row of broken files provoked; `text`: the author's file that it names, None for none."""

    row: str
    problem: Problem
    text: str | None


def told(row: str, folder: Path, problems: tuple[Problem, ...]) -> list[Told]:
    """Return problems with the text of the file that each names below the author's folder."""
    return [Told(row, problem, _text(problem.file, folder)) for problem in problems]


def _text(file: str, folder: Path) -> str | None:
    path = folder / file
    if not path.is_relative_to(folder):
        return None
    return path.read_text("utf-8", "replace") if path.is_file() else ""


def rows_of(test: Any) -> list[tuple[Any, ...]]:
    """Return the rows that a test of broken files is parametrized with."""
    (mark,) = (one for one in test.pytestmark if one.name == "parametrize")
    return [getattr(row, "values", row) for row in mark.args[1]]


class Reached:
    """Which lines of the rooms were run, and which asked for what a problem was noted of."""

    def __init__(self) -> None:
        # Beside a run that is measured itself, which goes on where this ends.
        self._coverage = Coverage(
            data_file=None, config_file=False, messages=False, include=[str(ROOT / file) for file in modules()]
        )
        self._noting: set[tuple[str, int]] = set()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note what is run in this context."""
        problem = AuthoredFile.problem

        def noted(*given: Any) -> Problem:
            frame = sys._getframe(1)
            while frame is not None and frame.f_code.co_filename.startswith(str(ROOT / "engine")):
                self._noting.add((frame.f_code.co_filename, frame.f_lineno))
                frame = frame.f_back
            return problem(*given)

        with patch.object(AuthoredFile, "problem", noted):
            self._coverage.start()
            try:
                yield
            finally:
                self._coverage.stop()

    def missing(self) -> list[Site]:
        """Return the statements that tell something and were not run, and those that found nothing wrong."""
        data = self._coverage.get_data()
        run = {(file, line) for file in data.measured_files() for line in data.lines(file) or ()}
        return [
            *(site for site in sites() if run.isdisjoint(_lines(site))),
            *(site for site in asked() if self._noting.isdisjoint(_lines(site))),
        ]


def _lines(site: Site) -> set[tuple[str, int]]:
    return {(str(ROOT / site.file), line) for line in range(site.line, site.end + 1)}

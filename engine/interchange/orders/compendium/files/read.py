"""A laboratory's file read whole: what it says, and every problem in it and in its table."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from engine.config.model import Placed, Step, nearest
from engine.config.source import AuthoredFile, Looked, look, scan
from engine.errors import ConfigurationError, Problem
from engine.interchange.orders.compendium.files.asking import faults, ids_of, placed_questions
from engine.interchange.orders.compendium.files.authored import (
    Authored,
    AuthoredLaboratory,
    AuthoredQuestion,
    Orderable,
    TestTable,
)
from engine.interchange.orders.compendium.files.table import look_at_table


@dataclass(frozen=True, slots=True)
class Asking:
    """A test, and all that is asked at its order entry."""

    test: Orderable
    questions: tuple[AuthoredQuestion, ...]


@dataclass(slots=True)
class FileCheck:
    """What one file says in several places, looked at together."""

    authored: Authored
    asked: set[str] = field(default_factory=set)
    # Where each code occurs first: the source, and the number of the test.
    _codes: dict[str, tuple[AuthoredFile, int]] = field(default_factory=dict)
    _known: dict[str, Mapping[str, AuthoredQuestion]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, questions in self.authored.question_sets.items():
            self._known[name] = {one.question.id: one.question for one in placed_questions(questions)}

    def sets(self) -> Iterator[Placed]:
        """Yield what is wrong in the sets of questions, each by itself, and in the defaults."""
        for name, questions in self.authored.question_sets.items():
            yield from _below(("question_sets", name), faults(questions, {}))
        yield from self._names(("defaults", "ask"), self.authored.defaults.ask)

    def tests(self, source: AuthoredFile, tests: Sequence[Orderable]) -> Iterator[Placed]:
        """Yield what is wrong in the tests of one file, given those before."""
        for number, test in enumerate(tests):
            at: tuple[Step, ...] = ("tests", number)
            first = self._codes.setdefault(test.code, (source, number))
            if first[0] is not source or first[1] != number:
                yield (*at, "code"), f"the code {test.code} a second time", f"it is already in {_line(*first)}"
            yield from self._names((*at, "ask"), test.ask or ())
            yield from self._asked(at, test)

    def warnings(self) -> Iterator[Placed]:
        """Yield the sets that no test asks."""
        for name in self.authored.question_sets.keys() - self.asked - {*self.authored.defaults.ask}:
            yield ("question_sets", name), f"the set {name}", "no test asks it: name it at ask, or remove it"

    def asking(self, test: Orderable) -> Asking:
        """Return a test with all that it asks: its sets, then its own questions; and with the default specimen."""
        defaults = self.authored.defaults
        sets = (self.authored.question_sets.get(name, ()) for name in self._sets_of(test))
        whole = (
            test if test.specimen or not defaults.specimen else test.model_copy(update={"specimen": defaults.specimen})
        )
        return Asking(whole, (*(question for one in sets for question in one), *test.questions))

    def _sets_of(self, test: Orderable) -> tuple[str, ...]:
        return self.authored.defaults.ask if test.ask is None else test.ask

    def _names(self, path: tuple[Step, ...], names: Sequence[str]) -> Iterator[Placed]:
        for number, name in enumerate(names):
            if name not in self.authored.question_sets:
                yield (*path, number), f"no set of questions {name}", nearest(name, self.authored.question_sets)
            elif name in names[:number]:
                yield (*path, number), f"the set {name} a second time", "a test asks a set once"
            self.asked.add(name)

    def _asked(self, at: tuple[Step, ...], test: Orderable) -> Iterator[Placed]:
        """Yield what does not fit together in all that a test asks."""
        others: dict[str, AuthoredQuestion] = {}
        taken: dict[str, str] = {}
        for name in dict.fromkeys(self._sets_of(test)):
            for link_id, question in self._known.get(name, {}).items():
                others[link_id] = question
                for one in ids_of(question):
                    if taken.setdefault(one, name) != name:
                        yield (*at, "ask"), f"a question {one} in the sets {taken[one]} and {name}", "ask one of them"
        if not test.questions:
            return
        yield from _below((*at, "questions"), faults(test.questions, others))
        for asked in placed_questions(test.questions, (*at, "questions")):
            for one in ids_of(asked.question):
                if one in taken:
                    yield (*asked.path, "id"), f"the id {one} a second time", f"the set {taken[one]} has it already"


def _below(path: tuple[Step, ...], found: Iterable[Placed]) -> Iterator[Placed]:
    return (((*path, *place), what, expected) for place, what, expected in found)


def _line(source: AuthoredFile, number: int) -> str:
    return f"{source.file}, line {source.place(('tests', number, 'code'))[0]}"


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

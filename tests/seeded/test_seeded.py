"""The table of planted bugs fits the code: `python -m tests.seeded` plants them all, by hand."""

import ast

import pytest

from tests.seeded.bugs import BUGS, Bug
from tests.seeded.plant import ROOT, planted


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.harm)
def test_each_bug_can_be_planted(bug: Bug) -> None:
    """Its place stands in the code once, the code still compiles with it, and differs."""
    sound = (ROOT / "engine" / bug.file).read_text(encoding="utf-8")
    with_bug = planted(sound, bug)
    assert ast.dump(ast.parse(with_bug)) != ast.dump(ast.parse(sound))


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.harm)
def test_the_tests_that_must_die_of_it_are_there(bug: Bug) -> None:
    """Each names at least one test, and no test that is gone."""
    assert bug.tests
    assert [test for test in bug.tests if not (ROOT / "tests" / test).exists()] == []


def test_no_harm_is_told_twice() -> None:
    """Each bug has a harm of its own."""
    assert len({bug.harm for bug in BUGS}) == len(BUGS) >= 40

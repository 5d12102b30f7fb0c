"""The table of planted bugs fits the code: `python -m tests.seeded` plants them all, by hand."""

import ast
import builtins
import symtable
from functools import cache

import pytest

from tests.seeded.bug import BUGS, Bug
from tests.seeded.change import Add, Change, Code, Drop, Invert, Swap, Text, Unwrap, Value
from tests.seeded.plant import ROOT, planted

SOUND = """
LIMITS = frozenset({1, 2})

class Lane:
    def settle(self, entry, limit):
        # the oldest first
        for one in sorted(self.waiting, key=age):
            if one.age > limit and not one.held:
                self.release(one, 'now')
        return self.ended or "none"
"""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.harm)
def test_each_bug_can_be_planted(bug: Bug) -> None:
    """Its change has one place, and the module with it differs, compiles, and reads no name that nothing defines."""
    sound = (ROOT / bug.file).read_text(encoding="utf-8")
    with_bug = planted(sound, bug)
    assert ast.dump(ast.parse(with_bug)) != ast.dump(ast.parse(sound))
    compile(with_bug, bug.file, "exec")
    assert _undefined(with_bug) == _undefined(sound)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.harm)
def test_the_tests_that_must_fail_are_there(bug: Bug) -> None:
    """Each names at least one test, and no test that is gone."""
    assert bug.tests
    assert [test for test in bug.tests if not (ROOT / "tests" / test).exists()] == []


def test_each_harm_is_given_once() -> None:
    """Each bug has a harm of its own."""
    assert len({bug.harm for bug in BUGS}) == len(BUGS) >= 40


@pytest.mark.parametrize(
    ("change", "was", "now"),
    [
        (Drop("self.release(...)"), "self.release(one, 'now')", "pass"),
        (Drop("not one.held"), "one.age > limit and (not one.held)", "one.age > limit"),
        (Drop("one", of="self.release(...)"), "self.release(one, 'now')", "self.release('now')"),
        (Drop("age"), "sorted(self.waiting, key=age)", "sorted(self.waiting)"),
        (Value("one.age > limit", "True"), "one.age > limit", "True"),
        (Value("item.age > most and not item.held", "False"), "one.age > limit and (not one.held)", "False"),
        (Invert("not one.held"), "(not one.held)", "one.held"),
        (Unwrap("self.waiting"), "sorted(self.waiting, key=age)", "self.waiting"),
        (Text("none", "some"), "'none'", "'some'"),
        (Swap("release", "hold"), "self.release", "self.hold"),
        (Swap(">", ">="), "one.age > limit", "one.age >= limit"),
        (Code("item.age > most", "most > item.age + 1"), "one.age > limit", "limit > one.age + 1"),
    ],
    ids=repr,
)
def test_a_change_in_a_function(change: Change, was: str, now: str) -> None:
    """Each kind of change does what it says, whatever the locals are called and however the code is laid out."""
    with_bug = planted(SOUND, Bug("", "engine.lane:Lane.settle", change, ()))
    sound = ast.unparse(ast.parse(SOUND))
    assert sound.count(was) == 1
    assert ast.unparse(ast.parse(with_bug)) == sound.replace(was, now)


def test_a_change_of_a_constant() -> None:
    """An element is added to a constant; what is around keeps its text."""
    added = planted(SOUND, Bug("", "engine.lane:LIMITS", Add("3"), ()))
    assert added == SOUND.replace("{1, 2}", "{1, 2, 3}")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("Lane.settle", Value("self.gone", "0"), "`self.gone` is there 0 times"),
        ("Lane.settle", Swap("one", "two"), "`one` is there 4 times"),
        ("Lane.leave", Drop("one.held"), "leave is defined 0 times"),
    ],
)
def test_a_change_without_one_place_is_refused(name: str, change: Change, message: str) -> None:
    """A place that is gone or not the only one fails, and so does a function that is gone."""
    with pytest.raises(ValueError, match=message):
        planted(SOUND, Bug("", f"engine.lane:{name}", change, ()))


@cache
def _undefined(source: str) -> set[str]:
    top = symtable.symtable(source, "", "exec")
    tables = [top]
    for table in tables:
        tables += table.get_children()
    read = {symbol.get_name() for table in tables for symbol in table.get_symbols() if symbol.is_global()}
    return read - {*top.get_identifiers(), *dir(builtins), "__file__", "__name__"}

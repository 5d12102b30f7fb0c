"""Hints of what would be valid: the nearest name, or five, never a list that nobody reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config.model import MOST_NAMED, folded
from engine.mapping.files.reference import nearest, segments


def test_the_nearest_name_is_named() -> None:
    """One letter wrong."""
    assert nearest("PDI", segments()) == "did you mean 'PID'?"


def test_else_the_five_most_like_it() -> None:
    """And how many there are beside these."""
    hint = nearest("qqqqqq", {f"name-{number}" for number in range(20)})
    assert hint.startswith("expected one of name-")
    assert hint.endswith(" and 15 more")
    assert hint.count(",") == MOST_NAMED - 1


def test_a_short_list_is_told_whole() -> None:
    """Five names; of more how many there are, and where they stand."""
    assert folded(["a", "b", "c", "d", "e"]) == "a, b, c, d, e"
    assert folded(["a", "b", "c", "d", "e", "f"]) == "a, b, c, d, e and 1 more"
    assert folded(["a", "b", "c", "d", "e", "f", "g"], where="here") == "a, b, c, d, e and 2 more (all: here)"


@pytest.mark.parametrize("word", ["", "x" * 1000])
@given(st.lists(st.text(max_size=8), max_size=30))
def test_any_words(word: str, names: list[str]) -> None:
    """Whatever stands in a file."""
    assert isinstance(nearest(word, names), str)

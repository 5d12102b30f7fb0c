"""Texts go to PostgreSQL and come back: what it cannot keep is another character there."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.database.dialect import NUL, with_nul, without_nul

# No surrogates, which no database keeps, nor the character that stands for NUL.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=NUL))


@given(text=TEXTS | TEXTS.map("[{}".format))
def test_a_text_comes_back_as_it_was(text: str) -> None:
    """Whatever it holds, and though it begins as JSON does."""
    assert "\0" not in without_nul(text)
    assert with_nul(without_nul(text)) == text


@given(value=st.recursive(TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
def test_json_comes_back_as_it_was(value: object) -> None:
    """It has no escape that PostgreSQL refuses, and means the same."""
    text = orjson.dumps([value]).decode()
    kept = without_nul(text)
    assert NUL in kept or kept == text
    assert with_nul(kept) == text


@pytest.mark.parametrize("text", ["", '["\\\\u0000"]', f'["{NUL}'])
def test_what_only_looks_like_a_nul_stays(text: str) -> None:
    """An escaped backslash before `u0000` is no NUL."""
    assert without_nul(text) == text

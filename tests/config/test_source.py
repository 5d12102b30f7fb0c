from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config.source import MAX_DEPTH, parse
from engine.errors import ConfigurationError


def test_places_are_of_keys_and_items() -> None:
    """A path's place is its key's, an item's is its own, and an absent path has its nearest ancestor's."""
    source = parse("a:\n  - b: 1\n  - c: 2\n", "f.yaml")
    assert source.place(("a",)) == (1, 1)
    assert source.place(("a", 1, "c")) == (3, 5)
    assert source.place(("a", 1, "d")) == (3, 5)
    assert source.place(("z",)) == (1, 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("NO", "NO", id="norway"),
        pytest.param("1.10", "1.10", id="number"),
        pytest.param("2026-01-01", "2026-01-01", id="date"),
        pytest.param("0x1F", "0x1F", id="hex"),
        pytest.param("'null'", "null", id="quoted-null"),
        pytest.param("''", "", id="quoted-empty"),
        pytest.param("", None, id="empty"),
        pytest.param("~", None, id="tilde"),
        pytest.param("null", None, id="null"),
        pytest.param("NULL", "NULL", id="a-code"),
    ],
)
def test_scalars_stay_as_written(text: str, value: str | None) -> None:
    """What stands in the file is what is read; only nothing, ~ and null are nothing."""
    assert parse(f"key: {text}\n", "f.yaml").value == {"key": value}


def test_nesting_up_to_the_bound_is_read() -> None:
    """The deepest nesting allowed is read, one level more is refused."""
    assert parse("[" * MAX_DEPTH + "]" * MAX_DEPTH, "f.yaml").value is not None
    with pytest.raises(ConfigurationError, match="nesting too deep"):
        parse("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "f.yaml")


def test_all_structural_problems_come_at_once() -> None:
    """Duplicate keys, aliases and tags of one file are listed together."""
    with pytest.raises(ConfigurationError) as raised:
        parse("a: &x 1\na: 2\nb: *x\nc: !tag 3\n? [k]\n: 4\n", "f.yaml")
    found = [problem.found for problem in raised.value.problems]
    assert found == ["duplicate key", "an alias", "the tag !tag", "a key that is no plain word"]


@pytest.mark.parametrize(
    ("text", "line", "column", "found"),
    [
        pytest.param("&x a: 1\n*x : 2\n", 2, 1, "an alias", id="alias-as-key"),
        pytest.param("a: *x\nb: &x 1\n", 1, 4, "an alias", id="alias-before-its-anchor"),
        pytest.param("a: &x 1\na: &x [*x]\nb: *x\n", 2, 1, "duplicate key", id="anchor-twice"),
        pytest.param("a: 1\n---\nb: 1\n", 2, 1, "a second document", id="two-documents"),
        pytest.param(f"a: 1\na: {'[' * 40}{']' * 40}\n", 2, 43, "nesting too deep", id="too-deep-and-left-out"),
        pytest.param(f"{{!t {'[' * 40}{']' * 40}: 1}}\n", 1, 44, "nesting too deep", id="too-deep-in-a-key"),
    ],
)
def test_what_is_refused_is_told_where_it_stands(text: str, line: int, column: int, found: str) -> None:
    """Also within what is left out for another mistake."""
    with pytest.raises(ConfigurationError) as raised:
        parse(text, "f.yaml")
    first = min(raised.value.problems)
    assert (first.line, first.column, first.found) == (line, column, found)


@given(st.binary(max_size=300) | st.text(max_size=300))
def test_no_input_raises_anything_else(text: bytes | str) -> None:
    """Whatever stands in a file, it is read or refused with problems."""
    with suppress(ConfigurationError):
        parse(text, "f.yaml")


def test_marks_of_open_decisions_are_those_of_comments() -> None:
    """Each with its line, column and key; in a value, quoted, folded or plain, the same words are text."""
    text = (
        "# decide: which\n"
        "zone: UTC   # decide: the zone\n"
        "a: '# decide: text'   # decide: é\n"
        "c: |\n  # decide: text\n  more\n"
        "#   row: {x: y}   # decide: a row\r\n"
        "d: 1  # decided: no\n"
    )
    source = parse(text, "f.yaml")
    assert [tuple(mark) for mark in source.marks] == [
        (1, 1, "which"),
        (2, 13, "the zone"),
        (3, 23, "é"),
        (7, 19, "a row"),
    ]
    assert [(one.line, one.path, one.found) for one in source.undecided({3})] == [
        (1, "", "undecided: which"),
        (2, "zone", "undecided: the zone"),
        (7, "", "undecided: a row"),
    ]


@given(st.text(alphabet=st.sampled_from("ab:# -'\"|>\n\u2028é{}[]decide "), max_size=60))
def test_marks_are_found_in_any_text(text: str) -> None:
    """Whatever is around it, a mark in a line of its own is found, in its line, and the value stays the same."""
    with suppress(ConfigurationError):
        before = parse(text, "f.yaml")
        marked = parse(f"# decide: x\n{text}", "f.yaml")
        assert marked.value == before.value
        assert (marked.marks[0].line, marked.marks[0].text) == (1, "x")
        assert len(marked.marks) == len(before.marks) + 1

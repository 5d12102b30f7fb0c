"""The reference of mappings: the committed page is what the tables and examples of the engine make; none is missing."""

from tests.mapping import reference
from tests.mapping.reference import DATA, FUNCTIONS, PLACES


def test_the_committed_page_is_what_is_generated() -> None:
    """Every example is run for it; write the page anew by `python -m tests.mapping.reference`."""
    assert reference.PAGE.read_text("utf-8") == reference.page()


def test_every_function_has_an_example_and_no_other() -> None:
    """The examples are of the functions of the registry."""
    assert DATA["functions"].keys() == FUNCTIONS.keys()


def test_every_key_has_a_meaning_and_no_other() -> None:
    """By place, the meanings are of the keys that the engine takes there."""
    assert {title: sorted(meanings) for title, meanings in DATA["keys"].items()} == {
        place.title: place.keys for place in PLACES
    }


def test_a_function_makes_nothing_only_with_a_warning() -> None:
    """An example shows a result; the one function that makes nothing shows what it warns of."""
    rows = [row for row in reference.functions() if row.endswith("` |") and "`nothing" in row]
    assert [row.split("`")[1] for row in rows] == ["left-out"]


def test_values_are_written_as_yaml_reads_them() -> None:
    """An example of a key can be copied: what YAML would read as something else is quoted."""
    value = {"a": ["x", "b, c", "'MR'", ""], "b": {"c": "d: e", "f": "PID-3 | coded"}}
    text = reference.shown(value)
    assert text == '{a: [x, "b, c", "\'MR\'", ""], b: {c: "d: e", f: PID-3 | coded}}'
    assert reference.parse(text, "text").value == value

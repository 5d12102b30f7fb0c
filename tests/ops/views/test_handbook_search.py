"""A search of the help pages: what is found, what comes first, and the line that is shown of it."""

from pathlib import Path

import pytest

from engine.ops.views import handbook_search
from engine.ops.views.handbook import HelpPage
from engine.ops.views.handbook_search import EXCERPT_CHARACTERS, search
from engine.ops.views.reasons import REASONS

PAGE = """# Fruit

Apples keep for weeks. [Pears](pears.md) do not.

## Keep apples

Put the `apples` in a box, away from pears.

```sh
store apples   # quinces
```

## Reasons

| Code | Means |
|---|---|
| `soft-pear` | a pear is soft |
"""


@pytest.fixture
def _fruit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "fruit.md"
    file.write_text(PAGE)
    monkeypatch.setattr(handbook_search, "PAGES", {"fruit": HelpPage("fruit", "Fruit", "what keeps", file)})


@pytest.mark.usefixtures("_fruit")
@pytest.mark.parametrize(
    ("words", "headings"),
    [
        (["apple"], ["Keep apples", "Fruit"]),
        (["APPLES", "boxes"], ["Keep apples"]),
        (["box pears"], ["Keep apples"]),
        (["pears", "pear"], ["Fruit", "Keep apples", "Reasons"]),
        (["soft-pear"], ["Reasons"]),
        (["pear-soft"], []),
        (["quince"], ["Keep apples"]),
        (["plum"], []),
        (["|"], []),
        (["fruit", "weeks"], ["Fruit"]),
    ],
)
def test_sections_with_all_words_are_found(words: list[str], headings: list[str]) -> None:
    """In any order and number, heading first; the parts of a code follow each other; a comment in a block is text."""
    found = [hit.heading for hit in search(words)]
    assert sorted(found) == sorted(headings)
    assert found[:1] == headings[:1]


@pytest.mark.usefixtures("_fruit")
def test_the_line_is_shown_without_its_marks() -> None:
    """The line with the words, as a reader sees it."""
    assert search(["pears", "weeks"])[0].excerpt == "Apples keep for weeks. Pears do not."
    assert search(["soft-pear"])[0].excerpt == "soft-pear  a pear is soft"


def test_a_long_line_is_cut_around_the_words() -> None:
    """What is shown is short, and holds the word."""
    for hit in search(["checkpoint"]):
        assert len(hit.excerpt) <= EXCERPT_CHARACTERS + 4
    assert "day-one" not in {hit.page for hit in search(["hold-storm"])}


@pytest.mark.parametrize("words", ["old systems", "way back", "echo", "clinician corrects", "except_from", "from-fhir"])
def test_the_way_back_is_found_by_its_words(words: str) -> None:
    """As people would call it."""
    assert "way-back" in {hit.page for hit in search([words])}


@pytest.mark.parametrize("code", ["hold-storm", "ambiguous-identity", "certificate-expired"])
def test_a_reason_is_found_first(code: str) -> None:
    """Its line in the table of reasons is the first answer."""
    first = search([code])[0]
    assert (first.page, first.excerpt.split("  ")[0]) == ("reasons", code)


def test_a_code_is_found_by_its_family() -> None:
    """`http-412` stands in the table as `http-4*`."""
    assert search(["http-412"])[0].excerpt.startswith("http-4*")


def test_every_reason_is_found() -> None:
    """Each code leads to the table of reasons."""
    assert [code for code in REASONS if "reasons" not in {hit.page for hit in search([code])}] == []


def test_a_status_is_found() -> None:
    """A number that a server answered finds the pages that say it."""
    assert {hit.page for hit in search(["412"])} & {"reasons", "servers", "interchange", "fhir-api"}

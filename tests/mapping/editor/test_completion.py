"""Completion in mapping files: what may be written at a place, and that accepting it is what the checker knows."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config.settings import shipped
from engine.mapping.editor.completion import (
    CONDITION_WORDS,
    STAGE_WORDS,
    TERM_WORDS,
    Completions,
    complete,
    function_text,
    signature_of,
)
from engine.mapping.editor.cursor import EditorPosition, cursor_at
from engine.mapping.editor.project import MappingProject
from engine.mapping.language.expression import parse_condition, parse_expression
from engine.mapping.language.functions import FUNCTIONS
from tests.mapping.editor.site import PATIENT, TEXT, marked

SHIPPED = MappingProject((shipped("mappings"), shipped("mappings")))


def completed(line: str, above: str = TEXT, path: Path = PATIENT) -> Completions:
    """Return the completions at the mark in the last line of a file."""
    text, position = marked(above + line)
    return complete(text, position, path, SHIPPED)


def labels(line: str, above: str = TEXT, path: Path = PATIENT) -> set[str]:
    """Return the labels of the completions."""
    return {item.label for item in completed(line, above, path).items}


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        pytest.param("  marital¦", {"maritalStatus", "address", "telecom", "_birthDate"}, id="element"),
        pytest.param("  name: {each: PID-5, ¦", {"as", "when", "family", "given"}, id="key of a flow map"),
        pytest.param("  name:\n    - each: PID-5\n      ¦", {"as", "when", "family"}, id="key of an item"),
        pytest.param("  name: {each: PID-5, as: ¦", {"XPN", "CX"}, id="data type"),
        pytest.param("  x: PID-16 | ¦", {"date", "coded", "else", "when", "XPN", "Practitioner"}, id="stage"),
        pytest.param("  x: PID-16 | date | el¦", {"else", "unless"}, id="second stage"),
        pytest.param("  x: PID-16 | coded(¦", {"administrative-sex", "marital-status"}, id="table"),
        pytest.param("  x: PID-16 | unmapped(yes-no mar¦", {"marital-status"}, id="second table"),
        pytest.param("  x: PID-16 | minutes-after(SCH-¦", {"SCH-9", "SCH-11"}, id="field of a function"),
        pytest.param("  x: PID-16 | when ¦", {"not", "event", "PID", "CX"}, id="term"),
        pytest.param("  x: PID-16 | when PID-8 ¦", {"=", "in", "not in", "starts-with", "and"}, id="test"),
        pytest.param("  x: PID-16 | unless PID-8 = M and ¦", {"not", "PV1"}, id="second term"),
        pytest.param("  name: {each: PID-5, as: XPN, when: ¦", {"not", "event"}, id="condition of a key"),
        pytest.param("  x: ¦", {"PID", "NK1", "XPN"}, id="segment"),
        pytest.param("  x: PID-1¦", {"PID-1", "PID-13"}, id="field"),
        pytest.param("  x: PID-5.¦", {"PID-5.1", "PID-5.2"}, id="component"),
        pytest.param("  x: PID-5.1 | else PID-11.¦", {"PID-11.1"}, id="component of another alternative"),
        pytest.param("  x: PID-9.¦", {"PID-9.1"}, id="component of a withdrawn field"),
        pytest.param("  name: {family: XPN.¦", {"XPN.1", "XPN.2"}, id="part at hand"),
    ],
)
def test_what_may_be_written_is_offered(line: str, offered: set[str]) -> None:
    """Each place offers what the grammar and the schema have there."""
    assert offered <= labels(line)


@pytest.mark.parametrize(
    "line", ["  x: PID-8 | when PID-8 = ¦", "  x: PID-8 | when PID-8 in (M, ¦", "  x: PID-8 | upper(¦"]
)
def test_values_of_the_feed_are_not_guessed(line: str) -> None:
    """Where a value of messages or a word is written, nothing is offered."""
    assert labels(line) == set()


def test_keys_are_those_of_the_kind_of_file() -> None:
    """An event table has its own keys, and the values of a closed set; the resource type is one."""
    table = Path("adt.yaml")
    assert {"events", "identity", "filters"} <= labels("¦", "mapping: adt\n", table)
    assert {"do", "skip"} <= labels("  A01: {¦", "mapping: adt\nevents:\n", table)
    assert {"upsert patient", "merge patient"} <= labels("  A01: {do: ¦", "mapping: adt\nevents:\n", table)
    assert "Patient" in labels("resource: Pat¦", "")
    assert {"keep", "refuse"} & labels("unmapped: ¦", "table: x\n", Path("tables/x.yaml"))


def test_a_field_is_offered_by_its_name_in_the_order_of_the_segment() -> None:
    """PID-5 is the Patient name, before PID-10."""
    items = completed("  x: PID-¦").items
    assert [item.label for item in items[:3]] == ["PID-1", "PID-2", "PID-3"]
    assert next(item.detail for item in items if item.label == "PID-5") == "Patient name XPN"
    assert next(item.detail for item in completed("  x: PID-5.¦").items if item.label == "PID-5.2") == "Given name ST"


def test_the_word_before_and_behind_the_cursor_is_replaced() -> None:
    """The range is that of the whole word."""
    found = completed("  x: PID-16 | da¦te")
    assert (found.start, found.end) == (15, 19)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_is_offered_with_its_signature_and_text(name: str) -> None:
    """What is offered after `|` is the registry, word by word."""
    item = next(one for one in completed("  x: PID-5 | ¦").items if one.label == name)
    function = FUNCTIONS[name]
    assert item.detail == signature_of(name, function)
    assert item.text == function_text(name, function)
    assert function.text in item.text
    assert item.insert == name + "(" * bool(function.tables[0] or function.words)


@pytest.mark.parametrize("word", sorted(CONDITION_WORDS.keys() - {"and", "or"}))
def test_every_word_of_conditions_is_one_of_the_grammar(word: str) -> None:
    """A word that is offered can be read."""
    value = {"exists": "", "in": "(a, b)", "not in": "(a, b)", "matches": "'a.*'"}.get(word, "a")
    ((term,),) = parse_condition(f"PID-8 {word} {value}".strip())
    assert (bool(term.values), term.unlike) == (word != "exists", word in {"!=", "not in"})


def test_the_words_between_terms_and_stages_are_those_of_the_grammar() -> None:
    """`and`, `or`, `not`, `event`, `when`, `unless`, `else`."""
    assert len(parse_condition("PID-8 and not PID-7 or event = A01")) == 2
    assert len(parse_expression("PID-8 | when PID-7 | unless PID-5 | else PID-9")) == 2
    assert {*STAGE_WORDS, *TERM_WORDS} == {"when", "unless", "else", "not", "event"}


@given(
    st.text("abP|:{}[]()'\"- \n.#=,\t~", max_size=80),
    st.integers(-1, 8),
    st.integers(-1, 50),
    st.sampled_from(
        [PATIENT, Path("adt.yaml"), Path("tables/x.yaml"), Path("tests/x.yaml"), Path("datatypes/cx.yaml")]
    ),
)
def test_any_text_is_completed_without_an_error(text: str, line: int, column: int, path: Path) -> None:
    """A file that is being typed is anything; what is replaced is a part of its line."""
    position = EditorPosition(line, column)
    found = complete(text, position, path, SHIPPED)
    lines = text.split("\n")
    own = lines[min(max(line, 1), len(lines)) - 1]
    assert 1 <= found.start <= found.end <= len(own) + 1
    assert own[found.start - 1 : found.end - 1] == cursor_at(text, position).whole_word

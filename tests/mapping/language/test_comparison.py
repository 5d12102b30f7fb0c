"""Comparisons in conditions: order, beginnings, patterns; and that no pattern and no text takes long."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config.settings import shipped
from engine.errors import ConfigurationError
from engine.fhir.plan import Upsert
from engine.hl7.message import Message
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.outcome import patient
from engine.mapping.compile import compile_mapping, read
from engine.mapping.language.comparison import comparison_fault, comparison_of
from engine.mapping.language.expression import Condition, ExpressionError, SegmentPath, Term, parse_condition

Author = Callable[..., Path]
Make = Callable[..., Message]
BORN = "PID|1||1||Zane^A||20080229|M"


def holds(author: Author, message: Make, condition: str, *segments: str) -> bool:
    """Say whether a condition holds in a message: a mapping of a site writes `yes` where it does."""
    text = f'resource: Patient\nextends: shipped/patient\nelements:\n  language: "yes | when {condition}"\n'
    mapping = compile_mapping(read([author(resources__patient=text), shipped("mappings")], "adt"), channel_of({}))
    interaction = mapping.plan(message("A08", *segments)).interactions[0]
    assert isinstance(interaction, Upsert)
    return patient(interaction.patient).get("language") == "yes"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("PID-7 < 2008-03-01", True),
        ("PID-7 < 2008-02-29", False),
        ("PID-7 <= 2008-02-29", True),
        ("PID-7 > 2008-02", False),  # as far as both tell, they are equal
        ("PID-7 >= 2008-02", True),
        ("PID-7 > 2008-01 and PID-7 < 2008-03", True),
        ("not PID-7 < 2008-03-01", False),
        ("PID-29 < 2030-01-01", False),
        ("PID-8 and not PID-29 < 2030-01-01", True),
        ("ZAG-1 >= 18", True),
        ("ZAG-1 > 18.0", False),
        ("ZAG-1 < 18.01", True),
        ("ZAG-2 < 5", False),
        ("ZAG-2 > 5", False),
        ("PID-5.1 starts-with Z", True),
        ("PID-5.1 starts-with z", False),
        ("PID-5.1 not starts-with Z", False),
        ("PID-5.1 ends-with 'ne'", True),
        ("PID-29 starts-with 2", False),
        ("PID-8 and PID-29 not starts-with 2", False),  # no comparison holds of an empty field
        ("PID-8 and not PID-29 starts-with 2", True),  # but what says that it does not
        ("PID-8 and PID-29 != 2", False),
        ("PID-8 and not PID-29 = 2", True),
        ("PID-8 and not PID-29 != 2", True),
        ("PID-8 and PID-29 not in (2, 3)", False),
        ("PID-8 and not PID-29 in (2, 3)", True),
        ("PID-8 and PID-29 not matches '2.*'", False),
        ("PID-8 and PV1-2 != I", False),
        ("PID-8 and not PV1-2 = I", True),
        ("PID-8 and ZAG-3 != I", False),  # a deletion is no value
        ("PID-8 and not ZAG-3 = I", True),
        ("PID-8 and ZAG-3 not starts-with I", False),
        ("PID-8 != F", True),
        ("not PID-8 != F", False),
        ("not PID-8 != M", True),
        ("PID-5.1 matches '[A-Z][a-z]+'", True),
        ("PID-5.1 matches '[A-Z]'", False),
        ("PID-5.1 matches 'a and b|Z.*'", True),
        ("PID-5.1 exists", True),
        ("PID-29 exists", False),
        ("PID-8 in [M, F] and PID-5.1 not in [Doe, Roe]", True),
        ("event starts-with A0", True),
        ("event matches 'A(0[1-7])'", False),
        ("event", True),
        ("not event", False),
    ],
)
def test_what_a_comparison_holds_of(author: Author, message: Make, condition: str, expected: bool) -> None:
    """As the table of conditions says; what is empty, or of another kind, is neither less nor more."""
    assert holds(author, message, condition, BORN, 'ZAG|18|five|""') is expected


@pytest.mark.parametrize(
    ("condition", "found", "expected"),
    [
        ("PID-7 < 2008", "the number 2008 for a date", "2008-01-01"),
        ("ZAG-1 < young", "< 'young'", "a number such as 18"),
        ("PID-5.1 matches '(?=x)'", "the pattern '(?=x)'", "a pattern of RE2"),
        ("PID-5.1 matches '[a'", "the pattern '[a'", "a pattern of RE2"),
        (f"PID-5.1 matches '{'x' * 201}'", "a pattern of 201 characters", "at most 200"),
        ("PID-5.1 starts-with ''", "starts-with without a value", "PID-5.1 starts-with VALUE"),
        ("PID-99 < 5", "unknown field PID-99", "fields 1 to"),
    ],
)
def test_a_comparison_that_is_none_is_told_in_its_place(
    author: Author, message: Make, condition: str, found: str, expected: str
) -> None:
    """File, line, what was found and what would do."""
    with pytest.raises(ConfigurationError) as caught:
        holds(author, message, condition, BORN)
    (problem,) = caught.value.problems
    assert (problem.line, found in problem.found, expected in problem.expected) == (4, True, True), str(problem)


def written(condition: Condition) -> str:
    """Return a condition as an author would write it."""
    return " or ".join(" and ".join(map(str, group)) for group in condition)


TERMS = st.builds(
    Term,
    st.just(SegmentPath("PID", 5, component=1)),
    st.text(st.characters(codec="ascii", categories=("L", "N", "Zs")), min_size=1).map(lambda text: (text.strip(),)),
    st.booleans(),
    st.sampled_from(["starts-with", "ends-with", "matches", "<", ">="]),
).filter(lambda term: bool(term.values[0]))


@given(st.lists(st.lists(TERMS, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple))
def test_what_is_written_is_read_again(condition: Condition) -> None:
    """Words of the grammar within quotes are no words of it."""
    assert parse_condition(written(condition)) == condition


@given(st.sampled_from(["<", "<=", ">", ">=", "starts-with", "ends-with", "matches"]), st.text(max_size=40), st.text())
def test_no_value_and_no_text_makes_it_fail(test: str, value: str, found: str) -> None:
    """A value is refused, or gives a comparison that answers whatever stands in the message."""
    if comparison_fault(Term(SegmentPath("ZZZ", 1), (value,), negated=False, test=test)) is None:
        compare = comparison_of(test, value)
        assert compare(found) in {True, False}
        assert not compare(None)
        assert not compare("\ud800" * 3) or test == "starts-with"


@given(st.text())
def test_no_condition_makes_it_fail(text: str) -> None:
    """It is a condition, or an error that says why."""
    with contextlib.suppress(ExpressionError):
        parse_condition(text)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)+$", "(.*a){20}", "(a*)*(a*)*b"])
def test_a_pattern_that_would_run_away_elsewhere_does_not(pattern: str) -> None:
    """What takes a backtracking engine for ever is done in a moment: in the CPU time of ten thousand characters."""
    compare = comparison_of("matches", pattern)
    before = time.process_time()
    compare("a" * 10_000 + "!")
    assert time.process_time() - before < 1


def test_a_condition_has_a_length() -> None:
    """What a message is held against stays bounded, wherever the condition stands."""
    with pytest.raises(ExpressionError, match="at most 1000"):
        parse_condition("PID-5.1 = " + "x" * 1000)


def test_no_text_keeps_a_pattern_busy() -> None:
    """The costliest pattern took seconds over a text of 1 MiB; one above 10,000 characters is of no pattern."""
    holds, began = comparison_of("matches", "(.*[a-z0-9]){99}.*"), time.process_time()
    assert not holds("ab0 " * 250_000)
    assert time.process_time() - began < 1
    assert comparison_of("matches", "a*")("a" * 10_000)
    assert not comparison_of("matches", "a*")("a" * 10_001)

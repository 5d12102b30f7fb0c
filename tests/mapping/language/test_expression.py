"""The grammar of expressions and conditions."""

import pytest

from engine.mapping.language.expression import (
    Alternative,
    Constant,
    ExpressionError,
    FunctionCall,
    Guard,
    RepetitionPath,
    SegmentPath,
    Term,
    parse_condition,
    parse_expression,
)


@pytest.mark.parametrize(
    ("text", "head"),
    [
        pytest.param("PID-3", SegmentPath("PID", 3), id="field"),
        pytest.param("PID-3(2).4.1", SegmentPath("PID", 3, 2, 4, 1), id="repetition, component, subcomponent"),
        pytest.param("PID-3[CX.5=MR].1", SegmentPath("PID", 3, 0, 1, 0, "CX", 5, "MR"), id="predicate"),
        pytest.param("CX.4.2", RepetitionPath("CX", 4, 2), id="part"),
        pytest.param("XTN", RepetitionPath("XTN"), id="whole repetition"),
        pytest.param("home", Constant("home"), id="word"),
        pytest.param("'MR'", Constant("MR"), id="quoted"),
        pytest.param("'a | b'", Constant("a | b"), id="quoted bar"),
        pytest.param("http://hl7.org/fhir/sid/us-ssn", Constant("http://hl7.org/fhir/sid/us-ssn"), id="URL"),
    ],
)
def test_heads(text: str, head: object) -> None:
    """A head is a path, a word in small letters or quoted text."""
    assert parse_expression(text) == (Alternative(head, ()),)  # type: ignore[arg-type]


def test_alternatives_and_stages() -> None:
    """Alternatives come in order, each with its functions and guards."""
    first, second = parse_expression("PID-29 | datetime | unless PID-30 = N | else XTN.2 | code(telecom-use)")
    assert first.head == SegmentPath("PID", 29)
    guard = Guard(((Term(SegmentPath("PID", 30), ("N",), negated=False),),), unless=True)
    assert first.stages == (FunctionCall("datetime", ()), guard)
    assert second == Alternative(RepetitionPath("XTN", 2), (FunctionCall("code", ("telecom-use",)),))


def test_and_binds_tighter_than_or() -> None:
    """A condition is a list of alternatives, each a list of terms."""
    condition = parse_condition("XTN.3 in (Internet, X.400) and not XTN.1 or event != A08 or XTN.2 not in (PRN)")
    assert condition == (
        (
            Term(RepetitionPath("XTN", 3), ("Internet", "X.400"), negated=False),
            Term(RepetitionPath("XTN", 1), (), negated=True),
        ),
        (Term("event", ("A08",), negated=False, unlike=True),),
        (Term(RepetitionPath("XTN", 2), ("PRN",), negated=False, unlike=True),),
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "PID-",
        "PID7",
        "Pid-3",
        "PID-3 | Date()",
        "PID-3 | f(g(x))",
        "two words",
        "PID-3 |",
        "x" * 1001,
        "PID-3.1.1.1",
    ],
)
def test_what_is_no_expression(text: str) -> None:
    """Anything else is refused with what would do."""
    with pytest.raises(ExpressionError) as caught:
        parse_expression(text)
    assert caught.value.expected

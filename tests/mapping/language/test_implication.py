"""What one condition says of another: what is never reached behind an earlier one, and what never holds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.hl7.message import Message, parse
from engine.mapping.language.comparison import covers, never_holds
from engine.mapping.language.expression import Condition, SegmentPath, Term, parse_condition
from engine.mapping.language.path import check_of
from engine.mapping.language.reading import MessageReading
from tests.tiers import trials


@pytest.mark.parametrize(
    ("earlier", "later", "expected"),
    [
        ("PID-8", "PID-8", True),
        ("PID-5", "PID-5(1).1.1 = ZZ", True),
        ("PID-5.2", "PID-5 = ZZ", False),
        ("PID-8 = F", "PID-8 = F and PID-7", True),
        ("PID-8 = F and PID-7", "PID-8 = F", False),
        ("PID-8 in (F, M)", "PID-8 = M", True),
        ("PID-8 = M", "PID-8 in (F, M)", False),
        ("PID-8 = F or PID-8 = M", "PID-8 = M and PID-7", True),
        ("PID-8 = F", "PID-8 = F or PID-7", False),
        ("PID-5.1 starts-with ZZ", "PID-5.1 starts-with ZZTEST", True),
        ("PID-5.1 starts-with ZZTEST", "PID-5.1 starts-with ZZ", False),
        ("PID-5.1 ends-with TEST", "PID-5.1 ends-with ST", False),
        ("PID-5.1 ends-with ST", "PID-5.1 ends-with TEST", True),
        ("PID-5.1 not starts-with ZZTEST", "PID-5.1 not starts-with ZZ", True),
        ("PID-5.1 matches 'ZZ.*'", "PID-5.1 in (ZZTEST, ZZTOP)", True),
        ("PID-5.1 matches 'ZZ.*'", "PID-5.1 in (ZZTEST, DOE)", False),
        ("PID-7 < 2008-01-01", "PID-7 = 20071231", True),
        ("PID-8 != F", "PID-8 = M", True),
        ("PID-8 not in (F, M)", "PID-8 != F", False),
        ("PID-8 != F", "PID-8 not in (F, M)", True),
        ("not PID-8", "PID-8 = F", False),
        ("PID-8 != F", "not PID-8", False),
        ("not PID-8 = F", "not PID-8", True),
        ("not PID-8 = F", "PID-8 != F", True),
        ("PID-8 != F", "not PID-8 = F", False),
        ("PID-8", "PID-8 != F", True),
        ("PID-8", "not PID-8 = F", False),
        ("not PID-8 != F", "PID-8 = F", True),
        ("event in (A01, A04)", "event = A04 and PV1-2 = O", True),
        ("event", "event = A04", True),
    ],
)
def test_what_holds_wherever_another_does(earlier: str, later: str, expected: bool) -> None:
    """As far as the words of both tell."""
    assert covers(parse_condition(earlier), parse_condition(later)) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("PID-8 = F and PID-8 = M", True),
        ("PID-8 and not PID-8", True),
        ("PID-8 = F and PID-8 != F", True),
        ("PID-8 = F and PID-8 != M", False),
        ("not PID-8 and PID-8 != F", True),
        ("not PID-8 and not PID-8 = F", False),
        ("PID-8 != F and not PID-8 != F", True),
        ("not PID-8 and PID-8 = F", True),
        ("PID-5.1 starts-with ZZ and PID-5.1 starts-with AB", True),
        ("PID-5.1 starts-with ZZ and PID-5.1 starts-with ZZT", False),
        ("PID-5.1 starts-with ZZ and PID-5.1 = DOE", True),
        ("event = A01 and event = A04", True),
        ("PID-8 = F and PID-8 = M or PID-7", False),
        ("PID-5.1 starts-with ZZ and PID-5.1 ends-with AB", False),
    ],
)
def test_what_never_holds(condition: str, expected: bool) -> None:
    """In each alternative two terms exclude each other."""
    assert never_holds(parse_condition(condition)) is expected


TEXTS = ("A", "AB", "ABA", "B", "BA", "2", "10", "20071231", "2008-01", "A01", "A04")
WORDS = ("starts-with", "starts-with", "ends-with", "matches", "<", ">=")
VALUE = st.sampled_from(TEXTS)
SOURCES = st.sampled_from([SegmentPath("PID", 5), SegmentPath("PID", 5, component=1), "event"])
PRESENT = st.builds(Term, SOURCES, st.just(()), st.booleans())
LISTED = st.builds(
    Term, SOURCES, st.lists(VALUE, min_size=1, max_size=3).map(tuple), st.booleans(), st.just(""), st.booleans()
)
PLAIN = PRESENT | LISTED
ONE = VALUE.map(lambda one: (one,))
COMPARED = st.builds(Term, SOURCES, ONE, st.booleans(), st.sampled_from(WORDS), st.booleans())
GROUP = st.lists(PLAIN | COMPARED, min_size=1, max_size=2).map(tuple)
CONDITIONS = st.lists(GROUP, min_size=1, max_size=2).map(tuple)


def holds(condition: Condition, message: Message) -> bool:
    """Say whether a condition holds in a message."""
    return bool(check_of(condition, "").test(None, MessageReading(message, message.groups, None, "")))


def said(event: str, family: str) -> Message:
    """Return a message."""
    return parse(f"MSH|^~\\&|A|B|||2026||ADT^{event}|1|P|2.5\rPID|||||{family}".encode())


MESSAGES = [said(event, family) for event in ("A01", "A04", "A08") for family in (*TEXTS, "", '""', "ABC")]


@pytest.mark.property
@settings(max_examples=trials(400))
@given(CONDITIONS, CONDITIONS)
def test_no_message_shows_it_wrong(earlier: Condition, later: Condition) -> None:
    """Of conditions of all kinds: in every message what is said to cover does, and what never holds does not."""
    covering, never = covers(earlier, later), never_holds(later)
    if covering or never:
        found = [(holds(earlier, one), holds(later, one)) for one in MESSAGES]
        assert not covering or all(first for first, second in found if second)
        assert not never or not any(second for _, second in found)

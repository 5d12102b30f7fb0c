"""What a request names is read in one way: numbers, times and words, from terminal, socket, pages and API."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engine.errors import UsageError
from engine.ops.request import (
    LARGEST,
    alert_of,
    entries_in,
    entry_in,
    entry_of,
    moment_in,
    number_in,
    period_in,
    run_of,
    text_in,
)
from tests.journal.desk import NOW

NO_NUMBERS = [True, False, 0, -1, 1.0, 1.5, 2**63, 2**64, LARGEST + 1, "1", "RB-1", None, [1], {"a": 1}, float("nan")]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_number_of_an_entry_is_refused(value: Any) -> None:
    """From JSON a number is whole, positive, no truth and no text."""
    with pytest.raises(UsageError, match="name an entry by its number, as `messages list` shows it"):
        entry_in({"entry": value})
    with pytest.raises(UsageError, match="number"):
        entries_in({"entries": [1, value]})


@pytest.mark.parametrize(
    "text", ["true", "0", "-1", "+1", "1.0", "1e3", "0x1", "", "1 ", "¹", "٣", "9" * 16, "10" * 50]
)
def test_a_text_names_an_entry_in_plain_digits_only(text: str) -> None:
    """What is typed at the terminal or stands in an address; what else was typed is said again."""
    for read in (entry_of, run_of, alert_of):
        with pytest.raises(UsageError, match=re.escape(f"{text} is none") if len(text) <= 24 else "by its number"):
            read(text)


def test_a_request_is_not_said_again_where_it_may_hold_a_name() -> None:
    """The audit trail keeps why an act was refused: words of a request do not stand there."""
    with pytest.raises(UsageError) as caught:
        entry_in({"entry": "Quintero"})
    assert "Quintero" not in str(caught.value)


def test_numbers_of_entries_are_themselves() -> None:
    """Up to 15 digits; a list in order, each once."""
    assert entry_of("37") == entry_in({"entry": 37}) == 37
    assert entry_of(str(LARGEST)) == LARGEST
    assert entries_in({"entries": [7, 3, 7]}) == (3, 7)
    assert entries_in({}) == ()


def test_other_numbers_have_bounds_and_a_usual_value() -> None:
    """As `limit` has."""
    assert number_in({}, "limit", 50, 1, 100) == number_in({"limit": None}, "limit", 50, 1, 100) == 50
    assert number_in({"limit": 7}, "limit", 50, 1, 100) == 7
    for value in (0, 101, True, 1.0, "7", 2**64):
        with pytest.raises(UsageError, match="--limit is a number from 1 to 100"):
            number_in({"limit": value}, "limit", 50, 1, 100)


def test_a_word_is_text() -> None:
    """Or nothing."""
    assert text_in({}, "channel") == text_in({"channel": None}, "channel") == ""
    for value in (False, 0, ["a"], 7):
        with pytest.raises(UsageError, match="channel must be text"):
            text_in({"channel": value}, "channel")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"since": "2026-03-01T09:30+01:00"}, datetime(2026, 3, 1, 8, 30, tzinfo=UTC), id="with an offset"),
        pytest.param({"since": "2026-03-01T09:30Z"}, datetime(2026, 3, 1, 9, 30, tzinfo=UTC), id="in UTC"),
        pytest.param({"since": "90m"}, NOW - timedelta(minutes=90), id="minutes ago"),
        pytest.param({"since": "7d"}, NOW - timedelta(days=7), id="days ago"),
        pytest.param({"since": ""}, None, id="none"),
    ],
)
def test_a_moment_is_a_time_or_so_long_ago(given: dict[str, str], expected: datetime | None) -> None:
    """As people write them."""
    assert moment_in(given, "since", lambda: NOW) == expected


def test_a_time_has_a_beginning_before_its_end() -> None:
    """Twisted bounds are wrong use; a missing one is so long before the other."""
    given = {"until": "2026-03-01T00:00Z"}
    assert period_in(given, timedelta(days=1))[0] == datetime(2026, 2, 28, tzinfo=UTC)
    with pytest.raises(UsageError, match="before"):
        period_in(given | {"since": "2026-03-02T00:00Z"}, timedelta(days=1))

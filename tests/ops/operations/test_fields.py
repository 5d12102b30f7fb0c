"""What a request names is read in one way: numbers, times and words, from terminal, socket, pages and API."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engine.errors import UsageError
from engine.ops.operations.fields import LARGEST, alert_of, entry_of, moment_of, run_of
from engine.ops.operations.lanes import ListHeld
from engine.ops.operations.messages import CountMessages, ListMessages, ShowMessage
from engine.ops.operations.replays import PlanReplay
from tests.journal.desk import NOW

NO_NUMBERS = [True, False, 0, -1, 1.0, 1.5, 2**63, 2**64, LARGEST + 1, "1", "RB-1", None, [1], {"a": 1}, float("nan")]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_number_of_an_entry_is_refused(value: Any) -> None:
    """From JSON a number is whole, positive, no truth and no text."""
    with pytest.raises(UsageError, match="name an entry by its number, as `messages list` shows it"):
        ShowMessage.parse({"entry": value})
    with pytest.raises(UsageError, match="number"):
        PlanReplay.parse({"entries": [1, value]})


@pytest.mark.parametrize(
    "text", ["true", "0", "-1", "+1", "1.0", "1e3", "0x1", "", "1 ", "¹", "٣", "9" * 16, "10" * 50]
)
def test_a_text_names_an_entry_in_plain_digits_only(text: str) -> None:
    """What is typed at the terminal or stands in an address; what else was typed is said again."""
    for read in (entry_of, run_of, alert_of):
        with pytest.raises(UsageError, match=re.escape(f"{text} is not one") if len(text) <= 24 else "by its number"):
            read(text)


def test_a_request_is_not_said_again_where_it_may_hold_a_name() -> None:
    """The audit trail keeps why an act was refused: words of a request do not stand there."""
    with pytest.raises(UsageError) as caught:
        ShowMessage.parse({"entry": "Quintero"})
    assert "Quintero" not in str(caught.value)


def test_numbers_of_entries_are_themselves() -> None:
    """Up to 15 digits; a list in order, each once."""
    assert entry_of("37") == ShowMessage.parse({"entry": 37}).entry == 37
    assert entry_of(str(LARGEST)) == LARGEST
    assert PlanReplay.parse({"entries": [7, 3, 7]}).entries == (3, 7)
    assert PlanReplay.parse({}).entries == ()


def test_other_numbers_have_bounds_and_a_usual_value() -> None:
    """As `limit` has; in an address they are written."""
    assert ListHeld.parse({}).limit == ListHeld.parse({"limit": None}).limit == 200
    assert ListHeld.parse({"limit": 7}).limit == ListHeld.parse({"limit": "7"}, written=True).limit == 7
    for value in (0, 1001, True, 1.0, "7", 2**64):
        with pytest.raises(UsageError, match="--limit is a number from 1 to 1000"):
            ListHeld.parse({"limit": value})
    for value in ("true", "1.0", "+7", ""):
        with pytest.raises(UsageError, match="limit is not a number"):
            ListHeld.parse({"limit": value}, written=True)


def test_a_word_is_text() -> None:
    """Or nothing."""
    assert ListHeld.parse({}).channel == ListHeld.parse({"channel": None}).channel == ""
    for value in (False, 0, ["a"], 7):
        with pytest.raises(UsageError, match="channel must be text"):
            ListHeld.parse({"channel": value})


def test_a_switch_is_a_truth() -> None:
    """No text says yes."""
    assert PlanReplay.parse({"force": True}).force
    for value in ("yes", "true", 1, [True]):
        with pytest.raises(UsageError, match="force must be true or false"):
            PlanReplay.parse({"force": value})


def test_a_name_that_is_no_field_is_refused() -> None:
    """A mistyped filter would mean everything; what is taken is said."""
    with pytest.raises(UsageError, match=r"chan is not taken here; what is: .*channel"):
        PlanReplay.parse({"chan": "riverbend-adt"})
    with pytest.raises(UsageError, match="about a patient"):
        ListMessages.parse({"patient": "4711"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("2026-03-01T09:30+01:00", datetime(2026, 3, 1, 8, 30, tzinfo=UTC), id="with an offset"),
        pytest.param("2026-03-01T09:30Z", datetime(2026, 3, 1, 9, 30, tzinfo=UTC), id="in UTC"),
        pytest.param("90m", NOW - timedelta(minutes=90), id="minutes ago"),
        pytest.param("7d", NOW - timedelta(days=7), id="days ago"),
        pytest.param("", None, id="none"),
    ],
)
def test_a_moment_is_a_time_or_so_long_ago(text: str, expected: datetime | None) -> None:
    """As people write them."""
    assert moment_of(text, clock=lambda: NOW) == expected


def test_a_time_has_a_beginning_before_its_end() -> None:
    """Twisted bounds are wrong use; a missing one is so long before the other."""
    given = {"until": "2026-03-01T00:00Z"}
    assert CountMessages.parse(given).period(timedelta(days=1))[0] == datetime(2026, 2, 28, tzinfo=UTC)
    with pytest.raises(UsageError, match="before"):
        CountMessages.parse(given | {"since": "2026-03-02T00:00Z"}).period(timedelta(days=1))


@pytest.mark.parametrize(
    ("at", "typed", "meant"),
    [("09:30", "09:30", 0), ("09:30", "9:29", 1), ("09:30", "09:31", 24 * 60 - 1), ("00:10", "22:00", 130)],
)
def test_a_time_of_day_is_the_last_one(at: str, typed: str, meant: int) -> None:
    """`22:00` is of today where it has been, else of yesterday: minutes before now, on this machine's clock."""
    now = datetime.fromisoformat(f"2025-07-02T{at}").astimezone()
    found = moment_of(typed, clock=lambda: now)
    assert found is not None
    assert (now - found) == timedelta(minutes=meant)
    with pytest.raises(UsageError, match="22:00 for the last 22:00"):
        moment_of("24:00", clock=lambda: now)

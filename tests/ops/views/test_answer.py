"""Answers made of values: what is declared is shown, and nothing else is."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import pytest
from pydantic import ValidationError

from engine.ops.views.answer import Answer, Body, Count, EntrySeq, Time, TimeInSeconds, known_as

AT = datetime(2026, 3, 1, 9, 30, 0, 123_456, UTC)


@dataclass(frozen=True, slots=True)
class Value:
    """A value with more than is shown of it."""

    seq: int
    since: datetime | None
    made_at: datetime
    body: bytes
    secret: str = "2026-MRN-7"


class View(Answer):
    """What is shown of it."""

    entry: EntrySeq
    held_since: Annotated[Time | None, known_as("held_since", "since")]
    made_at: TimeInSeconds
    body: Body


class Wide(View):
    """The same with a count that the value does not have."""

    waiting: Count


def test_an_answer_shows_what_it_declares_of_a_value_and_nothing_else() -> None:
    """By the same name or the other one that a field is known as; a moment as text, bytes as JSON or as text."""
    shown = View.of(Value(7, AT, AT, b'{"a": 1}')).model_dump(mode="json")
    assert shown == {
        "entry": 7, "held_since": "2026-03-01T09:30:00.123+00:00", "made_at": "2026-03-01T09:30:00+00:00",
        "body": {"a": 1},
    }  # fmt: skip
    assert View.of(Value(7, None, AT, b"\xff no JSON")).body == "\\xff no JSON"


def test_what_differs_is_named() -> None:
    """It stands in place of the value's own; what is neither there nor named is refused, not left empty."""
    value = Value(7, None, AT, b"")
    wide = Wide.of(value, waiting=3, body=b"[]")
    assert (wide.entry, wide.waiting, wide.body) == (7, 3, [])
    with pytest.raises(ValidationError, match="waiting"):
        Wide.of(value)


def test_an_answer_is_read_back_by_its_own_names() -> None:
    """As the socket sends it; and a smaller answer made of a larger one holds no more than its own fields."""
    wide = Wide.of(Value(7, AT, AT, b""), waiting=0)
    assert Wide.model_validate_json(wide.model_dump_json()) == wide
    assert set(View.of(wide).model_dump()) == {"entry", "held_since", "made_at", "body"}

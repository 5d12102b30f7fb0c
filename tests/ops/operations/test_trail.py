"""Whatever is asked, the audit trail keeps little of it, and nothing that it may not."""

from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ops.audit.trail import MOST_NAME, Audited, Marks, recorded
from engine.ops.operations.table import ALL

CANARY = "Kanarivogel"
LARGEST = 64 * 1024
MARKS: Final[Marks] = {
    "channel": Audited.VALUE, "rate": Audited.VALUE, "entries": Audited.ENTRIES, "patient": Audited.PATIENT,
    "filter": {"state": Audited.VALUE, "entries": Audited.ENTRIES},
}  # fmt: skip

_KEYS = st.sampled_from(["channel", "rate", "entries", "filter", "state", "patient"]) | st.text(max_size=60)
_LEAVES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=400)
_JSON = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(_KEYS, inner, max_size=6))


def _hide(value: Any, marks: Marks) -> Any:
    """Return a request in which whatever stands under a name that is not marked to be kept is a canary."""
    hidden = {}
    for name, part in value.items():
        mark = marks.get(name)
        if isinstance(mark, dict):
            hidden[name] = _hide(part, mark) if isinstance(part, dict) else CANARY
        else:
            hidden[name] = part if mark in {Audited.VALUE, Audited.ENTRIES} else CANARY
    return hidden


@given(st.dictionaries(_KEYS, _JSON, max_size=60))
def test_values_of_fields_that_are_not_marked_never_stay(asked: dict[str, Any]) -> None:
    """Only their names do, and those cut short."""
    kept = orjson.dumps(recorded(_hide(asked, MARKS), MARKS)).decode()
    assert CANARY not in kept
    assert len(kept.encode()) < LARGEST


def test_the_largest_request_makes_a_small_row() -> None:
    """Thousands of names, long texts, long lists and deep nests are cut."""
    deep: dict[str, Any] = {"filter": "x"}
    for _ in range(400):
        deep = {"filter": deep, "state": "y" * 10_000, "entries": list(range(10_000))}
    asked = {"filter": deep} | {f"{number}{'k' * 1000}": number for number in range(10_000)}
    kept: Any = recorded(asked, MARKS)
    assert len(orjson.dumps(kept)) < 8 * 1024
    assert kept["filter"]["entries"] == list(range(100))
    assert all(len(name) <= MOST_NAME for name in kept["given"])


@pytest.mark.parametrize("number", [10**20, -(10**20), 10**5000], ids=("large", "negative", "huge"))
def test_a_number_that_is_too_large_to_be_written_is_left_out(number: int) -> None:
    """Whatever was typed as a rate or a count, the row can be written; the name of what was given stays."""
    kept = recorded({"rate": number, "entries": [number, 7]}, MARKS)
    assert orjson.loads(orjson.dumps(kept)) == {"given": ["rate", "entries"]}


def test_of_edited_files_the_names_stay_and_no_text() -> None:
    """What is no name of such a file is left out with its text."""
    marks = {"edited": Audited.NAMES}
    assert recorded({"edited": {"tables/x.yaml": CANARY}}, marks) == {"edited": ["tables/x.yaml"]}
    assert recorded({"edited": {CANARY: "x", "x.yaml": "y"}}, marks) == {"given": ["edited"]}
    assert recorded({"edited": CANARY}, marks) == {"given": ["edited"]}


# Written by hand, from the requirement: fields in which a patient's name or number, or an operator's words, may stand.
PRIVATE = {"patient", "visit", "text", "message", "set", "place", "reason", "because", "entry", "edited", "base"}


def test_no_operation_marks_a_field_that_may_hold_a_patient() -> None:
    """Of these no value is kept as it was given; each field of every operation that is none of these is known to us."""
    for operation in ALL:
        marked = {name for name, mark in operation.marks().items() if mark in (Audited.VALUE, Audited.ENTRIES)}
        assert marked & PRIVATE == set(), operation.name
        assert set(operation.names()) - marked - {"filter"} <= PRIVATE, operation.name

"""Whatever is asked, the audit trail keeps little of it, and nothing that it may not."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ops.audit.trail import MOST_NAME, SHOWN, shown_of

CANARY = "Kanarivogel"
LARGEST = 64 * 1024

_KEYS = st.sampled_from(sorted(SHOWN)) | st.text(max_size=60)
_LEAVES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=400)
_JSON = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(_KEYS, inner, max_size=6))


def _hide(value: Any) -> Any:
    """Return a request in which whatever stands under a key that is not ours is a canary."""
    if isinstance(value, dict):
        return {
            name: _hide(part) if name in SHOWN else part if isinstance(part, bool) else CANARY
            for name, part in value.items()
        }
    return value


@given(st.dictionaries(_KEYS, _JSON, max_size=60))
def test_values_under_keys_that_are_not_ours_never_stay(asked: dict[str, Any]) -> None:
    """Only their names do, and those cut short."""
    kept = orjson.dumps(shown_of(_hide(asked))).decode()
    assert CANARY not in kept
    assert len(kept.encode()) < LARGEST


def test_the_largest_request_makes_a_small_row() -> None:
    """Thousands of keys, long texts, long lists and deep nests are cut."""
    deep: dict[str, Any] = {"filter": "x"}
    for _ in range(400):
        deep = {"filter": deep, "name": "y" * 10_000, "entries": list(range(10_000))}
    asked = {"filter": deep} | {f"{number}{'k' * 1000}": number for number in range(10_000)}
    kept = shown_of(asked)
    assert len(orjson.dumps(kept)) < 8 * 1024
    assert kept["filter"]["filter"]["entries"] == list(range(100))
    assert all(len(name) <= MOST_NAME for name in kept["given"])


@pytest.mark.parametrize("number", [10**20, -(10**20), 10**5000], ids=("large", "negative", "huge"))
def test_a_number_that_is_too_large_to_be_written_is_left_out(number: int) -> None:
    """Whatever was typed as a rate or a count, the row can be written; the name of what was given stays."""
    kept = shown_of({"rate": number, "entries": [number, 7]})
    assert orjson.loads(orjson.dumps(kept)) == {"given": ["rate", "entries"]}

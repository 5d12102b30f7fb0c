"""Periods run forwards: compared by the coarser precision, and never by what cannot be read."""

import pytest

from engine.fhir.period import is_reversed, keep_forward, without_reversed
from engine.fhir.plan import ElementChange


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        ("2026-03-02", "2026-03-01", True),
        ("2026-03-02", "2026-03-02", False),
        ("2026-03-02T08:00:00Z", "2026-03-02", False),  # the day is not over
        ("2026-03-02", "2026", False),
        ("2026-03", "2025-12-31", True),
        ("2026-03-02T08:00:00+01:00", "2026-03-02T07:30:00Z", False),
        ("2026-03-02T08:00:00Z", "2026-03-02T07:59:59Z", True),
        ("2026-03-02T08:00:00Z", "soon at some time", False),
        ("", "2026-03-01", False),
    ],
)
def test_what_is_reversed(start: str, end: str, found: bool) -> None:
    """A period is reversed where its end lies before its start, as far as both are known."""
    assert is_reversed({"start": start, "end": end}) is found


def test_what_was_stored_stays() -> None:
    """What this message would turn about is as before; what was reversed before is left alone."""
    wrong = {"start": "2026-03-05", "end": "2026-03-02"}
    body = {"period": wrong, "location": [{"status": "active", "period": wrong}, {"status": "planned"}]}
    owned = {"period.end": ("x",), "period.start": ("y",)}
    assert keep_forward(body, {"period": {"start": "2026-03-05"}}, owned, {"period.start": ("z",)})
    assert body == {"period": {"start": "2026-03-05"}, "location": [{"status": "active"}, {"status": "planned"}]}
    assert owned == {"period.start": ("z",)}
    assert not keep_forward({"period": wrong}, {"period": wrong}, {}, {})


def test_both_ends_of_one_message() -> None:
    """Two changes that tell a period the wrong way round are left out, and nothing else is."""
    told = [("period.start", "2026-03-05"), ("period.end", "2026-03-02"), ("status", "x")]
    changes = [ElementChange(name, name, (value,), many=False) for name, value in told]
    kept, roots = without_reversed(changes)
    assert ([one.element for one in kept], roots) == (["status"], ("period",))

"""What the page of one message shows of it."""

from typing import Any

from engine.ops.web.pages.message import _why, first_of


def _segment(values: int) -> dict[str, Any]:
    return {"name": "NK1", "fields": [{"parts": [{}] * (values - 1)}]}


def test_a_page_shows_the_beginning_of_a_huge_message() -> None:
    """As many segments as hold no more values than fit, one at least; all of a usual message."""
    assert len(first_of([_segment(10)] * 1000, 95)) == 9
    assert len(first_of([_segment(1000)] * 3, 95)) == 1
    assert len(first_of([_segment(10)] * 9, 95)) == 9
    assert first_of([], 95) == []


def test_what_is_said_of_a_message_is_said_once() -> None:
    """Codes that mean the same stand together before their one line; the entry's own reason comes first."""
    delivery = {"reason": "http-422", "notes": ["unmapped-code PID-16", "unmapped-code PID-10"]}
    entry = {
        "state": "held",
        "reason": "http-422",
        "flags": ["unmapped-code PID-16", "stale"],
        "deliveries": [delivery],
    }
    told = [(codes, line.code) for codes, line in _why(entry)]
    assert told == [
        (["http-422"], "http-4*"),
        (["unmapped-code PID-16", "unmapped-code PID-10"], "unmapped-code"),
        (["stale"], "stale"),
    ]

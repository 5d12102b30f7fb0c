"""What the page of one message shows of it."""

from typing import Any

from engine.ops.web.pages.message import first_of


def _segment(values: int) -> dict[str, Any]:
    return {"name": "NK1", "fields": [{"parts": [{}] * (values - 1)}]}


def test_a_page_shows_the_beginning_of_a_huge_message() -> None:
    """As many segments as hold no more values than fit, one at least; all of a usual message."""
    assert len(first_of([_segment(10)] * 1000, 95)) == 9
    assert len(first_of([_segment(1000)] * 3, 95)) == 1
    assert len(first_of([_segment(10)] * 9, 95)) == 9
    assert first_of([], 95) == []

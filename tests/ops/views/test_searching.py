"""What a request for a list may name, and how it is told where it names something else."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import UsageError
from engine.journal.entry import State
from engine.ops.operations.filters import SearchFilter
from engine.ops.operations.messages import SearchMessages
from tests.journal.desk import Desk, open_desk
from tests.ops.reading import reading

searched = reading(SearchMessages)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """An open journal with five entries."""
    async with open_desk(tmp_path) as desk:
        for number in range(5):
            await desk.record(f"c{number}", ("s|1",))
        yield desk


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"state": "lost"}, id="no state"),
        pytest.param({"since": "yesterday"}, id="no time"),
        pytest.param({"until": "999999w"}, id="before all times"),
        pytest.param({"limit": "many"}, id="no number"),
        pytest.param({"before": -4}, id="below every number"),
        pytest.param({"before": True}, id="a truth"),
        pytest.param({"text": "* -"}, id="no word"),
    ],
)
async def test_what_cannot_be_searched_for_is_wrong_use(desk: Desk, given: dict[str, Any]) -> None:
    """The text names the option."""
    with pytest.raises(UsageError, match=f"--{next(iter(given))}"):
        searched(desk.folder, given)


async def test_pages_go_on_where_the_last_one_ended(desk: Desk) -> None:
    """`before` leads through all entries and is null at the end; a limit is held to its bounds."""
    seen, before = [], None
    while True:
        page = searched(desk.folder, {"limit": 2, "before": before})
        seen += [row["entry"] for row in page["entries"]]
        before = page["before"]
        if before is None:
            break
    assert seen == [5, 4, 3, 2, 1]
    assert len(searched(desk.folder, {"limit": 10**6})["entries"]) == 5


def test_every_filter_is_taken_over() -> None:
    """Words are stripped; a state is one of ours."""
    words = ("channel", "source", "event", "control_id", "reason", "outcome", "patient", "visit", "text")
    filters = SearchFilter.parse({name: f" {name} " for name in words} | {"state": "held"}).filters()
    assert [getattr(filters, name) for name in words] == list(words)
    assert filters.state is State.HELD

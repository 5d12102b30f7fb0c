"""Series for charts: points of a span from rolled-up counts, and nothing where nothing is known."""

from collections import Counter
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from engine.errors import UsageError
from engine.journal.entry import AckOutcome
from engine.journal.state.counters import bound_of, floor_of
from engine.journal.state.rollup import roll_up, wait_of
from engine.ops.operations.messages import ShowCharts
from engine.ops.views.counts import SPANS, charted, quantile
from tests.journal.desk import NOW, open_desk, settlement

LATER = NOW + timedelta(minutes=30)


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A journal in which two messages came at noon, were answered and delivered; 30 minutes later one waits."""
    async with open_desk(tmp_path, lambda: NOW + timedelta(milliseconds=4)) as desk:
        for number in "12":
            seq = await desk.record(number, (f"s|{number}",))
            await desk.claim()
            desk.journal.acknowledged(seq, AckOutcome.SENT)
            await desk.journal.settle(settlement(seq))
        waits = {wait_of("d", NOW, NOW + timedelta(seconds=wait)): 1 for wait in (1, 5)}
        await desk.journal.write(partial(roll_up, waits=waits, depths={"d": 0}, begun=NOW, now=NOW))
        await desk.journal.write(partial(roll_up, waits={}, depths={"d": 1}, begun=NOW, now=LATER))
    return tmp_path


@pytest.mark.parametrize("span", SPANS)
def test_every_span_shows_the_same_traffic(folder: Path, span: str) -> None:
    """All of it at the point in which it was; the points are as many as the span has."""
    found = charted(folder, span, LATER)
    length, width = SPANS[span]
    assert len(found.at) == length.total_seconds() / width
    assert all(len(values) == len(found.at) for values in (found.received["adt"], found.depth["d"]))
    assert (sum(found.received["adt"]), sum(found.delivered["d"]), found.refused, found.held) == (2, 2, {}, {})
    noon = found.received["adt"].index(2)
    assert datetime.fromisoformat(found.at[noon]) <= NOW
    assert [found.ack_ms[name][noon] for name in ("p50", "p99")] == [4, 5]
    assert [found.delivery_ms["d"][name][noon] for name in ("p50", "p99")] == [1_000, 4_940]
    assert found.depth["d"][-1] == 1
    assert {value for place, value in enumerate(found.ack_ms["p99"]) if place != noon} == {None}


def test_a_span_that_is_none_is_refused_with_those_there_are(folder: Path) -> None:
    """The next step is in the words."""
    with pytest.raises(UsageError, match="--span 2h is none of 1h, 24h, 7d, 30d"):
        ShowCharts(span="2h").read(folder)


def test_a_quantile_lies_within_the_range_in_which_its_share_is_reached() -> None:
    """Of a hundred, the 99th, as far into its range as its share says; of none, nothing."""
    histogram = Counter({1: 50, 10: 48, 1_000: 2})
    assert [quantile(histogram, share) for share in (0.5, 0.51, 0.98, 0.99)] == [1, 6, 10, 750]
    assert quantile(Counter(), 0.99) is None


@pytest.mark.parametrize("waited", [68_000, 61_000, 12_300, 299_500, 599_000, 3_000_000, 7_200_000])
def test_a_long_wait_is_told_as_long_as_it_was(waited: int) -> None:
    """To the second within ten minutes, to the minute beyond: 68 s are not told as an hour."""
    bound = bound_of(waited * 1_000)
    found = quantile(Counter({bound: 1}), 0.99)
    assert found is not None
    assert abs(found - waited) <= (1_000 if waited <= 600_000 else 60_000)
    assert floor_of(bound) < waited <= bound

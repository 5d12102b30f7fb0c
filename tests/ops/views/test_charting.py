"""Series for charts: points of a period from rolled-up counts, and nothing where nothing was measured."""

import math
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UsageError
from engine.journal.entry import AckOutcome
from engine.journal.state import alerting, uptime
from engine.journal.state.rollup import roll_up
from engine.journal.state.tally import bucket_of, delivery_of, milliseconds_of
from engine.ops.operations.messages import ShowCharts
from engine.ops.views.charting import SPANS, Charts, chart_period, charted, quantile
from tests.journal.desk import NOW, open_desk, settlement

LATER = NOW + timedelta(minutes=30)
MINUTE = timedelta(minutes=1)


def shown(folder: Path, span: str = "", *, now: datetime = LATER, **named: datetime | None) -> Charts:
    """Return the series of a span, or of a period."""
    return charted(folder, chart_period(span, named.get("since"), named.get("until"), now), now)


def total(series: Mapping[str, tuple[int | None, ...]], name: str) -> int:
    """Return how many there were at all points of a series."""
    return sum(value for value in series[name] if value is not None)


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A journal in which two messages came at noon, were answered and delivered; 30 minutes later one waits."""
    async with open_desk(tmp_path, lambda: NOW + timedelta(milliseconds=4)) as desk:
        for number in "12":
            seq = await desk.record(number, (f"s|{number}",))
            await desk.claim()
            desk.journal.acknowledged(seq, AckOutcome.SENT)
            await desk.journal.settle(settlement(seq))
        waits = {delivery_of("d", NOW, NOW + timedelta(seconds=wait), delayed=False): 1 for wait in (1, 5)}
        waits[delivery_of("d", NOW - timedelta(hours=1), NOW, delayed=True)] = 1
        await desk.journal.write(partial(roll_up, waits=waits, depths={"d": 0}, begun=NOW, now=NOW))
        for minute in range(30):
            await desk.journal.write(partial(uptime.seen, now=NOW + minute * MINUTE))
        await desk.journal.write(partial(roll_up, waits={}, depths={"d": 1}, begun=NOW, now=LATER))
    return tmp_path


@pytest.mark.parametrize("span", SPANS)
def test_every_span_shows_the_same_traffic(folder: Path, span: str) -> None:
    """All of it at the point in which it was; the points are as many as the span has."""
    found = shown(folder, span)
    length, width = SPANS[span]
    assert len(found.at) == length.total_seconds() / width
    assert all(len(values) == len(found.at) for values in (found.received["adt"], found.depth["d"]))
    assert (total(found.received, "adt"), total(found.delivered, "d"), found.refused, found.held) == (2, 2, {}, {})
    noon = found.received["adt"].index(2)
    assert datetime.fromisoformat(found.at[noon]) <= NOW
    assert [found.ack_ms[name][noon] for name in ("p50", "p99")] == [pytest.approx(4, rel=0.05)] * 2
    delivery = [found.delivery_ms["d"][name][noon] for name in ("p50", "p99")]
    assert delivery == [pytest.approx(1_000, rel=0.05), pytest.approx(5_000, rel=0.05)]
    assert total(found.delayed, "d") == 1
    assert found.depth["d"][-1] == 1
    assert {value for place, value in enumerate(found.ack_ms["p99"]) if place != noon} == {None}


def test_what_was_before_the_first_message_is_not_known(folder: Path) -> None:
    """Null, and no zero."""
    found = shown(folder, "1h")
    noon = found.received["adt"].index(2)
    assert set(found.received["adt"][:noon]) == {None}
    assert found.received["adt"][noon + 1] == 0


def test_the_volume_of_a_period_is_by_channel_sender_and_event(folder: Path) -> None:
    """Of all its messages; nothing of another period."""
    assert shown(folder, "1h").volume == {"channel": {"adt": 2}, "sender": {"ADT|RVB": 2}, "event": {"A08": 2}}
    assert shown(folder, since=NOW - 9 * MINUTE, until=NOW).volume == {"channel": {}, "sender": {}, "event": {}}


async def test_an_outage_is_named_and_nothing_is_counted_while_the_engine_does_not_run(tmp_path: Path) -> None:
    """Of a destination by its alert, of the engine by the minutes in which it was not seen."""
    async with open_desk(tmp_path) as desk:
        await desk.record("1", ("s|1",))
        down = {"kind": "destination-down", "subject": "d"}
        await desk.journal.write(partial(alerting.open_alert, **down, detail="", now=NOW + MINUTE))
        await desk.journal.write(partial(alerting.clear_alert, **down, now=NOW + 2 * MINUTE))
        paused = {"kind": "destination-paused", "subject": "e", "detail": "", "now": NOW + 9 * MINUTE}
        await desk.journal.write(partial(alerting.open_alert, **paused))
        other = {"kind": "no-traffic", "subject": "adt", "detail": "", "now": NOW}
        await desk.journal.write(partial(alerting.open_alert, **other))
        for moment in (NOW, NOW + 10 * MINUTE):
            await desk.journal.write(partial(uptime.seen, now=moment))
    found = shown(tmp_path, "1h", now=NOW + 11 * MINUTE)
    named = [
        (one.kind, one.subject, one.began_at[14:16], one.ended_at and one.ended_at[14:16]) for one in found.outages
    ]
    assert named == [
        ("stopped", "engine", "00", "10"),
        ("destination-down", "d", "01", "02"),
        ("destination-paused", "e", "09", None),
    ]
    assert found.received["adt"][-12:] == (1, *[None] * 9, 0, 0)
    assert [one.kind for one in shown(tmp_path, since=NOW - 9 * MINUTE, until=NOW).outages] == []


@pytest.mark.parametrize(
    ("age", "minutes", "width", "points"),
    [
        (0, 60, 60, 60),
        (0, 180, 60, 180),
        (0, 181, 600, 19),
        (3, 60, 600, 6),
        (9, 120, 3_600, 2),
        (9, 12_000, 21_600, 34),
    ],
)
def test_a_period_has_the_narrowest_points_that_are_still_there(
    folder: Path, age: int, minutes: int, width: int, points: int
) -> None:
    """Minutes of the last two days, ten minutes of the last eight, then hours; and no more than can be drawn."""
    until = LATER - timedelta(days=age)
    found = shown(folder, since=until - minutes * MINUTE, until=until)
    assert (found.seconds, found.span) == (width, "")
    assert len(found.at) == pytest.approx(points, abs=1)
    assert datetime.fromisoformat(found.at[0]) <= until - minutes * MINUTE < until
    assert datetime.fromisoformat(found.at[-1]) < until


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"span": "2h"}, "--span 2h is none of 1h, 24h, 7d, 30d"),
        ({"span": "1h", "since": "2h"}, "name one of them"),
        ({"since": "2999-01-01"}, "--since is yet to come"),
        ({"since": "1h", "until": "2h"}, "--since is not before --until"),
        ({"since": "41d"}, "charts go back 40 days"),
        ({"since": "yesterday"}, "--since is not a time"),
    ],
)
def test_a_period_that_charts_do_not_show_is_refused(folder: Path, given: dict[str, str], why: str) -> None:
    """The next step is in the words."""
    with pytest.raises(UsageError, match=why):
        ShowCharts.parse(given).read(folder)


def test_a_span_may_end_earlier(folder: Path) -> None:
    """`until` alone names the end of a span; what is to come is left out."""
    found = shown(folder, "24h", until=NOW)
    assert (found.seconds, len(found.at), found.at[-1][:16]) == (600, 144, "2026-03-01T11:50")
    assert shown(folder, until=LATER + MINUTE, since=NOW).until == shown(folder, "1h").until


@given(st.integers(2, 90 * 86_400 * 10**6))
def test_a_wait_is_shown_within_4_percent(micros: int) -> None:
    """The middle of its bucket, from two microseconds to three months."""
    assert milliseconds_of(bucket_of(micros)) * 1_000 == pytest.approx(micros, rel=0.04)


@given(st.lists(st.integers(2, 40 * 86_400 * 10**6), min_size=1, max_size=400), st.sampled_from([0.5, 0.99]))
def test_a_quantile_is_within_4_percent_of_the_true_one(waits: list[int], share: float) -> None:
    """Of the value of that rank among all that were measured."""
    true = sorted(waits)[math.ceil(share * len(waits)) - 1]
    assert quantile(Counter(map(bucket_of, waits)), share) == pytest.approx(true / 1_000, rel=0.04)


def test_a_quantile_of_nothing_is_none() -> None:
    """It is no zero."""
    assert quantile(Counter(), 0.99) is None

"""The charts of the overview: which there are, what is shaded in each, and volumes with links."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from engine.ops.views.answer import moment_text
from engine.ops.views.charting import Charts
from engine.ops.web.chart_page import ChartPage, volumes

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOW = BEGAN + timedelta(minutes=4)
AT = [moment_text(BEGAN + timedelta(minutes=number)) for number in range(4)]
NONE = (None,) * 4


def found(**given: Any) -> Charts:
    """Return four minutes of two destinations."""
    return Charts.of(
        {
            "span": "", "since": AT[0], "until": moment_text(NOW), "seconds": 60, "at": AT, "refused": {}, "held": {},
            "received": {"adt": (60, 0, None, 6), "lab": (1, 1, None, 1)}, "delivered": {"cdis": (60, 0, None, 9)},
            "depth": {"cdis": (0, 4, None, 0), "warehouse": NONE}, "ack_ms": {"p50": (2.0, *NONE[1:]), "p99": NONE},
            "delivery_ms": {"cdis": {"p50": (20.0, None, None, 30.0), "p99": (40.0, None, None, 80.0)}},
            "delayed": {"cdis": (0, 0, 0, 7)}, "coarse_until": AT[1],
            "outages": (
                {"kind": "destination-down", "subject": "cdis", "began_at": AT[1], "ended_at": AT[3]},
                {"kind": "stopped", "subject": "engine", "began_at": AT[2], "ended_at": AT[3]},
                {"kind": "destination-paused", "subject": "warehouse", "began_at": AT[3], "ended_at": None},
            ),
            "volume": {"channel": {"adt": 66, "lab": 3}, "sender": {"A|B&C": 50, "": 1, "*": 8}, "event": {"A08": 69}},
            **given,
        }
    )  # fmt: skip


def test_each_chart_shades_what_concerns_it() -> None:
    """The engine's outages everywhere, a destination's in its own chart and among what waits."""
    page = ChartPage(found(), NOW)
    assert page.destinations() == ["cdis", "warehouse"]
    shaded = {
        one.title: [band.text.partition(",")[0] for band in one.bands] for one in page.charts(page.destinations())
    }
    engine, cdis, warehouse = "the engine did not run", "cdis did not answer", "warehouse was paused"
    assert shaded == {
        "Messages": [engine],
        "Held and refused": [engine],
        "Waiting": [cdis, engine, warehouse],
        "ACK time": [engine],
        "Delivery to cdis": [cdis, engine],
        "Delivery to warehouse": [engine, warehouse],
    }


def test_an_outage_is_no_latency() -> None:
    """There is no line while it lasts; what waited through it is counted, and said to be no measure."""
    *_, delivery = ChartPage(found(), NOW).charts(["cdis"])
    assert [point.values for point in delivery.points] == [("20", "40"), ("–", "–"), ("–", "–"), ("30", "80")]
    assert delivery.points[-1].note == "7 waited through an outage"
    assert "7 waited through an outage: no measure of cdis" in delivery.remarks[0]


def test_what_was_not_counted_is_a_gap_in_a_sum() -> None:
    """Of channels together, and of what has no series at all."""
    messages, held, *_ = ChartPage(found(), NOW).charts([])
    assert [point.values for point in messages.points] == [("61", "60"), ("1", "0"), ("–", "–"), ("7", "9")]
    assert [point.values for point in held.points] == [("0", "0"), ("0", "0"), ("–", "–"), ("0", "0")]


def test_what_an_older_version_counted_in_ranges_is_said_to_be() -> None:
    """With the time until when."""
    _, _, _, ack = ChartPage(found(), NOW).charts([])
    until = f"{datetime.fromisoformat(AT[1]).astimezone():%-d %b %H:%M}"
    assert ack.remarks == (f"Before {until} counted in ranges by an older version: up to 60 % off.",)
    _, _, _, ack = ChartPage(found(coarse_until=None), NOW).charts([])
    assert ack.remarks == ()


def test_volumes_link_to_the_messages_that_they_count() -> None:
    """Of the same time; the others and what has no name have no list, and what is missing is a row."""
    by_channel, by_sender, by_event = volumes(found())
    assert [(row.name, row.messages, row.share) for row in by_channel.rows] == [("adt", 66, "96%"), ("lab", 3, "4%")]
    assert [(row.name, row.messages, bool(row.address)) for row in by_sender.rows] == [
        ("A|B&C", 50, True),
        ("without a name", 1, False),
        ("all others", 8, False),
        ("before this version", 10, False),
    ]
    address = urlsplit(by_sender.rows[0].address)
    assert (address.path, parse_qs(address.query)) == (
        "/messages",
        {"source": ["A|B&C"], "since": [AT[0]], "until": [moment_text(NOW)]},
    )
    assert "event=A08" in by_event.rows[0].address
    assert volumes(found(volume={"channel": {}, "sender": {}, "event": {}})) == []

"""The strip of the first page: how each box is drawn, and what is said of a destination that takes nothing."""

from typing import Any

import pytest

from engine.ops.operations.alerts import AlertView, severity_of
from engine.ops.operations.channels import ChannelView
from engine.ops.operations.destinations import DestinationView
from engine.ops.views.counts import Counts, Queue
from engine.ops.views.reasons import REASONS
from engine.ops.web.strip import CAUSES, Box, severity, strip, troubles

NOON = "2026-03-01T12:00:00.000+00:00"
CHANNEL: dict[str, Any] = {
    "channel": "adt", "state": "listening", "since": None, "by": "", "mode": "live", "address": "127.0.0.1",
    "port": 2575, "http": "", "connections": 2, "messages": 9, "refused": 0, "duplicates": 0, "last_received_at": NOON,
    "merges_held": None, "mapping": "adt", "contact": "", "destinations": ("cdis",), "filtered": 0, "rules": {},
    "strayed": {}, "lacks": {},
}  # fmt: skip
DESTINATION: dict[str, Any] = {
    "destination": "cdis", "state": "ready", "reason": "", "detail": "", "since": None, "next_try_at": None, "by": "",
    "under_way": 0, "waiting": 0, "oldest_received_at": None, "held": 0, "held_since": None, "fhir": "R4",
    "concurrency": 8, "channels": ("adt",), "lacks": (),
}  # fmt: skip


def alert(kind: str, subject: str = "adt", **given: Any) -> AlertView:
    """Return an open alert, with its line of the table of reasons."""
    line = REASONS[kind]
    values = {
        "id": 1, "kind": kind, "subject": subject, "detail": "", "opened_at": NOON, "cleared_at": None,
        "acknowledged_at": None, "acknowledged_by": "", "contact": "", "meaning": line.meaning,
        "can_wait": line.can_wait, "severity": severity_of(kind), "next_step": line.next_step,
    }  # fmt: skip
    return AlertView(**values | given)


def drawn(
    *alerts: AlertView,
    channel: dict[str, Any] | None = None,
    destination: dict[str, Any] | None = None,
    held: int = 0,
) -> list[Box]:
    """Return the boxes of an engine with one channel and one destination."""
    queue = Queue(unfinished=held, held=held, oldest_at=None, age_seconds=None)
    counts = Counts(
        entries=9, last=9, at_door={}, deliveries={}, oldest_unfinished_at=None, since=NOON, until=NOON,
        received={"adt": {"received": 9, "refused": 0, "filtered": 0}}, settled={}, rules={}, queues={"cdis": queue},
    )  # fmt: skip
    channels = [ChannelView(**CHANNEL | (channel or {}))]
    return strip(channels, counts, [DestinationView(**DESTINATION | (destination or {}))], alerts)


def kinds(boxes: list[Box]) -> list[str]:
    """Return how boxes are drawn."""
    return [box.kind for box in boxes]


@pytest.mark.parametrize(
    ("boxes", "expected"),
    [
        pytest.param(drawn(), ["good", "good", "good", "good"], id="all is well"),
        pytest.param(drawn(channel={"connections": 0}), ["off", "good", "good", "good"], id="nobody connected"),
        pytest.param(drawn(channel={"state": "closed"}), ["good", "bad", "good", "good"], id="a closed channel"),
        pytest.param(drawn(channel={"state": "stopped"}), ["good", "warn", "good", "good"], id="a stopped channel"),
        pytest.param(drawn(held=1), ["good", "good", "warn", "good"], id="something held"),
        pytest.param(drawn(alert("held-lanes", "cdis"), held=1), ["good", "good", "warn", "good"], id="and its alert"),
        pytest.param(drawn(alert("new-source")), ["good", "good", "good", "good"], id="what can wait"),
        pytest.param(drawn(alert("no-sender")), ["bad", "good", "good", "good"], id="no sender"),
        pytest.param(drawn(alert("merge-limit")), ["good", "bad", "good", "good"], id="merges held"),
        pytest.param(drawn(alert("queue-age", "cdis")), ["good", "good", "bad", "good"], id="an old queue"),
        pytest.param(drawn(alert("error-ratio", "cdis")), ["good", "good", "good", "bad"], id="many fail"),
        pytest.param(
            drawn(alert("no-sender", acknowledged_at=NOON, acknowledged_by="ann")),
            ["good", "good", "good", "good"],
            id="somebody has it",
        ),
        pytest.param(drawn(destination={"state": "open"}), ["good", "good", "good", "bad"], id="an open breaker"),
    ],
)
def test_a_box_is_drawn_by_the_gravest_of_what_is_open_there(boxes: list[Box], expected: list[str]) -> None:
    """Red where messages do not flow, amber where a person has to decide; what can wait colours nothing."""
    assert kinds(boxes) == expected


@pytest.mark.parametrize(
    ("given", "does", "cause"),
    [
        ({"state": "open", "reason": "connection-refused"}, "does not answer", "connection refused"),
        ({"state": "unreachable", "reason": "http-503"}, "does not answer", "HTTP 503"),
        ({"state": "open", "reason": "http-503"}, "fails", "HTTP 503"),
        ({"state": "failing", "reason": "http-401"}, "cannot be used", "it refuses our credentials (HTTP 401)"),
        ({"state": "open", "reason": "no-bundle"}, "fails", "no-bundle"),
        ({"state": "paused", "reason": "by-operator", "detail": "upgrade"}, "is paused", "upgrade"),
        ({"state": "paused", "reason": "by-operator"}, "is paused", "somebody paused it"),
        (
            {"state": "paused", "reason": "hold-storm", "detail": "http-422"},
            *("is paused", "the same failure held 50 patients: http-422"),
        ),
    ],
)
def test_what_takes_nothing_is_said_in_words(given: dict[str, Any], does: str, cause: str) -> None:
    """What it does and why; a code that has no words stands as it is."""
    (box,) = troubles(drawn(destination=given))
    assert (box.name, box.does, box.cause) == ("cdis", does, cause)


def test_a_destination_that_is_down_while_its_breaker_is_closed_is_said_too() -> None:
    """Only one entry is tried, and always fails: the alert says so, and the first page with it."""
    assert list(troubles(drawn(destination={"reason": "timeout"}))) == []
    (box,) = troubles(drawn(alert("destination-down", "cdis"), destination={"reason": "timeout"}))
    assert (box.does, box.cause) == ("does not answer", "no answer in time")


def test_words_are_of_codes_that_the_table_of_reasons_has() -> None:
    """A code that is renamed keeps its words."""
    assert set(CAUSES) - set(REASONS) == set()


@pytest.mark.parametrize(("kind", "how"), [("destination-down", "bad"), ("held-lanes", "warn"), ("new-source", "info")])
def test_an_alert_is_drawn_by_what_it_asks_for(kind: str, how: str) -> None:
    """At once, a decision, or nothing before morning."""
    assert severity(alert(kind)) == how

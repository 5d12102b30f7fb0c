"""The status: how each stage does, and what is said of what is wrong, the gravest first."""

from typing import Any

import pytest

from engine.ops.operations.alerts import AlertView
from engine.ops.operations.channels import ChannelView
from engine.ops.operations.destinations import DestinationView
from engine.ops.operations.status import WELL, Status, status_of
from engine.ops.views.counts import Counts, Queue
from engine.ops.views.incident import CAUSES, Severity, sentence_of, severity_of
from engine.ops.views.reasons import REASONS
from engine.pipeline.alerts.kind import AlertKind

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
    line, detail = REASONS[kind], given.get("detail", "")
    values = {
        "id": 1, "kind": kind, "subject": subject, "detail": "",
        "sentence": sentence_of(kind, subject, detail), "opened_at": NOON, "cleared_at": None,
        "acknowledged_at": None, "acknowledged_by": "", "contact": "", "meaning": line.meaning,
        "can_wait": line.can_wait, "severity": severity_of(kind), "next_step": line.next_step,
    }  # fmt: skip
    return AlertView(**values | given)


def shown(
    *alerts: AlertView,
    channel: dict[str, Any] | None = None,
    destination: dict[str, Any] | None = None,
    held: int = 0,
) -> Status:
    """Return the status of an engine with one channel and one destination."""
    queue = Queue(unfinished=held, held=held, oldest_at=None, age_seconds=None)
    counts = Counts(
        entries=9, last=9, at_door={}, deliveries={}, oldest_unfinished_at=None, since=NOON, until=NOON,
        received={"adt": {"received": 9, "refused": 0, "filtered": 0}}, settled={}, rules={}, queues={"cdis": queue},
    )  # fmt: skip
    channels = [ChannelView(**CHANNEL | (channel or {}))]
    return status_of(channels, counts, [DestinationView(**DESTINATION | (destination or {}))], alerts)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(shown(), ["good", "good", "good", "good"], id="all is well"),
        pytest.param(shown(channel={"connections": 0}), ["off", "good", "good", "good"], id="nobody connected"),
        pytest.param(shown(channel={"state": "closed"}), ["good", "bad", "good", "good"], id="a closed channel"),
        pytest.param(shown(channel={"state": "stopped"}), ["good", "warn", "good", "good"], id="a stopped channel"),
        pytest.param(shown(held=1), ["good", "good", "warn", "good"], id="something held"),
        pytest.param(shown(alert("held-lanes", "cdis"), held=1), ["good", "good", "warn", "good"], id="and its alert"),
        pytest.param(shown(alert("new-source")), ["good", "good", "good", "good"], id="what can wait"),
        pytest.param(shown(alert("no-sender")), ["bad", "good", "good", "good"], id="no sender"),
        pytest.param(shown(alert("merge-limit")), ["good", "bad", "good", "good"], id="merges held"),
        pytest.param(shown(alert("queue-age", "cdis")), ["good", "good", "bad", "good"], id="an old queue"),
        pytest.param(shown(alert("error-ratio", "cdis")), ["good", "good", "good", "bad"], id="many fail"),
        pytest.param(
            shown(alert("no-sender", acknowledged_at=NOON, acknowledged_by="ann")),
            ["good", "good", "good", "good"],
            id="somebody has it",
        ),
        pytest.param(shown(destination={"state": "open"}), ["good", "good", "good", "bad"], id="an open breaker"),
    ],
)
def test_a_stage_does_as_the_gravest_of_what_is_open_there(status: Status, expected: list[str]) -> None:
    """Bad where messages do not flow, a warning where a person has to decide; what can wait colours nothing."""
    assert [stage.health for stage in status.stages] == expected


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"state": "open", "reason": "connection-refused"}, "cdis does not answer: connection refused."),
        ({"state": "unreachable", "reason": "http-503"}, "cdis fails: HTTP 503."),
        ({"state": "unreachable", "reason": ""}, "cdis does not answer."),
        ({"state": "failing", "reason": "http-401"}, "cdis cannot be used: it refuses our credentials (HTTP 401)."),
        ({"state": "open", "reason": "no-bundle"}, "cdis fails: no-bundle."),
        ({"state": "paused", "reason": "by-operator", "detail": "upgrade"}, "cdis is paused: somebody paused it."),
        (
            {"state": "paused", "reason": "hold-storm", "detail": "http-422"},
            "cdis is paused: the same failure held 50 patients (http-422).",
        ),
    ],
)
def test_what_takes_nothing_is_said_in_words(given: dict[str, Any], sentence: str) -> None:
    """What it does and why; a code that has no words is shown as it is."""
    status = shown(destination=given)
    assert [status.sentence, status.incidents[0].sentence, status.severity] == [sentence, sentence, "urgent"]
    assert status.stages[-1].state == sentence.removeprefix("cdis ").removesuffix(".")


def test_all_is_well() -> None:
    """Nothing wrong is one sentence, too."""
    assert (shown().sentence, shown().severity, shown().incidents) == (WELL, None, ())


def test_a_destination_that_is_down_while_its_breaker_is_closed_is_said_too() -> None:
    """Only one entry is tried, and always fails: the alert says so, and the status with it."""
    assert shown(destination={"reason": "timeout"}).incidents == ()
    down = alert("destination-down", "cdis", detail="timeout for 31 seconds, 4 waiting")
    status = shown(down, destination={"reason": "timeout"})
    assert status.sentence == "cdis does not answer: no answer in time."
    assert [incident.destination for incident in status.incidents] == ["cdis"]


# The alert of each incident as it opens, with its subject and detail, and the state of the destination meanwhile.
SAME = [
    (
        "destination-down",
        "connection-refused for 31 seconds, 4 waiting",
        {"state": "open", "reason": "connection-refused"},
    ),
    ("destination-down", "http-503 for 31 seconds, 4 waiting", {"state": "unreachable", "reason": "http-503"}),
    ("destination-down", "no answer for 31 seconds, 4 waiting", {"state": "open", "reason": ""}),
    ("destination-failure", "http-401", {"state": "failing", "reason": "http-401"}),
    ("destination-paused", "by-operator", {"state": "paused", "reason": "by-operator", "detail": "upgrade"}),
    ("destination-paused", "restored", {"state": "paused", "reason": "restored"}),
    ("hold-storm", "http-422", {"state": "paused", "reason": "hold-storm", "detail": "http-422"}),
]


@pytest.mark.parametrize(("kind", "detail", "destination"), SAME)
def test_an_alert_says_what_the_state_of_its_destination_says(
    kind: str, detail: str, destination: dict[str, Any]
) -> None:
    """One incident, one sentence, one severity: before its alert opens, and after."""
    opened = alert(kind, "cdis", detail=detail)
    before, after = shown(destination=destination), shown(opened, destination=destination)
    assert before.sentence == after.sentence == opened.sentence
    assert before.severity == after.severity == opened.severity
    assert [incident.alert for incident in after.incidents] == [1]


@pytest.mark.parametrize(
    ("kind", "subject", "detail", "sentence"),
    [
        (
            "held-lanes",
            "cdis",
            "1 held, 3 waiting behind something older",
            "One patient's messages are held at cdis and wait for a person.",
        ),
        (
            "held-lanes",
            "cdis",
            "12 held, 3 waiting behind something older",
            "Messages of 12 patients are held at cdis and wait for a person.",
        ),
        (
            "disk-reserve",
            "engine",
            "90 MiB free, reserve 100 MiB",
            "No messages are accepted: the disk is full (90 MiB free, 100 MiB are kept back).",
        ),
        (
            "disk-reserve",
            "engine",
            "190 MiB free, reserve 100 MiB",
            "The disk is nearly full: 190 MiB free, reserve 100 MiB.",
        ),
        (
            "certificate-ends",
            "adt /etc/pki/adt.pem",
            "adt.pem: ends in 5 h 3 min, at 2026-03-01 17:03 UTC",
            "The certificate adt.pem of adt ends in 5 h 3 min, at 2026-03-01 17:03 UTC.",
        ),
        (
            "certificate-expiry",
            "adt /etc/pki/adt.pem",
            "adt.pem: 12 days left, until 2026-03-13 17:03 UTC",
            "The certificate adt.pem of adt has 12 days left, until 2026-03-13 17:03 UTC.",
        ),
        (
            "connections-refused",
            "adt",
            "10.0.0.7 5 times by limits.connections 8",
            "adt refuses senders: 10.0.0.7 5 times by limits.connections 8.",
        ),
        ("channel-stopped", "adt", "", "adt is stopped: it accepts nothing."),
        ("journal-damaged", "engine", "", "The journal's file is damaged."),
        (
            "destination-down",
            "cdis",
            "n2: connection-refused for 31 seconds, 4 waiting",
            "cdis does not answer: connection refused.",
        ),
    ],
)
def test_an_alert_is_one_plain_sentence(kind: str, subject: str, detail: str, sentence: str) -> None:
    """What is wrong, where, and how much of it; of several nodes that say it, too."""
    assert sentence_of(kind, subject, detail) == sentence


@pytest.mark.parametrize("kind", AlertKind)
def test_every_kind_has_a_sentence_of_its_own(kind: AlertKind) -> None:
    """It names what the alert is about, and ends as a sentence does."""
    sentence = sentence_of(kind, "cdis", "d 7")
    assert sentence.endswith(".")
    assert sentence != REASONS[kind].meaning


def test_the_gravest_incident_is_first() -> None:
    """Then the oldest; what somebody has acknowledged is counted only."""
    status = shown(
        alert("new-source", id=1, opened_at="2026-03-01T10:00:00.000+00:00"),
        alert("held-lanes", "cdis", id=2, detail="2 held"),
        alert("no-sender", id=3, acknowledged_at=NOON, acknowledged_by="ann"),
        alert("merge-limit", id=4),
    )
    assert [incident.alert for incident in status.incidents] == [4, 2, 1]
    assert (status.severity, status.acknowledged) == (Severity.URGENT, 1)


def test_words_are_of_codes_that_the_table_of_reasons_has() -> None:
    """A code that is renamed keeps its words."""
    assert set(CAUSES) - set(REASONS) == set()

"""Each alert's rule, fed with facts: what opens it, what clears it, and what says nothing yet."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.config.alerting import Alerting, ChannelAlerts
from engine.journal.read.backlog import Backlog
from engine.journal.state.pausing import Pause
from engine.pipeline.alerts.kind import AlertKind
from engine.pipeline.alerts.rules import ChannelFacts, DestinationFacts, EngineFacts, Share, conditions

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)
START = NOW - timedelta(hours=8)
NONE = Share(0, 0, whole=True)
CHANNEL = ChannelFacts(
    listening=True, stopped=False, connections=1, lonely_since=None, silent_since=NOW, heard=True, refusals=NONE,
    merges=0, merge_limit=20, merges_held=False,
)  # fmt: skip
DESTINATION = DestinationFacts(None, "", Backlog(0, 0, None, 0, None), NONE)
FACTS = EngineFacts(NOW, START, {"adt": CHANNEL}, {"fhir": DESTINATION}, 10 * 2**30, 2**29, "", hook_failing=False)
ENTRANCE = (AlertKind.LOG_IN_FAILURES, AlertKind.TOKEN_FAILURES)
QUIET = Alerting(no_traffic_minutes=30)


def verdicts(facts: EngineFacts, alerting: Alerting = QUIET, *opened: AlertKind) -> dict[AlertKind, bool]:
    """Return what is wrong and what is not, by kind."""
    found = conditions(facts, alerting, lambda kind, _subject: kind in opened)
    return {one.kind: one.wrong for one in found}


def of_channel(**changes: Any) -> EngineFacts:
    """Return facts with a channel that is otherwise."""
    return replace(FACTS, channels={"adt": replace(CHANNEL, **changes)})


def of_destination(**changes: Any) -> EngineFacts:
    """Return facts with a destination that is otherwise."""
    return replace(FACTS, destinations={"fhir": replace(DESTINATION, **changes)})


def backlog(**changes: Any) -> EngineFacts:
    """Return facts with a backlog."""
    return of_destination(backlog=replace(DESTINATION.backlog, **changes))


def test_nothing_is_wrong_with_a_quiet_engine() -> None:
    """All is looked at, and no alert opens."""
    assert not any(verdicts(FACTS).values())


PAUSE = Pause("fhir", "by-operator", "upgrade", NOW, "root")
LOG = 8 * 64 * 1024 * 1024
STORM = replace(PAUSE, reason="hold-storm", detail="http-422")


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        pytest.param(replace(FACTS, damage="table entry"), AlertKind.JOURNAL_DAMAGED, id="a damaged journal"),
        pytest.param(
            replace(FACTS, refused="42P01 UndefinedTable"), AlertKind.JOURNAL_REFUSES, id="a refused statement"
        ),
        pytest.param(replace(FACTS, log_bytes=LOG), AlertKind.LOG_GROWS, id="a log that a reader keeps"),
        (of_destination(pause=PAUSE), AlertKind.DESTINATION_PAUSED),
        (of_destination(pause=STORM), AlertKind.HOLD_STORM),
        (of_destination(failing="token-refused"), AlertKind.DESTINATION_FAILURE),
        (of_destination(down_seconds=30.0, backlog=Backlog(1, 0, NOW, 0, None)), AlertKind.DESTINATION_DOWN),
        (of_destination(errors=Share(10, 40, whole=False)), AlertKind.ERROR_RATIO),
        (backlog(held=1, held_since=NOW), AlertKind.HELD_LANES),
        (backlog(depth=10_000), AlertKind.QUEUE_DEPTH),
        (backlog(depth=1, oldest_at=NOW - timedelta(minutes=15)), AlertKind.QUEUE_AGE),
        (of_channel(stopped=True, listening=False), AlertKind.CHANNEL_STOPPED),
        (of_channel(merges_held=True), AlertKind.MERGE_LIMIT),
        (of_channel(merges=10), AlertKind.MERGE_BURST),
        (of_channel(refusals=Share(20, 20, whole=True)), AlertKind.REFUSAL_RATIO),
        (of_channel(silent_since=NOW - timedelta(minutes=30)), AlertKind.NO_TRAFFIC),
        (of_channel(lonely_since=NOW - timedelta(minutes=60)), AlertKind.NO_SENDER),
        (of_channel(unread="history-unsupported"), AlertKind.EVENTS_UNREAD),
        (of_channel(certificates=((Path("a.pem"), NOW + timedelta(days=29)),)), AlertKind.CERTIFICATE_EXPIRY),
        (of_channel(certificates=((Path("a.pem"), NOW + timedelta(hours=23)),)), AlertKind.CERTIFICATE_ENDS),
        (of_channel(certificates=((Path("a.pem"), NOW - timedelta(days=1)),)), AlertKind.CERTIFICATE_EXPIRED),
        (of_destination(certificates=((Path("a.pem"), NOW + timedelta(days=29)),)), AlertKind.CERTIFICATE_EXPIRY),
        (of_destination(certificates=((Path("a.pem"), NOW + timedelta(hours=23)),)), AlertKind.CERTIFICATE_ENDS),
        (of_destination(certificates=((Path("a.pem"), NOW - timedelta(days=1)),)), AlertKind.CERTIFICATE_EXPIRED),
        (replace(FACTS, free_bytes=2**29), AlertKind.DISK_RESERVE),
        (replace(FACTS, refused_reload="ConfigurationError"), AlertKind.RELOAD_FAILED),
        (replace(FACTS, hook_failing=True), AlertKind.WEBHOOK_FAILED),
        (replace(FACTS, unanchored="audit-anchors.jsonl: OSError"), AlertKind.AUDIT_GAP),
        *((replace(FACTS, entrance={kind: Share(20, 20, whole=False)}), kind) for kind in ENTRANCE),
    ],
    ids=lambda value: str(value) if isinstance(value, AlertKind) else "",
)
def test_each_fault_opens_one_alert(facts: EngineFacts, kind: AlertKind) -> None:
    """The one that is meant, and no other beside it."""
    assert [one for one, wrong in verdicts(facts).items() if wrong] == [kind]


def test_how_long_a_destination_may_be_silent_is_a_setting() -> None:
    """Open from the limit on, with the cause; not where nothing waits, or another alert says why."""
    waiting = Backlog(421, 0, NOW, 0, None)
    down = of_destination(down_seconds=20.0, cause="connection-refused", backlog=waiting)
    assert not verdicts(down)[AlertKind.DESTINATION_DOWN]
    (opened,) = [one for one in conditions(down, Alerting(destination_down_seconds=20), lambda *_: False) if one.wrong]
    assert (opened.kind, opened.detail) == ("destination-down", "connection-refused for 20 seconds, 421 waiting")
    for changes in ({"backlog": Backlog(0, 0, None, 0, None)}, {"pause": PAUSE}, {"failing": "tls"}):
        facts = of_destination(**{"down_seconds": 99.0, "backlog": waiting} | changes)
        assert not verdicts(facts)[AlertKind.DESTINATION_DOWN]


def test_what_swings_around_its_limit_opens_once() -> None:
    """An open alert clears at half of what opened it."""
    facts = backlog(depth=6_000)
    assert not verdicts(facts)[AlertKind.QUEUE_DEPTH]
    assert verdicts(facts, QUIET, AlertKind.QUEUE_DEPTH)[AlertKind.QUEUE_DEPTH]
    assert not verdicts(backlog(depth=5_000), QUIET, AlertKind.QUEUE_DEPTH)[AlertKind.QUEUE_DEPTH]


def test_what_is_not_known_yet_is_not_said() -> None:
    """After a start, shares and silences say nothing until they can: what was open stays open."""
    fresh = replace(
        of_channel(
            refusals=Share(0, 3, whole=False), heard=False, silent_since=NOW - timedelta(minutes=1),
            lonely_since=START,
        ),
        started_at=START,
        destinations={"fhir": replace(DESTINATION, errors=Share(0, 3, whole=False))},
    )  # fmt: skip
    young = replace(fresh, channels={"adt": replace(fresh.channels["adt"], lonely_since=NOW)}, started_at=NOW)
    said = verdicts(young)
    unsaid = {AlertKind.REFUSAL_RATIO, AlertKind.ERROR_RATIO, AlertKind.NO_TRAFFIC, AlertKind.NO_SENDER}
    assert unsaid.isdisjoint(said)


def test_guessing_is_over_when_few_guess_and_that_is_known() -> None:
    """An alert of log-ins opens at its limit, clears at half of it, and says nothing soon after a start."""
    for kind in ENTRANCE:
        facts = {number: replace(FACTS, entrance={kind: Share(number, number, whole=True)}) for number in (10, 11, 19)}
        assert not verdicts(facts[19])[kind]
        assert verdicts(facts[11], QUIET, kind)[kind]
        assert not verdicts(facts[10], QUIET, kind)[kind]
        assert kind not in verdicts(replace(FACTS, entrance={kind: Share(0, 0, whole=False)}), QUIET, kind)


def test_a_channel_may_have_limits_of_its_own() -> None:
    """One that is silent by nature says so; 0 is never."""
    facts = of_channel(silent_since=NOW - timedelta(hours=5), lonely_since=NOW - timedelta(hours=5))
    own = Alerting(no_traffic_minutes=30, channels={"adt": ChannelAlerts(no_traffic_minutes=0, no_sender_minutes=0)})
    assert not any(verdicts(facts, own).values())


@pytest.mark.parametrize(
    ("left", "kind", "said"),
    [
        (timedelta(minutes=7), AlertKind.CERTIFICATE_ENDS, "a.pem: ends in 0 h 7 min, at 2026-03-02 10:07 UTC"),
        (timedelta(hours=23), AlertKind.CERTIFICATE_ENDS, "a.pem: ends in 23 h 0 min, at 2026-03-03 09:00 UTC"),
        (timedelta(hours=25), AlertKind.CERTIFICATE_EXPIRY, "a.pem: 1 day left, until 2026-03-03 11:00 UTC"),
        (timedelta(days=9, hours=20), AlertKind.CERTIFICATE_EXPIRY, "a.pem: 9 days left, until 2026-03-12 06:00 UTC"),
        (-timedelta(minutes=1), AlertKind.CERTIFICATE_EXPIRED, "a.pem: ended on 2026-03-02 09:59 UTC"),
    ],
)
def test_a_certificate_says_when_it_ends(left: timedelta, kind: AlertKind, said: str) -> None:
    """With its hour, and within 24 h as something that does not wait until morning; one alert at a time."""
    facts = of_channel(certificates=((Path("a.pem"), NOW + left),))
    found = [one for one in conditions(facts, Alerting(), lambda *_: False) if one.kind.startswith("certificate")]
    assert [(one.kind, one.detail) for one in found if one.wrong] == [(kind, said)]
    assert len(found) == 3

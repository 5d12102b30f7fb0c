"""What the door makes of trigger events, by the standard and by the channel's mapping."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.config.settings import shipped
from engine.hl7.header import read_header
from engine.journal.entry import State
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import compile_mapping, load
from engine.pipeline.inbound.judgement import Judgement, judge

Door = Callable[..., Judgement]


@pytest.fixture
def door(tmp_path: Path) -> Door:
    """Judge an event on a channel whose mapping knows an event of its own, Z01."""
    (tmp_path / "adt.yaml").write_text("mapping: adt\nextends: shipped/adt\nevents:\n  Z01: {do: update patient}\n")
    source = load([tmp_path, shipped("mappings")], "adt")

    def judged(event: str, **settings: str) -> Judgement:
        channel = channel_of(settings)
        raw = f"MSH|^~\\&|H|R|||20250701||ADT^{event}|1|P|2.5.1\rPID|1||1^^^RVB".encode()
        header = read_header(raw)
        assert header is not None
        return judge(raw, header, channel, compile_mapping(source, channel))

    return judged


@pytest.fixture
def shipped_door() -> Door:
    """Judge a message on a channel with the shipped mapping."""
    source = load([shipped("mappings")], "adt")

    def judged(below: str, **settings: str) -> Judgement:
        channel = channel_of(settings)
        text = f"MSH|^~\\&|H|R|||20250701||ADT^A01|1|P|2.5.1\rPID|1||1^^^RVB||Osei^Ama{below}"
        raw = text.encode("latin-1")
        header = read_header(raw)
        assert header is not None
        return judge(raw, header, channel, compile_mapping(source, channel))

    return judged


@pytest.mark.parametrize(
    ("below", "flag"),
    [
        ("||||||12 Main St\rTroy^^NY||5550123\rPV1|1|I", "not-a-segment 3"),
        ("\rPV1^1|1|I\rUSA|x", "not-a-segment 3, 4"),
        ("\rPV1|1|I" + "\rx" * 9, "not-a-segment 4, 5, 6, 7, 8 and 4 more"),
        ("\r pv1|1|I", "segment-name 3"),
        ("\nPV1|1|I\rZPI|1", "line-feed-end 3"),
    ],
)
def test_lines_that_are_not_as_the_standard_has_them_are_noted(shipped_door: Door, below: str, flag: str) -> None:
    """The message is taken in, and its entry says by number which lines nobody reads, or read as meant."""
    found = shipped_door(below)
    assert found.state is State.RECEIVED
    assert found.flags == (flag,)
    refused = shipped_door(below, not_a_segment="refuse")
    if flag.startswith("not-a-segment"):
        assert (refused.state, refused.reason) == (State.REJECTED, "not-a-segment")
        assert "line 3" in refused.findings[0].text or "line 4" in refused.findings[0].text
    else:
        assert refused.state is State.RECEIVED


def test_a_character_set_that_is_not_the_declared_one_is_noted(shipped_door: Door) -> None:
    """The entry names the set in which the message was read."""
    found = shipped_door("\rNTE|1||O\x92Brien", charset="8859/1")
    assert found.state is State.RECEIVED
    assert found.flags == ("charset-differs cp1252",)


def test_a_line_feed_that_may_end_a_segment_is_refused_by_name(shipped_door: Door) -> None:
    """Where either reading may lose something, the message is refused, and nothing of it is in what is said."""
    found = shipped_door("||||||12 Main St\nLOC|Troy||5550123\rPV1|1|I")
    assert (found.state, found.reason) == (State.REJECTED, "line-feed-unclear")
    assert "segment 2" in found.findings[0].text
    assert "Troy" not in found.findings[0].text


def test_a_line_feed_in_text_is_taken_in_as_text(shipped_door: Door) -> None:
    """Three letters and a separator behind a line break are no segment."""
    found = shipped_door("||||||12 Main St\nUSA|PHX|5550123\rPV1|1|I")
    assert found.state is State.RECEIVED
    assert found.flags == ()
    assert found.message is not None
    assert found.message.leaf("PID", 13) == "5550123"


@pytest.mark.parametrize("event", ["A56", "A57", "A58", "A59"])
def test_events_without_a_meaning_are_filtered_by_name(door: Door, event: str) -> None:
    """A56 to A59, which no version's table lists, are accepted and filtered, or refused where the channel says so."""
    assert (door(event).state, door(event).reason) == (State.FILTERED, "withdrawn-event")
    refused = door(event, unhandled_events="refuse")
    assert (refused.state, refused.reason) == (State.REJECTED, "withdrawn-event")


def test_an_event_of_ones_own_needs_a_rule(door: Door) -> None:
    """A rule in the event table is enough; without one the event is unknown."""
    assert door("Z01").state is State.RECEIVED
    assert (door("Z02").state, door("Z02").reason) == (State.REJECTED, "unsupported-event")


@pytest.mark.parametrize("event", ["A32", "A33", "A61", "A62"])
def test_cancels_and_doctors_are_delivered(door: Door, event: str) -> None:
    """A32, A33, A61 and A62 have a meaning in the standard, and do what it says."""
    assert door(event).state is State.RECEIVED

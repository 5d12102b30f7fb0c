"""What the door makes of trigger events, by the standard and by the channel's mapping."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.config.shipped import shipped
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

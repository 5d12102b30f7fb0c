"""Phrases for people: each word of the code has one, and none is a word of the code."""

import re
from collections.abc import Iterable

import pytest

from engine.deliver.verdict import Failure, VerdictKind
from engine.journal.entry import KNOWN_STATUSES, AckOutcome, State
from engine.journal.state.follow_ups import FollowUpState
from engine.journal.write.bulk_replay import RunState
from engine.ops.views.patient import KINDS as LINKS
from engine.ops.views.phrases import ELEMENTS, KINDS, NOTES, counted, note_phrase, phrase
from engine.ops.views.reasons import REASONS
from engine.pipeline.outbound.destination_health import HealthState

# Words that a person at the pages understands as they are, and that the code has, too.
PLAIN = re.compile(r"[A-Za-z][a-z ,]*")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("message", {*State, *VerdictKind}),
        ("acknowledgement", AckOutcome),
        ("follow-up", FollowUpState),
        ("failure", set(Failure) - {Failure.NONE}),
        ("destination", HealthState),
        ("channel", ("listening", "stopped", "closed")),
        ("run", RunState),
        ("number", KNOWN_STATUSES),
        ("link", LINKS),
    ],
)
def test_every_word_of_the_code_has_a_phrase(kind: str, words: Iterable[str]) -> None:
    """A new state is said to people in words of theirs, not by its name in the code."""
    assert {str(word) for word in words} - KINDS[kind].keys() == set()


@pytest.mark.parametrize("kind", KINDS)
def test_a_phrase_is_plain(kind: str) -> None:
    """No hyphen, no underscore; two states of a kind are never said alike."""
    assert [said for said in KINDS[kind].values() if not PLAIN.fullmatch(said)] == []
    assert len(set(KINDS[kind].values())) == len(KINDS[kind])


def test_a_word_without_a_phrase_is_said_without_hyphens() -> None:
    """What is new at a server, such as a status of a visit, is readable all the same."""
    assert phrase("on-hold", "visit") == "on hold"
    assert phrase("under way") == "under way"


def test_counts_are_said_as_a_list() -> None:
    """As the outcome of a bulk run."""
    assert counted({"delivered": 3, "waiting": 1, "under way": 2}) == (
        "3 delivered, 1 waiting behind another, 2 under way"
    )


@pytest.mark.parametrize(
    ("note", "said"),
    [
        ("lost Patient.identifier[0]", "the merge leaves out a number (Patient.identifier[0]) of the merged record"),
        ("lost Patient.animal", "the merge leaves out Patient.animal of the merged record"),
        ("unmapped-code PID-16", "no mapping for the code in PID-16"),
        ("repeated-hour PV1-44", "repeated-hour PV1-44"),
        ("possible-duplicate", "possible-duplicate"),
        ("", ""),
    ],
)
def test_a_note_with_a_place_is_a_sentence(note: str, said: str) -> None:
    """Its place is named in words and as the resource has it; a code alone stays, as reasons are found by it."""
    assert note_phrase(note) == said


def test_notes_are_reasons_and_elements_are_of_patients() -> None:
    """No phrase is left of a note that is gone."""
    assert NOTES.keys() <= REASONS.keys()
    assert all("{place}" in text for text in NOTES.values())
    assert "identifier" in ELEMENTS

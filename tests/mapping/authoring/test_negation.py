"""Warnings of negative comparisons: what the check says of a field that the events at hand need not have."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.config.channel import Channel
from engine.config.settings import shipped
from engine.config.source import parse, validate
from engine.mapping.authoring.negation import Negations
from engine.mapping.compile import MappingSource, load

Author = Callable[..., Path]
FILTERS = "mapping: adt\nextends: shipped/adt\nfilters:\n"


def warned(author: Author, condition: str) -> list[str]:
    """Return what is said of a filter with a condition."""
    text = f'{FILTERS}  - {{rule: ours, when: "{condition}", do: filter}}\n'
    found = load([author(adt=text), shipped("mappings")], "adt")
    return [f"{one.line}: {one.path}: {one.found}; {one.expected}" for one in Negations(found.documents).warnings()]


@pytest.mark.parametrize(
    ("condition", "found", "expected"),
    [
        ("PV1-2 != I", "PV1-2 != I, which does not hold where PV1-2 is empty", "write `PV1-2 and PV1-2 != I`"),
        ("not PV1-2 = I", "not PV1-2 = I, which holds where PV1-2 is empty", "or `not PV1-2 or PV1-2 != I`"),
        ("PV1-2 not in (I, O)", "does not hold where PV1-2 is empty (A18, A24, A28", "PV1-2 and PV1-2 not in (I, O)"),
        ("event in (A01, A31) and PV1-2 != I", "PV1-2 is empty (A31 need not have it)", "PV1-2 and PV1-2 != I"),
        ("PID-8 not starts-with F", "PID-8 is empty (no event must have it)", "PID-8 and PID-8 not starts-with F"),
        ("event = A01 and PV1-3.1 != ICU", "(A01 need not have it)", "PV1-3.1 and PV1-3.1 != ICU"),
        ("event = A01 and PID-3(2) != 5", "(A01 need not have it)", "PID-3(2) and PID-3(2) != 5"),
    ],
)
def test_a_filter_that_may_be_misread_is_warned_of(author: Author, condition: str, found: str, expected: str) -> None:
    """With what it means of an empty field, which events come without it, and how to write either meaning."""
    (told,) = warned(author, condition)
    assert told.startswith("4: filters.0.when: ")
    assert found in told
    assert expected in told


@pytest.mark.parametrize(
    "condition",
    [
        "event in (A01, A04) and PV1-2 != I",  # each of these has it
        "event in (A01, A04) and not PV1-2 = I",
        "PV1-2 and PV1-2 != I",  # said in so many words
        "not PV1-2 or PV1-2 != I",
        "PV1-2 in (O, E) and PV1-2 != E",
        "PID-3 != 7",
        "MSH-9 != ADT",
        "event != A08",
        "not PID-29",
        "PV1-2 = I",
    ],
)
def test_what_cannot_be_misread_is_not(author: Author, condition: str) -> None:
    """A field of every event at hand, one whose absence is spoken of, an event, and mere presence."""
    assert warned(author, condition) == []


def test_elements_of_a_site_are_warned_of_where_the_comparison_itself_is_negative(author: Author) -> None:
    """`not` before all of it is taken as meant there, and what stands under its own condition has a value."""
    patient = """\
resource: Patient
extends: shipped/patient
elements:
  language: PID-15.1 | when PID-8 != M
  gender: PID-8 | code(administrative-sex) | when PID-8 != X
  birthDate: PID-7 | date | unless not PID-8 = M
add:
  extension:
    - {url: "urn:a", valueString: a, when: "ZPI-1 not in (A, B)"}
"""
    found = Negations(load([author(resources__patient=patient), shipped("mappings")], "adt").documents).warnings()
    assert [(one.line, one.found.partition(",")[0]) for one in found] == [(4, "PID-8 != M"), (9, "ZPI-1 not in (A")]


def test_what_ships_is_free_of_them(source: MappingSource) -> None:
    """Its conditions say what is so of an empty field."""
    assert Negations(source.documents).warnings() == ()
    oru = load([shipped("mappings")], "oru")
    assert Negations(oru.documents).warnings() == ()


def test_the_filters_and_edits_of_a_channel_are_held_to_the_same(source: MappingSource) -> None:
    """Each with its place in the channel's file."""
    text = """
channel: a
listen: {mllp: {port: 0}}
destinations:
  - {name: x, base_url: http://127.0.0.1:1}
  - {name: y, type: mllp, host: 127.0.0.1, port: 1, send: edited, edit: [{remove: [ZPI], when: PID-8 != M}]}
filters:
  - {rule: a, when: event = A01, do: filter}
  - {rule: b, when: PV1-2 != I, send_to: [x]}
"""
    channel = validate(parse(text, "a.yaml"), Channel)
    of_filter, of_edit = Negations(source.documents).of_channel(channel)
    assert of_filter[0] == ("filters", 1, "when")
    assert of_filter[1].startswith("PV1-2 != I, which does not hold where PV1-2 is empty")
    assert of_edit[0] == ("destinations", 1, "edit", 0, "when")

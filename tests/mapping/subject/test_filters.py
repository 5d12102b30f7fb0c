"""Filters of the event file: what a message says decides, before its event does, by a named rule."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.config.shipped import shipped
from engine.errors import ConfigurationError
from engine.hl7.finding import ErrorCode
from engine.hl7.message import Message
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.coverage import Coverage
from engine.mapping.authoring.explain import explain
from engine.mapping.authoring.outcome import outcome
from engine.mapping.compile import Mapping, compile_mapping, load
from engine.mapping.subject.subject import Action

Author = Callable[..., Path]
Make = Callable[..., Message]
HEAD = "mapping: adt\nextends: shipped/adt\nfilters:\n"
LINES = """\
  - {rule: test-patients, when: PID-5.1 starts-with ZZTEST, do: filter}
  - {rule: no-birth-date, when: "event in (A01, A04) and not PID-7", do: refuse}
  - {rule: never-reached, when: PID-5.1 starts-with ZZTESTA, do: refuse}
"""
AUTHORITIES = {"authorities": {"RVB": "https://mrn.riverbend.example"}, "allow_merge": True}


def filtering(author: Author, lines: str = LINES) -> Mapping:
    """Return the shipped mapping with filters of a site's own."""
    return compile_mapping(load([author(adt=HEAD + lines), shipped("mappings")], "adt"), channel_of(AUTHORITIES))


def person(family: str, born: str = "19800101", number: str = "1^^^RVB^MR") -> str:
    """Return a PID."""
    return f"PID|1||{number}||{family}^Ada||{born}|F"


def test_the_first_that_holds_decides(author: Author, message: Make) -> None:
    """Filtered by name, nothing is planned; refused by name, its sender is told; else the event's rule holds."""
    mapping = filtering(author)
    test = message("A01", person("ZZTESTA"))
    assert (mapping.identify(test).action, mapping.identify(test).rule) == (Action.FILTER, "test-patients")
    assert mapping.plan(test).interactions == ()
    subject = mapping.identify(message("A01", person("Okafor", "")))
    assert (subject.action, subject.rule) == (Action.REFUSE, "no-birth-date")
    assert [(one.code, one.reason) for one in subject.findings] == [(ErrorCode.APPLICATION, "no-birth-date")]
    real = message("A01", person("Okafor"))
    assert (mapping.identify(real).action, mapping.identify(real).rule) == (Action.DELIVER, "admit")
    assert mapping.plan(real).interactions


def test_it_goes_before_what_the_event_would_refuse(author: Author, message: Make) -> None:
    """A test patient without a number is filtered, and no fault of the sender; so is a merge of test patients."""
    mapping = filtering(author)
    assert mapping.identify(message("A08", person("ZZTEST", number=""))).action is Action.FILTER
    merge = message("A40", person("ZZTEST"), "MRG|2^^^RVB^MR")
    assert (mapping.identify(merge).action, mapping.identify(merge).merge) == (Action.FILTER, False)


def test_who_waits_for_a_filtered_patient_is_known(author: Author, message: Make) -> None:
    """Its entry is found by the patient's number, as that of any other message."""
    subject = filtering(author).identify(message("A08", person("ZZTEST")))
    assert [one.value for group in subject.patients for one in group] == ["1"]


def test_authors_see_it(author: Author, message: Make) -> None:
    """`mappings try` and cases name the rule, `explain` its line; `coverage` counts what filters read as read."""
    made = outcome(filtering(author), message("A08", person("ZZTEST")))
    assert (made["action"], made["rule"]) == ("filter", "test-patients")
    told = explain(
        load([author(adt=HEAD + LINES), shipped("mappings")], "adt"), channel_of({}), message("A08", person("ZZTEST"))
    )
    assert (Path(told.file).name, told.line) == ("adt.yaml", 4)
    lines = "  - {rule: by-ward, when: ZWA-3 = 9, do: filter}\n"
    source = load([author(adt=HEAD + lines), shipped("mappings")], "adt")
    found = Coverage(source, channel_of(AUTHORITIES))
    found.add(message("A08", person("Okafor"), "ZWA|1|2|3"))
    assert "ZWA-3" not in str(found.unread)
    assert "ZWA-2" in str(found.unread)


@pytest.mark.parametrize(
    ("lines", "place", "found", "expected"),
    [
        ("  - {rule: a, when: PID-5, do: drop}", "filters.0.do", "found 'drop'", "filter or refuse"),
        ("  - {rule: a, do: filter}", "filters.0", "no 'when'", "{rule: NAME, when: CONDITION"),
        ("  - {when: PID-5, do: filter}", "filters.0", "no 'rule'", "{rule: NAME, when: CONDITION"),
        ("  - {rule: a, when: PDI-5, do: filter}", "filters.0.when", "unknown segment 'PDI'", "'PID'"),
        ("  - {rule: a, when: PID-7 < 2008, do: filter}", "filters.0.when", "the number 2008", "2008-01-01"),
        ("  - {rule: a, wen: PID-5, when: PID-5, do: filter}", "filters.0.wen", "wen", "when"),
        ("  - PID-5", "filters.0", "found 'PID-5'", "{rule: NAME"),
        ("  rule: a", "filters", "found a map", "a list"),
    ],
)
def test_what_is_wrong_is_told_in_its_place(author: Author, lines: str, place: str, found: str, expected: str) -> None:
    """The path within the author's own file, what was found and what would do."""
    with pytest.raises(ConfigurationError) as caught:
        filtering(author, lines + "\n")
    (problem,) = caught.value.problems
    assert (problem.path, found in problem.found, expected in problem.expected) == (place, True, True), str(problem)


def test_there_are_only_so_many(author: Author) -> None:
    """What each message is held against stays bounded."""
    with pytest.raises(ConfigurationError, match="at most 50"):
        filtering(author, "  - {rule: a, when: PID-5, do: filter}\n" * 51)

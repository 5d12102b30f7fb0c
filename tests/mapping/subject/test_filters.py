"""Filters of the event file: what a message says decides, before its event does, by a named rule."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.config.channel import Channel
from engine.config.channel import Filter as Authored
from engine.config.settings import shipped
from engine.config.source import AuthoredFile, look, parse
from engine.errors import ConfigurationError
from engine.hl7.finding import ErrorCode
from engine.hl7.message import Message
from engine.hl7.message import parse as parse_message
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.coverage import Coverage
from engine.mapping.authoring.explain import explain
from engine.mapping.authoring.outcome import outcome
from engine.mapping.compile import Compiled, Mapping, MappingSource, compile_mapping, load, read
from engine.mapping.files.document import Document, Problems
from engine.mapping.files.setting import Setting
from engine.mapping.language.function_context import FunctionContext
from engine.mapping.language.identifier import Identifiers, IdentityRules
from engine.mapping.language.moment import Stamps
from engine.mapping.language.reading import MessageReading
from engine.mapping.language.template import Compiler
from engine.mapping.subject.filters import compile_channel_filters, compile_filters, first_of
from engine.mapping.subject.subject import AppliedFilter, Disposition
from tests.tiers import trials

Author = Callable[..., Path]
Make = Callable[..., Message]
HEAD = "mapping: adt\nextends: shipped/adt\nfilters:\n"
LINES = """\
  - {rule: test-patients, when: PID-5.1 starts-with ZZTEST, do: filter}
  - {rule: no-birth-date, when: "event in (A01, A04) and not PID-7", do: refuse}
  - {rule: never-comes-to-it, when: "PID-5.1 matches 'ZZTESTA.*'", do: refuse}
"""
AUTHORITIES = {"authorities": {"RVB": "https://mrn.riverbend.example"}, "allow_merge": True}


def filtering(author: Author, lines: str = LINES) -> Mapping:
    """Return the shipped mapping with filters of a site's own."""
    return compile_mapping(read([author(adt=HEAD + lines), shipped("mappings")], "adt"), channel_of(AUTHORITIES))


def person(family: str, born: str = "19800101", number: str = "1^^^RVB^MR") -> str:
    """Return a PID."""
    return f"PID|1||{number}||{family}^Ada||{born}|F"


def test_the_first_that_holds_decides(author: Author, message: Make) -> None:
    """Filtered by name, nothing is planned; refused by name, its sender is told; else the event's rule holds."""
    mapping = filtering(author)
    test = message("A01", person("ZZTESTA"))
    assert (mapping.identify(test).action, mapping.identify(test).rule) == (Disposition.FILTER, "test-patients")
    assert mapping.plan(test).interactions == ()
    subject = mapping.identify(message("A01", person("Okafor", "")))
    assert (subject.action, subject.rule) == (Disposition.REFUSE, "no-birth-date")
    assert [(one.code, one.reason) for one in subject.findings] == [(ErrorCode.APPLICATION, "no-birth-date")]
    real = message("A01", person("Okafor"))
    assert (mapping.identify(real).action, mapping.identify(real).rule) == (Disposition.DELIVER, "admit")
    assert mapping.plan(real).interactions


def test_it_goes_before_what_the_event_would_refuse(author: Author, message: Make) -> None:
    """A test patient without a number is filtered, and no fault of the sender; so is a merge of test patients."""
    mapping = filtering(author)
    assert mapping.identify(message("A08", person("ZZTEST", number=""))).action is Disposition.FILTER
    merge = message("A40", person("ZZTEST"), "MRG|2^^^RVB^MR")
    assert (mapping.identify(merge).action, mapping.identify(merge).merge) == (Disposition.FILTER, False)


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


ROUTES = (
    "  - {rule: test-patients, when: PID-5.1 starts-with ZZTEST, do: filter}\n"
    '  - {rule: no-number, when: "event in (A01, A04) and not PID-3", do: refuse}\n'
    '  - {rule: wards, when: "PV1-2 in [I, E]", send_to: [wards]}\n'
)
CHANNEL = (
    "channel: a\nlisten: {mllp: {port: 0}}\nallow_merge: true\nauthorities: {RVB: https://mrn.riverbend.example}\n"
    "destinations:\n  - {name: wards, base_url: http://127.0.0.1:1}\n  - {name: archive, base_url: http://127.0.0.1:2}\n"
    "filters:\n"
)


def channelled(author: Author, lines: str = ROUTES, adt: str = "mapping: adt\nextends: shipped/adt\n") -> Mapping:
    """Return the shipped mapping, with an event file of a site's own, on a channel with filters."""
    looked = look(parse(CHANNEL + (lines or "  []\n"), "a.yaml"), Channel)
    assert (looked.problems, looked.value is not None) == ((), True)
    assert looked.value is not None
    return compile_mapping(read([author(adt=adt), shipped("mappings")], "adt"), looked.value, file=looked.source)


def test_a_channel_filters_refuses_and_sends_by_the_same_words(author: Author, message: Make) -> None:
    """The first that holds decides, with its place; one that sends on leaves the event what it is."""
    mapping = channelled(author)
    test = mapping.identify(message("A01", person("ZZTEST"), "PV1|1|I"))
    assert (test.action, test.rule) == (Disposition.FILTER, "test-patients")
    assert test.filter == AppliedFilter("test-patients", "filter", (), "a.yaml", 9)
    refused = mapping.identify(message("A01", person("Okafor", number="")))
    assert (refused.action, [finding.reason for finding in refused.findings]) == (Disposition.REFUSE, ["no-number"])
    assert refused.filter == AppliedFilter("no-number", "refuse", (), "a.yaml", 10)
    sent = mapping.identify(message("A01", person("Okafor"), "PV1|1|E"))
    assert (sent.action, sent.rule) == (Disposition.DELIVER, "admit")
    assert sent.filter == AppliedFilter("wards", "send", ("wards",), "a.yaml", 11)
    assert mapping.identify(message("A01", person("Okafor"), "PV1|1|O")).filter is None


def test_what_was_taken_in_is_planned_whatever_the_channel_filters_now(author: Author, message: Make) -> None:
    """A channel's filters are of the door: an entry that is delivered later, or again, is not held against them."""
    test = message("A01", person("ZZTEST"))
    assert channelled(author).plan(test).interactions == channelled(author, "").plan(test).interactions != ()


def test_the_channel_comes_first_and_what_it_sends_on_may_be_filtered_by_the_event_file(
    author: Author, message: Make
) -> None:
    """A line that sends is no end; the name is that of the filter which ends it."""
    mapping = channelled(author, adt=HEAD + "  - {rule: by-event-file, when: PID-5, do: filter}\n")
    assert mapping.identify(message("A01", person("ZZTEST"))).rule == "test-patients"
    subject = mapping.identify(message("A01", person("Okafor"), "PV1|1|I"))
    assert (subject.rule, subject.filter and subject.filter.does) == ("by-event-file", "filter")


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        *(("A40", True), ("A18", True), ("A24", True), ("A37", True), ("A43", True), ("A47", True), ("A29", True)),
        *(("A35", True), ("A45", True), ("A50", True), ("A01", False), ("A08", False), ("A23", False), ("A17", False)),
    ],
)
def test_what_says_who_somebody_is_is_known(author: Author, message: Make, event: str, expected: bool) -> None:
    """Merges, links, moves, changes of number and deletions go wherever the patient is, and are marked for that."""
    segments = (person("Okafor"), "MRG|2^^^RVB^MR||3^^^RVB^AN||5^^^RVB^VN", "PV1|1|I||||||||||||||||||9^^^RVB^VN")
    subject = channelled(author).identify(message(event, *segments))
    assert (subject.filter and subject.filter.rule, subject.of_identity) == ("wards", expected)


@pytest.mark.parametrize(
    ("lines", "place", "found", "expected"),
    [
        ("  - {rule: a, when: PDI-5, do: filter}", (9, 15), "unknown segment 'PDI'", "'PID'"),
        ("  - {rule: a, when: PID-5 is X, do: filter}", (9, 15), "PID-5 is X", "PATH = value"),
        ("  - {rule: a, when: XPN.1, do: filter}", (9, 15), "XPN", "a field such as"),
        ("  - {rule: a, when: 'PID-8 = F and PID-8 = M', do: filter}", (9, 15), "never holds", "exclude each other"),
        (
            "  - {rule: a, when: PID-8, do: filter}\n  - {rule: b, when: PID-8 = M, send_to: [wards]}",
            (10, 15),
            "never reached",
            "a in line 9",
        ),
    ],
)
def test_conditions_of_a_channel_are_told_in_its_file(
    author: Author, lines: str, place: tuple[int, int], found: str, expected: str
) -> None:
    """With line and column, as those of a mapping are."""
    with pytest.raises(ConfigurationError) as caught:
        channelled(author, lines + "\n")
    (problem,) = caught.value.problems
    assert (problem.file, (problem.line, problem.column)) == ("a.yaml", place), str(problem)
    assert (found in problem.found, expected in problem.expected) == (True, True), str(problem)


def test_an_event_file_sends_nowhere(author: Author) -> None:
    """It is for all channels with that mapping: the destinations are the channel's."""
    with pytest.raises(ConfigurationError) as caught:
        filtering(author, "  - {rule: a, when: PID-5, do: filter, send_to: [wards]}\n")
    (problem,) = caught.value.problems
    assert (problem.path, "a channel's" in problem.expected) == ("filters.0.send_to", True)


def test_the_mark_of_a_mapping_knows_the_filters(author: Author) -> None:
    """What was recorded with an entry tells by which filters it came in; without any it is as it was before."""
    marks = [channelled(author, lines).hash for lines in ("", ROUTES, ROUTES.replace("[wards]", "[archive]"))]
    assert len(set(marks)) == 3
    plain = channel_of({"authorities": AUTHORITIES["authorities"]})
    source = load([author(adt="mapping: adt\nextends: shipped/adt\n"), shipped("mappings")], "adt")
    assert compile_mapping(source, plain).hash == marks[0]


def test_what_is_kept_of_one_channel_is_not_told_of_another(source: MappingSource) -> None:
    """Two channels that say the same: each has its filters told in its own file."""
    kept: Compiled = {}
    one = channel_of(AUTHORITIES | {"filters": ({"rule": "nobody", "when": "PID-5.1 = NOBODY", "do": "filter"},)})
    for name in ("east", "west"):
        mapping = compile_mapping(source, one.model_copy(update={"channel": name}), kept=kept)
        assert [filter_.file for filter_ in mapping.filters] == [f"channel {name}"]


def light_compiler(problems: Problems) -> Compiler:
    """Return a compiler of conditions, without a mapping."""
    setting = Setting()
    return Compiler(
        FunctionContext(setting, {}, Identifiers(IdentityRules(), setting), Stamps(setting.zone), {}), {}, problems
    )


CONDITIONS = [
    *(
        "PID-8 = F",
        "PID-8 != M",
        "PID-8 in (F, O)",
        "PID-8 not in [M, U]",
        "PID-8",
        "PID-8 exists",
        "PID-8 and not PID-29",
    ),
    *("PID-5.1 starts-with Ok", "PID-5.1 ends-with for", "PID-5.1 not starts-with ZZ", "PID-7 < 1990-01-01"),
    *("PID-7 <= 1980-01-01", "PID-7 > 1979-12", "PID-7 >= 1980-01", "ZAG-1 >= 18", "PID-3.1 matches '[0-9]+'"),
    *("event = A08", "event in (A08, A31)", "event starts-with A0", "PID-8 = M or PID-8 = F and event = A08"),
]
OTHERWISE = [
    *("PID-8 = M", "PID-8 != F", "PID-8 in (M, O)", "PID-8 not in [F]", "not PID-8", "PID-8 and PID-29 exists"),
    *("PID-5.1 starts-with ok", "PID-5.1 ends-with Ok", "PID-7 < 1980-01-01", "PID-7 > 1980-01", "ZAG-1 > 18"),
    *("ZAG-1 < 18", "PID-3.1 matches '[A-Z]+'", "event = A01", "event not in (A08)", "PID-8 = M and event = A08"),
]


def test_conditions_are_the_same_everywhere(author: Author, message: Make) -> None:
    """In an element, an entry of a list, an `unless`, one of several segments, a filter of either file."""
    conditions, said = [*CONDITIONS, *OTHERWISE], message("A08", person("Okafor"), "ZAG|18", "NK1|1|Roe^Jo")
    entries = [
        f'    - {{url: "urn:{way}:{number}", {made}}}\n'
        for number, one in enumerate(conditions)
        for way, made in (
            ("element", f'valueString: "yes | when {one}"'),
            ("entry", f'valueString: "yes", when: "{one}"'),
            ("unless", f'valueString: "yes | unless {one}"'),
            ("each", f'each: NK1, valueString: NK1-2.1, when: "{one}"'),
        )
    ]
    patient = "resource: Patient\nextends: shipped/patient\nelements:\n  extension:\n" + "".join(entries)
    source = load([author(resources__patient=patient), shipped("mappings")], "adt")
    made = outcome(compile_mapping(source, channel_of(AUTHORITIES)), said)["interactions"][0]["patient"]["extension"]
    found = {one["url"] for one in made if "valueString" in one}
    lines = [{"rule": f"r{number}", "when": one, "do": "filter"} for number, one in enumerate(conditions)]
    file, compiler = AuthoredFile("a.yaml", {}, {}), light_compiler(Problems())
    filters = (
        compile_filters(compiler, Document(file, {"filters": lines})),
        compile_channel_filters(compiler, [Authored.model_validate(line) for line in lines], file),
    )
    reading = MessageReading(said, said.groups, None, "")
    for number, one in enumerate(conditions):
        ways = [f"urn:{way}:{number}" in found for way in ("element", "entry", "each")]
        ways += [f"urn:unless:{number}" not in found, *(each[number].holds(None, reading) for each in filters)]
        assert ways == [one in CONDITIONS] * 6, one


PIECES = st.sampled_from(
    [
        *CONDITIONS,
        "PID-5.1",
        "OBX-5",
        "event",
        "not",
        "and",
        "or",
        "=",
        "in",
        "(",
        ")",
        "matches",
        "'(a+)+b'",
        "<",
        "''",
        ",",
    ]
)
AUTHORED = st.lists(PIECES | st.text(max_size=8), max_size=12).map(" ".join)
TEXT = st.text(st.characters(exclude_characters="\r\n"), max_size=40)
RAWS = st.lists(st.tuples(st.sampled_from(["PID|1|", "OBX|", "PV1||", "ZAG|", "PID", "Z"]), TEXT), max_size=6)


@pytest.mark.property
@settings(max_examples=trials(200))
@example("AA", [])
@given(AUTHORED, RAWS)
def test_no_condition_and_no_message_makes_it_fail(when: str, said: list[tuple[str, str]]) -> None:
    """What an author writes is told in its place, or answers whatever a message holds, in a bounded number of steps."""
    problems, file = Problems(), parse("filters: []", "a.yaml")
    line = Authored.model_construct(rule="fuzzed", when=when, do="filter", send_to=())
    made = compile_channel_filters(light_compiler(problems), [line], file)
    assert made or problems.found
    assert all((one.file, one.line) == ("a.yaml", 1) for one in problems.found)
    body = "\r".join(["MSH|^~\\&|HIS|RVB|||20250701||ADT^A08|1|P|2.5.1", *("".join(one) for one in said)])
    message = parse_message(body.encode("utf-8", "replace"))
    steps = 0

    def count(*_: object) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(count)
    try:
        held = first_of(made, message)
    finally:
        sys.setprofile(None)
    assert held in {None, *made}
    assert steps < 50 * (len(when) + len(body) + 100)

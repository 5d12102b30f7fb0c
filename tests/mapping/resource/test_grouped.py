"""Segments that stand under another one: which OBX belongs to which OBR, and what the two files make of both."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config.settings import shipped
from engine.errors import ConfigurationError, MappingError
from engine.fhir.plan import Find, Keep, Plan, Retire, Upsert
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import compile_mapping, load, read
from tests.mapping.conftest import Author

AUTHORITIES = {"RVB": "https://mrn.riverbend.example", "CDIS^PLAC": "https://cdis.example/placer-order-number"}
ORU = compile_mapping(read([shipped("mappings")], "oru"), channel_of({"authorities": AUTHORITIES}))
HEAD = ("MSH|^~\\&|LAB|CENTRAL|||20260302101000||ORU^R01|1|P|2.5.1", "PID|1||RB-1^^^RVB^MR||Quintero^Marisol")
# A report: where its order stands (its ORC, its OBR, nowhere), how many notes; of each result its code and notes.
REPORTS = st.lists(
    st.tuples(
        st.sampled_from(["ORC", "OBR", ""]),
        st.integers(0, 2),
        st.lists(st.tuples(st.sampled_from(["K", "NA", "TXT"]), st.integers(0, 2)), max_size=4),
    ),
    min_size=1,
    max_size=4,
)


def planned(*segments: str) -> Plan:
    """Return the plan of a result message."""
    return ORU.plan(parse("\r".join((*HEAD, *segments)).encode()))


def kept(plan: Plan, type_: str) -> list[Keep]:
    """Return what a plan keeps of a type, in order."""
    return [one for one in plan.interactions if isinstance(one, Keep) and one.record.type == type_]


def said(keep: Keep, element: str) -> Any:
    """Return what a plan says of an element."""
    items = [item for change in keep.record.changes if change.element == element for item in change.items]
    return items if element in {"result", "note", "basedOn"} else items[0] if items else None


@given(reports=REPORTS)
def test_every_result_is_listed_once_by_the_report_that_it_stands_under(reports: list[Any]) -> None:
    """None is lost, none stands in two reports, and each keeps its own value, notes and order, as they came."""
    lines, wanted = [], []
    for number, (where, notes, results) in enumerate(reports, 1):
        lines += [f"ORC|RE|P{number}^CDIS|F{number}"] * (where == "ORC")
        placer = f"P{number}^CDIS" if where == "OBR" else ""
        lines.append(f"OBR|{number}|{placer}|F{number}|24323-8^Panel^LN||||||||||||||||||||||F")
        lines += [f"NTE|{line}||of {number}.{line}" for line in range(1, notes + 1)]
        for at, (code, own) in enumerate(results, 1):
            lines.append(f"OBX|{at}|ST|{code}^{code}^L||{number}/{at}||||||F")
            lines += [f"NTE|{line}||of {number}/{at}.{line}" for line in range(1, own + 1)]
        wanted.append([f"{number}/{at}" for at in range(1, len(results) + 1)])
    plan = planned(*lines)
    observations = {one.record.local: one for one in kept(plan, "Observation")}
    reported = kept(plan, "DiagnosticReport")
    listed = [[result["reference"][1:] for result in said(report, "result")] for report in reported]
    assert [[said(observations[name], "valueString") for name in names] for names in listed] == wanted
    assert sum(map(len, listed)) == len(observations)
    assert len({observation.record.identities for observation in observations.values()}) == len(observations)
    orders = [one["reference"].rpartition("|")[2] for report in reported for one in said(report, "basedOn")]
    assert orders == [f"P{number}" for number, (where, *_) in enumerate(reports, 1) if where]
    for number, (report, (_, notes, results)) in enumerate(zip(reported, reports, strict=True), 1):
        texts = [f"of {number}.{line}" for line in range(1, notes + 1)]
        assert said(report, "conclusion") == ("\n".join(texts) or None)
        for at, (name, (_code, own)) in enumerate(zip(listed[number - 1], results, strict=True), 1):
            lines = [f"of {number}/{at}.{line}" for line in range(1, own + 1)]
            assert said(observations[name], "note") == ([{"text": "\n".join(lines)}] if lines else [])


def test_what_is_looked_for_comes_before_all_that_is_written() -> None:
    """An order of somebody else holds the message before anything of it is in the chart."""
    plan = planned("OBR|1|P1^CDIS|F1|A^A^L", "OBX|1|ST|K^K^L||1", "OBR|2|P2^CDIS|F2|B^B^L", "OBX|1|ST|K^K^L||2")
    kinds = [type(interaction) for interaction in plan.interactions]
    assert kinds[:3] == [Upsert, Find, Find]
    assert Find not in kinds[3:]
    assert {one.record.holder for one in plan.interactions if isinstance(one, Find)} == {"subject"}


def test_a_report_is_the_same_under_another_number_of_its_patient() -> None:
    """Its key alone tells it: a merge or a change of number in between makes no second one."""
    lines = ("OBR|1|P1|F1|A^A^L", "OBX|1|ST|K^K^L||1")
    first = planned(*lines)
    other = ORU.plan(parse("\r".join((HEAD[0], HEAD[1].replace("RB-1", "RB-2"), *lines)).encode()))
    for type_ in ("DiagnosticReport", "Observation"):
        assert kept(first, type_)[0].record.identities == kept(other, type_)[0].record.identities
    groups = [one.group for plan in (first, other) for one in plan.interactions if isinstance(one, Retire)]
    assert len(groups) == 2
    assert len(set(groups)) == 1


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(("OBR|1|||A^A^L", "OBX|1|ST|K^K^L||1"), id="no-order-number"),
        pytest.param(('OBR|1||""|A^A^L', "OBX|1|ST|K^K^L||1"), id="deleted-order-number"),
        pytest.param(("OBR|1||F1", "OBX|1|ST|||1"), id="no-code"),
        pytest.param(("OBR|1||F1|A^A^L", 'OBX|""|ST|K^K^L||1'), id="deleted-result"),
    ],
)
def test_a_report_that_cannot_be_read_whole_is_held(lines: tuple[str, ...]) -> None:
    """No result is left out of a report for want of what tells it from others."""
    with pytest.raises(MappingError) as caught:
        planned(*lines)
    assert caught.value.reason == "not-whole"


SITE = """resource: Observation
extends: shipped/observation
segments:
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("  OBX under OBX2: {like: OBX, within: sender}\n", "unknown segment 'OBX2'", id="parent"),
        pytest.param("  OBX under ORC: {like: OBY, within: sender, key: [ORC-3.1]}\n", "found 'OBY'", id="like"),
        pytest.param(
            "  OBX under ORC: {like: OBX, within: patient, key: [ORC-3.1]}\n", "write within: sender", id="within"
        ),
        pytest.param(
            "  OBX under ORC: {like: OBX, within: sender, action: OBX-11, key: [ORC-3.1]}\n",
            "'action' within sender",
            id="action",
        ),
        pytest.param(
            "  OBR: {within: sender, key: [OBR-3.1], elements: {code: OBR-4 | coded}}\n", "a snapshot", id="list"
        ),
        pytest.param("grows: [status]\n", "Observation has no list 'status'", id="grows"),
        pytest.param("stays: [stat]\n", "did you mean 'status'", id="stays"),
    ],
)
def test_mistakes_are_told_with_their_place(author: Author, text: str, told: str) -> None:
    """Each with file, line and column, and what would do."""
    content = SITE + text if text.startswith(" ") else SITE.replace("segments:\n", "") + text
    folder = author(resources__observation=content)
    with pytest.raises(ConfigurationError) as caught:
        load([folder, shipped("mappings")], "oru")
    (problem,) = [one for one in caught.value.problems if told in f"{one.found}; {one.expected}"]
    assert (problem.file.rpartition("/")[2], problem.line > 2, problem.column > 0) == ("observation.yaml", True, True)


def test_a_site_changes_one_line_of_what_is_like_another(author: Author) -> None:
    """A line of OBX reaches the results as well, unless they have their own; a fault in it is told where it stands."""
    site = SITE + "  OBX:\n    elements:\n      bodySite: OBX-20 | codedd\n"
    with pytest.raises(ConfigurationError) as caught:
        load([author(resources__observation=site), shipped("mappings")], "oru")
    assert [(problem.line, "codedd" in problem.found) for problem in caught.value.problems] == [(6, True)]


@pytest.mark.parametrize("key", ["grows", "stays"])
def test_what_only_lists_of_a_sender_use_is_refused_elsewhere(author: Author, key: str) -> None:
    """The allergies of a patient do not grow so; the line would do nothing, in silence."""
    content = f"resource: AllergyIntolerance\nextends: shipped/allergyintolerance\n{key}: [category]\n"
    with pytest.raises(ConfigurationError) as caught:
        load([author(resources__allergyintolerance=content), shipped("mappings")], "adt")
    (problem,) = caught.value.problems
    assert (problem.line, problem.found) == (3, f"'{key}', and no segment within sender")
    assert problem.expected == "leave it out: it is for segments with within: sender"


@pytest.mark.parametrize(("line", "whole"), [("", False), ("list: snapshot\n", True)])
def test_a_site_may_take_reports_as_whole(author: Author, line: str, whole: bool) -> None:
    """As it ships only a text that gets shorter loses lines; with one line of a site, all that is not sent again."""
    folder = author(resources__observation=f"resource: Observation\nextends: shipped/observation\n{line}")
    site = compile_mapping(read([folder, shipped("mappings")], "oru"), channel_of({"authorities": AUTHORITIES}))
    lines = (*HEAD, "OBR|1|P1|F1|A^A^L", "OBX|1|ST|K^K^L||1", "OBX|2|ST|K^K^L||2")
    plan = site.plan(parse("\r".join(lines).encode()))
    (retire,) = [interaction for interaction in plan.interactions if isinstance(interaction, Retire)]
    assert (retire.complete, retire.shortened, len(set(retire.marks)), len(set(retire.listed))) == (whole, True, 1, 2)

"""Each rule provoked once, in its place and with the standard's name; nothing raised whatever comes in."""

import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config.settings import shipped
from engine.errors import MessageError
from engine.hl7.conformance.check import CODES, ConformanceRule, Deviation, check
from engine.hl7.finding import ErrorCode, FindingSeverity
from engine.hl7.message import parse
from engine.ops.sender.feed import read_messages
from engine.simulation.world import simulate

HEAD = "MSH|^~\\&|REG|RVB|ENG|HUB|20260302061604||ADT^A01^ADT_A01|C1|P|2.5.1"
EVN = "EVN||20260302061604"
PID = "PID|1||RB1^^^RVB^MR||Quillfeather^Marisol||19840229|F"
PV1 = "PV1|1|I|3W^401^A"


def deviations(*segments: str) -> list[Deviation]:
    """Check a message of these segments."""
    return list(check(parse("\r".join(segments).encode())))


def places(found: list[Deviation]) -> list[str]:
    """Return rule and place of each deviation."""
    return [f"{one.rule} {one.place}" for one in found]


def test_a_message_as_the_standard_says_has_no_deviation() -> None:
    """Nothing is found where there is nothing."""
    assert deviations(HEAD, EVN, PID, PV1) == []


@pytest.mark.parametrize(
    ("segments", "place"),
    [
        pytest.param((HEAD, EVN, PV1), "segment-missing PID", id="no PID"),
        pytest.param((HEAD, EVN, PID, PV1, PV1), "segment-repeats PV1(2)", id="PV1 twice"),
        pytest.param((HEAD, EVN, PV1, PID), "segment-order PID", id="PID after PV1"),
        pytest.param((HEAD, EVN, PID, PV1, "MRG|RB2"), "segment-unexpected MRG", id="MRG in an A01"),
        pytest.param((HEAD.replace("ADT_A01", "ADT_A04"), EVN, PID, PV1), "structure-name MSH-9.3", id="MSH-9.3"),
        pytest.param((HEAD, "EVN|A01", PID, PV1), "field-missing EVN-2", id="no EVN-2"),
        pytest.param((HEAD, EVN, PID.replace("F", "F~M"), PV1), "field-repeats PID-8", id="two sexes"),
        pytest.param((HEAD, EVN, PID, PV1 + "|" * 60 + "x"), "field-unknown PV1-63", id="a field too many"),
        pytest.param((HEAD, EVN, PID, PV1, "DG1|1||I10^a^I10||||^^^^^^^x"), "field-missing DG1-6", id="no DG1-6"),
        pytest.param((HEAD, EVN, PID.replace("RVB^", "RVB&a&b&c^"), PV1), "component-unknown PID-3.4", id="HD of 4"),
        pytest.param((HEAD, EVN, PID.replace("19840229", "19850229"), PV1), "data-type PID-7.1", id="no such day"),
        pytest.param((HEAD, EVN, PID.replace("PID|1", "PID|one"), PV1), "data-type PID-1", id="no number"),
        pytest.param((HEAD, EVN, PID.replace("RB1", "R" * 200), PV1), "too-long PID-3.1", id="a long ST"),
        pytest.param((HEAD, EVN, PID.replace("^MR", "^XXX"), PV1), "table-value PID-3.5", id="an unknown type"),
        pytest.param((HEAD, EVN, PID.replace("^MR", "^MR~R^^^&1.2&OID"), PV1), "table-value PID-3(2).4.3", id="twice"),
        pytest.param((HEAD, EVN, PID.replace("|F", "|X"), PV1), "table-value PID-8", id="a sex of the site's own"),
        pytest.param((HEAD, EVN, PID, PV1, "AL1|1||^^L", "AL1|x||a"), "data-type AL1(2)-1", id="second segment"),
        pytest.param((HEAD, EVN, PID, PV1, "OBX|1|NM|a||much||||||F"), "data-type OBX-5", id="OBX-5 as OBX-2 says"),
    ],
)  # fmt: skip
def test_each_rule_names_its_place(segments: tuple[str, ...], place: str) -> None:
    """One fault is one deviation, at its place."""
    assert place in places(deviations(*segments))


def test_a_misplaced_segment_is_not_also_missing() -> None:
    """What stands elsewhere is there."""
    assert places(deviations(HEAD, EVN, PV1, PID)) == ["segment-order PID"]


def test_a_deviation_speaks_in_the_words_of_the_standard() -> None:
    """Name, what is expected and of what kind the value is: enough to mend it, and nothing of the value."""
    (one,) = deviations(HEAD, EVN, PID.replace("RVB^MR", "RVB^SECRET"), PV1)
    assert one.name == "Patient identifier list, Identifier type code"
    assert (one.expected, one.found) == ("a code of table 0203 (Identifier type)", "another code")
    finding = one.finding()
    assert (finding.code, finding.reason) == (ErrorCode.TABLE_VALUE, "conformance-table-value")
    assert finding.locations == ("PID-3.5",)
    assert "SECRET" not in repr(one) + finding.text


def test_what_sites_and_later_versions_may_do_is_a_warning() -> None:
    """User-defined tables, withdrawn fields and more parts than the version has break no rule."""
    found = deviations(
        HEAD.replace("2.5.1", "2.8"),
        EVN,
        "PID|1|old|RB1^^^RVB^MR||A^B||1984|X^^^^^^^^^^^^^^^^^^^^^^^^y",
        PV1 + "||||||||||||||||||||||||||||||||||||||||||||||||||||||x",
    )
    assert {one.rule for one in found} >= {
        ConformanceRule.FIELD_WITHDRAWN,
        ConformanceRule.TABLE_VALUE,
        ConformanceRule.COMPONENT_UNKNOWN,
    }
    assert {one.severity for one in found} == {FindingSeverity.WARNING}


@pytest.mark.parametrize("text", ['""', '""^""'])
def test_null_is_no_fault(text: str) -> None:
    """A value to be deleted is held to no form."""
    assert deviations(HEAD, EVN, f"{PID}||{text}|{text}|||{text}", PV1) == []


def test_escapes_are_undone_before_a_value_is_measured() -> None:
    """What counts is the value, not how it is written."""
    name = "\\T\\" * 100
    assert deviations(HEAD, EVN, PID.replace("Marisol", name), PV1) == []


def test_z_segments_are_the_sites_own() -> None:
    """They may stand anywhere and hold anything."""
    assert deviations(HEAD, "ZXX|^^^^", EVN, PID, "ZPI|x", PV1, "ZPV|1") == []


def test_groups_of_a_merge_repeat() -> None:
    """An A40 with two groups is as the standard says; with MRG before PID it is not."""
    head = HEAD.replace("A01^ADT_A01", "A40^ADT_A39")
    assert deviations(head, EVN, PID, "MRG|RB2", PID, "MRG|RB3") == []
    assert places(deviations(head, EVN, "MRG|RB2", PID)) == ["segment-order MRG"]


def test_an_empty_version_is_the_channels() -> None:
    """MSH-12 may be empty; of a version that is none nothing is said."""
    raw = "\r".join((HEAD.replace("|2.5.1", ""), EVN, PID.replace("PID|1", "PID|x"), PV1)).encode()
    assert [one.place for one in check(parse(raw), "2.4")] == ["MSH-12", "PID-1"]
    assert check(parse(raw), "9.9") == ()


@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3", "2.3.1", "2.4", "2.5", "2.6", "2.7.1", "2.8.2", "2.9.1"])
def test_every_version_is_known(version: str) -> None:
    """Each version checks an A01; one without tables of its own is read as the nearest older one."""
    found = deviations(HEAD.replace("2.5.1", version), EVN, PID.replace("19840229", "1984-02-29"), PV1)
    assert "PID-7" in {one.place.removesuffix(".1") for one in found}


def test_simulated_messages_conform() -> None:
    """What the simulation says is held to be as the standard has it, but for one sender's MSH-18."""
    wrong = {
        (one.place, message.sender)
        for message in islice(simulate(11, 40), 1500)
        for one in check(parse(message.raw))
        if one.severity is FindingSeverity.ERROR
    }
    assert wrong == {("MSH-18", "CLINIC")}


@settings(deadline=None)
@given(st.data())
def test_nothing_is_raised_whatever_stands_in_a_message(data: st.DataObject) -> None:
    """A message with some bytes replaced, cut or doubled is checked like any other."""
    raw = data.draw(st.sampled_from(list(islice(simulate(3, 10), 60)))).raw
    junk = st.binary(max_size=6) | st.sampled_from([b"|", b"^", b"~", b"&", b"\\", b'""', b"\r", b"OBX|", b"|" * 300])
    for _ in range(data.draw(st.integers(1, 12))):
        at = data.draw(st.integers(0, len(raw)))
        raw = raw[:at] + data.draw(junk) + raw[at + data.draw(st.integers(0, 30)) :]
    try:
        message = parse(raw, undecodable="replace")
    except MessageError:
        return
    for one in check(message):
        assert one.name
        assert one.rule in CODES
        one.finding()


@pytest.mark.parametrize("file", sorted(shipped("samples").glob("*.hl7")), ids=lambda file: file.name)
def test_every_sample_is_checked(file: Path) -> None:
    """Whatever a sample shows, the check says something of it or nothing."""
    for raw in read_messages([file]):
        try:
            message = parse(raw, undecodable="replace")
        except MessageError:
            continue
        assert all(one.place for one in check(message))


def test_most_of_what_others_wrote_breaks_a_rule(corpus, capsys: pytest.CaptureFixture[str]) -> None:
    """About three of four real messages fail a strict check: it is a report and no gate."""
    read = broken = warned = 0
    for file in corpus:
        try:
            message = parse(file.raw, charset="8859/1" if "NOT UTF-8" in file.row["notes"] else "UTF-8")
        except MessageError:
            continue
        found = check(message)
        read += 1
        broken += any(one.severity is FindingSeverity.ERROR for one in found)
        warned += bool(found)
    with capsys.disabled():
        print(f"\nconformance: {broken} of {read} messages break a rule, {warned} have findings")  # noqa: T201
    assert 0.6 < broken / read < 0.85


def test_the_tables_are_not_read_before_they_are_needed() -> None:
    """An engine whose channels check nothing never imports hl7apy."""
    code = "import sys, engine.ops.cli.run, engine.pipeline.inbound.judgement; assert 'hl7apy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_components_are_counted_as_the_standard_numbers_them() -> None:
    """The table of 2.6 does not list XTN.1: what follows it is not taken for its neighbour."""
    head = HEAD.replace("2.5.1", "2.6")
    assert deviations(head, EVN, f"{PID}|||||^PRN^PH^^^^^^^^^+1 555 5550104", PV1) == []

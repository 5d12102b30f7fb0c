"""Identities in fields that an author names with type and system: PID-19, and Z segments."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config.settings import shipped
from engine.errors import ConfigurationError, MappingError
from engine.fhir.plan import Identity, Link, Merge, Move, Rename, Upsert
from engine.hl7.message import Message, parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import Mapping, compile_mapping, load, read
from engine.mapping.subject.subject import Disposition

Make = Callable[..., Message]
RVB, SSN, EID = "https://mrn.riverbend.example", "http://hl7.org/fhir/sid/us-ssn", "https://eid.example"
FIELDS = f"[PID-3, {{field: PID-19, type: SS}}, {{field: ZID-3, type: PI, system: '{EID}'}}]"
TYPES = "not_identity: [DL, PPN, AN, VN, SN, MA, MC]"


def _site(folder: Path, fields: str, types: str = TYPES) -> Path:
    identity = f"identity:\n  from: {fields}\n  {types}\n"
    (folder / "adt.yaml").write_text(f"mapping: adt\nextends: shipped/adt\n{identity}", "utf-8")
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Mapping:
    """A mapping by which PID-19 and ZID-3 stand for the patient as well."""
    folder = _site(tmp_path_factory.mktemp("site"), FIELDS)
    return compile_mapping(read([folder, shipped("mappings")], "adt"), channel_of({"authorities": {"RVB": RVB}}))


def _said(event: str, *segments: str) -> Message:
    head = f"MSH|^~\\&|REG|RVB|||20250701093000||ADT^{event}|1|P|2.5.1\rEVN||20250701093000"
    return parse("\r".join((head, *segments)).encode())


def _pid(number: str, ssn: str = "", birth: str = "19840229") -> str:
    return f"PID|1||{number}||QUINTERO^MARISOL||{birth}|F" + "|" * 11 + ssn


def test_identities_of_all_fields(site: Mapping) -> None:
    """All of them stand for the patient, in one lane, the preferred type first; the record carries each."""
    message = _said("A31", _pid("RB-1^^^RVB", "123-45-6789"), "ZID|1||E-7~E-8")
    identities = (Identity(RVB, "RB-1"), Identity(EID, "E-7"), Identity(EID, "E-8"), Identity(SSN, "123-45-6789"))
    assert site.identify(message).patients == (identities,)
    (upsert,) = site.plan(message).interactions
    assert isinstance(upsert, Upsert)
    assert upsert.patient.identities == identities
    carried = [(identifier["system"], identifier["value"]) for identifier in upsert.patient.identifiers]
    assert sorted(carried) == sorted(identities)  # PID-19 once, though patient.yaml maps it as well


def test_a_patient_without_a_number_of_pid_3(site: Mapping) -> None:
    """A message that names the patient by such a field alone is about that patient; without any it is refused."""
    assert site.identify(_said("A31", _pid("", "123-45-6789"))).patients == ((Identity(SSN, "123-45-6789"),),)
    assert site.identify(_said("A31", _pid(""), "ZID|1||E-7")).patients == ((Identity(EID, "E-7"),),)
    (finding,) = site.identify(_said("A31", _pid(""))).findings
    assert finding.reason == "no-identity"


@pytest.mark.parametrize("value", ["000-00-0000", "999999999", "999-99-9999", "UNKNOWN", "none"])
def test_placeholders(site: Mapping, value: str) -> None:
    """What stands for nobody in PID-3 does so here, too."""
    assert site.identify(_said("A31", _pid("RB-1^^^RVB", value))).patients == ((Identity(RVB, "RB-1"),),)
    subject = site.identify(_said("A31", _pid("", value), f"ZID|1||{value}"))
    assert (subject.action, subject.findings[0].reason) == (Disposition.REFUSE, "placeholder-identity")


def test_a_null_says_nothing(site: Mapping) -> None:
    """A deleted number stands for nobody."""
    assert site.identify(_said("A31", _pid("RB-1^^^RVB", '""'), 'ZID|1||""')).patients == ((Identity(RVB, "RB-1"),),)


def test_each_patient_has_the_segments_behind_its_own_pid(site: Mapping) -> None:
    """Of several patients each has its own Z segment, and what stands before the first PID is nobody's."""
    beds = ("PV1|1|I|3W", "PV1|1|I|4W")
    message = _said("A17", "ZID|1||E-0", _pid("A^^^RVB"), beds[0], "ZID|1||E-1", _pid("B^^^RVB"), beds[1], "ZID|1||E-2")
    assert [[one.value for one in group] for group in site.identify(message).patients] == [["A", "E-1"], ["B", "E-2"]]
    several = site.identify(_said("A31", _pid("A^^^RVB"), "ZID|1||E-1", _pid("B^^^RVB"), "ZID|1||E-1"))
    assert [finding.reason for finding in several.findings] == ["several-patients"]


def test_a_merge_is_of_numbers_that_both_sides_name(site: Mapping) -> None:
    """Two charts of one person have one SSN: it is no side of the merge, nor does it make one of two sides."""
    message = _said("A40", _pid("B^^^RVB^MR", "123-45-6789"), "MRG|A^^^RVB^MR", "ZID|1||E-1")
    (merge,) = site.plan(message).interactions
    assert isinstance(merge, Merge)
    assert (merge.source, merge.target) == (Identity(RVB, "A"), Identity(RVB, "B"))
    assert (merge.sources, merge.survivor.identities) == ((Identity(RVB, "A"),), (Identity(RVB, "B"),))
    assert site.identify(message).patients == ((Identity(RVB, "B"), Identity(RVB, "A")),)
    (finding,) = site.identify(_said("A40", _pid("", "123-45-6789"), "MRG|A^^^RVB^MR")).findings
    assert finding.reason == "no-identity"


number = st.text("0189AB-", min_size=1, max_size=6)


@given(st.lists(number, min_size=0, max_size=2), number, number, st.sampled_from(["A40", "A47", "A43", "A24"]))
def test_named_fields_are_no_side_of_what_cannot_be_undone(
    site: Mapping, mrns: list[str], ssn: str, gone: str, event: str
) -> None:
    """Whatever they hold, a merge, a change and a move are as without them; lanes are those of the plan."""
    listed = "~".join(f"{mrn}^^^RVB^MR" for mrn in mrns)
    segments = ("MRG|" + gone + "^^^RVB^MR",) if event != "A24" else (_pid(f"{gone}^^^RVB^MR", ssn),)
    with_named, without = (
        _said(event, _pid(listed, named), *segments, *((f"ZID|1||{named}",) if named else ())) for named in (ssn, "")
    )
    told, bare = site.identify(with_named), site.identify(without)
    if event != "A24":
        assert (told.patients, told.findings) == (bare.patients, bare.findings)
    try:
        (one,) = site.plan(with_named).interactions
    except MappingError:
        assert told.action is Disposition.REFUSE
        return
    assert told.action is Disposition.DELIVER
    lanes = {identity for group in told.patients for identity in group}
    assert {identity for identity in _named_by(one) if identity.system != RVB} <= lanes
    if not isinstance(one, Link):
        assert {identity.system for identity in _named_by(one)} == {RVB}


def _named_by(one: object) -> set[Identity]:
    """Return the identities by which patients are found."""
    if isinstance(one, Merge):
        return {one.source, one.target, *one.sources, *one.survivor.identities}
    if isinstance(one, Rename):
        return {*one.old, *one.new, *one.patient.identities}
    if isinstance(one, Move):
        return {*one.moving, *one.source, *one.target.identities}
    assert isinstance(one, Link)
    return {*one.one.identities, *one.other.identities}


@given(number, number, number)
def test_lanes_are_those_of_the_plan(site: Mapping, mrn: str, ssn: str, eid: str) -> None:
    """What intake orders by is what delivery finds by: not one identity more or less."""
    message = _said("A31", _pid(f"{mrn}^^^RVB", ssn), f"ZID|1||{eid}")
    subject = site.identify(message)
    if subject.action is Disposition.REFUSE:
        with pytest.raises(MappingError):
            site.plan(message)
        return
    (upsert,) = site.plan(message).interactions
    assert isinstance(upsert, Upsert)
    assert subject.patients == (upsert.patient.identities,)
    carried = {(identifier["system"], identifier["value"]) for identifier in upsert.patient.identifiers}
    assert set(upsert.patient.identities) <= carried


@pytest.mark.parametrize(
    ("fields", "types", "told"),
    [
        ("[PID-3, PID-19]", TYPES, "found 'PID-19'; expected PID-3, PID-2 or PID-4, or {field: PID-19"),
        ("[PID-3, {field: PID-5, type: PI}]", TYPES, "found 'PID-5'"),
        ("[PID-3, {field: PID-19}]", TYPES, "no type; say of which type"),
        ("[PID-3, {field: PID-19, type: SS}]", "untyped: MR", "SS is in not_identity"),
        ("[PID-3, {field: ZID-3, type: PI}]", TYPES, "no system; say in which system"),
        ("[PID-3, {field: ZID-3, type: PI, systems: a}]", TYPES, "unknown key 'systems'; did you mean 'system'?"),
        ("[PID-3, {field: PID-19, type: SS}, {field: PID-19, type: SS}]", TYPES, "PID-19 twice"),
        ("[{field: PID-19, type: SS}]", TYPES, "no field of identifiers"),
    ],
)
def test_a_fault_is_told_with_its_place(tmp_path: Path, fields: str, types: str, told: str) -> None:
    """What is wrong is named in the line where it stands, with what to write."""
    with pytest.raises(ConfigurationError) as raised:
        load([_site(tmp_path, fields, types), shipped("mappings")], "adt")
    lines = [str(problem) for problem in raised.value.problems]
    assert any("adt.yaml:4:" in line and told in line for line in lines), lines

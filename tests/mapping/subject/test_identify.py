"""Subjects: what intake learns of a message, and how numbers are told apart."""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.fhir.plan import Identity, Merge
from engine.hl7.finding import ErrorCode
from engine.hl7.message import Message, parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import Mapping, MappingSource, compile_mapping
from engine.mapping.language.identifier import universal_uri
from engine.mapping.subject.subject import Disposition
from tests.tiers import trials

Make = Callable[..., Message]
UUID = "6F9619FF-8B86-D011-B42D-00CF4FC964FF"
PID_18 = "PID|1||1^^^RVB^MR" + "|" * 15 + "ACC1"
RVB = "https://mrn.riverbend.example"


def test_subject_of_an_admission(mapping: Mapping, message: Make) -> None:
    """Rule, identity, visit and event time stand in the subject."""
    subject = mapping.identify(message("A01", "PID|1||RB-1^^^RVB", "PV1|1|I" + "|" * 17 + "V77^^^RVB"))
    assert (subject.rule, subject.action, subject.visit) == ("admit", Disposition.DELIVER, "V77")  # PV1-19.1
    assert subject.patients == ((Identity(RVB, "RB-1"),),)
    assert subject.event_at is not None
    assert subject.event_at.isoformat() == "2025-07-01T09:29:00-04:00"  # EVN-2 in America/New_York


def test_a_message_that_is_no_adt_is_refused(source: MappingSource) -> None:
    """Another message type gets 200, should it ever come here."""
    mapping = compile_mapping(source, channel_of({}))
    subject = mapping.identify(parse(b"MSH|^~\\&|H|R|||20250701||ORU^R01|1|P|2.5.1\rPID|1||1^^^RVB"))
    assert [finding.code for finding in subject.findings] == [ErrorCode.UNSUPPORTED_MESSAGE]


@pytest.mark.parametrize("value", ["0", "000", "999", "99999999", "000-00-0000", "UNKNOWN", "unknown", "null"])
def test_placeholders_are_whole_values(source: MappingSource, message: Make, value: str) -> None:
    """All zeros, three or more nines and the words listed stand for nobody."""
    subject = compile_mapping(source, channel_of({})).identify(message("A01", f"PID|1||{value}^^^RVB"))
    assert [finding.reason for finding in subject.findings] == ["placeholder-identity"]


@pytest.mark.parametrize("value", ["9", "99", "0001", "9990", "UNKNOWN1", "NULLABLE"])
def test_placeholders_are_never_prefixes(source: MappingSource, message: Make, value: str) -> None:
    """A number that only begins like one is a number."""
    subject = compile_mapping(source, channel_of({})).identify(message("A01", f"PID|1||{value}^^^RVB"))
    assert subject.findings == ()


def test_preferred_order(source: MappingSource, message: Make) -> None:
    """The first identity is the preferred one, wherever it stands in the list."""
    mapping = compile_mapping(source, channel_of({"authorities": {"RVB": RVB}}))
    subject = mapping.identify(message("A01", "PID|1||7^^^RVB^PT~8^^^RVB^PI~9^^^RVB^MR"))
    assert [identity.value for identity in subject.patients[0]] == ["9", "8", "7"]


def test_one_identity_once(mapping: Mapping, message: Make) -> None:
    """The same number sent twice is one identity."""
    assert len(mapping.identify(message("A01", "PID|1||1^^^RVB^MR~1^^^RVB^MR")).patients[0]) == 1


@pytest.mark.parametrize(
    ("universal", "kind", "uri"),
    [
        pytest.param("1.2.3", "ISO", "urn:oid:1.2.3", id="ISO"),
        pytest.param("1.02.3", "ISO", "", id="no OID"),
        pytest.param(
            "6F9619FF-8B86-D011-B42D-00CF4FC964FF", "UUID", "urn:uuid:6f9619ff-8b86-d011-b42d-00cf4fc964ff", id="UUID"
        ),
        pytest.param("https://a.example/x", "URI", "https://a.example/x", id="URI"),
        pytest.param("a b", "URI", "", id="no URI"),
        pytest.param("rvb.example", "DNS", "", id="DNS is for the channel's map"),
        pytest.param("1.2.3", "", "", id="no type"),
    ],
)
def test_universal_ids(universal: str, kind: str, uri: str) -> None:
    """HD.2 becomes a URI only where it is of its type."""
    assert universal_uri(universal, kind) == uri


def test_a_universal_id_may_be_configured(source: MappingSource, message: Make) -> None:
    """The channel's map is asked by HD.1 and then by HD.2, before the id itself."""
    channel = channel_of({"authorities": {"1.2.3": "urn:one", "rvb.example": "urn:dns"}})
    subject = compile_mapping(source, channel).identify(message("A01", "PID|1||1^^^X&1.2.3&ISO~2^^^&rvb.example&DNS"))
    assert {identity.system for identity in subject.patients[0]} == {"urn:one", "urn:dns"}


def test_another_type_never_shares_the_system_of_record_numbers(source: MappingSource, message: Make) -> None:
    """An account number of the same authority is found by a system of its own, which the channel may name."""
    plain = compile_mapping(source, channel_of({"authorities": {"RVB": RVB}}))
    named = compile_mapping(source, channel_of({"authorities": {"RVB": RVB, "RVB^AN": "urn:accounts"}}))
    made = message("A01", "PID|1||1^^^RVB^MR~5^^^RVB^AN")
    systems = [
        [item["system"] for item in mapping.plan(made).interactions[0].patient.identifiers]  # type: ignore[union-attr]
        for mapping in (plain, named)
    ]
    assert systems == [[RVB, f"{RVB}#AN"], [RVB, "urn:accounts"]]


def test_several_merges_are_lanes_of_their_own(mapping: Mapping, message: Make) -> None:
    """Each PID/MRG pair is one group; pairs are not united with each other."""
    subject = mapping.identify(message("A40", "PID|1||1^^^RVB", "MRG|2^^^RVB", "PID|1||3^^^RVB", "MRG|4^^^RVB"))
    assert subject.merge
    assert [[identity.value for identity in group] for group in subject.patients] == [["1", "2"], ["3", "4"]]


def test_by_position_where_systems_and_types_differ(source: MappingSource, message: Make) -> None:
    """Without a common system or type the pairing is by position."""
    channel = channel_of({"authorities": {"A": "urn:a", "B": "urn:b", "C": "urn:c", "D": "urn:d"}})
    mapping = compile_mapping(source, channel)
    plan = mapping.plan(message("A40", "PID|1||1^^^A^PT~2^^^B^MR", "MRG|3^^^C^XX~4^^^D^PN"))
    merge = plan.interactions[0]
    assert (merge.target.value, merge.source.value) == ("2", "4")  # type: ignore[union-attr]


NUMBERS = st.lists(
    st.builds(
        "{}^^^{}{}".format,
        st.sampled_from("ABCD"),
        st.sampled_from(["RVB", "ENT"]),
        st.sampled_from(["", "^MR", "^PI"]),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.property
@given(listed=NUMBERS, merged=NUMBERS, data=st.data())
@settings(max_examples=trials(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_order_of_a_list_changes_no_verdict(
    mapping: Mapping, message: Make, listed: list[str], merged: list[str], data: st.DataObject
) -> None:
    """However PID-3 and MRG-1 are ordered: refused for the same reasons, or the same sides merged."""

    def verdict(numbers: list[str], gone: list[str]) -> tuple[object, ...]:
        made = message("A40", f"PID|1||{'~'.join(numbers)}", f"MRG|{'~'.join(gone)}")
        subject = mapping.identify(made)
        if subject.findings:
            return tuple(finding.reason for finding in subject.findings)
        (merge,) = mapping.plan(made).interactions
        assert isinstance(merge, Merge)
        assert merge.source != merge.target
        return frozenset(merge.sources), frozenset(merge.survivor.identities)

    shuffled = verdict(data.draw(st.permutations(listed)), data.draw(st.permutations(merged)))
    assert shuffled == verdict(listed, merged)


def test_pairs_of_numbers_on_both_sides_are_chosen_in_any_order(mapping: Mapping, message: Make) -> None:
    """Where each pair has a number that the other side lists, too, the sides do not hang on which was sent first."""
    listed, merged = ["A^^^RVB", "A^^^ENT", "B^^^ENT^PI", "C^^^RVB^PI"], ["B^^^RVB^PI", "B^^^ENT", "C^^^RVB"]
    found = set()
    for numbers, gone in itertools.product(itertools.permutations(listed), itertools.permutations(merged)):
        (merge,) = mapping.plan(message("A40", f"PID|1||{'~'.join(numbers)}", f"MRG|{'~'.join(gone)}")).interactions
        assert isinstance(merge, Merge)
        found.add((frozenset(merge.sources), frozenset(merge.survivor.identities)))
    assert len(found) == 1


@pytest.mark.parametrize("listed", ["D^^^RVB~C^^^RVB", "C^^^RVB~D^^^RVB"])
@pytest.mark.parametrize("merged", ["D^^^RVB", "D^^^RVB^MR", "E^^^RVB~D^^^RVB", "D^^^RVB~E^^^RVB"])
def test_a_number_listed_on_both_sides_is_no_self_merge(
    mapping: Mapping, message: Make, listed: str, merged: str
) -> None:
    """D is merged into C wherever PID-3 lists D, too; where MRG lists another, that one is."""
    made = message("A40", f"PID|1||{listed}", f"MRG|{merged}")
    assert mapping.identify(made).findings == ()
    (merge,) = mapping.plan(made).interactions
    assert isinstance(merge, Merge)
    assert (merge.source.value, merge.target.value) == ("E" if "E" in merged else "D", "C")


@pytest.mark.parametrize(
    ("listed", "merged"),
    [
        ("D^^^RVB", "D^^^RVB"),
        ("C^^^RVB~D^^^RVB", "D^^^RVB~C^^^RVB"),
        ("D^^^RVB^MR~C^^^RVB^PI", "D^^^RVB^MR"),
        ("D^^^RVB^MR~C^^^RVB^PI", "E^^^RVB^PI~D^^^RVB^MR"),
    ],
)
def test_the_same_preferred_number_on_both_sides_is_a_self_merge(
    mapping: Mapping, message: Make, listed: str, merged: str
) -> None:
    """Where nothing of its kind tells the sides apart, the message is refused (205)."""
    subject = mapping.identify(message("A40", f"PID|1||{listed}", f"MRG|{merged}"))
    assert [(finding.code, finding.reason) for finding in subject.findings] == [(ErrorCode.DUPLICATE_KEY, "self-merge")]


def test_a_self_merge_names_its_pair(mapping: Mapping, message: Make) -> None:
    """The second of three pairs is of one number: the message is refused, and the places are those of that pair."""
    pairs = [part for one, other in (("A", "B"), ("C", "C"), ("D", "E")) for part in (one, other)]
    segments = [f"{'MRG|' if at % 2 else 'PID|1||'}{number}^^^RVB" for at, number in enumerate(pairs)]
    (finding,) = mapping.identify(message("A40", *segments)).findings
    assert (finding.reason, finding.locations) == ("self-merge", ("PID(2)-3(1).1", "MRG(2)-1(1).1"))


@pytest.mark.parametrize("event", ["A01", "A08", "A11", "A23", "A31", "A35"])
def test_whom_mrg_names_is_waited_for_whatever_the_event_does(mapping: Mapping, message: Make, event: str) -> None:
    """An update, a cancel, a deletion with an MRG: a group of its own, so that both lanes stay in order.

    What the update asks for is of the patient in PID alone.
    """
    made, plain = (message(event, "PID|1||1^^^RVB^MR", *more, "PV1|1|I") for more in (("MRG|2^^^RVB^MR",), ()))
    assert [[one.value for one in group] for group in mapping.identify(made).patients] == [["1"], ["2"]]
    assert [[one.value for one in group] for group in mapping.identify(plain).patients] == [["1"]]
    if event in {"A01", "A08", "A31"}:
        assert mapping.plan(made).interactions == mapping.plan(plain).interactions


def test_whom_mrg_names_as_pid_does_is_one_patient(mapping: Mapping, message: Make) -> None:
    """A number that both list makes no second group."""
    subject = mapping.identify(message("A08", "PID|1||1^^^RVB^MR", "MRG|1^^^RVB^MR"))
    assert [[one.value for one in group] for group in subject.patients] == [["1"]]


@pytest.mark.parametrize(
    ("event", "segments", "visit"),
    [
        ("A01", (PID_18, "PV1|1|I|||P5||||||||||||||V19"), "V19"),
        ("A01", (PID_18, "PV1|1|I|||P5"), "P5"),
        ("A01", (PID_18, "PV1|1|I" + "|" * 48 + "P50"), "P50"),
        ("A01", (PID_18, "PV1|1|I"), "ACC1"),
        ("A01", ("PID|1||1^^^RVB^MR", "PV1|1|I"), ""),
        ("A28", (PID_18,), ""),  # of a person: no visit is spoken of
    ],
)
def test_a_visit_goes_by_the_number_that_its_file_knows_it_by(
    mapping: Mapping, message: Make, event: str, segments: tuple[str, ...], visit: str
) -> None:
    """PV1-19, else as the Encounter's file has it: `messages list --visit` finds each."""
    assert mapping.identify(message(event, *segments)).visit == visit

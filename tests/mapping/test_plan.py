"""Plans: pure, three-state, and never broken by what a message holds."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config.settings import shipped
from engine.errors import MappingError, MessageError
from engine.fhir.changes import apply, created
from engine.fhir.plan import ElementChange, Merge, Upsert
from engine.hl7.message import Message, parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import Mapping, MappingSource, compile_mapping, load
from tests.tiers import trials

Make = Callable[..., Message]
PID = "PID|1||RB-1^^^RVB^MR||QUINTERO^MARISOL||19840229|F"
RICH = (
    "PID|1|77|RB-1^^^RVB^MR~123-45-6789^^^SSA^SS|88^^^ENT^PI|QUINTERO&VAN^MARISOL^I^JR^DR^MD^L^^^20100101&20200101|ROSSI"
    "|198402290515|F|ROSE^M^^^^^N|2106-3^White^CDCREC|12 ALDER&X&1^APT^KESWICK^OR^97301^USA^H^^MARION|POLK"
    "|(503)555-0142^PRN^PH|^WPN^PH^^1^503^5550199^12|en|M|CAT|ACC1|123-45-6789|D12^OR^20290101|M1^^^RVB|H|PORTLAND|N|1"
    "|US|V|IT|202506302315|Y|N||20250101|SYS|L-80700^Canine^SCT|L-1|||X|555^PRN^CP"
)
KIN = 'NK1|1|QUINTERO^LUIS|SPO|1 ELM|555-1|555-2|C|20200101|20250101||||ACME|W|M||""'
CHANNEL = channel_of({"authorities": {"RVB": "https://mrn.example"}, "timezone": "Europe/Berlin"})
FRESH = load([shipped("mappings")], "adt")
OWN = compile_mapping(FRESH, CHANNEL)
PIECES = st.sampled_from(
    ["", '""', "^", "~", "&", "|", "\\F\\", "\\X0A\\", "RB-1", "RVB", "Y", "2025", "é", "0000", "\x01", " "]
)


def _change(mapping: Mapping, message: Message, element: str) -> ElementChange | None:
    interaction = mapping.plan(message).interactions[0]
    assert isinstance(interaction, Upsert)
    return next((change for change in interaction.patient.changes if change.element == element), None)


@pytest.mark.parametrize(
    ("field", "items"),
    [
        pytest.param("", None, id="absent"),
        pytest.param('""', (), id="null"),
        pytest.param("19840229", ("1984-02-29",), id="value"),
        pytest.param("19841399", None, id="bad value"),
    ],
)
def test_three_states_of_a_single_element(
    mapping: Mapping, message: Make, field: str, items: tuple[str, ...] | None
) -> None:
    """Absent leaves birthDate alone, null deletes it, a value replaces it, a bad value is as absent."""
    change = _change(mapping, message("A08", f"PID|1||RB-1^^^RVB||QUINTERO^M||{field}"), "birthDate")  # PID-7
    assert (change.items if change else None) == items


def test_each_source_field_is_a_slice(mapping: Mapping, message: Make) -> None:
    """Home and business numbers are slices of their own, so that one never removes the other."""
    made = message("A08", 'PID|1||RB-1^^^RVB||||||||||555-1|""')  # PID-13, PID-14
    interaction = mapping.plan(made).interactions[0]
    assert isinstance(interaction, Upsert)
    telecom = {change.slice: len(change.items) for change in interaction.patient.changes if change.element == "telecom"}
    assert telecom == {"PID-13": 1, "PID-14": 0}


def test_slice_names_are_unique(mapping: Mapping, message: Make) -> None:
    """No two changes of a plan speak for the same slice, by which ownership is recorded."""
    interaction = mapping.plan(message("A08", RICH, KIN, "PD1|||CLINIC|7^LEE")).interactions[0]
    assert isinstance(interaction, Upsert)
    slices = [change.slice for change in interaction.patient.changes]
    assert len(slices) == len(set(slices))


def test_event_time_is_aware_and_precise(mapping: Mapping, message: Make) -> None:
    """EVN-2 is the event's time, in the channel's zone, with its precision."""
    plan = mapping.plan(message("A08", PID))
    assert plan.event_at is not None
    assert plan.event_at.isoformat() == "2025-07-01T09:29:00-04:00"
    assert (plan.event_precision, plan.source, plan.event) == (14, "HIS|RVB", "A08")


def test_what_is_kept_depends_on_delimiters_and_day(source: MappingSource) -> None:
    """The same text under other delimiters, or on another day, is read anew."""
    own = compile_mapping(source, channel_of({"authorities": {"RVB": "https://mrn.example"}}))
    usual = parse(b"MSH|^~\\&|H|R|||20250701||ADT^A08|1|P|2.5\rPID|1||1^^^RVB||A$B^C")
    other = parse(b"MSH|$~\\&|H|R|||20250701||ADT$A08|1|P|2.5\rPID|1||1$$$RVB||A$B^C")
    names = [_change(own, message, "name") for message in (usual, other)]
    assert [change.items[0]["family"] for change in names if change] == ["A$B", "A"]
    days = (
        f"MSH|^~\\&|H|R|||{day}||ADT^A08|1|P|2.5\rPID|1||1^^^RVB~2^^^RVB^^^^20250101".encode()
        for day in ("20240601", "20250601")
    )
    assert [len(own.identify(parse(raw)).patients[0]) for raw in days] == [2, 1]


def test_plans_are_not_changed_by_applying_them(mapping: Mapping, message: Make) -> None:
    """Values are shared between plans: applying one to a record leaves the next the same."""
    made = message("A08", RICH, KIN)
    before = repr(mapping.plan(made))
    interaction = mapping.plan(made).interactions[0]
    assert isinstance(interaction, Upsert)
    first = created(interaction.patient.changes)
    apply(first.body, interaction.patient.changes, first.owned)
    assert repr(mapping.plan(made)) == before


def test_merge_keeps_the_demographics_for_creation(mapping: Mapping, message: Make) -> None:
    """The survivor's PID stands in the plan, for the case that it has to be created."""
    merge = mapping.plan(message("A40", PID, "MRG|RB-2^^^RVB")).interactions[0]
    assert isinstance(merge, Merge)
    assert (merge.source.value, merge.target.value) == ("RB-2", "RB-1")
    assert {change.element for change in merge.survivor.changes} >= {"name", "birthDate", "gender"}


@pytest.mark.parametrize(
    ("segments", "reason"),
    [
        pytest.param(("PID|1||RB-1^^^RVB", "MRG|RB-1^^^RVB"), "self-merge", id="self-merge"),
        pytest.param(("PID|1||RB-1^^^RVB", "MRG|RB-2^^^NEW"), "unknown-authority", id="unknown authority"),
        pytest.param(("PID|1||RB-1^^^RVB",), "no-identity", id="no MRG"),
        pytest.param((), "no-identity", id="no PID"),
    ],
)
def test_a_merge_that_intake_refuses_has_no_plan(
    mapping: Mapping, message: Make, segments: tuple[str, ...], reason: str
) -> None:
    """Even if intake is passed by, the plan of a refused merge is an error with a code."""
    with pytest.raises(MappingError, match=reason) as caught:
        mapping.plan(message("A40", *segments))
    assert caught.value.reason == reason


def test_errors_hold_nothing_of_the_patient(mapping: Mapping, message: Make) -> None:
    """Findings, flags, warnings and errors name places, never values."""
    made = message("A08", "PID|1||SECRET9^^^SECRET8^MR||SECRET1^SECRET2||SECRET3|SECRET4|||||SECRET5^SECRET6^SECRET7")
    subject, plan = mapping.identify(made), mapping.plan(made)
    assert "SECRET" not in repr((subject.findings, subject.flags, subject.rule, plan.warnings))
    assert "bad-value PID-7" in plan.warnings


@pytest.mark.property
@settings(max_examples=trials(300), deadline=None)
@given(st.data())
def test_mangled_messages_give_a_plan_or_an_error_of_ours(data: st.DataObject) -> None:
    """Whatever stands in the fields: the same plan twice, or MappingError, or MessageError; nothing else."""
    lines = [RICH, KIN, "MRG|RB-2^^^RVB~3", "PD1|||CLINIC^L^4411|7788^LEE^ANN", "OBX|1|CWE|54588-9^X^LN||LA33-6"]
    event = data.draw(st.sampled_from(["A01", "A08", "A40", "A03", "A17"]))
    mangled = [
        "|".join(
            "".join(data.draw(st.lists(PIECES, max_size=4))) if data.draw(st.integers(0, 4)) == 0 and index else field
            for index, field in enumerate(line.split("|"))
        )
        for line in data.draw(st.permutations(lines))
    ]
    head = f"MSH|^~\\&|H|R|||20250701093000||ADT^{event}|1|P|2.5.1"
    raw = "\r".join((head, *mangled)).encode()
    fresh = compile_mapping(FRESH, CHANNEL) if data.draw(st.integers(0, 20)) == 0 else OWN
    try:
        subject = OWN.identify(parse(raw))
        plan = OWN.plan(parse(raw))
    except (MappingError, MessageError):
        return
    assert fresh.identify(parse(raw)) == subject
    assert fresh.plan(parse(raw)) == plan


def test_unmapped_codes_name_their_tables(message: Make) -> None:
    """A plan names the tables that lack a code, each with its field, the first time and from what was kept; no code."""
    for _ in range(4):
        plan = OWN.plan(message("A01", f"{PID}||||||||XYZ", "PV1|1|Q|||||||||||||||||V1^^^RVB"))
        assert plan.unmapped == (("marital-status", "PID-16"), ("encounter-class", "PV1-2"))
        assert plan.warnings == ("unmapped-code PID-16", "unmapped-code PV1-2")
        assert "XYZ" not in repr((plan.unmapped, plan.warnings))

"""The shipped outgoing mapping: its cases, which use every rule, and messages of every event in every version."""

from pathlib import Path
from zoneinfo import ZoneInfo

import hl7
import pytest
from hl7apy.consts import VALIDATION_LEVEL
from hl7apy.parser import parse_message

from engine.config.settings import shipped
from engine.errors import MessageError
from engine.hl7.conformance.check import check
from engine.hl7.finding import FindingSeverity
from engine.hl7.message import parse
from engine.mapping.authoring.fidelity import changes_of
from engine.mapping.authoring.outcome import outcome
from engine.mapping.compile import Mapping
from engine.mapping.outgoing.case import OutgoingCase, outgoing_cases, run_outgoing_cases
from engine.mapping.outgoing.change import AdtMessage, ChangeKind, FhirChange, OutgoingSetting
from engine.mapping.outgoing.compile import OutgoingSource, compile_outgoing
from engine.mapping.outgoing.coverage import unused_rules
from engine.mapping.subject.subject import Disposition
from engine.ops.cli.mapping.traffic import messages_below
from tests.mapping.conftest import AUTHORITIES
from tests.mapping.outgoing.conftest import NOW

CASES = outgoing_cases(shipped("mappings"))
VERSIONS = ("2.3", "2.3.1", "2.4", "2.5", "2.5.1", "2.6", "2.7", "2.7.1", "2.8", "2.8.2", "2.9")
# Table 0211 has UNICODE UTF-8 since 2.5.
OLD = dict.fromkeys(("2.3", "2.3.1", "2.4"), "MSH-18")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{Path(case.source.file).stem}: {case.name}")
def test_case(case: OutgoingCase, outgoing: OutgoingSource) -> None:
    """What a shipped case expects comes out."""
    (result,) = run_outgoing_cases([case], outgoing)
    assert result.differences == ()


def test_every_rule_is_used_by_a_case(outgoing: OutgoingSource) -> None:
    """A new line of a segment or a data type needs a case in which it makes something."""
    traces = [one.trace for one in run_outgoing_cases(CASES, outgoing)]
    assert unused_rules(outgoing.documents, traces) == []


def test_every_kind_of_change_has_a_case() -> None:
    """What can happen on a server is tried."""
    assert {case.change.kind for case in CASES} == set(ChangeKind)


@pytest.fixture(scope="module")
def changes(mapping: Mapping) -> list[FhirChange]:
    """The changes that the samples would be on a server without anything of them."""
    found: list[FhirChange] = []
    for one in messages_below([shipped("samples")]):
        try:
            message = parse(one.raw)
        except MessageError:
            continue
        made = outcome(mapping, message) if message.message_type == "ADT" else {"action": ""}
        if made["action"] == Disposition.DELIVER.value and "error" not in made:
            found += changes_of(message, made["interactions"])
    assert len(found) > 30
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_messages_are_as_the_standard_says(version: str, changes: list[FhirChange], outgoing: OutgoingSource) -> None:
    """Three parsers read each message, and it has no error by the tables of its version."""
    setting = OutgoingSetting(
        version=version,
        sending_application="ENGINE",
        sending_facility="RVB",
        receiving_application="RIS",
        receiving_facility="RVB",
        zone=ZoneInfo("America/New_York"),
        authorities=AUTHORITIES,
    )
    mapping = compile_outgoing(outgoing, setting)
    events = set()
    for change in changes:
        made = mapping.message(change, "C1", NOW)
        assert isinstance(made, AdtMessage)
        message = parse(made.raw)
        faults = [
            one for one in check(message) if one.severity is FindingSeverity.ERROR and one.place != OLD.get(version)
        ]
        assert faults == [], message.text
        text = made.raw.decode()
        other = hl7.parse(text)
        assert [str(one[0]) for one in other] == [segment.name for segment in message.segments]
        assert str(other.segment("PID")[3]) == message.named("PID")[0].field(3)
        events.add(made.event)
    assert events >= {"A01", "A02", "A03", "A08", "A28", "A31", "A40"}


def test_hl7apy_reads_what_is_made(changes: list[FhirChange], outgoing: OutgoingSource) -> None:
    """A parser that knows the structures finds the segments in their groups."""
    mapping = compile_outgoing(outgoing, OutgoingSetting(version="2.5.1"))
    for change in changes:
        made = mapping.message(change, "C1", NOW)
        assert isinstance(made, AdtMessage)
        other = parse_message(made.raw.decode(), validation_level=VALIDATION_LEVEL.TOLERANT)
        assert other.msh.msh_9.msh_9_2.value == made.event
        assert other.evn.evn_2.value.startswith("20")


def test_the_same_change_makes_the_same_message(changes: list[FhirChange], outgoing: OutgoingSource) -> None:
    """The mapping is a pure function, whatever it made before."""
    mapping = compile_outgoing(outgoing)
    first = [mapping.message(change, "C1", NOW) for change in changes]
    assert [mapping.message(change, "C1", NOW) for change in reversed(changes)] == first[::-1]
    assert compile_outgoing(outgoing).hash == mapping.hash
    assert compile_outgoing(outgoing, OutgoingSetting(version="2.3")).hash != mapping.hash

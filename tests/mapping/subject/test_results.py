"""Which messages a mapping is for, as its event table names them; and whose a result is."""

import pytest

from engine.config.settings import shipped
from engine.errors import ConfigurationError
from engine.fhir.plan import Upsert
from engine.hl7.message import Message, parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import Mapping, compile_mapping, load, read
from engine.mapping.subject.subject import Disposition
from tests.mapping.conftest import Author

BOTH = """
mapping: adt
extends: shipped/adt
resources: [Encounter, DiagnosticReport, Observation]
events:
  ORU^R01: {rule: results, do: [identify patient, upsert diagnosticreport, upsert observation], if_absent: hold}
"""
PID = "PID|1||RB-1^^^RVB||QUINTERO^MARISOL||19840229|F"
RESULT = ("OBR|1|P1|F1|24323-8^Panel^LN", "OBX|1|NM|2823-3^Potassium^LN||5.4||||||F")


def written(kind: str, *segments: str) -> Message:
    """Return a message of a type."""
    head = f"MSH|^~\\&|LAB|RVB|||20250701093000||{kind}|M1|P|2.5.1"
    return parse("\r".join((head, PID, *segments)).encode())


@pytest.fixture
def oru() -> Mapping:
    """The shipped mapping of results."""
    return compile_mapping(read([shipped("mappings")], "oru"), channel_of({}))


def test_each_shipped_mapping_is_for_one_type(mapping: Mapping, oru: Mapping) -> None:
    """ADT is what ships by default, and takes no results; that of results takes nothing else."""
    assert (mapping.taken.types, oru.taken.types) == ({"ADT"}, {"ORU"})
    refused = mapping.identify(written("ORU^R01", *RESULT)), oru.identify(written("ADT^A01"))
    assert [(one.action, one.findings[0].reason) for one in refused] == [
        (Disposition.REFUSE, "unsupported-message")
    ] * 2


def test_a_site_may_take_both_on_one_channel(author: Author) -> None:
    """An event with its type beside those of ADT: each message goes by its own rule."""
    both = compile_mapping(read([author(adt=BOTH), shipped("mappings")], "adt"), channel_of({}))
    assert both.taken.types == {"ADT", "ORU"}
    rules = [both.identify(written(kind, *RESULT)).rule for kind in ("ORU^R01", "ADT^A01", "ADT^R01", "ORU^A01")]
    assert rules == ["results", "admit", "unknown-event", "unknown-event"]


def test_a_result_does_nothing_to_the_patient(oru: Mapping) -> None:
    """The patient is looked up: neither made, nor given a number of the laboratory's."""
    upsert = oru.plan(written("ORU^R01", *RESULT)).interactions[0]
    assert isinstance(upsert, Upsert)
    assert (upsert.create, upsert.thin, upsert.ignore, upsert.patient.identifiers) == (False, True, False, ())


@pytest.mark.parametrize("event", ["ADT^A01", "ACK^R01", "ORU^", "ORUR01", "oru^R01", "ORU^R1"])
def test_an_event_is_named_in_one_way(author: Author, event: str) -> None:
    """ADT goes without its type, and an acknowledgement is no event."""
    folder = author(adt=f"mapping: adt\nextends: shipped/adt\nevents:\n  {event}: {{do: upsert patient}}\n")
    with pytest.raises(ConfigurationError, match="unknown event"):
        load([folder, shipped("mappings")], "adt")

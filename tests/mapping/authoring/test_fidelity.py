"""There and back: the share of fields that come back equal, and each loss with the rules of both ways."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from engine.config.settings import shipped
from engine.errors import MessageError
from engine.hl7.message import Message, parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.fidelity import Fidelity, FidelityReport
from engine.mapping.compile import MappingSource
from engine.mapping.outgoing.compile import read_outgoing
from engine.ops.cli.mapping.traffic import messages_below
from tests.conftest import CorpusFile

NOW = datetime(2026, 3, 2, tzinfo=UTC)
Make = Callable[..., Message]
VISIT = "PV1|1|I|W^1^A^RVB||||7^Tansy^Bo|||MED|||||||||V1^^^RVB^VN"
REFERRER = ("PV2-13", "PV2-13.2", "PV2-13.3")
OUTGOING = read_outgoing([shipped("mappings")])
PID = "PID|1||1^^^RVB^MR||Ash^Ann^^^^^L||19840229|F"


def report_of(source: MappingSource, *messages: Message) -> FidelityReport:
    """Send messages there and back."""
    fidelity = Fidelity(source, channel_of({"timezone": "America/New_York"}), OUTGOING, NOW)
    for message in messages:
        fidelity.add(message)
    return fidelity.report


def losses(report: FidelityReport) -> dict[str, str]:
    """Return the lost parts, each with the file of the rule that would write it."""
    return {one.path: one.outgoing.rpartition("/")[2].partition(":")[0] for one in report.lost}


def _parsed(raw: bytes) -> list[Message]:
    try:
        message = parse(raw)
    except MessageError:
        return []
    return [message] if message.message_type == "ADT" else []


def test_the_samples_come_back(source: MappingSource) -> None:
    """Nearly all that the incoming mapping reads of them."""
    report = report_of(source, *(one for each in messages_below([shipped("samples")]) for one in _parsed(each.raw)))
    assert report.messages > 30
    assert report.share >= 0.98
    assert report.values_equal / report.values >= 0.98


def test_messages_of_others_come_back(corpus: list[CorpusFile], source: MappingSource) -> None:
    """At least 95 % of the fields of messages that other projects wrote."""
    raws = (one for file in corpus for one in messages_below([file.path]))
    report = report_of(source, *(message for one in raws for message in _parsed(one.raw)))
    assert report.messages > 100
    assert report.share >= 0.95


@pytest.mark.parametrize(
    ("segments", "lost"),
    [
        pytest.param((PID,), {}, id="equal"),
        pytest.param((PID.replace("|F", "|female"),), {}, id="another spelling of the code"),
        pytest.param((PID.replace("|F", "|A"),), {"PID-8": "pid.yaml"}, id="a code with a meaning of its own"),
        pytest.param((PID.replace("19840229", "198402290000"),), {}, id="a date padded with zeros"),
        pytest.param((f"{PID}|||||555-1^ORN^PH~555-2^PRN^CP",), {}, id="repetitions"),
        pytest.param((f"{PID}|||1 Way&Way&1^^Ulm",), {"PID-11.1.2": "xad.yaml", "PID-11.1.3": "xad.yaml"}, id="parts"),
        pytest.param((PID.replace("PID|1||", "PID|1|9^^^X^PI|"),), {}, id="a number that is moved to PID-3"),
        pytest.param((PID, VISIT), {}, id="a visit"),
        pytest.param((PID, VISIT, "PV2|||||||||||||8^Elm^Ann"), dict.fromkeys(REFERRER, "no rule"), id="no rule"),
    ],
)
def test_each_loss_is_named(
    source: MappingSource, message: Make, segments: tuple[str, ...], lost: dict[str, str]
) -> None:
    """What comes back otherwise, or not at all, with the file that would write it."""
    report = report_of(source, message("A01", *segments))
    assert report.messages == 1
    assert losses(report) == lost
    assert (report.share == 1) is (not lost)


def test_what_the_version_of_a_message_does_not_have_counts_by_itself(source: MappingSource, message: Make) -> None:
    """PID-19 is withdrawn in 2.8: no message of 2.8 can say it again."""
    old = message("A31", f"{PID}|||||||||||123-45-6789")
    new = parse(old.text.replace("|2.5.1", "|2.8").encode())
    assert report_of(source, old).foreign == 0
    report = report_of(source, new)
    assert (report.foreign, report.share) == (1, 1)


def test_messages_that_make_nothing_are_counted_by_reason(source: MappingSource, message: Make) -> None:
    """A message that is filtered, and one of two patients, are no part of the share."""
    report = report_of(source, message("A20", PID), message("A24", PID, PID.replace("||1^", "||2^")))
    assert report.messages == 0
    assert report.share == 1
    assert sum(report.skipped.values()) == 2

"""What the header alone gives cause to refuse."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.acknowledge.code import code_for
from engine.acknowledge.judge import judge_header, judge_parts
from engine.hl7.events import AcceptedMessages
from engine.hl7.message import parse


@pytest.mark.parametrize(
    ("fields", "found", "code"),
    [
        pytest.param({}, [], "AA", id="fine"),
        pytest.param({"msh_9": "ADT^A01"}, [], "AA", id="two-components"),
        pytest.param({"msh_11": ""}, [], "AA", id="empty-processing-id-is-P"),
        pytest.param({"msh_12": ""}, [], "AA", id="empty-version-is-the-channel's"),
        pytest.param({"msh_12": "2.5.1^USA"}, [], "AA", id="version-with-country"),
        pytest.param({"msh_12": "2.1"}, [], "AA", id="2.1"),
        pytest.param({"msh_12": "2.9"}, [], "AA", id="2.9"),
        pytest.param({"msh_9": "ORU^R01"}, [(200, "MSH-9.1")], "AR", id="message-type"),
        pytest.param({"msh_9": "ADT", "msh_12": "2.1", "evn_1": "A01"}, [], "AA", id="2.1-event-in-EVN"),
        pytest.param({"msh_9": "ADT", "msh_12": "2.2", "evn_1": "Z9X"}, [(201, "MSH-9.2")], "AR", id="2.2-no-event"),
        pytest.param({"msh_9": "ADT", "msh_12": "2.1"}, [(101, "MSH-9.2")], "AE", id="2.1-event-nowhere"),
        pytest.param({"msh_9": "ADT", "msh_12": "2.3", "evn_1": "A01"}, [(101, "MSH-9.2")], "AE", id="2.3-needs-it"),
        pytest.param({"msh_9": "ADT^Z9X"}, [(201, "MSH-9.2")], "AR", id="event"),
        pytest.param({"msh_9": "ADT"}, [(101, "MSH-9.2")], "AE", id="no-event"),
        pytest.param({"msh_9": ""}, [(101, "MSH-9.1")], "AE", id="no-message-type"),
        pytest.param({"msh_11": "T"}, [(202, "MSH-11.1")], "AR", id="processing-id"),
        pytest.param({"msh_12": "3.0"}, [(203, "MSH-12.1")], "AR", id="version"),
        pytest.param({"msh_10": ""}, [(101, "MSH-10")], "AE", id="no-control-id"),
        pytest.param({"msh_10": '""'}, [(101, "MSH-10")], "AE", id="null-control-id"),
        pytest.param({"msh_14": "456"}, [], "AA", id="continuation-pointer-alone"),
        pytest.param({"msh_10": "", "msh_11": "D"}, [(202, "MSH-11.1"), (101, "MSH-10")], "AR", id="two-faults"),
    ],
)
def test_findings(
    header: Callable[..., Any],
    channel: Callable[..., Any],
    fields: dict[str, str],
    found: list[tuple[int, str]],
    code: str,
) -> None:
    """Each fault of the header is found with its table 0357 code and its place."""
    findings = judge_header(header(**fields), channel())
    assert [(int(finding.code), finding.locations[0]) for finding in findings] == found
    assert code_for(findings) == code


def test_a_refusal_names_the_setting_that_reads_evn(header: Callable[..., Any], channel: Callable[..., Any]) -> None:
    """Where EVN-1 has the event that MSH-9.2 lacks; where it has none, no setting would help."""
    (refused,) = judge_header(header(msh_9="ADT", evn_1="A01"), channel())
    assert refused.text == (
        "The trigger event is missing; it is read from EVN-1 on a channel with event_from_evn: true"
    )
    (refused,) = judge_header(header(msh_9="ADT"), channel())
    assert refused.text == "The trigger event is missing"


def test_what_the_mapping_is_for_decides(header: Callable[..., Any], channel: Callable[..., Any]) -> None:
    """A refusal names what the channel takes; of other types than ADT no event is unknown here."""
    results, both = (
        AcceptedMessages(frozenset({"ORU"})),
        AcceptedMessages(frozenset({"ADT", "ORU"}), frozenset({"A99"})),
    )
    (refused,) = judge_header(header(msh_9="ADT^A01"), channel(), results)
    assert (refused.reason, refused.text) == ("unsupported-message", "Only ORU messages are accepted")
    (refused,) = judge_header(header(msh_9="SIU^S12"), channel(), both)
    assert refused.text == "Only ADT and ORU messages are accepted"
    for kind in ("ORU^R01", "ORU^R99", "ADT^A01", "ADT^A99"):
        assert judge_header(header(msh_9=kind), channel(), both) == (), kind
    assert [one.reason for one in judge_header(header(msh_9="ORU"), channel(), both)] == ["no-trigger-event"]
    assert [one.reason for one in judge_header(header(msh_9="ADT^R01"), channel(), both)] == ["unsupported-event"]


def test_a_mixed_feed_is_taken_where_the_channel_says_so(
    header: Callable[..., Any], channel: Callable[..., Any]
) -> None:
    """The type is no fault then; all else of the header is judged as ever."""
    taken = channel(unhandled_messages="filter")
    assert judge_header(header(msh_9="ORU^R01"), taken) == ()
    assert [one.reason for one in judge_header(header(msh_9="ORU^R01", msh_11="T"), taken)] == ["processing-id"]
    assert [one.reason for one in judge_header(header(msh_9=""), taken)] == ["no-message-type"]


@pytest.mark.parametrize(
    ("sources", "fields", "reasons"),
    [
        pytest.param(("EPIC|RVB",), {}, [], id="listed"),
        pytest.param(("EPIC",), {}, [], id="listed-for-every-facility"),
        pytest.param(("EPIC|RVB",), {"msh_3": "EPIC^1.2^ISO", "msh_4": "RVB^x^y"}, [], id="first-components"),
        pytest.param(("EPIC|RVB",), {"msh_4": "OTHER"}, ["unlisted-source"], id="other-facility"),
        pytest.param(("CERNER|RVB", "EPIC|X"), {}, ["unlisted-source"], id="not-listed"),
        pytest.param((), {"msh_3": "ANY"}, [], id="no-list"),
    ],
)
def test_sources(
    header: Callable[..., Any],
    channel: Callable[..., Any],
    sources: tuple[str, ...],
    fields: dict[str, str],
    reasons: list[str],
) -> None:
    """A channel that lists its sources refuses all others with 103."""
    findings = judge_header(header(**fields), channel(sources=sources))
    assert [finding.reason for finding in findings] == reasons
    assert all(finding.code == 103 for finding in findings)


@pytest.mark.parametrize(
    ("rest", "place"),
    [
        pytest.param("PID|1\r", "", id="whole"),
        pytest.param("PID|1\rDSC\r", "", id="empty-pointer"),
        pytest.param("PID|1\rDSC||\r", "", id="null-pointer"),
        pytest.param('PID|1\rDSC|""\r', "", id="deleted-pointer"),
        pytest.param("PID|1\rDSC|7|F\r", "DSC-1", id="continued"),
        pytest.param("ADD|the rest\r", "ADD", id="continuation"),
    ],
)
def test_parts_of_messages(rest: str, place: str) -> None:
    """A message in parts is refused with AR, since the parts are not put together."""
    message = parse(f"MSH|^~\\&|EPIC|RVB|||||ADT^A01|1|P|2.5.1\r{rest}".encode())
    findings = judge_parts(message)
    assert [finding.locations for finding in findings] == ([(place,)] if place else [])
    assert code_for(findings) == ("AR" if place else "AA")


def test_processing_ids_of_the_channel(header: Callable[..., Any], channel: Callable[..., Any]) -> None:
    """A channel for tests takes T; an empty MSH-11 counts as P, which it then refuses."""
    training = channel(processing_ids=("T",))
    assert not judge_header(header(msh_11="T^I"), training)
    assert judge_header(header(msh_11=""), training)


def test_no_text_holds_a_value(header: Callable[..., Any], channel: Callable[..., Any]) -> None:
    """What was found is said without a value of the message."""
    sentinel = "SENTINEL"
    fields = {f"msh_{number}": sentinel for number in (3, 4, 9, 11, 12)}
    assert sentinel not in repr(judge_header(header(**fields), channel(sources=("EPIC",))))

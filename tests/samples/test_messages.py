import pytest

from engine.acknowledge.code import code_for
from engine.acknowledge.judge import judge_header
from engine.config.channels import load_channels
from engine.config.samples import Expectation, load_samples
from engine.config.settings import shipped
from engine.errors import UndecodableMessageError, UnreadableMessageError
from engine.hl7.header import read_header
from engine.hl7.message import parse
from engine.mapping.compile import compile_mapping, read
from engine.pipeline.inbound.judgement import judge
from engine.receive.batch import unpack

(CHANNEL,) = load_channels(shipped("channels"))


def _messages() -> list[object]:
    params = []
    for sample in load_samples(shipped("samples")):
        batch = unpack(sample.raw)
        messages = batch.messages if batch else (sample.raw,)
        params += [
            pytest.param(raw, expected, id=f"{sample.file}-{index}")
            for index, (raw, expected) in enumerate(zip(messages, sample.expect, strict=True))
        ]
    return params


MESSAGES = _messages()


@pytest.mark.parametrize(("raw", "expected"), MESSAGES)
def test_each_message_parses_as_stated(raw: bytes, expected: Expectation) -> None:
    """A message is read without loss, or is the one that cannot be read or decoded."""
    if expected.ack == "none":
        with pytest.raises(UnreadableMessageError):
            parse(raw)
    elif expected.reason == "undecodable":
        with pytest.raises(UndecodableMessageError):
            parse(raw)
    else:
        message = parse(raw)
        assert message.write() == raw
        assert {segment.name for segment in message.segments} >= {"MSH"}


@pytest.mark.parametrize(("raw", "expected"), MESSAGES)
def test_each_header_is_judged_as_stated(raw: bytes, expected: Expectation) -> None:
    """What the header alone forbids is refused with the stated code; nothing else is refused for its header."""
    header = read_header(raw)
    if header is None:
        assert expected.ack == "none"
        return
    findings = judge_header(header, CHANNEL)
    if findings:
        assert (str(code_for(findings)), str(int(findings[0].code))) == (expected.ack, expected.error)
        assert expected.reason == findings[0].reason
    else:
        assert expected.ack != "AR"


MAPPING = compile_mapping(read([shipped("mappings")], CHANNEL.mapping), CHANNEL)
BEGINS = {"delivered": "received", "held": "received"}


@pytest.mark.parametrize(("raw", "expected"), MESSAGES)
def test_each_message_is_judged_as_stated(raw: bytes, expected: Expectation) -> None:
    """With the shipped mapping each message gets the stated code, error, state and reason at the door."""
    header = read_header(raw)
    if header is None:
        assert expected.ack == "none"
        return
    judgement = judge(raw, header, CHANNEL, MAPPING)
    error = str(int(judgement.findings[0].code)) if judgement.findings else ""
    assert str(code_for(judgement.findings)) == expected.ack.replace("C", "A")
    assert error == expected.error
    assert str(judgement.state) == BEGINS.get(expected.outcome, expected.outcome)
    assert judgement.reason in {expected.reason, ""}


@pytest.mark.parametrize(("raw", "expected"), MESSAGES)
def test_what_is_delivered_has_a_plan(raw: bytes, expected: Expectation) -> None:
    """A message that goes on gives the same plan each time, with no warning but of a lacking visit, or of the past."""
    if expected.outcome in {"delivered", "held"}:
        plan = MAPPING.plan(parse(raw))
        assert plan.interactions
        assert set(plan.warnings) <= {"no-visit-number", "historic-movement"}
        assert plan == MAPPING.plan(parse(raw))

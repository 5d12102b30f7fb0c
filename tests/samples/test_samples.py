from pathlib import Path

import pytest

from engine.config.channels import load_channels
from engine.config.samples import EXPECTED, FeedSample, load_samples
from engine.config.settings import shipped
from engine.errors import ConfigurationError
from engine.ops.demo.chart import facts_of
from engine.ops.sender.feed import fields, split_messages

FOLDER = shipped("samples")
SAMPLES = load_samples(FOLDER)
BY_NAME = [pytest.param(sample, id=sample.file) for sample in SAMPLES]


@pytest.mark.parametrize("sample", BY_NAME)
def test_each_file_holds_as_many_messages_as_are_expected(sample: FeedSample) -> None:
    """A sample is one block; a batch has one expectation for each message in it."""
    assert len(split_messages(sample.raw)) == 1
    assert len(fields(sample.raw, b"MSH")) == (0 if sample.expect[0].ack == "none" else len(sample.expect))


@pytest.mark.parametrize("sample", BY_NAME)
def test_what_is_refused_says_why(sample: FeedSample) -> None:
    """A refusal is expected as rejected, and a positive answer carries no error."""
    for expected in sample.expect:
        assert (expected.outcome == "rejected") == (expected.ack in {"AE", "AR", "CE", "CR", "none"})
        assert not (expected.error and expected.ack in {"AA", "CA"})
        if expected.patient:
            assert set(expected.patient.facts) <= set(facts_of({}))


def test_segment_ends_are_of_all_kinds() -> None:
    """Most files end segments with CR; one does with LF and one with CRLF."""
    line_feeds = {sample.file for sample in SAMPLES if b"\n" in sample.raw}
    pairs = {sample.file for sample in SAMPLES if b"\r\n" in sample.raw}
    assert len(line_feeds) == 2
    assert len(pairs) == 1


def test_the_feed_speaks_for_the_shipped_channel() -> None:
    """The identifier system of the expectations is one that the shipped channel assigns."""
    (channel,) = load_channels(shipped("channels"))
    assert {sample.identifier_system for sample in SAMPLES} <= set(channel.authorities.values())


def test_one_message_is_resent_byte_for_byte_and_one_control_id_reused() -> None:
    """The duplicate has the bytes of the first sample; the reused control ID does not."""
    (resent,) = [sample for sample in SAMPLES if sample.expect[0].duplicate]
    assert resent.raw == SAMPLES[0].raw
    (reused,) = [sample for sample in SAMPLES if "control-id-reused" in sample.expect[0].flags]
    control_id = fields(reused.raw, b"MSH")[0][10]
    assert sum(fields(sample.raw, b"MSH")[0][10] == control_id for sample in SAMPLES if b"MSH|" in sample.raw) == 2


def test_the_table_for_people_says_the_same() -> None:
    """samples/README.md has a line for each file, with its answer, its end and what it shows."""
    rows = [line for line in (FOLDER / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert rows == [_row(sample) for sample in SAMPLES]


def _row(sample: FeedSample) -> str:
    answers = ", ".join(
        " then ".join(filter(None, (one.ack, one.application))) + (f" {one.error}" if one.error else "")
        for one in sample.expect
    )
    ends = ", ".join(one.outcome for one in sample.expect)
    return f"| `{sample.file}` | {answers} | {ends} | {sample.shows} |"


def write(folder: Path, entries: str) -> None:
    """Write an expected.yaml of the given entries."""
    (folder / EXPECTED).write_text(f"identifier_system: urn:x\nsamples:\n{entries}")


ONE = "  - {file: a.hl7, shows: something, expect: {ack: AA, outcome: delivered}}\n"


def test_a_file_that_is_absent_or_not_listed_is_named(tmp_path: Path) -> None:
    """Every file is listed once and every listed file is there."""
    write(tmp_path, ONE)
    (tmp_path / "b.hl7").write_bytes(b"MSH|^~\\&|\r")
    with pytest.raises(ConfigurationError) as raised:
        load_samples(tmp_path)
    unlisted, absent = raised.value.problems
    assert unlisted.found == "b.hl7 is not listed"
    assert absent.found.startswith("a.hl7 cannot be read")
    assert absent.line == 3


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        pytest.param(ONE.replace("AA", "AX"), "'AX'", id="no-such-code"),
        pytest.param(ONE.replace("outcome", "outcom"), "unknown key", id="misspelt"),
        pytest.param(ONE.replace("a.hl7", "../a.hl7"), "'../a.hl7'", id="outside-the-folder"),
        pytest.param(ONE + ONE, "not in order of name", id="listed-twice"),
    ],
)
def test_a_mistake_in_the_expectations_is_named(tmp_path: Path, entry: str, found: str) -> None:
    """What cannot be expected is refused when the samples are read."""
    write(tmp_path, entry)
    (tmp_path / "a.hl7").write_bytes(b"MSH|^~\\&|\r")
    with pytest.raises(ConfigurationError) as raised:
        load_samples(tmp_path)
    assert found in raised.value.problems[0].found

"""Batches: unpacked without losing a byte, answered in the same envelope."""

from datetime import UTC, datetime

import hl7
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.receive.batch import pack_replies, unpack

FHS = b"FHS|^~\\&|EPIC|RVB|ENGINE|HUB|20260101||file.hl7||F1\r"
BHS = b"BHS|^~\\&|EPIC|RVB|ENGINE|HUB|20260101||||B1\r"
ONE = b"MSH|^~\\&|EPIC|RVB|||||ADT^A01|1|P|2.5.1\rPID|1\r"
TWO = b"MSH|^~\\&|EPIC|RVB|||||ADT^A08|2|P|2.5.1\rPID|1\r"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(ONE, id="one-message"),
        pytest.param(b"\r\n" + ONE, id="blank-lines-first"),
        pytest.param(b"\x00" + ONE, id="a-zero-first"),
        pytest.param(ONE + b"OBX|1|ST|||MSHX and BHS|\r", id="names-inside-text"),
        pytest.param(b"garbage", id="no-message"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_what_is_no_batch(raw: bytes) -> None:
    """One plain message, or what is none at all, is left alone."""
    assert unpack(raw) is None


@pytest.mark.parametrize(
    "typed",
    [
        pytest.param(b"Received:\nMSH|^~\\&|X|Y||", id="a-header-without-type-and-control-id"),
        pytest.param(b"Received:\nMSH, see below", id="a-word"),
        pytest.param(b"Received:\nMSH#x#y", id="another-separator"),
        pytest.param(b"see\nBTS|1 and\nFTS|1", id="trailers"),
        pytest.param(b"see\nBHS|^~\\&|A", id="a-batch-header"),
    ],
)
def test_text_behind_a_line_feed_is_no_message(typed: bytes) -> None:
    """Where segments end in CR, what a note quotes of a message is not cut off as a message of its own."""
    raw = ONE + b"OBX|1|TX|||" + typed + b"||||||F\rPV1|1\r"
    assert unpack(raw) is None
    batch = unpack(raw + TWO)
    assert batch is not None
    assert batch.messages == (raw, TWO)


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\n\n"])
def test_messages_behind_a_line_feed(ends: bytes) -> None:
    """A whole message behind a lone LF is one, whatever the segments end in."""
    batch = unpack(ONE[:-1] + ends + TWO)
    assert batch is not None
    assert batch.messages == (ONE[:-1] + ends, TWO)
    assert unpack((ONE + TWO).replace(b"\r", ends)) is not None


@pytest.mark.parametrize("word", [b"MSHospital", b"BHSx", b"BTS is closed", b"FTS, see", b"FHSA"])
def test_words_that_begin_like_an_envelope_are_kept(word: bytes) -> None:
    """A line of text is not taken for a header or trailer by its first three letters."""
    first = ONE + word + b"\r"
    batch = unpack(first + TWO)
    assert batch is not None
    assert batch.messages == (first, TWO)


@pytest.mark.parametrize(
    ("raw", "messages", "enveloped", "control_id", "warnings"),
    [
        pytest.param(BHS + ONE + TWO + b"BTS|2\r", (ONE, TWO), True, b"B1", (), id="batch"),
        pytest.param(FHS + BHS + ONE + TWO + b"BTS|2\rFTS|1\r", (ONE, TWO), True, b"B1", (), id="file"),
        pytest.param(FHS + ONE + b"FTS|1\r", (ONE,), True, b"F1", (), id="file-without-batch"),
        pytest.param(ONE + TWO, (ONE, TWO), False, b"", (), id="no-envelope"),
        pytest.param(BHS + ONE + b"BTS|2\r", (ONE,), True, b"B1", ("batch-count-mismatch",), id="count-mismatch"),
        pytest.param(FHS + BHS + ONE + b"BTS\rFTS|9\r", (ONE,), True, b"B1", ("file-count-mismatch",), id="file-count"),
        pytest.param(BHS + ONE + TWO, (ONE, TWO), True, b"B1", (), id="no-trailer"),
        pytest.param(BHS + b"BTS|0\r", (), True, b"B1", (), id="empty"),
        pytest.param(
            BHS + b"PID|1\r" + ONE + b"BTS|2\r", (b"PID|1\r", ONE), True, b"B1", ("text-outside-messages",), id="stray"
        ),
        pytest.param(
            (BHS + ONE + b"BTS|1\r").replace(b"\r", b"\r\n"),
            (ONE.replace(b"\r", b"\r\n"),),
            True,
            b"B1",
            (),
            id="line-ends-CRLF",
        ),
        pytest.param(
            (BHS + ONE + b"BTS|1\r").replace(b"|", b"#"), (ONE.replace(b"|", b"#"),), True, b"B1", (), id="separator"
        ),
    ],
)
def test_unpack(
    raw: bytes, messages: tuple[bytes, ...], enveloped: bool, control_id: bytes, warnings: tuple[str, ...]
) -> None:
    """Each envelope yields its messages byte for byte, its control ID, and what is odd about it."""
    batch = unpack(raw)
    assert batch is not None
    assert (batch.messages, batch.enveloped, batch.control_id, batch.warnings) == (
        messages,
        enveloped,
        control_id,
        warnings,
    )


@given(st.lists(st.sampled_from([ONE, TWO, ONE + b"ZPI|x\r"]), min_size=2, max_size=6))
def test_messages_without_envelope_lose_no_byte(messages: list[bytes]) -> None:
    """Several messages in one block come out as they went in."""
    batch = unpack(b"".join(messages))
    assert batch is not None
    assert list(batch.messages) == messages


def test_same_as_python_hl7() -> None:
    """python-hl7 finds the same messages in a batch file."""
    raw = FHS + BHS + ONE + TWO + b"BTS|2\rFTS|1\r"
    theirs = hl7.parse_file(raw.decode())
    batch = unpack(raw)
    assert batch is not None
    assert [str(message) for inner in theirs for message in inner] == [message.decode() for message in batch.messages]


def test_sections() -> None:
    """Each batch of a file keeps its own header and number of messages."""
    batch = unpack(FHS + BHS + ONE + b"BTS|1\r" + BHS.replace(b"B1", b"B2") + TWO + TWO + b"\r\nBTS|2\rFTS|2\r")
    assert batch is not None
    assert [(section.control_id, section.messages) for section in batch.sections] == [(b"B1", 1), (b"B2", 2)]
    assert batch.messages == (ONE, TWO, TWO + b"\r\n")
    assert not batch.warnings


def test_a_file_without_batches_is_answered_as_such() -> None:
    """Where there is no BHS, the acknowledgements stand in the file envelope alone."""
    batch = unpack(FHS + ONE + b"FTS|1\r")
    assert batch is not None
    assert pack_replies(batch, [b"ACK1\r"], "77", AT).split(b"\r")[1:] == [b"ACK1", b"FTS|1", b""]


def test_reply_batch() -> None:
    """The reply stands in an envelope with sender and receiver swapped, whose BHS-12 names the batch's BHS-11."""
    batch = unpack(BHS + ONE + TWO + b"BTS|2\r")
    assert batch is not None
    assert pack_replies(batch, [b"ACK1\r", b"ACK2\r"], "77", AT) == (
        b"BHS|^~\\&|ENGINE|HUB|EPIC|RVB|20260102030405+0000||||77|B1\rACK1\rACK2\rBTS|2\r"
    )


def test_reply_file() -> None:
    """A file is answered as a file; replies that say nothing are not counted."""
    batch = unpack(FHS + BHS + ONE + b"BTS|1\r" + BHS.replace(b"B1", b"B2") + TWO + b"BTS|1\rFTS|2\r")
    assert batch is not None
    assert pack_replies(batch, [b"", b"ACK2\r"], "77", AT) == (
        b"FHS|^~\\&|ENGINE|HUB|EPIC|RVB|20260102030405+0000||||77|F1\r"
        b"BHS|^~\\&|ENGINE|HUB|EPIC|RVB|20260102030405+0000||||77|B1\rBTS|0\r"
        b"BHS|^~\\&|ENGINE|HUB|EPIC|RVB|20260102030405+0000||||77|B2\rACK2\rBTS|1\r"
        b"FTS|2\r"
    )


@pytest.mark.parametrize("before", [b"\x00", b"\r\n", b"\xef\xbb\xbf"])
def test_what_stands_before_a_batch(before: bytes) -> None:
    """Zeros, line ends and a byte order mark before the envelope are passed over."""
    batch = unpack(before + BHS + ONE + TWO + b"BTS|2\r")
    assert batch is not None
    assert batch.messages == (ONE, TWO)

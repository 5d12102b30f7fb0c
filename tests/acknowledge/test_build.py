"""The acknowledgement message, byte for byte."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import hl7
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.acknowledge.build import build
from engine.acknowledge.code import AckCode
from engine.hl7.finding import ErrorCode, Finding, FindingSeverity
from engine.hl7.header import read_header

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MISSING = Finding(ErrorCode.REQUIRED_MISSING, "no-identity", ("PID-3",), "No identifier in PID-3")
SAME = Finding(ErrorCode.DUPLICATE_KEY, "self-merge", ("PID-3(2).1", "MRG-1"), "Survivor & merged are the same")
VERSION = Finding(ErrorCode.UNSUPPORTED_VERSION, "unsupported-version", ("MSH-12",), "Unsupported")
WHOLE = Finding(ErrorCode.APPLICATION, "journal", (), "Not stored")

Make = Callable[..., Any]


def ack(header: Any, code: str = "AA", *findings: Finding, charset: str = "UTF-8", **options: str) -> list[bytes]:
    """Return the segments of an acknowledgement."""
    built = build(header, AckCode(code), findings, "77", AT, charset, **options)
    assert built.endswith(b"\r")
    return built.split(b"\r")[:-1]


def test_accepted(header: Make) -> None:
    """Sender and receiver are swapped, the event is named, MSA-2 is the message's control ID."""
    assert ack(header()) == [
        b"MSH|^~\\&|ENGINE|HUB|EPIC|RVB|20260102030405+0000||ACK^A01^ACK|77|P|2.5.1",
        b"MSA|AA|MSG1",
    ]


@pytest.mark.parametrize(
    ("fields", "msh"),
    [
        pytest.param(
            {"msh_3": "EPIC^1.2.3^ISO", "msh_5": "E^x"},
            b"MSH|^~\\&|E^x|HUB|EPIC^1.2.3^ISO|RVB|20260102030405+0000||ACK^A01^ACK|77|P|2.5.1",
            id="all-components-are-swapped",
        ),
        pytest.param(
            {"msh_12": "2.3"},
            b"MSH|^~\\&|ENGINE|HUB|EPIC|RVB|20260102030405+0000||ACK^A01|77|P|2.3",
            id="two-components-before-2.3.1",
        ),
        pytest.param(
            {"msh_12": "2.3.1"},
            b"MSH|^~\\&|ENGINE|HUB|EPIC|RVB|20260102030405+0000||ACK^A01^ACK|77|P|2.3.1",
            id="three-components-since-2.3.1",
        ),
        pytest.param(
            {"msh_9": "ADT"},
            b"MSH|^~\\&|ENGINE|HUB|EPIC|RVB|20260102030405+0000||ACK|77|P|2.5.1",
            id="without-an-event",
        ),
        pytest.param(
            {"msh_11": "T^I", "msh_12": "2.4^USA"},
            b"MSH|^~\\&|ENGINE|HUB|EPIC|RVB|20260102030405+0000||ACK^A01^ACK|77|T^I|2.4^USA",
            id="processing-id-and-version-as-they-came",
        ),
        pytest.param(
            {"msh_18": "8859/1~ISO IR87"},
            b"MSH|^~\\&|ENGINE|HUB|EPIC|RVB|20260102030405+0000||ACK^A01^ACK|77|P|2.5.1||||||8859/1~ISO IR87",
            id="character-set-is-copied",
        ),
        pytest.param(
            {"msh_2": "$%*@", "msh_9": "ADT$A08"},
            b"MSH|$%*@|ENGINE|HUB|EPIC|RVB|20260102030405+0000||ACK$A08$ACK|77|P|2.5.1",
            id="delimiters-are-copied",
        ),
        pytest.param(
            {"msh_2": "^~\\&#"},
            b"MSH|^~\\&#|ENGINE|HUB|EPIC|RVB|20260102030405+0000||ACK^A01^ACK|77|P|2.5.1",
            id="truncation-character",
        ),
        pytest.param(
            {"msh_12": ""},
            b"MSH|^~\\&|ENGINE|HUB|EPIC|RVB|20260102030405+0000||ACK^A01^ACK|77|P|2.5.1",
            id="empty-version",
        ),
        pytest.param(
            {"msh_2": "abcd", "msh_9": "ADT^A01"},
            b"MSH|^~\\&|ENGINE|HUB|EPIC|RVB|20260102030405+0000||ACK^A01^ACK|77|P|2.5.1",
            id="delimiters-that-cannot-be-used",
        ),
    ],
)
def test_the_header(header: Make, fields: dict[str, str], msh: bytes) -> None:
    """The header echoes what came in and says the rest as the sender's version does."""
    assert ack(header(**fields))[0] == msh


@pytest.mark.parametrize(
    ("version", "findings", "rest"),
    [
        pytest.param(
            "2.5.1",
            [MISSING],
            [
                b"MSA|AE|MSG1|No identifier in PID-3",
                b"ERR||PID^1^3|101^Required field missing^HL70357|E|||no-identity|No identifier in PID-3",
            ],
            id="2.5.1",
        ),
        pytest.param(
            "2.5",
            [SAME],
            [
                b"MSA|AE|MSG1|Survivor \\T\\ merged are the same",
                (
                    b"ERR||PID^1^3^2^1~MRG^1^1|205^Duplicate key identifier^HL70357|E|||self-merge"
                    b"|Survivor \\T\\ merged are the same"
                ),
            ],
            id="2.5-two-locations-and-an-escape",
        ),
        pytest.param(
            "2.7",
            [MISSING, WHOLE],
            [
                b"MSA|AE|MSG1",
                b"ERR||PID^1^3|101^Required field missing^HL70357|E|||no-identity|No identifier in PID-3",
                b"ERR|||207^Application internal error^HL70357|E|||journal|Not stored",
            ],
            id="2.7-without-MSA-3",
        ),
        pytest.param(
            "2.6",
            [WHOLE],
            [
                b"MSA|AE|MSG1|Not stored",
                b"ERR|||207^Application internal error^HL70357|E|||journal|Not stored",
            ],
            id="2.6-with-MSA-3",
        ),
        pytest.param(
            "2.3",
            [MISSING],
            [b"MSA|AE|MSG1|No identifier in PID-3", b"ERR|PID^1^3^101&Required field missing&HL70357"],
            id="2.3-old-form",
        ),
        pytest.param(
            "2.4",
            [MISSING, WHOLE],
            [
                b"MSA|AE|MSG1|No identifier in PID-3",
                b"ERR|PID^1^3^101&Required field missing&HL70357~^^^207&Application internal error&HL70357",
            ],
            id="2.4-old-form-repeats",
        ),
        pytest.param(
            "2.5.1",
            [MISSING._replace(severity=FindingSeverity.WARNING)],
            [
                b"MSA|AE|MSG1",
                b"ERR||PID^1^3|101^Required field missing^HL70357|W|||no-identity|No identifier in PID-3",
            ],
            id="2.5.1-warning",
        ),
        pytest.param(
            "2.4", [MISSING._replace(severity=FindingSeverity.WARNING)], [b"MSA|AE|MSG1"], id="2.4-has-no-warnings"
        ),
        pytest.param(
            "2.5.1",
            [MISSING._replace(locations=("PID(2)-3(1).4.2", "PID", "no path"))],
            [
                b"MSA|AE|MSG1|No identifier in PID-3",
                b"ERR||PID^2^3^1^4^2~PID^1~|101^Required field missing^HL70357|E|||no-identity|No identifier in PID-3",
            ],
            id="locations",
        ),
    ],
)
def test_errors(header: Make, version: str, findings: list[Finding], rest: list[bytes]) -> None:
    """What was found is told in the form of the message's version."""
    assert ack(header(msh_12=version), "AE", *findings)[1:] == rest


def test_a_version_that_is_the_fault(header: Make) -> None:
    """A version that is not spoken here is answered in 2.5.1."""
    msh, _msa, err = ack(header(msh_12="3.1"), "AR", VERSION)
    assert msh.endswith(b"|P|2.5.1")
    assert err.startswith(b"ERR||MSH^1^12|203^Unsupported version id^HL70357|E")


def test_an_empty_version_is_the_channels(header: Make) -> None:
    """An empty MSH-12 is answered in the channel's version."""
    assert ack(header(msh_12=""), version="2.3")[0].endswith(b"||ACK^A01|77|P|2.3")


def test_short_encoding_characters(header: Make) -> None:
    """Delimiters that the message does not declare are not used in its answer."""
    msh, _msa, err = ack(header(msh_2="^", msh_12="2.3"), "AE", MISSING, SAME)
    assert msh.startswith(b"MSH|^|ENGINE|HUB")
    assert err == b"ERR|PID^1^3^101"


def test_text_beside_an_acceptance(header: Make) -> None:
    """A text may go with an acceptance, up to 2.6."""
    assert ack(header(), text="accepted, not routed")[1] == b"MSA|AA|MSG1|accepted, not routed"
    assert ack(header(msh_12="2.8"), text="accepted, not routed")[1] == b"MSA|AA|MSG1"


def test_echoes_are_bytes(header: Make) -> None:
    """What cannot be decoded is echoed as it came, and our text is in the sender's character set."""
    strange = Finding(ErrorCode.DATA_TYPE, "undecodable", (), "Größe – falsch")
    msh, msa, _err = ack(header(msh_3="M\xfcller", msh_10="\xff1"), "AE", strange, charset="latin-1")
    assert b"|HUB|M\xfcller|" in msh
    assert msa == b"MSA|AE|\xff1|Gr\xf6\xdfe ? falsch"
    assert ack(header(), "AE", strange, charset="no-such")[1] == b"MSA|AE|MSG1|Gr??e ? falsch"


def test_utf_16_is_answered_in_utf_16() -> None:
    """A message in a character set of wide units gets its answer in the same."""
    text = "MSH|^~\\&|A|B|C|D|||ADT^A01|1|P|2.5.1\r"
    made = read_header(text.encode("utf-16"))
    assert made is not None
    assert build(made, AckCode.AA, (), "77", AT, "utf-16").decode(made.wide).endswith("MSA|AA|1\r")


def test_the_time_has_its_offset(header: Make) -> None:
    """MSH-7 carries the offset of the time given."""
    at = AT.astimezone(timezone(timedelta(hours=-5)))
    assert b"|20260101220405-0500|" in build(header(), AckCode.AA, (), "77", at, "UTF-8")


def test_findings_are_bounded(header: Make) -> None:
    """However much was found, the answer stays small."""
    assert len(ack(header(), "AE", *[MISSING] * 5000)) == 102


@given(st.lists(st.text(st.characters(codec="latin-1", exclude_characters="\r\n"), max_size=8), max_size=25))
def test_any_header_is_answered(fields: list[str]) -> None:
    """Whatever MSH holds, the answer is two segments that name its control ID."""
    made = read_header("|".join(["MSH", "^~\\&", *fields]).encode("latin-1"))
    assert made is not None
    msh, msa = ack(made)
    assert msh.startswith(b"MSH|^~\\&|")
    assert msa == b"MSA|AA|" + made.control_id


def test_python_hl7_reads_it(header: Make) -> None:
    """Another parser finds the parts where they belong."""
    message = hl7.parse(build(header(), AckCode.AE, (SAME,), "77", AT, "UTF-8").decode())
    assert str(message.segment("MSA")[1]) == "AE"
    assert str(message.segment("ERR")[3][0][0]) == "205"  # ERR-3.1
    assert str(message.segment("MSH")[12]) == "2.5.1"

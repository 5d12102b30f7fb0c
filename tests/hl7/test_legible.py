"""What no FHIR text may hold is taken out of what is mapped, and nothing else is."""

import pytest

from engine.hl7.message import parse

HEAD = b"MSH|^~\\&|REG|RVB|X|Y|20250701||ADT^A28^ADT_A05|C1|P|2.5.1|||||||UNICODE UTF-8\r"
BAD = [chr(number) for number in range(32) if chr(number) not in "\t\r\n"] + ["\ufffe", "\uffff"]


@pytest.mark.parametrize("mark", BAD, ids=lambda mark: f"{ord(mark):04x}")
def test_each_is_left_out_as_padding_and_marked_within(mark: str) -> None:
    """At either end of a field, component, subcomponent or repetition; no number becomes another one."""
    pid = f"PID|1||12{mark}3^^^RVB^MR~{mark}45{mark}{mark}||Kim{mark}^{mark}Ann&x{mark}|{mark}|Z{mark}"
    came = parse(HEAD + pid.encode() + b"\rZZZ|1\r")
    told = came.legible()
    (segment,) = told.named("PID")
    assert [repetition.leaf(1) for repetition in segment.repetitions(3)] == ["12\ufffd3", "45"]
    assert (told.leaf("PID", 5), told.leaf("PID", 5, 2), told.leaf("PID", 5, 2, 2)) == ("Kim", "Ann", "x")
    assert (told.leaf("PID", 6), told.leaf("PID", 7)) == (None, "Z")
    assert came.illegible == ("PID",)
    assert (told.raw, told.text) == (came.raw, came.text)


def test_long_runs_cost_no_more_than_their_length() -> None:
    """A million of them within a value, alone or between blanks, are read in one pass."""
    for run in ("\x01" * 1_000_000, "\x01 " * 500_000, " " * 500_000 + "\x01" * 500_000):
        told = parse(HEAD + f"PID|1||12{run}3\r".encode()).legible()
        assert told.leaf("PID", 3) == f"12{run}3".replace("\x01", "\ufffd")


@pytest.mark.parametrize("mark", ["\u200b", "\u200e", "\u200f", "\u202c", "\u2060", "\ufeff"])
def test_invisible_marks_are_no_part_of_a_value_that_they_pad(mark: str) -> None:
    """A number that was copied with one is the same number; within a value they stay, and nothing is noted."""
    pid = f"PID|1||12{mark}3{mark}^^^RVB^MR~ {mark}45{mark} {mark}||Kim{mark}Lee{mark}^{mark}Ann"
    told = parse(HEAD + pid.encode() + b"\r").legible()
    (segment,) = told.named("PID")
    assert [cell.first[0] for cell in segment.cells(3)] == [f"12{mark}3", "45"]
    assert (told.leaf("PID", 5), told.leaf("PID", 5, 2)) == (f"Kim{mark}Lee", "Ann")
    assert told.illegible == ()


@pytest.mark.parametrize(
    "text",
    ["Kim\tLee", "Kim\nLee", "Kim\x7f", "Kim\x85", "Kim\ufffd", "\U0001f600", "Åse", "Kim \\X00\\", "Kim\\XEFBFBE\\"],
)
def test_everything_else_stays_and_costs_no_copy(text: str) -> None:
    """Tabs, line feeds, and what FHIR allows; an escape sequence of what it does not stays as it was written."""
    came = parse(HEAD + f"PID|1||1||{text}\rZZZ|1\r".encode())
    assert came.legible() is came
    assert came.leaf("PID", 5) == text


def test_ends_of_a_message_are_no_characters_of_it() -> None:
    """What frames a block says nothing of its segments."""
    came = parse(b"\x0b" + HEAD + b"PID|1||1\r\x1c\r\x00")
    assert came.legible() is came
    assert came.illegible == ()


def test_the_name_of_a_segment_is_never_a_value() -> None:
    """A line that is no segment is not named."""
    came = parse(HEAD + b"Quintero\x00 and more|\x01\rPV1|1|\x02\rPV1|\x03\r")
    assert came.illegible == ("", "PV1")


def test_utf_16_is_not_taken_for_nuls() -> None:
    """Its bytes hold them, its text does not."""
    text = HEAD.decode().replace("UNICODE UTF-8", "UNICODE UTF-16") + "PID|1||1||Kim\r"
    came = parse(text.encode("utf-16"))
    assert came.legible() is came

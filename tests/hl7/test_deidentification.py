"""De-identified copies: nothing of the person in any place, the same structure, the same codes."""

import re
from contextlib import suppress
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config.settings import shipped
from engine.errors import MessageError
from engine.hl7.deidentification import LEAST_DAYS, MOST_DAYS, Pseudonyms, deidentified
from engine.hl7.message import parse

KEY = b"k" * 32
# A message of an admission, in which each place of a person is a canary.
TEMPLATE = (
    "MSH|^~\\&|REG|RVB|X|Y|{date}101500||ADT^A01^ADT_A01|{number}|P|2.5.1|||AL|NE||8859/1\r"
    "EVN|A01|{date}101500|||{number}^{name}^{name}\r"
    "PID|1|{number}|{number}^^^RVB&1.2.3.4&ISO^MR~{number}^^^SSA^SS||{name}^{name}^{name}^^^^L|{name}|{date}|F|{name}|2106-3|"
    "{street}^^{name}^OR^{number}^USA^H||{number}^PRN^PH^^1^{number}~^NET^Internet^{mail}|{number}|EN|M|CHR|{number}^^^RVB|"
    "{number}|{number}^OR|||{name}|||||||N\r"
    "PD1||||{number}^{name}^{name}\r"
    "NK1|1|{name}^{name}|SPO|{street}^^{name}|{number}\r"
    "PV1|1|I|3W^12^A^RVB|||{number}|{number}^{name}^{name}^^^^MD||||||||||||{number}^^^RVB^VN\r"
    "DG1|1||S72.0^{name} fell^I10|{name} broke a hip|{date}\r"
    "AL1|1|DA|{name}^{name}^L\r"
    "IN1|1|PLAN|{number}|{name}|{street}||{number}|||||{date}||||{name}^{name}|SEL|{date}\r"
    "OBX|1|TX|1^a^L||{name} is well||||||F\r"
    "OBX|2|NM|2^b^L||37.5|Cel|||||F\r"
    "NTE|1||{name} lives in {street}\r"
    "ZPI|1|{name}|Y|{number}|{date}|{street}|{mail}\r"
)
words = st.text("abcdefghijklmnopqrstuvwxyzäöüßçñ", min_size=6, max_size=12).map(lambda text: f"zq{text}".title())
numbers = st.text("0123456789", min_size=7, max_size=12).map(lambda text: f"8{text}")
dates = st.dates(date(1925, 1, 1), date(2025, 12, 31))


def copied(text: str, key: bytes = KEY, codes: frozenset[str] = frozenset({"Y"})) -> str:
    """Return the copy of a message."""
    return deidentified(parse(text.encode("latin-1"), undecodable="replace"), key, codes)


@given(st.binary(min_size=16, max_size=32), words, numbers, dates, words)
def test_nothing_of_the_person_is_in_the_copy(key: bytes, name: str, number: str, day: date, street: str) -> None:
    """Names, numbers, addresses, phones, mail and dates, in the places of the standard and of a Z segment."""
    at = f"{day:%Y%m%d}"
    mail = f"{name}@{street}.example"
    text = TEMPLATE.format(name=name, number=number, date=at, street=f"12 {street} Lane", mail=mail)
    made = copied(text, key)
    assert made.isascii()
    held = made.casefold()
    assert [one for one in (name, number, at, street) if one.casefold() in held] == []
    assert made.count("\r") == text.count("\r")


@given(words)
def test_a_name_in_the_place_of_a_code_is_masked(name: str) -> None:
    """Feeds misuse fields: a code that holds the name of the person is no code."""
    ascii_name = "zq" + re.sub("[^a-z]", "x", name.casefold())
    pid = f"PID|1||1||{ascii_name}^A||||||||||{ascii_name}|{ascii_name}-1"
    text = f"MSH|^~\\&|{ascii_name}|RVB|||2025||ADT^A01|1|P|2.5.1\r{pid}\r"
    assert ascii_name not in copied(text).casefold()


@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3", "2.3.1", "2.4", "2.5", "2.6", "2.7", "2.8.2", "2.9", "", "7"])
def test_what_an_old_version_has_as_a_code_is_a_person_all_the_same(version: str) -> None:
    """The visit's number is a mere number in 2.1, the operator and the guarantor's number codes in 2.1 or 2.2."""
    text = (
        f"MSH|^~\\&|A|RVB|||2025||ADT^A01|1|P|{version}\rEVN|A01|2025|||OPERAT\rPID|1||1||||||||||MERCED\r"
        f"PV1|1|I|||PRE123|||||||||||||V|471147\rGT1|1|GUA471\rIN1|1|P|INS471\r"
    )
    made = copied(text)
    assert [one for one in ("OPERAT", "MERCED", "PRE123", "471147", "GUA471", "INS471") if one in made] == []
    assert "|V|" in made


def test_codes_structure_and_relations_stay() -> None:
    """What a mapping decides by is as it was; one number is one number in all places."""
    text = TEMPLATE.format(
        name="Quintero", number="4711471", date="19840229", street="5 Towpath", mail="q@towpath.example"
    )
    copy = parse(copied(text).encode(), charset="UTF-8")
    before = parse(text.encode(), charset="UTF-8")
    assert [one.name for one in copy.segments] == [one.name for one in before.segments]
    assert (copy.trigger, copy.version) == ("A01", "2.5.1")
    for place in (
        ("PID", 8), ("PID", 10), ("PID", 16), ("PV1", 2), ("PV1", 3), ("PV1", 3, 3), ("PID", 3, 4), ("PID", 3, 5),
        ("PID", 11, 6), ("PID", 11, 7), ("DG1", 3), ("DG1", 3, 3), ("AL1", 2), ("NK1", 3), ("PID", 13, 2), ("ZPI", 3),
        ("MSH", 4), ("IN1", 17),
    ):  # fmt: skip
        assert copy.leaf(*place) == before.leaf(*place), place
    assert copy.leaf("PID", 3) == copy.leaf("PID", 18) == copy.leaf("PV1", 19) != "4711471"
    assert re.fullmatch(r"\d{7}", str(copy.leaf("PID", 3)))
    assert copy.leaf("NTE", 3) == "TEXT"
    assert copy.leaf("DG1", 3, 2) == "TEXT"
    assert copied(text, b"another key") != copied(text)


@pytest.mark.parametrize("text", ["1984", "198402", "19840229", "198402291015", "19840229101500.123+0100"])
def test_dates_are_as_precise_and_as_far_apart(text: str) -> None:
    """One number of days for all dates of a copy, which another copy has otherwise."""
    for key in (b"a", b"b"):
        pseudonyms = Pseudonyms(key)
        assert LEAST_DAYS <= pseudonyms.days < MOST_DAYS
        moved = pseudonyms.moved(text)
        assert len(moved) == len(text)
        assert moved[8:] == text[8:]
        assert moved < text
    assert Pseudonyms(b"a").days != Pseudonyms(b"b").days


@pytest.mark.parametrize("text", ["", "x", "19841399", "0001", "1000010"])
def test_what_is_no_date_is_left_out(text: str) -> None:
    """Whatever stands in its place may be of the person."""
    assert Pseudonyms(KEY).moved(text) == ""


@given(st.binary(max_size=400))
def test_any_message_is_copied_without_an_error(body: bytes) -> None:
    """Whatever a feed sends."""
    raw = b"MSH|^~\\&|A|B|||2025||ADT^A01|1|P|2.5.1\r" + body
    assert deidentified(parse(raw, charset="UTF-8", undecodable="replace"), KEY).isascii()


def test_the_messages_of_the_shipped_samples_keep_nothing_of_their_names_and_numbers() -> None:
    """Every PID-3.1, PID-5 and PID-7 of them."""
    copies = 0
    for file in sorted(Path(shipped("samples")).rglob("*.hl7")):
        with suppress(MessageError):  # batches, and what is no message
            message = parse(file.read_bytes(), undecodable="replace")
            made = deidentified(message, KEY).casefold()
            leaves = [message.leaf("PID", field) for field in (3, 5, 7, 18, 19)]
            assert [one for one in leaves if isinstance(one, str) and len(one) >= 5 and one.casefold() in made] == []
            copies += 1
    assert copies > 8

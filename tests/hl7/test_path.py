"""Paths, written and read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import PathError
from engine.hl7.leaf import NULL
from engine.hl7.message import parse
from engine.hl7.path import Path, Predicate, parse_path

RAW = (
    b"MSH|^~\\&|A|B|||20240101||ADT^A40^ADT_A39|1|P|2.5.1\r"
    b'PID|1||7^^^RVB&1.2&ISO^MR~8^^^SSA^SS~9^^^OLD^MR||Doe^John|""\r'
    b"PID|2||10^^^RVB^MR||Roe\r"
    b"ZPI|||x\r"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PID-3", Path("PID", 3)),
        ("PV1-19", Path("PV1", 19)),
        ("MSH-9.2", Path("MSH", 9, component=2)),
        ("ZPI-3", Path("ZPI", 3)),
        ("PID-3(2).4.1", Path("PID", 3, 2, 4, 1)),
        ("PID-3[CX.5=MR].1", Path("PID", 3, None, 1, None, Predicate("CX", 5, None, "MR"))),
        ("PID-3[CX.4.2=1.2.3].1", Path("PID", 3, None, 1, None, Predicate("CX", 4, 2, "1.2.3"))),
        ("PID-3[5=]", Path("PID", 3, None, None, None, Predicate("", 5, None, ""))),
    ],
)
def test_parse(text, expected):
    """A path is read into its parts and written the same."""
    assert parse_path(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "PID", "PID-", "PID-0", "PID.3", "pid-3", "PID-3.0", "PID-3(0)", "PID-3(2", "PID-3[CX.5]", "PID-3.1.1.1"),
        *("PID-03", "PID-1000", "PID-3[CX.5=MR](2)", " PID-3", "PID-3\n", "PIDX-3", "PID-3[]", "PID-\u0663"),
    ],
)
def test_no_path(text):
    """Anything else is refused."""
    with pytest.raises(PathError):
        parse_path(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("PID-3", ("7", "8", "9", "10"), id="all repetitions of all segments"),
        pytest.param("PID-3.5", ("MR", "SS", "MR", "MR"), id="a component"),
        pytest.param("PID-3.4.2", ("1.2", None, None, None), id="a subcomponent, absent in some"),
        pytest.param("PID-3(2)", ("8",), id="a repetition, there in one segment"),
        pytest.param("PID-3(7)", (), id="no such repetition"),
        pytest.param("PID-3[CX.5=MR].1", ("7", "9", "10"), id="by type"),
        pytest.param("PID-3[CX.4.2=1.2].1", ("7",), id="by a subcomponent"),
        pytest.param("PID-3[CX.4.2=].1", ("8", "9", "10"), id="by absence"),
        pytest.param("PID-3[CX.5=XX].1", (), id="by a type that is not there"),
        pytest.param("PID-5.2", ("John", None), id="absent in the second"),
        pytest.param("PID-6", (NULL,), id="null"),
        pytest.param("PID-6.2", (NULL,), id="null in all components"),
        pytest.param("PID-6[CX.5=MR].1", (NULL,), id="null for every predicate"),
        pytest.param("PID-6(2)", (), id="null has one repetition"),
        pytest.param("PID-30", (), id="no such field"),
        pytest.param("PV1-2", (), id="no such segment"),
        pytest.param("MSH-1", ("|",), id="the field separator"),
        pytest.param("MSH-2", ("^~\\&",), id="the delimiters"),
        pytest.param("MSH-9.2", ("A40",), id="the header"),
        pytest.param("ZPI-3", ("x",), id="a Z segment"),
    ],
)
def test_leaves(text, expected):
    """A compiled path returns one leaf for each repetition meant."""
    assert parse_path(text).leaves(parse(RAW)) == expected


NUMBER = st.integers(1, 999)
PREDICATE = st.builds(
    Predicate,
    st.sampled_from(["", "CX", "XPN"]),
    NUMBER,
    st.none() | NUMBER,
    st.text(st.characters(blacklist_characters="]\r\n", blacklist_categories=["Cs"]), max_size=20),
)


@given(
    st.from_regex(r"[A-Z][A-Z0-9]{2}", fullmatch=True),
    NUMBER,
    st.none() | NUMBER | PREDICATE,
    st.lists(NUMBER, max_size=2),
)
def test_round_trip(segment, field, which, parts):
    """Every path that can be written is read as it was."""
    predicate = which if isinstance(which, Predicate) else None
    repetition = None if predicate else which
    component, subcomponent = (*parts, None, None)[:2]
    path = Path(segment, field, repetition, component, subcomponent, predicate)
    assert parse_path(str(path)) == path

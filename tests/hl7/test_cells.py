"""Cells: each repetition split once, in three states, and which of it holds something."""

import pytest

from engine.hl7.leaf import NULL
from engine.hl7.message import parse
from engine.hl7.segment import BITS, NESTED, Segment

HEAD = b"MSH|^~\\&|A|B|||20260301||ADT^A01|1|P|2.5\r"


def _pid(line: bytes) -> Segment:
    segment = parse(HEAD + line).first("PID")
    assert segment is not None
    return segment


@pytest.mark.parametrize(
    ("text", "first", "filled"),
    [
        pytest.param(b"A^^B", ["A", "", "B"], BITS[1] | BITS[3], id="plain"),
        pytest.param(b" A ^ ", ["A", ""], BITS[1], id="blanks at the ends"),
        pytest.param("A\u00a0^\u3000".encode(), ["A", ""], BITS[1], id="blanks of other scripts"),
        pytest.param(b"A\t^\t", ["A", ""], BITS[1], id="tabs"),
        pytest.param(b'""^B', [NULL, "B"], BITS[1] | BITS[2], id="a null is something"),
        pytest.param(b"A&X^ ^B", ["A", "", "B"], BITS[1] | BITS[3] | NESTED, id="subcomponents"),
        pytest.param(b'\\T\\^""', ["&", NULL], BITS[1] | BITS[2] | NESTED, id="escapes"),
    ],
)
def test_a_repetition_is_split(text: bytes, first: list[object], filled: int) -> None:
    """Each component's first subcomponent, without blanks and escapes; bits say which are there."""
    (cells,) = _pid(b"PID|1||" + text).cells(3)
    assert (list(cells.first), cells.filled) == (first, filled)


def test_cells_of_a_field_are_split_once() -> None:
    """Whoever asks again is given the same cells; an absent field has none."""
    pid = _pid(b"PID|1||A^^^RVB~B&1")
    assert [cells.first[0] for cells in pid.cells(3)] == ["A", "B"]
    assert pid.cells(3) is pid.cells(3)
    assert pid.cells(4) == pid.cells(40) == ()


def test_fields_that_hold_something_have_a_bit() -> None:
    """The bit of 0 stands for the segment itself."""
    assert _pid(b'PID|1||A||""').filled == BITS[0] | BITS[1] | BITS[3] | BITS[5]

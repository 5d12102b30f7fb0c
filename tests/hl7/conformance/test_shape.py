"""Shapes are an abbreviation: what one of them matches, the check part by part finds nothing in either."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.hl7.conformance.check import Deviation, _Marks
from engine.hl7.conformance.standard import MessagePart, standard
from engine.hl7.message import parse

MESSAGE = parse(b"MSH|^~\\&|REG|RVB|ENG|HUB|20260302061604||ADT^A01^ADT_A01|C1|P|2.5.1\r")
SEGMENTS = ("EVN", "PID", "PD1", "NK1", "PV1", "PV2", "AL1", "DG1", "PR1", "GT1", "IN1", "MRG", "MSH")


def fields(version: str) -> list[MessagePart]:
    """Return the fields of the segments of ADT that have a shape, one for each data type and table."""
    known = standard(version)
    assert known is not None
    rules = [rule for name in SEGMENTS if (rule := known.segment(name))]
    parts = [part for rule in rules for part in rule.fields if part and known.shape(part)]
    return list({(part.type, part.table and part.table.number, part.most): part for part in parts}.values())


@pytest.mark.parametrize("version", ["2.3", "2.5.1", "2.6", "2.7", "2.8.2"])
@pytest.mark.parametrize("text", ["^", "^^", "~", "^~^", "^&", "&^"])
def test_no_shape_takes_a_required_component_for_there_that_is_empty(version: str, text: str) -> None:
    """Separators alone are no value, also where the component that is required has parts that may all be empty."""
    known = standard(version)
    assert known is not None
    for part in fields(version):
        found: list[Deviation] = []
        shape = known.shape(part)
        if shape and shape.fullmatch(text):
            _Marks(MESSAGE)._field(text, part, "PID-1", found)
        assert found == [], part.type


@pytest.mark.parametrize("version", ["2.3", "2.5.1", "2.8.2"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_what_a_shape_matches_conforms(version: str, data: st.DataObject) -> None:
    """Whatever text a shape takes for good, the slow way finds nothing in."""
    known = standard(version)
    assert known is not None
    part = data.draw(st.sampled_from(fields(version)))
    shape = known.shape(part)
    assert shape is not None
    text = data.draw(st.from_regex(shape, fullmatch=True))
    found: list[Deviation] = []
    if text and "\0" not in text:
        _Marks(MESSAGE)._field(text, part, "PID-1", found)
    assert found == [], text


@pytest.mark.parametrize(
    ("segment", "number", "good", "bad"),
    [
        ("PID", 3, "RB1^^^RVB^MR~RB2", "RB1^^^RVB^QQQ"),
        ("PID", 5, "A^B^^^^^L", "A^B^^^^^x"),
        ("PID", 7, "19840228", "19840231"),
        ("PID", 8, "F", "F~M"),
        ("PV1", 3, "3W^401^A^RVB&1.2.3&ISO", "3W^401^A^RVB&1.2.3&OID"),
        ("PV1", 19, "V1^^^RVB^VN", '""^'),
        ("MSH", 9, "ADT^A01^ADT_A01", "ADT^A99"),
    ],
)
def test_shapes_know_good_from_doubtful(segment: str, number: int, good: str, bad: str) -> None:
    """The usual values are seen at one look; what is wrong, or cannot be told so, is not."""
    known = standard("2.5.1")
    rule = known.segment(segment) if known else None
    part = rule.fields[number] if rule else None
    assert known is not None
    assert part is not None
    shape = known.shape(part)
    assert shape is not None
    assert shape.fullmatch(good)
    assert not shape.fullmatch(bad)


def test_long_texts_are_looked_at_in_linear_time() -> None:
    """A field made to trip a regular expression up costs no more than its length."""
    known = standard("2.5.1")
    rule = known.segment("PID") if known else None
    assert known is not None
    assert rule is not None
    for text in ("a" * 50_000, "^" * 50_000, "a^" * 25_000, "a~" * 25_000 + "^" * 50, "a&" * 25_000):
        for part in filter(None, rule.fields):
            shape = known.shape(part)
            if shape is not None:
                shape.fullmatch(text)

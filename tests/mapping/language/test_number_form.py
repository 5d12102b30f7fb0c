"""The form of an authority's numbers: its steps, its bounds, and what an event file may say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.mapping.language.number_form import FORM_KEYS, NumberForm, number_forms

FORMS = st.builds(
    NumberForm,
    remove=st.text("-./ ", max_size=3),
    case=st.sampled_from(["", "upper", "lower"]),
    strip_zeros=st.booleans(),
    pad=st.integers(0, 12),
)


@pytest.mark.parametrize(
    ("form", "sent", "number"),
    [
        (NumberForm(strip_zeros=True), "0004711", "4711"),
        (NumberForm(strip_zeros=True), "4711", "4711"),
        (NumberForm(strip_zeros=True), "A0004711", "A0004711"),
        (NumberForm(pad=8), "4711", "00004711"),
        (NumberForm(pad=8), "123456789", "123456789"),
        (NumberForm(strip_zeros=True, pad=6), "0000004711", "004711"),
        (NumberForm(case="upper"), "rvb-1", "RVB-1"),
        (NumberForm(case="lower"), "RVB-1", "rvb-1"),
        (NumberForm(remove="-. "), "47-11. 2", "47112"),
        (NumberForm(remove="-", strip_zeros=True), "00-4711", "4711"),
        (NumberForm(strip_zeros=True), "000", "000"),  # nothing would be left: a placeholder, judged as sent
        (NumberForm(remove="-"), "--", "--"),
    ],
)
def test_forms(form: NumberForm, sent: str, number: str) -> None:
    """Separators go, then the case changes, then zeros go, then others come."""
    assert form.of(sent) == number


@given(FORMS, st.text("0aB-./ 19", min_size=1, max_size=14) | st.text(min_size=1, max_size=10))
def test_the_form_of_a_form_is_the_same(form: NumberForm, value: str) -> None:
    """What is read back from a server, or sent by it, is in its form already; no number becomes nothing."""
    once = form.of(value)
    assert once
    assert form.of(once) == once


@given(FORMS, st.integers(1, 10**9), st.integers(0, 6), st.integers(0, 6))
def test_spellings_that_differ_in_zeros_are_one_number(form: NumberForm, number: int, one: int, other: int) -> None:
    """With `leading_zeros: strip` the number of zeros does not count."""
    stripped = form._replace(strip_zeros=True)
    assert stripped.of("0" * one + str(number)) == stripped.of("0" * other + str(number))


@pytest.mark.parametrize(
    ("value", "path", "found", "expected"),
    [
        ({"RVB^MR": {"pad": "8"}}, "RVB^MR", "found 'RVB^MR'", "name the authority alone"),
        ({"RVB": "strip"}, "RVB", "found 'strip'", "expected {leading_zeros: strip}"),
        ({"RVB": {}}, "RVB", "found a map", "expected {leading_zeros: strip}"),
        ({"RVB": {"leading_zero": "strip"}}, "leading_zero", "unknown key 'leading_zero'", "leading_zeros"),
        ({"RVB": {"leading_zeros": "keep"}}, "leading_zeros", "found 'keep'", "expected strip"),
        ({"RVB": {"case": "title"}}, "case", "found 'title'", "expected upper or lower"),
        ({"RVB": {"remove": "-0"}}, "remove", "found '-0'", "name separators only"),
        ({"RVB": {"pad": "eight"}}, "pad", "found 'eight'", "from 1 to 40"),
        ({"RVB": {"pad": "41"}}, "pad", "found '41'", "from 1 to 40"),
        ({"RVB": {"keep_original": "maybe", "pad": "8"}}, "keep_original", "found 'maybe'", "expected yes or no"),
    ],
)
def test_mistakes(value: dict[str, object], path: str, found: str, expected: str) -> None:
    """Each is named at its place, with what would do."""
    noted: list[tuple[tuple[str | int, ...], str, str]] = []
    number_forms(value, lambda *fault: noted.append(fault))
    ((place, what, remedy),) = noted
    assert (place[:2], place[-1], what) == (("identity", "normalise"), path, found)
    assert expected in remedy


def test_whether_two_forms_make_the_same() -> None:
    """Whether the original is kept makes no other number."""
    assert NumberForm(pad=8).same_as(NumberForm(pad=8, keep_original=True))
    assert not NumberForm(pad=8).same_as(NumberForm(pad=9))
    assert {"remove", "case", "pad"} < FORM_KEYS

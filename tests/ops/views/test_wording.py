"""How values look on a page."""

import pytest

from engine.ops.views.wording import milliseconds, moment, number, pretty, span, visible, visible_lines
from engine.ops.web.renderer import Renderer


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("Quintero", "Quintero"),
        ("O'Brien", "O'Brien"),
        ("\x1b[31mred", "⟨ESC⟩[31mred"),
        ("\u202egnorw", "⟨RIGHT-TO-LEFT OVERRIDE⟩gnorw"),
        ("a\x00b", "a⟨U+0000⟩b"),
        ("a\u200bb", "a⟨ZERO WIDTH SPACE⟩b"),
        ("כהן", "כהן"),
    ],
)
def test_what_would_act_unseen_is_written_out(text: str, seen: str) -> None:
    """Control, escape and direction characters are named; letters of any script stay."""
    assert visible(text) == seen


def test_segments_stand_on_lines_of_their_own() -> None:
    """HL7's carriage returns end lines, and nothing else of the message moves the cursor."""
    assert visible_lines("MSH|1\rPID|1\x1b\r\n") == "MSH|1\nPID|1⟨ESC⟩\n"


def test_durations_have_two_units_at_most() -> None:
    """Seconds, minutes, hours and days, the largest two of them."""
    assert [span(value) for value in (0, 59, 61, 3_660, 7_200, 90_000, None)] == [
        *("0 s", "59 s", "1 min 1 s", "1 h 1 min", "2 h", "1 d 1 h", "–"),
    ]
    assert [milliseconds(value) for value in (None, 3.2, 1500)] == ["–", "3 ms", "1.5 s"]


def test_numbers_and_moments_have_one_form() -> None:
    """Thin spaces between thousands; what is missing is a dash, what is no time too."""
    assert (number(12_345), number(None), number(0)) == ("12\u202f345", "–", "0")
    assert moment("") == moment("yesterday") == "–"
    assert moment("2026-03-02T06:00:00+00:00")[:4] == "2026"


def test_json_is_indented_and_text_is_left() -> None:
    """A resource is shown as people read JSON; text that is none as it came."""
    assert pretty({"a": 1}) == '{\n  "a": 1\n}'
    assert pretty("PID|1") == "PID|1"


@pytest.mark.parametrize(
    ("text", "entry", "place"),
    [
        pytest.param("see `lanes release --reason CODE`", 0, "/lanes", id="a page of its own"),
        pytest.param("`messages resolve` names one", 7, "/messages/7/choose", id="of the entry"),
        pytest.param("`messages resolve` names one", 0, "", id="of no entry"),
        pytest.param("`messages list --state held` shows", 0, "/lanes", id="the narrower one first"),
        pytest.param("correct `base_url`", 7, "", id="no command"),
    ],
)
def test_a_command_that_a_page_does_leads_there(text: str, entry: int, place: str) -> None:
    """A line of the table of reasons names commands; what stands on a page is one click away."""
    shown = Renderer()._environment.filters["coded"](text, entry)
    assert (f'<a class="does" href="{place}"><code>' in shown) is bool(place)
    assert "<code>" in shown
    assert shown.count("<a ") == bool(place)

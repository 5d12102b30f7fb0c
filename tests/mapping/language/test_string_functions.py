"""Functions of texts, and of dates as texts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config.settings import shipped
from engine.errors import ConfigurationError
from engine.fhir.plan import Upsert
from engine.hl7.message import Message
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.explain import explain
from engine.mapping.authoring.outcome import patient
from engine.mapping.compile import compile_mapping, load, read
from engine.mapping.language.functions import FUNCTIONS
from engine.mapping.language.string_functions import age, concat, replaced, split, substring
from engine.mapping.language.string_functions import pad as padded
from tests.tiers import trials

Author = Callable[..., Path]
Make = Callable[..., Message]
SEGMENTS = (
    "PID|1||0012-AB||Okafor^Ada^^^^^L||20080229",
    "NK1|1|First^One",
    "NK1|2|Second^Two",
    'ZPI|a/b/c| |""|20240229101500+0100|nonsense',
)


def made(author: Author, message: Make, elements: str) -> dict[str, Any]:
    """Return the patient of a message by a site's own elements."""
    text = f"resource: Patient\nextends: shipped/patient\nelements:\n{elements}\n"
    mapping = compile_mapping(read([author(resources__patient=text), shipped("mappings")], "adt"), channel_of({}))
    interaction = mapping.plan(message("A08", *SEGMENTS)).interactions[0]
    assert isinstance(interaction, Upsert)
    return patient(interaction.patient)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("PID-5.1 | upper", "OKAFOR"),
        ("PID-5.1 | lower | substring(1 2)", "ok"),
        ("PID-3.1 | strip-start(0)", "12-AB"),
        ("PID-3.1 | strip('0AB')", "12-"),
        ("PID-3.1 | strip-end(B)", "0012-A"),
        ("PID-3.1 | substring(3)", "12-AB"),
        ("PID-3.1 | substring(40)", None),
        ("PID-3.1 | split('-' 2)", "AB"),
        ("PID-3.1 | split('-' 3)", None),
        ("PID-3.1 | split('-' 1) | strip-start(0) | pad(6 0)", "000012"),
        ("PID-3.1 | pad(3 '*')", "0012-AB"),
        ("PID-3.1 | replace('-' ' ')", "0012 AB"),
        ("ZPI-1 | replace('/' '')", "abc"),
        ("PID-5.1 | concat(', ' PID-5.2)", "Okafor, Ada"),
        ("PID-5.1 | concat(', ' PID-5.3 ' (' PID-5.7 ')')", "Okafor (L)"),
        ("PID-5.1 | concat(' of ' ZPI-9)", "Okafor"),
        ("ZPI-2 | upper", None),
        ("ZPI-3 | concat('x')", None),
        ("PID-7 | plus-days(1) | date", "2008-03-01"),
        ("ZPI-4 | minus-days(60) | datetime", "2023-12-31T10:15:00+01:00"),
        ("ZPI-5 | plus-days(1)", None),
        ("ZPI-4 | utc-minute", "2024-02-29T09:15"),
        ("ZPI-5 | utc-minute", None),
        ("PID-7 | utc-minute", None),
    ],
)
def test_what_a_function_makes_of_a_text(author: Author, message: Make, expression: str, value: str | None) -> None:
    """Each by its own words, one after the other from left to right; of what is empty nothing."""
    element = "deceasedDateTime" if "date" in expression else "language"
    entry = (
        f'"deceased[x]": [{{deceasedDateTime: "{expression}"}}]'
        if "date" in expression
        else f'language: "{expression}"'
    )
    assert made(author, message, f"  {entry}").get(element) == value


def test_pieces_stand_in_the_segment_at_hand(author: Author, message: Make) -> None:
    """Within `each: NK1` a path into NK1 is of that one, also within concat."""
    found = made(author, message, "  contact: {each: NK1, name: {text: \"NK1-2.1 | concat(' ' NK1-2.2)\"}}")
    assert [one["name"]["text"] for one in found["contact"]] == ["First One", "Second Two"]


def test_pieces_of_a_repetition(author: Author, message: Make) -> None:
    """Within a data type they are components of the same repetition."""
    found = made(author, message, "  name: {each: PID-5, text: \"XPN.2 | concat(' ' XPN.1)\"}")
    assert found["name"] == [{"text": "Ada Okafor"}]


def test_age_is_of_the_day_of_the_event(author: Author, message: Make) -> None:
    """Born on 29 February 2008, on 1 July 2025."""
    found = made(author, message, "  multipleBirth[x]: [{multipleBirthInteger: PID-7 | age}]")
    assert found["multipleBirthInteger"] == 17


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("PID-3.1 | substring(0)", "'0' is no whole number"),
        ("PID-3.1 | substring(x 2)", "'x' is no whole number"),
        ("PID-3.1 | substring", "substring with 0 argument(s)"),
        ("PID-3.1 | pad(8 'ab')", "'ab' is not one character"),
        ("PID-3.1 | pad(8)", "pad with 1 argument(s)"),
        ("PID-3.1 | split('' 1)", "an empty text"),
        ("PID-3.1 | concat(PID-99)", "unknown field PID-99"),
        ("PID-3.1 | concat(and)", "found 'and'"),
        ("PID-3.1 | concat('a' 'b' 'c' 'd' 'e' 'f' 'g' 'h' 'i' 'j' 'k')", "concat with 11 argument(s)"),
        ("PID-7 | shift-days(study 0)", "'0' is no whole number from 1 to 3650"),
        ("PID-7 | plus-days(99999)", "'99999' is no whole number from 1 to 40000"),
        ("PID-3.1 | exalt", "unknown function 'exalt'"),
    ],
)
def test_what_is_wrong_is_told_in_its_place(author: Author, message: Make, expression: str, found: str) -> None:
    """At the line of the author's own file."""
    with pytest.raises(ConfigurationError) as caught:
        made(author, message, f'  language: "{expression}"')
    (problem,) = caught.value.problems
    assert (problem.line, found in problem.found) == (4, True), str(problem)


def test_explain_shows_each_step(author: Author, message: Make) -> None:
    """What stood in the message, and what each function made of it; the pieces are fields that are read."""
    text = "resource: Patient\nextends: shipped/patient\nelements:\n"
    text += "  language: \"PID-5.1 | concat('-' PID-5.2) | lower\"\n"
    source = load([author(resources__patient=text), shipped("mappings")], "adt")
    told = str(explain(source, channel_of({}), message("A08", *SEGMENTS)))
    assert "okafor-ada" in told
    assert "Okafor-Ada" in told


class _Today:
    today = "20250701"

    def warn(self, _: str) -> None:
        return None


@pytest.mark.property
@settings(max_examples=trials(100))
@given(st.text())
def test_no_text_makes_a_function_fail(text: str) -> None:
    """Each function that takes one text and gives one, and age."""
    reading: Any = _Today()
    context: Any = None
    for make, words in ((substring, ("2", "3")), (split, ("'-'", "2")), (padded, ("5", "0"))):
        assert isinstance(make(context, words)(text, reading), str | None)
    assert isinstance(concat(context, ("', '", "PID-5"))((text or "x", None, text), reading), str)
    assert isinstance(age(text, reading), int | None)
    assert isinstance(FUNCTIONS["plus-days"].make(context, ("3",))(text, reading), str | None)


@given(text=st.text("ab", max_size=30), old=st.sampled_from(["a", "ab", "b"]), new=st.sampled_from(["", "x", "xyzab"]))
def test_replace_is_cut_where_it_always_was(text: str, old: str, new: str) -> None:
    """The first 1,000 characters are those of the text in which all of it is replaced."""
    whole = text * 60
    replace = replaced(None, (f"'{old}'", f"'{new}'"))  # type: ignore[arg-type]  # needs no context
    assert replace(whole, None) == (whole.replace(old, new)[:1000].strip() or None)  # type: ignore[arg-type]


class Measured(str):
    """A text that keeps the lengths of what is made of it."""

    __slots__ = ("lengths",)
    lengths: list[int]

    def replace(self, *given: Any) -> str:
        """Replace as a text does."""
        made = super().replace(*given)
        self.lengths.append(len(made))
        return made


def test_replace_makes_no_more_than_its_text_and_what_is_kept() -> None:
    """A message of 1 MiB and a rule of 1,000 characters would be 900 MiB before they are cut."""
    replace, text = replaced(None, ("x", "y" * 900)), Measured("x" * 1_000_000)  # type: ignore[arg-type]
    text.lengths = []
    assert replace(text, None) == "y" * 1000  # type: ignore[arg-type]  # no reading
    assert all(length < 2_000_000 for length in text.lengths)
    assert text.lengths

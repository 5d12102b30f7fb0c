"""Functions that de-identify: what they make, what never gets through, and that the key appears nowhere."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config.channel import Channel
from engine.config.settings import shipped
from engine.config.source import look, parse
from engine.errors import ConfigurationError, MappingError
from engine.fhir.plan import Upsert
from engine.hl7.leaf import NULL
from engine.hl7.message import Message
from engine.hl7.message import parse as parse_message
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.explain import explain
from engine.mapping.authoring.outcome import patient
from engine.mapping.compile import compile_mapping, load, read
from engine.mapping.files.setting import TEST_KEYS, Setting
from engine.mapping.language.deidentification import days_shifted, hashed, masked
from engine.mapping.language.function_context import FunctionContext
from engine.mapping.language.identifier import Identifiers, IdentityRules, Preference
from engine.mapping.language.moment import Stamps
from engine.mapping.language.reading import MessageReading
from engine.pipeline.configuration import lacking
from tests.tiers import trials

Author = Callable[..., Path]
RULES = IdentityRules(prefer=(Preference("", "MR"),), placeholders=frozenset({"UNKNOWN"}))
CONTEXT = FunctionContext(Setting(), {}, Identifiers(RULES, Setting()), Stamps(Setting().zone))
CHANNEL = """\
channel: riverbend
listen: {mllp: {port: 0}}
keys: {study: {env: STUDY_KEY}}
destinations:
  - {name: fhir, base_url: http://127.0.0.1:1}
"""
RULE = """\
resource: Patient
extends: shipped/patient
add:
  extension:
    - {url: "urn:x", valueString: PID-4.1 | hash(study)}
"""


def reading(numbers: str = "7^^^RVB^MR", *more: str) -> MessageReading:
    """Return the reading of a message about a patient."""
    lines = ("MSH|^~\\&|R|RVB|||20260302||ADT^A08|1|P|2.5.1", f"PID|1||{numbers}", *more)
    message: Message = parse_message("\r".join(lines).encode())
    return MessageReading(message, message.groups, None, "")


def shift(value: str, numbers: str = "7^^^RVB^MR", *words: str) -> Any:
    """Return a shifted date of a patient."""
    return days_shifted(CONTEXT, ("study", *words))(value, reading(numbers))


def test_a_hash_depends_on_the_text_and_the_key() -> None:
    """The same text gives the same digits, another text or key others; a placeholder stays one."""
    here, there = hashed(CONTEXT, ("study",)), hashed(CONTEXT, ("other",))
    assert here("7", reading()) == here("7", reading())
    assert len({here("7", reading()), here("8", reading()), there("7", reading())}) == 3
    assert [here(value, reading()) for value in ("000", "999", "unknown")] == ["000", "999", "unknown"]


@pytest.mark.parametrize(
    ("text", "made"),
    [("O'Hara-2", "X'XXXX-9"), ("Ÿe\u0301\u4e2d", "XXXX"), ("\u0661\u00bd", "99"), ("x" * 5000, "X" * 1000)],
)
def test_a_mask(text: str, made: str) -> None:
    """Letters and digits of any script are masked, marks of letters too; what is too long is cut."""
    assert masked(text, reading()) == made


@given(text=st.text(max_size=50))
@settings(max_examples=trials(200), derandomize=True, deadline=None)
def test_a_mask_shows_no_letter_and_no_digit(text: str) -> None:
    """All that is left of letters and digits is X and 9."""
    made = masked(text, reading())
    assert len(made) == len(text)
    assert {one for one in made if one.isalnum()} <= {"X", "9"}


@given(
    one=st.dates(date(1890, 1, 1)),
    other=st.dates(date(1890, 1, 1)),
    number=st.text("ABC123", min_size=4, max_size=6),
)
@settings(max_examples=trials(200), derandomize=True, deadline=None)
def test_intervals_of_a_patient_stay(one: date, other: date, number: str) -> None:
    """Two dates of one patient move by the same days, 1 to 365, back."""
    moved = [date.fromisoformat(shift(f"{each.year:04}{each:%m%d}", f"Z{number}")) for each in (one, other)]
    assert moved[1] - moved[0] == other - one
    assert 1 <= (one - moved[0]).days <= 365


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ("1984", "####"),
        ("198402", "######"),
        ("198402291015", "########1015"),
        ("19840229101500.25-0500", "########101500.25-0500"),
    ],
)
def test_precision_and_time_stay(value: str, form: str) -> None:
    """A timestamp keeps its length, its time of day and its offset."""
    moved = shift(value)
    assert len(moved) == len(form)
    assert "".join(mark if mark == "#" else digit for mark, digit in zip(form, moved, strict=True)) == form
    assert moved < value


@pytest.mark.parametrize("value", ["1984-02-29", "29.02.84", "19840230", "19841301", "19840229 Roe", "00010101", "0"])
def test_an_unusable_date_does_not_get_through(value: str) -> None:
    """It becomes the null, and a warning: in an edit what is absent would stay as it was."""
    own = reading()
    assert days_shifted(CONTEXT, ("study",))(value, own) is NULL
    assert own.warnings == ["bad-value "]


def test_the_patient_is_the_preferred_number() -> None:
    """Neither order nor expiry of the numbers matters; without a number nothing is shifted."""
    assert shift("19840229", "9^^^LKS^PI~7^^^RVB^MR^^^20200101") == shift("19840229", "7^^^RVB^MR~9^^^LKS^PI")
    assert len({shift("19840229", f"{number}^^^RVB^MR") for number in range(100, 120)}) > 10
    assert shift("19840229", "000^^^RVB^MR") is NULL


def test_as_many_days_as_are_named() -> None:
    """The second word bounds them."""
    assert {shift("19840229", f"{number}^^^RVB^MR", "1") for number in range(100, 120)} == {"19840228"}


def test_values_are_cached_by_the_patient(author: Author, message: Callable[..., Message]) -> None:
    """Two patients with the same date get dates of their own."""
    rule = 'resource: Patient\nextends: shipped/patient\nelements:\n  birthDate: "PID-7 | shift-days(study) | date"\n'
    mapping = compile_mapping(read([author(resources__patient=rule), shipped("mappings")], "adt"), channel_of({}))
    dates = []
    for number in (1, 2, 3, 1, 2, 3):
        planned = mapping.plan(message("A08", f"PID|1||{number}01^^^RVB^MR||Roe^Jo||19840229")).interactions[0]
        assert isinstance(planned, Upsert)
        dates.append(patient(planned.patient)["birthDate"])
    assert dates[:3] == dates[3:]
    assert len({*dates}) == 3


def test_a_key_that_the_channel_does_not_have(author: Author) -> None:
    """The line is named, and the key to be added; the checks of mappings alone need none."""
    source = load([author(resources__patient=RULE), shipped("mappings")], "adt")
    channel = channel_of({}).model_copy(update={"keys": {}})
    with pytest.raises(ConfigurationError) as caught:
        compile_mapping(source, channel)
    (problem,) = caught.value.problems
    assert (Path(problem.file).name, problem.line) == ("patient.yaml", 5)
    assert problem.found == "the key 'study', which the channel does not have"
    assert problem.expected == "add keys: {study: {env: VARIABLE}} to the channel's file"


@pytest.mark.parametrize(
    ("secret", "found"),
    [(None, "the environment variable STUDY_KEY is not set"), ("short", "a key of fewer than 16 characters")],
)
def test_an_unusable_key(monkeypatch: pytest.MonkeyPatch, secret: str | None, found: str) -> None:
    """`channels check` names its place in the channel's file, never the key."""
    monkeypatch.delenv("STUDY_KEY", raising=False)
    if secret is not None:
        monkeypatch.setenv("STUDY_KEY", secret)
    looked = look(parse(CHANNEL, "a.yaml"), Channel)
    (problem,) = lacking(looked)
    assert (problem.file, problem.line, problem.path, problem.found) == ("a.yaml", 3, "keys.study.env", found)


def test_nothing_leaves_without_the_key(
    author: Author, message: Callable[..., Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is planned is held; with the key it is planned, and nobody is shown the key."""
    source = load([author(resources__patient=RULE), shipped("mappings")], "adt")
    channel = look(parse(CHANNEL, "a.yaml"), Channel).value
    assert channel is not None
    sent = message("A08", "PID|1||1^^^RVB^MR|0012-A0|Roe^Jo")
    monkeypatch.delenv("STUDY_KEY", raising=False)
    with pytest.raises(MappingError) as caught:
        compile_mapping(source, channel).plan(sent)
    assert caught.value.reason == "key-unavailable"
    monkeypatch.setenv("STUDY_KEY", "correct horse battery")
    first = compile_mapping(source, channel)
    explained = explain(source, channel, sent)
    assert "hash(study)" in repr(explained.evidence)
    assert "correct horse" not in repr((explained.evidence, explained.outcome, channel, first.plan(sent)))
    monkeypatch.setenv("STUDY_KEY", "another horse battery")
    assert compile_mapping(source, channel).plan(sent) != first.plan(sent)


def test_the_keys_of_tests_are_no_secret() -> None:
    """Each name has one of its own, whatever the machine has."""
    assert "any" in TEST_KEYS
    assert TEST_KEYS["one"].read() != TEST_KEYS["two"].read()

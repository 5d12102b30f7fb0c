"""Answers at order entry: which are missing, and which do not fit what was asked."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.interchange.orders.compendium.answers import unanswered, wrong
from tests.interchange.compendium.questionnaires import (
    WHEN_COLLECTED,
    answered,
    item,
    part,
    questionnaire,
    response,
    when,
)

Json = dict[str, Any]
FASTING = item("fasting", "boolean", required=True)
COLLECTED = [{"url": WHEN_COLLECTED, "valueBoolean": True}]
VOLUME = item("volume", "integer", extension=COLLECTED)
YES = {"valueCoding": {"code": "Y"}}


def missing(asked: Json, *given_items: Json, collected: bool = False) -> tuple[str, ...]:
    """Return what `unanswered` says of a response of these items."""
    return unanswered(asked, response(*given_items), collected=collected)


def test_what_is_required_must_be_answered() -> None:
    """C-416: without any answer every required item is missing, and no other."""
    asked = questionnaire(FASTING, item("remark"), item("source", required=True))
    assert unanswered(asked, None, collected=True) == ("fasting", "source")
    assert missing(asked, answered("source", valueString="wound")) == ("fasting",)
    assert missing(asked, answered("source", valueString="wound"), answered("fasting", valueBoolean=True)) == ()


@pytest.mark.parametrize(("collected", "expected"), [(True, ("volume",)), (False, ())])
def test_some_items_are_required_when_a_specimen_is_collected(collected: bool, expected: tuple[str, ...]) -> None:
    """The extension `questionnaire-requiredwhenspecimen` counts only where a specimen is collected."""
    assert unanswered(questionnaire(VOLUME), None, collected=collected) == expected
    off = questionnaire(item("volume", extension=[{"url": WHEN_COLLECTED, "valueBoolean": False}]))
    assert unanswered(off, None, collected=True) == ()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        pytest.param({"valueBoolean": False}, True, id="false is an answer"),
        pytest.param({"valueInteger": 0}, True, id="nought is an answer"),
        pytest.param({"valueString": ""}, False, id="an empty text is none"),
        pytest.param({"valueString": "  "}, False, id="nor are blanks"),
        pytest.param({"valueCoding": {}}, False, id="nor an empty coding"),
        pytest.param({}, False, id="nor no value"),
        pytest.param({"_valueBoolean": {"extension": []}}, False, id="nor only an extension of it"),
    ],
)
def test_what_counts_as_an_answer(value: Json, said: bool) -> None:
    """An answer has a value; false and 0 are values, an empty text is none."""
    asked = questionnaire(item("q", required=True))
    assert missing(asked, answered("q", **value)) == (() if said else ("q",))


def test_groups() -> None:
    """What stands in a group is asked with it; a required group needs anything answered in it."""
    inner = item("inner", "group", item("a", required=True), item("b"))
    assert missing(questionnaire(item("outer", "group", inner))) == ("a",)
    optional = questionnaire(item("outer", "group", item("b"), item("c"), required=True))
    assert missing(optional) == ("outer",)
    assert missing(optional, part("outer", answered("c", valueString="x"))) == ()
    assert missing(questionnaire(item("told", "display", required=True))) == ()


def test_flat_answers_count() -> None:
    """Answers that a client does not nest as the Questionnaire is are found all the same."""
    asked = questionnaire(item("outer", "group", item("a", required=True)))
    assert missing(asked, answered("a", valueString="x")) == ()


def test_items_below_a_question_are_asked_once_it_is_answered() -> None:
    """Items of a question belong to its answer, and stand in the answer of the response."""
    asked = questionnaire(item("drug", "boolean", item("dose", required=True)))
    assert missing(asked) == ()
    assert missing(asked, answered("drug", valueBoolean=True)) == ("dose",)
    assert missing(asked, answered("drug", answered("dose", valueString="5 mg"), valueBoolean=True)) == ()


def test_each_repetition_is_asked() -> None:
    """A group that repeats needs its required items each time; a question that repeats, in each of its answers."""
    group = questionnaire(item("drug", "group", item("dose", required=True), repeats=True))
    assert missing(group) == ()
    one, none = part("drug", answered("dose", valueString="5 mg")), part("drug")
    assert missing(group, one) == ()
    assert missing(group, one, none) == ("dose",)
    question = questionnaire(item("drug", "string", item("dose", required=True), repeats=True))
    with_dose = {"valueString": "a", "item": [answered("dose", valueString="5 mg")]}
    assert missing(question, {"linkId": "drug", "answer": [with_dose]}) == ()
    assert missing(question, {"linkId": "drug", "answer": [with_dose, {"valueString": "b"}]}) == ("dose",)
    required = questionnaire(item("drug", "group", item("dose", required=True), repeats=True, required=True))
    assert missing(required) == ("dose",)


def test_a_condition_looks_into_its_own_repetition() -> None:
    """What is asked within a repetition depends on the answers in it, not on those in another one."""
    dose = item("dose", required=True, enableWhen=[when("given", answerBoolean=True)])
    asked = questionnaire(item("drug", "group", item("given", "boolean"), dose, repeats=True))
    yes, no = answered("given", valueBoolean=True), answered("given", valueBoolean=False)
    assert missing(asked, part("drug", no), part("drug", yes, answered("dose", valueString="5"))) == ()
    assert missing(asked, part("drug", no, answered("dose", valueString="5")), part("drug", yes)) == ("dose",)
    outside = questionnaire(
        item("drug", "group", item("given", "boolean"), repeats=True),
        item("who", required=True, enableWhen=[when("given", answerBoolean=True)]),
    )
    assert missing(outside, part("drug", no), part("drug", yes)) == ("who",)
    assert missing(outside, part("drug", no)) == ()
    beside = questionnaire(
        item("drug", "group", item("given", "boolean"), repeats=True),
        item(
            "visit", "group", item("who", required=True, enableWhen=[when("given", answerBoolean=True)]), repeats=True
        ),
    )
    assert missing(beside, part("drug", yes), part("visit")) == ("who",)
    assert missing(beside, part("drug", no), part("visit")) == ()


CONDITIONS = [
    ("exists", {"answerBoolean": True}, {"valueString": "x"}, True),
    ("exists", {"answerBoolean": True}, None, False),
    ("exists", {"answerBoolean": False}, {"valueString": "x"}, False),
    ("exists", {"answerBoolean": False}, None, True),
    ("=", {"answerCoding": {"code": "Y"}}, {"valueCoding": {"system": "s", "code": "Y"}}, True),
    ("=", {"answerCoding": {"system": "t", "code": "Y"}}, {"valueCoding": {"system": "s", "code": "Y"}}, False),
    ("=", {"answerCoding": {"code": "Y"}}, {"valueCoding": {"code": "N"}}, False),
    ("!=", {"answerCoding": {"code": "Y"}}, {"valueCoding": {"code": "N"}}, True),
    ("!=", {"answerCoding": {"code": "Y"}}, {"valueCoding": {"code": "Y"}}, False),
    ("!=", {"answerCoding": {"code": "Y"}}, None, False),
    ("=", {"answerBoolean": False}, {"valueBoolean": False}, True),
    ("=", {"answerBoolean": False}, None, False),
    (">", {"answerInteger": 10}, {"valueInteger": 10}, False),
    (">", {"answerInteger": 10}, {"valueDecimal": 10.5}, True),
    (">=", {"answerInteger": 10}, {"valueInteger": 10}, True),
    ("<", {"answerDecimal": 1.5}, {"valueInteger": 1}, True),
    ("<=", {"answerInteger": 9}, {"valueInteger": 10}, False),
    ("=", {"answerString": "x"}, {"valueString": "x"}, True),
    ("=", {"answerString": "1"}, {"valueInteger": 1}, False),
    ("!=", {"answerString": "1"}, {"valueInteger": 1}, True),
    ("<", {"answerDate": "2026-03"}, {"valueDate": "2026-02-28"}, True),
    ("<", {"answerDate": "2026-03"}, {"valueDate": "2026-03-01"}, False),
    (">=", {"answerDateTime": "2026-03-01T10:00:00Z"}, {"valueDateTime": "2026-03-01T12:00:00+02:00"}, True),
    (">", {"answerTime": "08:00:00"}, {"valueTime": "09:30:00"}, True),
    (">", {"answerBoolean": False}, {"valueBoolean": True}, False),
    (">", {"answerQuantity": {"value": 1, "unit": "g"}}, {"valueQuantity": {"value": 2, "unit": "g"}}, True),
    (">", {"answerQuantity": {"value": 1, "unit": "g"}}, {"valueQuantity": {"value": 2, "unit": "mg"}}, False),
    (">", {"answerQuantity": {"value": 1, "code": "g"}}, {"valueQuantity": {"value": 2}}, True),
    (">", {"answerQuantity": {"unit": "g"}}, {"valueQuantity": {"value": 2, "unit": "g"}}, False),
    ("~", {"answerString": "x"}, {"valueString": "x"}, False),
]


@pytest.mark.parametrize(("operator", "wanted", "value", "asked_for"), CONDITIONS)
def test_conditions(operator: str, wanted: Json, value: Json | None, asked_for: bool) -> None:
    """Every operator of FHIR R4 by the kinds of values that it compares."""
    asked = questionnaire(item("q"), item("then", required=True, enableWhen=[when("q", operator, **wanted)]))
    given_items = [answered("q", **value)] if value is not None else []
    assert missing(asked, *given_items) == (("then",) if asked_for else ())


@pytest.mark.parametrize(
    ("behavior", "expected"), [({"enableBehavior": "all"}, ()), ({"enableBehavior": "any"}, ("t",)), ({}, ("t",))]
)
def test_several_conditions(behavior: Json, expected: tuple[str, ...]) -> None:
    """All of several conditions must hold, or any, which is what STU3 means that does not say so."""
    conditions = [when("a", answerBoolean=True), when("b", answerBoolean=True)]
    then = item("t", required=True, enableWhen=conditions, **behavior)
    asked = questionnaire(item("a", "boolean"), item("b", "boolean"), then)
    assert missing(asked, answered("a", valueBoolean=True), answered("b", valueBoolean=False)) == expected


def test_what_is_not_asked_counts_for_nothing() -> None:
    """An answer to a question that is not asked enables nothing, be it by its own condition or its group's."""
    second = item("second", "boolean", enableWhen=[when("first", answerBoolean=True)])
    third = item("third", required=True, enableWhen=[when("second", answerBoolean=True)])
    grouped = item("g", "group", item("second", "boolean"), enableWhen=[when("first", answerBoolean=True)])
    no, yes = answered("first", valueBoolean=False), answered("first", valueBoolean=True)
    for asked in (questionnaire(item("first", "boolean"), second, third), questionnaire(third, grouped)):
        assert missing(asked, no, answered("second", valueBoolean=True)) == ()
    asked = questionnaire(item("first", "boolean"), second, third)
    assert missing(asked, yes, answered("second", valueBoolean=True)) == ("third",)
    hidden = questionnaire(item("g", "group", item("in", required=True), enableWhen=[when("x", answerBoolean=True)]))
    assert missing(hidden) == ()


def test_circles_and_long_chains_end() -> None:
    """Conditions in a circle come to an end; so do chains of thousands that fork at each step."""
    circle = [when("b", "exists", answerBoolean=True)]
    back = [when("a", "exists", answerBoolean=True)]
    asked = questionnaire(item("a", enableWhen=circle, required=True), item("b", enableWhen=back, required=True))
    assert missing(asked, answered("b", valueString="x")) == ()
    assert missing(asked, answered("a", valueString="x"), answered("b", valueString="x")) == ()
    names = [f"q{n}" for n in range(3000)]
    long = [
        item(name, enableWhen=[when(after, "exists", answerBoolean=True), when(beyond, "exists", answerBoolean=True)])
        for name, after, beyond in zip(names, names[1:], names[2:], strict=False)
    ]
    assert missing(questionnaire(*long, FASTING), *(answered(name, valueString="x") for name in names)) == ("fasting",)


TREE = questionnaire(
    item("g", "group", item("a", required=True), item("b", "boolean"), item("c", required=True, extension=COLLECTED)),
    item("d", required=True, enableWhen=[when("b", answerBoolean=True)]),
    item("e", extension=COLLECTED),
)


@given(given_to=st.sets(st.sampled_from("abcde")), yes=st.booleans(), collected=st.booleans())
def test_what_is_missing_beside_a_second_reckoning(given_to: set[str], yes: bool, collected: bool) -> None:
    """Whatever is answered, missing is what is required then and has no answer."""
    values = {name: {"valueBoolean": yes} if name == "b" else {"valueString": "x"} for name in given_to}
    required = {"a", "c"} | ({"d"} if yes and "b" in given_to else set()) | ({"e"} if collected else set())
    found = missing(TREE, *(answered(name, **value) for name, value in values.items()), collected=collected)
    assert set(found) == required - given_to
    assert sorted(found) == list(found)


@given(given_to=st.sets(st.sampled_from("abcde")), more=st.sets(st.sampled_from("ace")))
def test_more_answers_never_miss_more(given_to: set[str], more: set[str]) -> None:
    """An answer to what enables nothing takes from what is missing, and adds nothing."""

    def count(names: set[str]) -> set[str]:
        items = [answered(name, **({"valueBoolean": True} if name == "b" else {"valueString": "x"})) for name in names]
        return set(missing(TREE, *items, collected=True))

    assert count(given_to | more) <= count(given_to)


LEGAL: dict[str, st.SearchStrategy[Json]] = {
    "boolean": st.booleans().map(lambda value: {"valueBoolean": value}),
    "integer": st.integers(-9, 9).map(lambda value: {"valueInteger": value}),
    "decimal": st.sampled_from([{"valueDecimal": 0.5}, {"valueInteger": 2}]),
    "date": st.just({"valueDate": "2026-02"}),
    "string": st.text("ab", min_size=1, max_size=5).map(lambda value: {"valueString": value}),
    "choice": st.sampled_from("YN").map(lambda code: {"valueCoding": {"code": code}}),
    "quantity": st.just({"valueQuantity": {"value": 1}}),
}


@st.composite
def sheets(draw: st.DrawFn) -> tuple[Json, Json, list[str]]:
    """Draw a Questionnaire, a whole response to it, and the linkIds of what is required in it and answered once."""
    required: list[str] = []
    names = (f"q{number}" for number in range(1000))

    def some(depth: int, *, once: bool) -> tuple[list[Json], list[Json]]:
        asked, said = [], []
        kinds = [*LEGAL, *(["group"] if depth < 3 else [])]
        for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3)):
            name, needed, again = next(names), draw(st.booleans()), draw(st.booleans())
            deeper = kind == "group" or (depth < 3 and draw(st.booleans()))
            below = some(depth + 1, once=once and not again) if deeper else ([], [])
            more = {"answerOption": [{"valueCoding": {"code": code}} for code in "YN"]} if kind == "choice" else {}
            asked.append(item(name, kind, *below[0], required=needed, repeats=again, **more))
            inner = {"item": below[1]} if below[1] else {}
            times = draw(st.integers(1, 2)) if again else 1
            if kind == "group":
                said += [{"linkId": name, **inner} for _ in range(times)]
            else:
                said.append({"linkId": name, "answer": [{**draw(LEGAL[kind]), **inner} for _ in range(times)]})
                required.extend([name] if needed and once else [])
        return asked, said

    asked, said = some(0, once=True)
    return questionnaire(*asked), response(*said), required


@given(sheets(), st.data())
def test_whole_answers_are_neither_missing_nor_wrong(sheet: tuple[Json, Json, list[str]], data: st.DataObject) -> None:
    """Whatever is asked, a response with a legal answer to everything is right; without one answer that is missing."""
    asked, said, required = sheet
    assert unanswered(asked, said, collected=True) == ()
    assert wrong(asked, said) == ()
    if required:
        gone = data.draw(st.sampled_from(required))

        def without(node: Json) -> Json:
            items = [without(one) for one in node.get("item", ()) if one["linkId"] != gone]
            answers = [without(answer) for answer in node.get("answer", ())]
            return {**node, **({"item": items} if "item" in node else {}), **({"answer": answers} if answers else {})}

        assert unanswered(asked, without(said), collected=False) == (gone,)


OPTIONS = [{"valueCoding": {"system": "s", "code": code}} for code in "YN"]
KINDS = [
    ("boolean", {"valueBoolean": False}, ""),
    ("boolean", {"valueString": "no"}, "an answer in valueBoolean"),
    ("integer", {"valueInteger": 1}, ""),
    ("integer", {"valueDecimal": 1.5}, "an answer in valueInteger"),
    ("decimal", {"valueInteger": 1}, ""),
    ("date", {"valueDate": "2026"}, ""),
    ("date", {"valueDateTime": "2026"}, "an answer in valueDate"),
    ("dateTime", {"valueDate": "2026"}, ""),
    ("quantity", {"valueDecimal": 1.5}, "an answer in valueQuantity"),
    ("text", {"valueString": "x"}, ""),
    ("group", {"valueString": "x"}, "no answer, only items below it"),
    ("choice", {"valueCoding": {"code": "Y"}}, ""),
    ("choice", {"valueCoding": {"code": "Y", "system": "t"}}, "one of Y, N"),
    ("choice", {"valueCoding": {"code": "Maybe", "system": "s"}}, "one of Y, N"),
    ("choice", {"valueString": "Y"}, "an answer in valueCoding"),
    ("open-choice", {"valueString": "Perhaps"}, ""),
    ("open-choice", {"valueCoding": {"code": "P"}}, "one of Y, N"),
    ("choice", {"valueString": " "}, "an answer in valueCoding"),
    ("string", {}, ""),
]


@pytest.mark.parametrize(("kind", "value", "expected"), KINDS)
def test_answers_that_do_not_fit(kind: str, value: Json, expected: str) -> None:
    """An answer is of the item's type and among its options, or what would do is said without the answer."""
    options = {"answerOption": OPTIONS} if kind.endswith("choice") else {}
    found = wrong(questionnaire(item("q", kind, **options)), response(answered("q", **value)))
    assert [(one.place, one.link_id, one.expected) for one in found] == (
        [("item[0].answer[0]", "q", expected)] if expected else []
    )


def test_places_of_wrong_answers() -> None:
    """Each wrong answer is found at its place, however deep: an unknown linkId, an answer too many, too long a text."""
    asked = questionnaire(item("g", "group", item("q", "boolean", item("r", maxLength=3))), item("n", "choice"))
    inner = answered("q", answered("r", valueString="four"), valueBoolean=True)
    twice = {"linkId": "n", "answer": [YES, YES]}
    found = wrong(asked, response(part("g", inner), part("nobody"), twice, answered("n", **YES)))
    assert [(one.place, one.link_id, one.expected) for one in found] == [
        ("item[0].item[0].answer[0].item[0].answer[0]", "r", "at most 3 characters"),
        ("item[1]", "", "the linkId of an item of the Questionnaire"),
        ("item[2]", "n", "one answer"),
        ("item[3]", "n", "one answer"),
    ]


def test_what_repeats_may_stand_several_times() -> None:
    """An item that repeats may have several answers; options may be texts and numbers."""
    asked = questionnaire(item("q", "choice", repeats=True, answerOption=[{"valueString": "a"}, {"valueInteger": 2}]))
    assert wrong(asked, response({"linkId": "q", "answer": [{"valueString": "a"}, {"valueInteger": 2}]})) == ()
    assert [one.expected for one in wrong(asked, response(answered("q", valueInteger=3)))] == ["one of a, 2"]


def test_no_problem_tells_an_answer() -> None:
    """What a patient said stands in no text about it."""
    asked = questionnaire(item("q", "choice", answerOption=OPTIONS), item("i", "integer"))
    given_items = [answered("q", valueCoding={"code": "SENTINEL"}), answered("i", valueString="SENTINEL")]
    found = wrong(asked, response(*given_items, answered("SENTINEL", valueString="SENTINEL")))
    assert len(found) == 3
    assert "SENTINEL" not in str(found)

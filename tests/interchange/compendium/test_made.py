"""What a test's questions become: items as FHIR R4 has them, whose conditions say what the file says."""

from pathlib import Path
from typing import Any

import pytest
from fhir.resources.R4B import get_fhir_model_class

from engine.interchange.orders.compendium.answers import unanswered
from engine.interchange.orders.compendium.files.read import load_file
from engine.interchange.orders.compendium.made import ids_for, wanted
from tests.interchange.compendium.questionnaires import answered, response

Json = dict[str, Any]
FILE = """
laboratory: {id: lab-1, name: River Lab}
tests:
- code: A
  title: Test A
  questions:
  - {id: q, text: Q, %s}
  - {id: then, text: Then, type: string, required: yes, when: {q: %s}}
"""


def made(folder: Path, question: str, when: str) -> Json:
    """Return the Questionnaire of a question, and of another one that is asked after some answers to it."""
    file = folder / "lab.yaml"
    file.write_text(FILE % (question, when))
    compendium = load_file(file)
    (questionnaire, _) = (
        one.resource for one in wanted(compendium.tests[0], compendium.laboratory, "https://cdis.example")
    )
    get_fhir_model_class("Questionnaire").model_validate(questionnaire)
    return questionnaire


CONDITIONS = [
    ("type: boolean", "yes", {"valueBoolean": True}, {"valueBoolean": False}),
    ("type: boolean", "no", {"valueBoolean": False}, None),
    (
        "type: choice, options: {Y: Yes, N: No, U: Unknown}",
        "[Y, U]",
        {"valueCoding": {"code": "U"}},
        {"valueCoding": {"code": "N"}},
    ),
    (
        "type: choice, options: [Wound, Blood]",
        "'!= Wound'",
        {"valueCoding": {"code": "Blood"}},
        {"valueCoding": {"code": "Wound"}},
    ),
    (
        "type: choice, options: [answered, other]",
        "answered",
        {"valueCoding": {"code": "answered"}},
        {"valueCoding": {"code": "other"}},
    ),
    ("type: open-choice, options: [Wound]", "Bone", {"valueString": "Bone"}, {"valueCoding": {"code": "Wound"}}),
    ("type: string", "answered", {"valueString": "x"}, None),
    ("type: string", "not answered", None, {"valueString": "x"}),
    ("type: integer", "'>= 2'", {"valueInteger": 2}, {"valueInteger": 1}),
    ("type: decimal", "'< 2.5'", {"valueDecimal": 2.4}, {"valueDecimal": 2.5}),
    (
        "type: quantity, unit: kg",
        "'> 90'",
        {"valueQuantity": {"value": 91, "unit": "kg"}},
        {"valueQuantity": {"value": 91, "code": "g"}},
    ),
    ("type: date", "'> 2026-01'", {"valueDate": "2026-02-01"}, {"valueDate": "2026-01-31"}),
    ("type: dateTime", "2026", {"valueDateTime": "2026"}, {"valueDateTime": "2025"}),
    ("type: time", "'<= 09:00:00'", {"valueTime": "08:59:59"}, {"valueTime": "09:00:01"}),
]


@pytest.mark.parametrize(("question", "when", "yes", "no"), CONDITIONS)
def test_conditions_say_what_the_file_says(
    tmp_path: Path, question: str, when: str, yes: Json | None, no: Json | None
) -> None:
    """Of each type of question: the answers that make another one asked, and those that do not."""
    questionnaire = made(tmp_path, question, when)
    for value, expected in ((yes, ("then",)), (no, ())):
        items = [answered("q", **value)] if value is not None else []
        assert unanswered(questionnaire, response(*items), collected=False) == expected


def test_several_questions_must_all_be_answered_so(tmp_path: Path) -> None:
    """Several ids at `when` are all meant; several answers to one, any of them."""
    two = "type: boolean, repeats: yes}\n  - {id: r, text: R, type: boolean"
    questionnaire = made(tmp_path, two, "yes, r: no")
    assert questionnaire["item"][2]["enableBehavior"] == "all"
    assert questionnaire["item"][0]["repeats"] is True
    yes, no = answered("q", valueBoolean=True), answered("r", valueBoolean=False)
    assert unanswered(questionnaire, response(yes), collected=False) == ()
    assert unanswered(questionnaire, response(yes, no), collected=False) == ("then",)


def test_ids_are_legal_and_speak_where_they_can() -> None:
    """An id is made of laboratory and code where that is one of FHIR's, else of what is only theirs."""
    assert ids_for("lab-1", "LI")[0] == "lab-1-LI"
    for code in ("A/B", "A B", "X" * 80):
        first, second = ids_for("l" * 64, code)
        assert first == second
        assert len(first) == 64
    assert ids_for("a-b", "c")[0] == ids_for("a", "b-c")[0]
    assert ids_for("a-b", "c")[1] != ids_for("a", "b-c")[1]

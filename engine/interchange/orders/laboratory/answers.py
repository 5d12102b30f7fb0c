"""What was answered to the questions of a test (ask at order entry), one answer after the other."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from engine.fhir.json import Json, JsonObject

Resource = JsonObject


class QuestionAnswer(NamedTuple):
    """One answer: the question as a Coding (its code, or the linkId) and text, and `value` of a FHIR type (`Coding`).

    `number` counts the answers to one question from 1, 0 where there is one only.
    """

    question: Resource
    text: str
    type: str
    value: Json
    number: int


def answers_in(
    response: Resource, find: Callable[[Json], Resource | None], asked_of_test: Callable[[], Resource | None]
) -> Iterator[QuestionAnswer]:
    """Yield the answers of a QuestionnaireResponse at every depth.

    The Questionnaire that it names, else the one of the test, says how questions and answers are coded and worded.
    """
    asked = response.get("questionnaire")
    address = asked.get("reference") if isinstance(asked, dict) else asked
    local = "/".join(str(address or "").split("|")[0].split("/")[-2:])
    questionnaire = find(local) if local.startswith("Questionnaire/") else None
    yield from _answers(response, dict(_questions(questionnaire or asked_of_test() or {})))


def _answers(part: Resource, questions: dict[str, Resource]) -> Iterator[QuestionAnswer]:
    for item in part.get("item", ()):
        given = item.get("answer", ())
        link = str(item.get("linkId", ""))
        question = questions.get(link, {})
        text = item.get("text") or question.get("text") or ""
        code = next(iter(question.get("code", ())), {"code": link, "display": text})
        for number, answer in enumerate(given, 1):
            name = next((key for key in answer if key.startswith("value")), "")
            if name:
                value = _worded(answer[name], question) if name == "valueCoding" else answer[name]
                yield QuestionAnswer(code, text, name.removeprefix("value"), value, number if len(given) > 1 else 0)
            yield from _answers(answer, questions)
        yield from _answers(item, questions)


def _worded(coding: Resource, question: Resource) -> Resource:
    """Return an answer with the words that the question has for it, where it has none itself."""
    options = [one.get("valueCoding", {}) for one in question.get("answerOption", ())]
    shown = [one["display"] for one in options if "display" in one and _named(one) == _named(coding)]
    return {"display": shown[0], **coding} if shown else coding


def _named(coding: Resource) -> tuple[Json, Json]:
    return coding.get("system"), coding.get("code")


def _questions(part: Resource) -> Iterator[tuple[str, Resource]]:
    for item in part.get("item", ()):
        yield str(item.get("linkId", "")), item
        yield from _questions(item)

"""What is missing in the answers at order entry, and which of them are wrong; no text of it holds an answer."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from engine.fhir.json import Json, JsonObject
from engine.interchange.orders.compendium.condition import same_coding
from engine.interchange.orders.compendium.entry import OrderEntry
from engine.interchange.orders.compendium.questionnaire_item import (
    DISPLAY,
    GROUP,
    QuestionnaireItem,
    ResponseIndex,
    by_link_id,
    items_of,
    value_of,
)

TEXTS: Final = ("valueString",)
# The elements that an answer to each type of item may be in; none for types that are not answered.
ELEMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "boolean": ("valueBoolean",),
    "decimal": ("valueDecimal", "valueInteger"),
    "integer": ("valueInteger",),
    "date": ("valueDate",),
    "dateTime": ("valueDateTime", "valueDate"),
    "time": ("valueTime",),
    "string": TEXTS,
    "text": TEXTS,
    "url": ("valueUri",),
    "choice": ("valueCoding",),
    "open-choice": ("valueCoding", "valueString"),
    "attachment": ("valueAttachment",),
    "reference": ("valueReference",),
    "quantity": ("valueQuantity",),
    GROUP: (),
    DISPLAY: (),
}
# The most options that a text lists.
MOST_LISTED: Final = 20


class AnswerProblem(NamedTuple):
    """An answer that does not fit: its place in the response (`item[0].answer[0]`), and what would fit.

    `link_id` is that of the item in the Questionnaire, '' where it has none such.
    """

    place: str
    link_id: str
    expected: str


def unanswered(questionnaire: JsonObject, response: JsonObject | None, *, collected: bool) -> tuple[str, ...]:
    """Return the linkIds of the items that must be answered and are not, in their order; `response` None for none.

    An item that must be answered when a specimen is collected counts where one is. What `enableWhen` leaves out is not
    asked, nor what is below a question without an answer. A group is answered once anything in it is.
    """
    asked = items_of(questionnaire)
    given = ResponseIndex(response or {})
    entry = OrderEntry(by_link_id(asked), given, collected=collected)
    return tuple(dict.fromkeys(entry.missing(asked, (("", given.root),))))


def wrong(questionnaire: JsonObject, response: JsonObject) -> tuple[AnswerProblem, ...]:
    """Return every answer that does not fit a Questionnaire, in their order; missing answers are not included."""
    return tuple(_items(by_link_id(items_of(questionnaire)), response, ""))


def _items(asked: Mapping[str, QuestionnaireItem], holder: JsonObject, above: str) -> Iterator[AnswerProblem]:
    seen: Counter[str] = Counter()
    for number, item in enumerate(holder.get("item", ())):
        place = f"{above}item[{number}]"
        one = asked.get(item.get("linkId", ""))
        if one is None or not one.link_id:
            yield AnswerProblem(place, "", "the linkId of an item of the Questionnaire")
            continue
        seen[one.link_id] += 1
        yield from _answers(one, item, place, seen[one.link_id])
        yield from _items(asked, item, f"{place}.")
        for at, answer in enumerate(item.get("answer", ())):
            yield from _items(asked, answer, f"{place}.answer[{at}].")


def _answers(one: QuestionnaireItem, item: JsonObject, place: str, times: int) -> Iterator[AnswerProblem]:
    answers = item.get("answer", ())
    if not one.repeats and (times > 1 or len(answers) > 1):
        yield AnswerProblem(place, one.link_id, "one answer" if answers else "the item once")
    for number, answer in enumerate(answers):
        expected = _expected(one, *value_of(answer))
        if expected:
            yield AnswerProblem(f"{place}.answer[{number}]", one.link_id, expected)


def _expected(one: QuestionnaireItem, name: str, value: Json) -> str:
    """Return what would do in place of an answer; '' for one that fits."""
    options = [value_of(option) for option in one.item.get("answerOption", ())]
    fitting = ELEMENTS.get(one.kind)
    if fitting is None or not name:
        return ""
    if one.kind == "choice" and options:
        fitting = tuple(dict.fromkeys(element for element, _ in options))
    if name not in fitting:
        return f"an answer in {' or '.join(fitting)}" if fitting else "no answer, only items below it"
    free = not options or (one.kind == "open-choice" and name in TEXTS)
    if not free and not any(_is(option, (name, value)) for option in options):
        return f"one of {_listed(options)}"
    longest = one.item.get("maxLength")
    if longest is not None and isinstance(value, str) and len(value) > longest:
        return f"at most {longest} characters"
    return ""


def _is(option: tuple[str, Any], given: tuple[str, Any]) -> bool:
    if option[0] != given[0]:
        return False
    return same_coding(option[1], given[1]) if given[0] == "valueCoding" else bool(option[1] == given[1])


def _listed(options: list[tuple[str, Json]]) -> str:
    codes = [str(value.get("code", "") if isinstance(value, dict) else value) for _, value in options]
    return ", ".join(codes[:MOST_LISTED]) + (", …" if len(codes) > MOST_LISTED else "")

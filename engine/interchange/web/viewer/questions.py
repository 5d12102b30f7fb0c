"""A laboratory's questions at order entry as form fields, and the entries as a QuestionnaireResponse."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.orders.compendium.made import UNIT
from engine.interchange.orders.compendium.questionnaire_item import (
    DISPLAY,
    GROUP,
    QuestionnaireItem,
    by_link_id,
    items_of,
    value_of,
)
from engine.interchange.store.search.date import span

Fields = Mapping[str, str]
# An element of an answer and its value; ValueError for an invalid entry.
Read = Callable[[QuestionnaireItem, str], tuple[str, Json]]

# Options: value in the form and text.
YES_NO: Final = (("true", "Yes"), ("false", "No"))


@dataclass(frozen=True, slots=True)
class QuestionView:
    """One question on a page: `control` is the kind of its field, '' for display text.

    `options` are form values with their texts, `condition` is its enableWhen in words.
    """

    name: str
    link_id: str
    text: str
    control: str
    options: tuple[tuple[str, str], ...] = ()
    required: bool = False
    unit: str = ""
    condition: str = ""


def questions_of(questionnaire: JsonObject, prefix: str) -> list[QuestionView]:
    """Return the questions of a Questionnaire, in order; the names of their fields begin with `prefix`."""
    items = items_of(questionnaire)
    known = by_link_id(items)
    return [_question(one, known, prefix) for one in known.values()]


def answers_to(questionnaire: JsonObject, fields: Fields, prefix: str) -> tuple[list[JsonObject], list[str]]:
    """Return the items of a response, and the names of fields with invalid entries."""
    items: list[JsonObject] = []
    wrong: list[str] = []
    for one in by_link_id(items_of(questionnaire)).values():
        name = f"{prefix}{one.link_id}"
        entered = fields.get(name, "").strip()
        if not entered or one.kind not in CONTROLS:
            continue
        try:
            element, value = CONTROLS[one.kind][1](one, entered)
        except (ValueError, InvalidOperation, IndexError):
            wrong.append(name)
        else:
            items.append({"linkId": one.link_id, "answer": [{element: value}]})
    return items, wrong


def _question(one: QuestionnaireItem, known: Mapping[str, QuestionnaireItem], prefix: str) -> QuestionView:
    control = CONTROLS[one.kind][0] if one.kind in CONTROLS else "" if one.kind in {GROUP, DISPLAY} else "none"
    options = YES_NO if one.kind == "boolean" else tuple(_options(one))
    text = str(one.item.get("text", "") or one.link_id)
    required = one.required(collected=False) and "enableWhen" not in one.item
    return QuestionView(
        f"{prefix}{one.link_id}", one.link_id, text, control, options, required, _unit(one), _condition(one, known)
    )


def _options(one: QuestionnaireItem) -> Iterator[tuple[str, str]]:
    """Yield each option by its index, the value in the form; of an open choice by its text."""
    for number, option in enumerate(one.item.get("answerOption", ())):
        _, value = value_of(option)
        shown = value.get("display") or value.get("code", "") if isinstance(value, dict) else value
        yield (str(shown) if one.kind == "open-choice" else str(number)), str(shown)


def _unit(one: QuestionnaireItem) -> str:
    coding = _unit_coding(one)
    return str(coding.get("display") or coding.get("code") or "")


def _unit_coding(one: QuestionnaireItem) -> JsonObject:
    return next((part.get("valueCoding", {}) for part in one.item.get("extension", ()) if part.get("url") == UNIT), {})


def _condition(one: QuestionnaireItem, known: Mapping[str, QuestionnaireItem]) -> str:
    """Return a question's enableWhen in words; the service evaluates it."""
    conditions = []
    for condition in one.item.get("enableWhen", ()):
        other = known.get(condition.get("question", ""))
        wanted = next((value for name, value in condition.items() if name.startswith("answer")), "")
        named = condition.get("question", "")
        question = (other.item.get("text", "") if other is not None else "") or named
        conditions.append(f"“{question}” {condition.get('operator', '=')} {_worded(other, wanted)}")
    joint = " or " if one.item.get("enableBehavior") == "any" else " and "
    return joint.join(conditions)


def _worded(other: QuestionnaireItem | None, wanted: Json) -> str:
    """Return the display of an answer."""
    if isinstance(wanted, bool):
        return "Yes" if wanted else "No"
    if not isinstance(wanted, dict):
        return str(wanted)
    options = (value_of(option)[1] for option in other.item.get("answerOption", ())) if other is not None else ()
    same = (
        one.get("display", "") for one in options if isinstance(one, dict) and one.get("code") == wanted.get("code")
    )
    return str(next(same, "") or wanted.get("display") or wanted.get("code") or wanted.get("value", ""))


def _chosen(one: QuestionnaireItem, entered: str) -> tuple[str, Json]:
    options = one.item.get("answerOption", ())
    return value_of(options[int(entered)]) if options else ("valueCoding", {"code": entered})


def _chosen_or_said(one: QuestionnaireItem, entered: str) -> tuple[str, Json]:
    for number, (text, _) in enumerate(_options(one)):
        if text == entered:
            return value_of(one.item["answerOption"][number])
    return "valueString", entered


def _quantity(one: QuestionnaireItem, entered: str) -> tuple[str, Json]:
    unit = _unit_coding(one)
    named: JsonObject = {}
    if unit:
        named = {"unit": _unit(one), **{name: unit[name] for name in ("system", "code") if name in unit}}
    return "valueQuantity", {"value": _decimal(entered), **named}


def _decimal(entered: str) -> Decimal:
    number = Decimal(entered)
    if not number.is_finite():
        raise ValueError(entered)
    return number


def _dated(element: str, text: str) -> tuple[str, Json]:
    if span(text) is None:
        raise ValueError(text)
    return element, text


# By item type: the control, and the parser of an entry.
CONTROLS: Final[dict[str, tuple[str, Read]]] = {
    "boolean": ("select", lambda _, entered: ("valueBoolean", entered == "true")),
    "decimal": ("decimal", lambda _, entered: ("valueDecimal", _decimal(entered))),
    "integer": ("number", lambda _, entered: ("valueInteger", int(entered))),
    "quantity": ("decimal", _quantity),
    "date": ("date", lambda _, entered: _dated("valueDate", entered)),
    # A browser knows no zone: the page says that it is UTC.
    "dateTime": ("datetime-local", lambda _, entered: _dated("valueDateTime", f"{entered[:16]}:00Z")),
    "time": ("time", lambda _, entered: ("valueTime", f"{entered[:5]}:00")),
    "string": ("text", lambda _, entered: ("valueString", entered)),
    "text": ("textarea", lambda _, entered: ("valueString", entered)),
    "url": ("text", lambda _, entered: ("valueUri", entered)),
    "choice": ("select", _chosen),
    "open-choice": ("list", _chosen_or_said),
}

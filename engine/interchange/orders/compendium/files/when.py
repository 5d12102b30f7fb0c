"""`when` of a question: which answers to another one make it asked."""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from engine.config.wording import nearest
from engine.fhir.json import Json
from engine.interchange.orders.compendium.files.authored import CHOICES, NUMBERS, TEXTS, Kind, Question
from engine.interchange.store.search.date import span

UCUM: Final = "http://unitsofmeasure.org"
COMPARED: Final = re.compile(r"(>=|<=|!=|=|>|<)?\s*(.+)")
NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,8})?", re.ASCII)
TIME: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d", re.ASCII)
TRUTHS: Final = {"yes": True, "true": True, "no": False, "false": False}
# Whether there is any answer, which may be asked of every question.
PRESENCE: Final = {"answered": True, "not answered": False}
EQUALITY: Final = frozenset({"=", "!="})


class Condition(NamedTuple):
    """An operator, the element that holds what it compares with (`answerCoding`), and that value."""

    operator: str
    element: str
    value: Json


def condition(question: Question, text: str) -> Condition | str:
    """Return what a text asks of the answers to a question; what would do instead, where it asks nothing of them."""
    if text in PRESENCE and text not in question.options:
        return Condition("exists", "answerBoolean", PRESENCE[text])
    if question.type in CHOICES and text in question.options:
        return _coding(question, "=", text)
    found = COMPARED.fullmatch(text)
    operator, rest = (found[1] or "=", found[2]) if found else ("=", text)
    reader = READERS.get(question.type)
    made = reader(question, operator, rest) if reader else _nothing(question)
    equality = question.type in CHOICES | TEXTS | {Kind.BOOLEAN}
    if isinstance(made, Condition) and equality and operator not in EQUALITY:
        return f"{rest}, or != {rest}: answers of type {question.type} have no order"
    return made


def _nothing(question: Question) -> str:
    return f"the id of a question that is answered: {question.id} is a {question.type}"


def _coding(question: Question, operator: str, text: str) -> Condition | str:
    if text not in question.options:
        return f"an option of {question.id}: {nearest(text, question.options)}"
    return Condition(operator, "answerCoding", {"code": text, "display": question.options[text]})


def _open(question: Question, operator: str, text: str) -> Condition | str:
    known = text in question.options
    return _coding(question, operator, text) if known else _text(question, operator, text)


def _text(_question: Question, operator: str, text: str) -> Condition:
    return Condition(operator, "answerString", text)


def _boolean(_question: Question, operator: str, text: str) -> Condition | str:
    if text not in TRUTHS:
        return "yes or no"
    return Condition(operator, "answerBoolean", TRUTHS[text])


def _number(question: Question, operator: str, text: str) -> Condition | str:
    if not NUMBER.fullmatch(text) or (question.type is Kind.INTEGER and "." in text):
        whole = "a whole number" if question.type is Kind.INTEGER else "a number"
        return f'{whole}, such as 20, or with an operator, such as ">= 20"'
    if question.type is Kind.INTEGER:
        return Condition(operator, "answerInteger", int(text))
    if question.type is Kind.DECIMAL:
        return Condition(operator, "answerDecimal", Decimal(text))
    unit = {"unit": question.unit, "system": UCUM, "code": question.unit} if question.unit else {}
    return Condition(operator, "answerQuantity", {"value": Decimal(text), **unit})


def _date(question: Question, operator: str, text: str) -> Condition | str:
    if span(text) is None or (question.type is Kind.DATE and "T" in text):
        return 'a date, such as 2026-01-31, or with an operator, such as "> 2026-01-31"'
    return Condition(operator, "answerDate" if question.type is Kind.DATE else "answerDateTime", text)


def _time(_question: Question, operator: str, text: str) -> Condition | str:
    return Condition(operator, "answerTime", text) if TIME.fullmatch(text) else "a time, such as 08:30:00"


READERS: Final[Mapping[Kind, Callable[[Question, str, str], Condition | str]]] = {
    Kind.BOOLEAN: _boolean,
    Kind.CHOICE: _coding,
    Kind.OPEN_CHOICE: _open,
    Kind.DATE: _date,
    Kind.DATE_TIME: _date,
    Kind.TIME: _time,
    **dict.fromkeys((Kind.STRING, Kind.TEXT), _text),
    **dict.fromkeys(NUMBERS, _number),
}

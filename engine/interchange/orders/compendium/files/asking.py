"""Groups of questions: their ids, the conditions between them, and `when` of a question."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from engine.config.model import Placed, Step, nearest
from engine.fhir.json import Json
from engine.interchange.orders.compendium.files.authored import (
    ANY_CODE,
    CHOICES,
    NUMBERS,
    TEXTS,
    AuthoredQuestion,
    ItemType,
)
from engine.interchange.store.search.date import span

UCUM: Final = "http://unitsofmeasure.org"
COMPARED: Final = re.compile(r"(>=|<=|!=|=|>|<)?\s*(.+)")
NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,8})?", re.ASCII)
TIME: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d", re.ASCII)
TRUTHS: Final = {"yes": True, "true": True, "no": False, "false": False}
# Whether there is any answer, which may be asked of every question.
PRESENCE: Final = {"answered": True, "not answered": False}
EQUALITY: Final = frozenset({"=", "!="})


class EnableWhen(NamedTuple):
    """An operator, the element that holds what it compares with (`answerCoding`), and that value."""

    operator: str
    element: str
    value: Json


def condition(question: AuthoredQuestion, text: str) -> EnableWhen | str:
    """Return what a text asks of the answers to a question; what would do instead, where it asks nothing of them."""
    if text in PRESENCE and text not in question.options:
        return EnableWhen("exists", "answerBoolean", PRESENCE[text])
    if question.type in CHOICES and text in question.options:
        return _coding(question, "=", text)
    found = COMPARED.fullmatch(text)
    operator, rest = (found[1] or "=", found[2]) if found else ("=", text)
    reader = READERS.get(question.type)
    made = reader(question, operator, rest) if reader else _nothing(question)
    equality = question.type in CHOICES | TEXTS | {ItemType.BOOLEAN}
    if isinstance(made, EnableWhen) and equality and operator not in EQUALITY:
        return f"{rest}, or != {rest}: answers of type {question.type} have no order"
    return made


def _nothing(question: AuthoredQuestion) -> str:
    return f"the id of a question that is answered: {question.id} is a {question.type}"


def _coding(question: AuthoredQuestion, operator: str, text: str) -> EnableWhen | str:
    if text not in question.options:
        return f"an option of {question.id}: {nearest(text, question.options)}"
    return EnableWhen(operator, "answerCoding", {"code": text, "display": question.options[text]})


def _open(question: AuthoredQuestion, operator: str, text: str) -> EnableWhen | str:
    known = text in question.options
    return _coding(question, operator, text) if known else _text(question, operator, text)


def _text(_question: AuthoredQuestion, operator: str, text: str) -> EnableWhen:
    return EnableWhen(operator, "answerString", text)


def _boolean(_question: AuthoredQuestion, operator: str, text: str) -> EnableWhen | str:
    if text not in TRUTHS:
        return "yes or no"
    return EnableWhen(operator, "answerBoolean", TRUTHS[text])


def _number(question: AuthoredQuestion, operator: str, text: str) -> EnableWhen | str:
    if not NUMBER.fullmatch(text) or (question.type is ItemType.INTEGER and "." in text):
        whole = "a whole number" if question.type is ItemType.INTEGER else "a number"
        return f'{whole}, such as 20, or with an operator, such as ">= 20"'
    if question.type is ItemType.INTEGER:
        return EnableWhen(operator, "answerInteger", int(text))
    if question.type is ItemType.DECIMAL:
        return EnableWhen(operator, "answerDecimal", Decimal(text))
    unit = {"unit": question.unit, "system": UCUM, "code": question.unit} if question.unit else {}
    return EnableWhen(operator, "answerQuantity", {"value": Decimal(text), **unit})


def _date(question: AuthoredQuestion, operator: str, text: str) -> EnableWhen | str:
    if span(text) is None or (question.type is ItemType.DATE and "T" in text):
        return 'a date, such as 2026-01-31, or with an operator, such as "> 2026-01-31"'
    return EnableWhen(operator, "answerDate" if question.type is ItemType.DATE else "answerDateTime", text)


def _time(_question: AuthoredQuestion, operator: str, text: str) -> EnableWhen | str:
    return EnableWhen(operator, "answerTime", text) if TIME.fullmatch(text) else "a time, such as 08:30:00"


READERS: Final[Mapping[ItemType, Callable[[AuthoredQuestion, str, str], EnableWhen | str]]] = {
    ItemType.BOOLEAN: _boolean,
    ItemType.CHOICE: _coding,
    ItemType.OPEN_CHOICE: _open,
    ItemType.DATE: _date,
    ItemType.DATE_TIME: _date,
    ItemType.TIME: _time,
    **dict.fromkeys((ItemType.STRING, ItemType.TEXT), _text),
    **dict.fromkeys(NUMBERS, _number),
}


Path = tuple[Step, ...]
# What the item is called that holds the help of a question.
HELP: Final = ".help"


class PlacedQuestion(NamedTuple):
    """A question, its path, and the ids of the questions around it, outermost first."""

    question: AuthoredQuestion
    path: Path
    above: tuple[str, ...]


def placed_questions(
    questions: Sequence[AuthoredQuestion], path: Path = (), above: tuple[str, ...] = ()
) -> Iterator[PlacedQuestion]:
    """Yield questions at every depth, in their order."""
    for number, question in enumerate(questions):
        at = (*path, number)
        yield PlacedQuestion(question, at, above)
        yield from placed_questions(question.items, (*at, "items"), (*above, question.id))


def ids_of(question: AuthoredQuestion) -> tuple[str, ...]:
    """Return the ids of the items that a question alone becomes."""
    return (question.id, question.id + HELP) if question.help else (question.id,)


def faults(questions: Sequence[AuthoredQuestion], others: Mapping[str, AuthoredQuestion]) -> Iterator[Placed]:
    """Yield the problems in a group of questions; `others` are further questions that conditions may name."""
    every = tuple(placed_questions(questions))
    first: dict[str, PlacedQuestion] = {}
    for one in every:
        for name in ids_of(one.question):
            if name in first:
                yield (*one.path, "id"), f"the id {name} a second time", "each question has an id of its own"
            first.setdefault(name, one)
    own = {name: one.question for name, one in first.items() if name == one.question.id}
    for one in every:
        yield from _conditions(one, {**others, **own})
    yield from _circles(every)


def _conditions(one: PlacedQuestion, known: Mapping[str, AuthoredQuestion]) -> Iterator[Placed]:
    when, path = one.question.when, (*one.path, "when")
    if len(when) > 1 and any(len(texts) > 1 for texts in when.values()):
        yield path, "several questions with several answers", "either several questions, or several answers to one"
    for name, texts in when.items():
        if name not in known:
            yield (*path, name), f"no question {name}", nearest(name, known.keys() - {one.question.id, ANY_CODE})
            continue
        for text in texts:
            wanted = condition(known[name], text)
            if isinstance(wanted, str):
                yield (*path, name), f"found {text!r}", wanted


def _circles(every: Sequence[PlacedQuestion]) -> Iterator[Placed]:
    """Yield each question that depends on itself, through its conditions and its parents."""
    goes_by: dict[str, set[str]] = {}
    for one in every:
        goes_by.setdefault(one.question.id, set()).update(one.question.when, one.above[-1:])
    ended = _ended(goes_by)
    for one in every:
        if one.question.when and one.question.id not in ended and _reaches(one.question.id, goes_by):
            yield (*one.path, "when"), "a question that is asked after its own answer", "break the circle"


def _ended(goes_by: Mapping[str, set[str]]) -> set[str]:
    """Return the ids that lead into no circle."""
    ended: set[str] = set()
    while more := {name for name, after in goes_by.items() if name not in ended and after & goes_by.keys() <= ended}:
        ended |= more
    return ended


def _reaches(name: str, goes_by: Mapping[str, set[str]]) -> bool:
    """Say whether a question leads back to itself."""
    seen: set[str] = set()
    ahead = set(goes_by[name])
    while ahead:
        seen |= ahead
        ahead = {after for one in ahead for after in goes_by.get(one, ())} - seen
    return name in seen

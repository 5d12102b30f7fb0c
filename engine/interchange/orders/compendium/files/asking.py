"""Groups of questions: their ids, and the conditions between them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from engine.config.model import Placed, Step, nearest
from engine.interchange.orders.compendium.files.authored import ANY_CODE, AuthoredQuestion
from engine.interchange.orders.compendium.files.when import condition

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

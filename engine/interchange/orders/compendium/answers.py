"""The answers at order entry: which items are asked (`enableWhen`), what is missing or wrong; no text of it.

Values of different kinds are never equal, and neither is before the other; nor are quantities of different units, where
both say theirs.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from engine.fhir.json import Json, JsonObject
from engine.interchange.orders.compendium.questionnaire_item import (
    DISPLAY,
    GROUP,
    QuestionnaireItem,
    ResponseIndex,
    by_link_id,
    items_of,
    value_of,
)
from engine.interchange.store.search.date import span

# A value as the range that it covers: a year covers its days.
Range = tuple[Any, Any]

EXISTS: Final = "exists"
OPERATORS: Final[Mapping[str, Callable[[Range, Range], bool]]] = {
    "=": lambda given, wanted: given == wanted,
    "!=": lambda given, wanted: given != wanted,
    ">": lambda given, wanted: given[0] > wanted[1],
    "<": lambda given, wanted: given[1] < wanted[0],
    ">=": lambda given, wanted: given[0] >= wanted[0],
    "<=": lambda given, wanted: given[1] <= wanted[1],
}
EQUALITY: Final = frozenset({"=", "!="})
KINDS: Final = {
    "Integer": "number",
    "Decimal": "number",
    "Date": "date",
    "DateTime": "date",
    "Instant": "date",
    "String": "text",
    "Uri": "text",
}
ORDERED: Final = frozenset({"number", "date", "text", "Time", "Quantity"})


def holds(condition: JsonObject, answers: list[JsonObject]) -> bool:
    """Say whether a condition holds: of several answers one that fulfils it is enough, of none only `exists` speaks."""
    operator, wanted = condition.get("operator", "="), _wanted(condition)
    if operator == EXISTS:
        return bool(answers) is (wanted[1] is not False)
    return any(_fulfils(operator, value_of(answer), wanted) for answer in answers)


def same_coding(one: JsonObject, other: JsonObject) -> bool:
    """Say whether two codings are the same; a system counts where both have one."""
    systems = {one.get("system"), other.get("system")} - {None, ""}
    return one.get("code") == other.get("code") and len(systems) < 2


def _wanted(condition: JsonObject) -> tuple[str, Any]:
    return next(((name, value) for name, value in condition.items() if name.startswith("answer")), ("", None))


def _fulfils(operator: str, given: tuple[str, Any], wanted: tuple[str, Any]) -> bool:
    (kind, value), (wanted_kind, wanted_value) = _kind(given, "value"), _kind(wanted, "answer")
    if kind == wanted_kind == "Coding":
        equal = same_coding(value, wanted_value)
        return equal if operator == "=" else operator == "!=" and not equal
    left, right = _range(kind, value), _range(wanted_kind, wanted_value)
    if kind != wanted_kind or left is None or right is None or len({_unit(value), _unit(wanted_value)} - {""}) > 1:
        return operator == "!="
    return (operator in EQUALITY or kind in ORDERED) and operator in OPERATORS and OPERATORS[operator](left, right)


def _kind(named: tuple[str, Any], prefix: str) -> tuple[str, Any]:
    name = named[0].removeprefix(prefix)
    return KINDS.get(name, name), named[1]


def _range(kind: str, value: Any) -> Range | None:
    if kind == "date":
        return span(value)
    if kind == "Quantity":
        number = value.get("value")
        return None if number is None else (number, number)
    if kind == "Reference":
        value = value.get("reference")
    return value, value


def _unit(value: Json) -> str:
    return str(value.get("code") or value.get("unit") or "") if isinstance(value, dict) else ""


# The repetitions around an item: the linkId of what repeats, and the part of the response; the root first.
Context = tuple[tuple[str, JsonObject], ...]

# Conditions on items that have conditions themselves: what lies further off counts as asked.
LONGEST_CHAIN: Final = 40
ANY: Final = "any"
ALL: Final = "all"


class OrderEntry:
    """One order entry: what is asked of whom, given the answers."""

    def __init__(self, asked: dict[str, QuestionnaireItem], given: ResponseIndex, *, collected: bool) -> None:
        self.asked = asked
        self.given = given
        self.collected = collected
        # By linkId and repetitions; what is being looked at counts as asked, so that a circle ends.
        self._enabled: dict[tuple[str, tuple[int, ...]], bool] = {}
        # Repetitions that are not in the response, kept so that no other part of it takes their place in memory.
        self._empty: list[JsonObject] = []

    def missing(self, items: tuple[QuestionnaireItem, ...], context: Context) -> Iterator[str]:
        """Yield the linkIds of unanswered items within a repetition."""
        for item in items:
            if item.kind != DISPLAY and self._is_enabled(item, context, 0):
                yield from self._group(item, context) if item.kind == GROUP else self._question(item, context)

    def _question(self, one: QuestionnaireItem, context: Context) -> Iterator[str]:
        answers = self.given.answers(context[-1][1], one.link_id)
        if not answers:
            if one.required(collected=self.collected):
                yield one.link_id
            return
        for inner in self._repetitions(one, answers, context):
            yield from self.missing(one.items, inner)

    def _group(self, one: QuestionnaireItem, context: Context) -> Iterator[str]:
        node, required = context[-1][1], one.required(collected=self.collected)
        parts = self.given.parts(node, one.link_id)
        if one.repeats and not parts and required:
            self._empty.append({})
            parts = self._empty[-1:]
        below = [name for inner in self._repetitions(one, parts, context) for name in self.missing(one.items, inner)]
        yield from below
        if required and not below and not any(self.given.answers(node, name) for name in by_link_id(one.items)):
            yield one.link_id

    def _repetitions(self, one: QuestionnaireItem, parts: list[JsonObject], context: Context) -> list[Context]:
        return [(*context, (one.link_id, part)) for part in parts] if one.repeats else [context]

    def _is_enabled(self, one: QuestionnaireItem, context: Context, depth: int) -> bool:
        context = self._shared(one, context)
        known = (one.link_id, tuple(id(part) for _, part in context))
        if known not in self._enabled:
            self._enabled[known] = True
            conditions = one.item.get("enableWhen", ())
            if conditions and depth < LONGEST_CHAIN:
                # Of several without a behaviour any is enough, as in STU3, which has none.
                enough = all if one.item.get("enableBehavior", ANY) == ALL else any
                self._enabled[known] = enough(self._holds(condition, context, depth) for condition in conditions)
        return self._enabled[known]

    def _holds(self, condition: JsonObject, context: Context, depth: int) -> bool:
        question = self.asked.get(condition.get("question", ""))
        return holds(condition, [] if question is None else self._answers(question, context, depth + 1))

    def _answers(self, question: QuestionnaireItem, context: Context, depth: int) -> list[JsonObject]:
        """Return the answers to a question in the nearest repetition that it shares; none where it is not asked."""
        within = self._shared(question, context)
        above: QuestionnaireItem | None = question
        while above is not None:
            if not self._is_enabled(above, within, depth):
                return []
            above = self.asked.get(above.parent) if above.parent else None
        return self.given.answers(within[-1][1], question.link_id)

    def _shared(self, one: QuestionnaireItem, context: Context) -> Context:
        shared = 1
        for name, (repeating, _) in zip(one.within, context[1:], strict=False):
            if name != repeating:
                break
            shared += 1
        return context[:shared]


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

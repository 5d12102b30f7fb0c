"""Which items of a Questionnaire are asked, given the answers, and which of these must be answered and are not."""

from collections.abc import Iterator
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.orders.compendium.condition import holds
from engine.interchange.orders.compendium.questionnaire_item import (
    DISPLAY,
    GROUP,
    QuestionnaireItem,
    ResponseIndex,
    by_link_id,
)

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
        for one in items:
            if one.kind != DISPLAY and self._is_enabled(one, context, 0):
                yield from self._group(one, context) if one.kind == GROUP else self._question(one, context)

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

"""A Questionnaire as a tree of its items, and the answers that a response holds to each of them.

The place of an answer only decides to which repetition it belongs: those of a response that is written flat count as
those that are nested as the Questionnaire is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from engine.fhir.json import Json, JsonObject

WHEN_COLLECTED: Final = "/StructureDefinition/questionnaire-requiredwhenspecimen"
GROUP: Final = "group"
DISPLAY: Final = "display"


@dataclass(frozen=True, slots=True)
class QuestionnaireItem:
    """One item of a Questionnaire; `parent` is the linkId of the item that holds it, '' for none.

    `within` are the linkIds of the items that repeat and hold it, outermost first.
    """

    item: JsonObject
    link_id: str
    parent: str
    within: tuple[str, ...]
    items: tuple["QuestionnaireItem", ...]

    @property
    def kind(self) -> str:
        """The type of the item."""
        return str(self.item.get("type", ""))

    @property
    def repeats(self) -> bool:
        """Whether it may occur in a response several times."""
        return self.item.get("repeats") is True

    def required(self, *, collected: bool) -> bool:
        """Say whether it must be answered; some items only when a specimen is `collected`."""
        return self.item.get("required") is True or (collected and _when_collected(self.item))


def items_of(questionnaire: JsonObject) -> tuple[QuestionnaireItem, ...]:
    """Return the items of a Questionnaire."""
    return _items(questionnaire, "", ())


def by_link_id(asked: tuple[QuestionnaireItem, ...]) -> dict[str, QuestionnaireItem]:
    """Return items at every depth by their linkIds, in their order; of several of one linkId the first."""
    found: dict[str, QuestionnaireItem] = {}
    for one in asked:
        for each in (one, *by_link_id(one.items).values()):
            found.setdefault(each.link_id, each)
    return found


def _items(holder: JsonObject, parent: str, within: tuple[str, ...]) -> tuple[QuestionnaireItem, ...]:
    return tuple(_asked(item, parent, within) for item in holder.get("item", ()))


def _asked(item: JsonObject, parent: str, within: tuple[str, ...]) -> QuestionnaireItem:
    link_id = item.get("linkId") or item.get("id", "")
    inner = (*within, link_id) if item.get("repeats") is True else within
    return QuestionnaireItem(item, link_id, parent, within, _items(item, link_id, inner))


def _when_collected(item: JsonObject) -> bool:
    return any(
        extension.get("url", "").endswith(WHEN_COLLECTED) and extension.get("valueBoolean") is True
        for extension in item.get("extension", ())
    )


class ResponseIndex:
    """A response with an index of its items: each part is read once, whatever the number of look-ups."""

    def __init__(self, response: JsonObject) -> None:
        self.root = response
        self._indexes: dict[int, dict[str, list[JsonObject]]] = {}

    def parts(self, node: JsonObject, link_id: str) -> list[JsonObject]:
        """Return the items of a linkId in a part of the response, at any depth."""
        index = self._indexes.get(id(node))
        if index is None:
            index = self._indexes[id(node)] = {}
            for item in _below(node):
                index.setdefault(item.get("linkId", ""), []).append(item)
        return index.get(link_id, [])

    def answers(self, node: JsonObject, link_id: str) -> list[JsonObject]:
        """Return the answers to a question in a part of the response that say something."""
        return [answer for item in self.parts(node, link_id) for answer in item.get("answer", ()) if says(answer)]


def says(answer: JsonObject) -> bool:
    """Say whether an answer has a value: false is one, an empty text is none."""
    _, value = value_of(answer)
    return bool(value.strip()) if isinstance(value, str) else value not in (None, {})


def value_of(answer: JsonObject) -> tuple[str, Json]:
    """Return the element that holds an answer's value (`valueCoding`), and the value; '' and None for none."""
    return next(((name, value) for name, value in answer.items() if name.startswith("value")), ("", None))


def _below(node: JsonObject) -> Iterator[JsonObject]:
    inner = (*node.get("item", ()), *(item for answer in node.get("answer", ()) for item in answer.get("item", ())))
    for item in inner:
        yield item
        yield from _below(item)

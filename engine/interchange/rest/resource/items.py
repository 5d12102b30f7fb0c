"""Items of a Questionnaire: each has one name, which is both its `linkId` and its `id`, and no other item has it."""

from collections.abc import Iterator
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.kernel.outcome import Category, Issue, RefusedError

QUESTIONNAIRE: Final = "Questionnaire"
MISSING: Final = "missing-field"


def named(body: JsonObject) -> JsonObject:
    """Return a body in which each item that has one of the two names has both; any other body stays as it is."""
    if not isinstance(body, dict) or body.get("resourceType") != QUESTIONNAIRE:
        return body
    return _named(body)


def unnamed_items(body: JsonObject) -> Iterator[Issue]:
    """Yield the items of a Questionnaire in its right shape that have neither name."""
    for path, item in _items(body, QUESTIONNAIRE):
        if "linkId" not in item:
            yield Issue(f"{path}.linkId: a required element is missing.", f"{path}.linkId", MISSING)


def check_items(body: JsonObject) -> RefusedError | None:
    """Return the refusal (422) of items of a valid Questionnaire: two names, that of another, a blank; else None."""
    seen: set[str] = set()
    wrong: list[Issue] = []
    for path, item in _items(body, QUESTIONNAIRE):
        name = item["linkId"]
        if item.get("id") != name:
            wrong.append(Issue("linkId and id of an item must be the same.", f"{path}.linkId"))
        if any(map(str.isspace, name)):
            text = "A linkId is the id of its item too, and an id has no blanks: write it without, as 1.1-c."
            wrong.append(Issue(text, f"{path}.linkId"))
        if name in seen:
            wrong.append(Issue("Another item of the Questionnaire has this linkId.", f"{path}.linkId"))
        seen.add(name)
    return RefusedError(Category.INVALID, tuple(wrong)) if wrong else None


def _named(part: JsonObject) -> JsonObject:
    items = part.get("item")
    if not isinstance(items, list):
        return part
    return {**part, "item": [_item(one) if isinstance(one, dict) else one for one in items]}


def _item(item: JsonObject) -> JsonObject:
    name = item.get("linkId", item.get("id"))
    return _named({"id": name, "linkId": name, **item} if name is not None else item)


def _items(part: JsonObject, path: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield every item with its place, those within it behind it."""
    for index, item in enumerate(part.get("item", ())):
        place = f"{path}.item[{index}]"
        yield place, item
        yield from _items(item, place)

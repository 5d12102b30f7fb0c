"""Placing an order: a laboratory, tests of its compendium, their questions, and the order in FHIR."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from engine.fhir.json import Json, JsonObject
from engine.interchange.kernel.extension import url
from engine.interchange.orders.compendium.lookup import system_of, title_of
from engine.interchange.orders.order import NAME, PERFORMER, TEST
from engine.interchange.web.viewer.asking import MOST, Asker, RefusedPageError
from engine.interchange.web.viewer.questions import Fields, QuestionView, answers_to, questions_of

ANSWERS: Final = "QuestionnaireResponse"
# The name of a chosen test's field, and the prefix of its questions' fields.
CHOSEN: Final = "test:"
ASKED: Final = "ask:"
# The location of an issue with a test, and with one of its answers.
AT_TEST: Final = re.compile(r"action\[(\d+)\]|contained\[(\d+)\]")
AT_ITEM: Final = re.compile(r"linkId='([^']*)'")
NO_ANSWER: Final = "this is no answer."


@dataclass(frozen=True, slots=True)
class Offer:
    """A test of a laboratory's compendium: code, title, and questionnaire."""

    code: str
    title: str
    questionnaire: JsonObject | None = None

    @property
    def prefix(self) -> str:
        """The prefix of its questions' fields."""
        return f"{ASKED}{self.code}:"

    @property
    def questions(self) -> list[QuestionView]:
        """The laboratory's questions."""
        return questions_of(self.questionnaire, self.prefix) if self.questionnaire else []


async def laboratories(asker: Asker) -> list[JsonObject]:
    """Return the Organizations that accept orders."""
    return await asker.found("Organization", f"ordering-enabled=true&_sort=name&_count={MOST}")


async def offers(asker: Asker, laboratory: str, title: str) -> list[Offer]:
    """Return the tests of a laboratory whose title or alias starts with a text; 100 at most."""
    query = {"code": f"{system_of(laboratory)}|", "status": "active", "_sort": "title", "_count": str(MOST)}
    definitions = await asker.found("ActivityDefinition", urlencode({**query, **({"title": title} if title else {})}))
    return [Offer(code, title_of(one, laboratory, code)) for one in definitions if (code := _code(one, laboratory))]


async def chosen(asker: Asker, laboratory: str, fields: Fields) -> list[Offer]:
    """Return the tests chosen in a form, with their questions."""
    codes = [name.removeprefix(CHOSEN) for name in fields if name.startswith(CHOSEN)]
    return [offer for code in codes for offer in await _offer(asker, laboratory, code)]


async def place(
    asker: Asker, patient_id: str, laboratory: str, tests: list[Offer], fields: Fields, author: Json
) -> list[str]:
    """Place an order and return its problems, none once it is placed.

    The field `form` is the number of the form: sent twice, it is placed once.
    """
    order, wrong = _order(patient_id, laboratory, tests, fields, author, asker.sis)
    if wrong:
        return wrong
    number = {"system": f"{asker.sis}/chart-form", "value": fields.get("number", "")}
    try:
        await asker.send(NAME, {**order, "identifier": [number]}, f"identifier={number['system']}|{number['value']}")
    except RefusedPageError as refusal:
        if refusal.status != 422:
            raise
        return list(dict.fromkeys(_problem(tests, *issue) for issue in refusal.issues))
    return []


def _order(
    patient_id: str, laboratory: str, tests: Iterable[Offer], fields: Fields, author: Json, sis: str
) -> tuple[JsonObject, list[str]]:
    """Return the order of a form, and its invalid answers."""
    subject = {"reference": f"Patient/{patient_id}"}
    contained: list[JsonObject] = []
    answers: list[JsonObject] = []
    wrong: list[str] = []
    for number, one in enumerate(tests):
        items, bad = answers_to(one.questionnaire, fields, one.prefix) if one.questionnaire else ([], [])
        wrong += [f"{one.title}, {asked.text}: {NO_ANSWER}" for asked in one.questions if asked.name in bad]
        coding = {"system": system_of(laboratory), "code": one.code, "display": one.title}
        supporting = {"supportingInfo": [{"reference": f"#a{number}"}]} if items else {}
        test = {"resourceType": TEST, "id": f"t{number}", "status": "active", "intent": "order", "subject": subject}
        contained.append({**test, "code": {"coding": [coding], "text": one.title}, **supporting})
        if items:
            answers.append({"resourceType": ANSWERS, "id": f"a{number}", "status": "completed", "item": items})
    performer = {"url": url(sis, PERFORMER), "valueReference": {"reference": f"Organization/{laboratory}"}}
    order = {
        "resourceType": NAME,
        "status": "active",
        "intent": "order",
        "subject": subject,
        "author": author,
        "extension": [performer],
        "contained": [*contained, *answers],
        "action": [{"resource": {"reference": f"#{one['id']}"}} for one in contained],
    }
    return order, wrong


async def _offer(asker: Asker, laboratory: str, code: str) -> list[Offer]:
    query = urlencode({"code": f"{system_of(laboratory)}|{code}", "status": "active", "_count": "1"})
    questionnaires = await asker.found("Questionnaire", query)
    known = await asker.found("ActivityDefinition", query)
    return [
        Offer(code, title_of(one, laboratory, code), questionnaires[0] if questionnaires else None) for one in known
    ]


def _code(definition: JsonObject, laboratory: str) -> str:
    codings = definition.get("code", {}).get("coding", ())
    return next((one.get("code", "") for one in codings if one.get("system") == system_of(laboratory)), "")


def _problem(tests: list[Offer], text: str, location: str) -> str:
    """Return the text of an issue with the title of its test and the text of its question."""
    place, item = AT_TEST.search(location), AT_ITEM.search(location)
    number = int(place[1] or place[2]) if place else -1
    if not 0 <= number < len(tests):
        return text
    texts = {one.link_id: one.text for one in tests[number].questions}
    return (
        f"{tests[number].title}, {texts.get(item[1], item[1])}: please answer."
        if item
        else f"{tests[number].title}: {text}"
    )

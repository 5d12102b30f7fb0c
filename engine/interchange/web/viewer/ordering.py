"""The pages of orders: those of a patient; placing one at a laboratory, with its tests and their questions."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.fhir.json import Json, JsonObject
from engine.interchange.core.service import Service
from engine.interchange.kernel.extension import url, value
from engine.interchange.orders.compendium.lookup import system_of, title_of
from engine.interchange.orders.order import NAME, PERFORMER, STATUS, TEST, actions_of
from engine.interchange.store.references import local_target
from engine.interchange.web.http.route import INTERACTIONS
from engine.interchange.web.viewer.questions import Fields, QuestionView, answers_to, questions_of
from engine.interchange.web.viewer.rendering import redirect
from engine.interchange.web.viewer.session import HOME, MOST, Asker, RefusedPageError, ViewerSession, allowed
from engine.interchange.web.viewer.site import Site

NEWEST: Final = "_sort=-authored,-_lastUpdated&_count=100"


async def orders_of(asker: Asker, patient_id: str) -> list[Json]:
    """Return the orders of a patient, newest first."""
    orders = await asker.found(NAME, f"patient={patient_id}&{NEWEST}")
    tests = {f"{TEST}/{one['id']}": one for one in await asker.found(TEST, f"patient={patient_id}&{NEWEST}")}
    names: dict[str, str] = {}
    return [await _row(asker, order, tests, names) for order in orders]


async def _row(asker: Asker, order: JsonObject, tests: JsonObject, names: dict[str, str]) -> JsonObject:
    performer = value(order, asker.sis, PERFORMER) or {}
    target = local_target(performer.get("reference", ""))
    if target and target not in names:
        names[target] = await _name(asker, target)
    named = (tests.get(local_target(action.reference)) for action in actions_of(order))
    return {
        "id": order["id"],
        "state": (value(order, asker.sis, STATUS) or {}).get("code", "") or order.get("status", ""),
        "at": order.get("authoredOn", ""),
        "by": order.get("author", {}).get("display", ""),
        "laboratory": performer.get("display", "") or names.get(target, ""),
        "tests": [_title(one) for one in named if one is not None],
    }


async def _name(asker: Asker, target: str) -> str:
    try:
        return str((await asker.fhir(target)).get("name", ""))
    except RefusedPageError:
        return ""


def _title(test: JsonObject) -> str:
    code = test.get("code", {})
    shown = (coding.get("display") or coding.get("code", "") for coding in code.get("coding", ()))
    return str(code.get("text") or next(shown, "") or "(not said)")


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


async def laboratories(service: Service, asker: Asker) -> list[JsonObject]:
    """Return the Organizations that take orders of the tenant: enabled, connected, with a test on offer."""
    enabled = await asker.found("Organization", f"ordering-enabled=true&_sort=name&_count={MOST}")
    tenant = asker.session.principal.tenant
    connected = [one for one in enabled if service.configuration.laboratory(tenant, one["id"]) is not None]
    return [one for one in connected if await asker.found("ActivityDefinition", _on_offer(one["id"], _count="1"))]


async def offers(asker: Asker, laboratory: str, title: str) -> list[Offer]:
    """Return the tests of a laboratory whose title or alias starts with a text; 100 at most."""
    given = {"title": title} if title else {}
    query = _on_offer(laboratory, _sort="title", _count=str(MOST), **given)
    definitions = await asker.found("ActivityDefinition", query)
    return [Offer(code, title_of(one, laboratory, code)) for one in definitions if (code := _code(one, laboratory))]


def _on_offer(laboratory: str, **more: str) -> str:
    return urlencode({"code": f"{system_of(laboratory)}|", "status": "active", **more})


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
    return next((coding.get("code", "") for coding in codings if coding.get("system") == system_of(laboratory)), "")


def _problem(tests: list[Offer], text: str, location: str) -> str:
    """Return the text of an issue with the title of its test and the text of its question."""
    place, item = AT_TEST.search(location), AT_ITEM.search(location)
    number = int(place[1] or place[2]) if place else -1
    if not 0 <= number < len(tests):
        return text
    texts = {question.link_id: question.text for question in tests[number].questions}
    return (
        f"{tests[number].title}, {texts.get(item[1], item[1])}: please answer."
        if item
        else f"{tests[number].title}: {text}"
    )


CREATE: Final = next(one for one in INTERACTIONS if one.type == NAME and one.code == "create")
ORDERS: Final = f"{HOME}/patients/{{id}}/orders"
NONE_CHOSEN: Final = "Choose at least one test."
PLACED: Final = "placed"


class OrderPages:
    """The pages of a patient's orders and of a new order."""

    def __init__(self, service: Service, site: Site, new_secret: Callable[[], str]) -> None:
        self._service = service
        self._site = site
        self._new_secret = new_secret

    def routes(self) -> list[Route]:
        """Return the routes of these pages."""
        return [
            Route(ORDERS, self._site.showing(self._orders), methods=["GET"]),
            Route(f"{ORDERS}/new", self._site.showing(self._laboratories), methods=["GET"]),
            Route(f"{ORDERS}/new/{{laboratory}}", self._site.showing(self._tests), methods=["GET"]),
            Route(f"{ORDERS}/new/{{laboratory}}", self._site.doing(self._next), methods=["POST"]),
        ]

    async def _orders(self, asker: Asker, request: Request) -> Response:
        patient = await self._site.patient(asker, request)
        may = allowed(self._service, asker.session.principal, CREATE) and "mergedInto" not in patient
        parts = {
            "orders": await orders_of(asker, patient["id"]),
            "placed": PLACED in request.query_params,
            "may": may and bool(await laboratories(self._service, asker)),
        }
        return self._site.chart("orders.html", asker, patient, "orders", parts)

    async def _laboratories(self, asker: Asker, request: Request) -> Response:
        patient = await self._patient(asker, request)
        parts = {"laboratories": await laboratories(self._service, asker)}
        return self._site.chart("laboratories.html", asker, patient, "orders", parts)

    async def _tests(self, asker: Asker, request: Request) -> Response:
        return await self._offered(asker, request, "")

    async def _offered(self, asker: Asker, request: Request, alarm: str) -> Response:
        patient = await self._patient(asker, request)
        laboratory, title = await self._laboratory(asker, request), request.query_params.get("title", "").strip()
        parts = {
            "laboratory": laboratory,
            "title": title,
            "offers": await offers(asker, laboratory, title),
            "chosen_field": CHOSEN,
            "alarm": alarm,
        }
        return self._site.chart("tests.html", asker, patient, "orders", parts)

    async def _next(self, asker: Asker, request: Request, fields: Fields) -> Response:
        """Show the questions after the tests, or place the order after the questions."""
        patient = await self._patient(asker, request)
        laboratory = await self._laboratory(asker, request)
        tests = await chosen(asker, laboratory, fields)
        if not tests:
            return await self._offered(asker, request, NONE_CHOSEN)
        wrong: list[str] = []
        if fields.get("decision") == "place":
            wrong = await place(asker, patient["id"], laboratory, tests, fields, self._author(asker.session))
            if not wrong:
                prefix = self._service.configuration.path_prefix
                return redirect(f"{prefix}{HOME}/patients/{patient['id']}/orders?{PLACED}")
        parts = {
            "laboratory": laboratory,
            "tests": tests,
            "chosen_field": CHOSEN,
            "entered": fields,
            "wrong": wrong,
            "number": fields.get("number", "") or self._new_secret(),
        }
        return self._site.chart("questions.html", asker, patient, "orders", parts)

    async def _patient(self, asker: Asker, request: Request) -> JsonObject:
        """Return the patient of a new order; RefusedPageError: 403 without the right, 409 for a merged record."""
        if not allowed(self._service, asker.session.principal, CREATE):
            raise RefusedPageError(403)
        patient = await self._site.patient(asker, request)
        if "mergedInto" in patient:
            raise RefusedPageError(409)
        return patient

    async def _laboratory(self, asker: Asker, request: Request) -> str:
        """Return the laboratory in the address; RefusedPageError (404) for one that takes no orders."""
        laboratory: str = request.path_params["laboratory"]
        if laboratory not in {one["id"] for one in await laboratories(self._service, asker)}:
            raise RefusedPageError(404)
        return laboratory

    def _author(self, session: ViewerSession) -> JsonObject:
        """Return the ordering user: a reference to the user's resource, if any, and the name."""
        user = self._service.configuration.users.get(session.principal.user)
        reference = {"reference": user.fhir_user} if user is not None and user.fhir_user else {}
        return {**reference, "display": session.name}

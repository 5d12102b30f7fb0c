"""The pages for placing an order: laboratory, tests, questions."""

from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.fhir.json import JsonObject
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import RefusedError
from engine.interchange.orders.order import NAME
from engine.interchange.rest.access import authorise
from engine.interchange.tokens.oauth.vault import Principal
from engine.interchange.web.http.route import INTERACTIONS
from engine.interchange.web.viewer.asking import Asker, RefusedPageError
from engine.interchange.web.viewer.orders import orders_of
from engine.interchange.web.viewer.placing import CHOSEN, chosen, laboratories, offers, place
from engine.interchange.web.viewer.questions import Fields
from engine.interchange.web.viewer.rendering import redirect
from engine.interchange.web.viewer.session import HOME, ViewerSession
from engine.interchange.web.viewer.site import Site

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
        may = may_order(self._service, asker.session.principal) and "mergedInto" not in patient
        parts = {
            "orders": await orders_of(asker, patient["id"]),
            "placed": PLACED in request.query_params,
            "may": may and bool(await laboratories(asker)),
        }
        return self._site.chart("orders.html", asker.session, patient, "orders", parts)

    async def _laboratories(self, asker: Asker, request: Request) -> Response:
        patient = await self._patient(asker, request)
        parts = {"laboratories": await laboratories(asker)}
        return self._site.chart("laboratories.html", asker.session, patient, "orders", parts)

    async def _tests(self, asker: Asker, request: Request) -> Response:
        return await self._offered(asker, request, "")

    async def _offered(self, asker: Asker, request: Request, alarm: str) -> Response:
        patient = await self._patient(asker, request)
        laboratory, title = request.path_params["laboratory"], request.query_params.get("title", "").strip()
        parts = {
            "laboratory": laboratory,
            "title": title,
            "offers": await offers(asker, laboratory, title),
            "chosen_field": CHOSEN,
            "alarm": alarm,
        }
        return self._site.chart("tests.html", asker.session, patient, "orders", parts)

    async def _next(self, asker: Asker, request: Request, fields: Fields) -> Response:
        """Show the questions after the tests, or place the order after the questions."""
        patient = await self._patient(asker, request)
        laboratory = request.path_params["laboratory"]
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
        return self._site.chart("questions.html", asker.session, patient, "orders", parts)

    async def _patient(self, asker: Asker, request: Request) -> JsonObject:
        """Return the patient of a new order; RefusedPageError (403) without the right to place orders."""
        if not may_order(self._service, asker.session.principal):
            raise RefusedPageError(403)
        return await self._site.patient(asker, request)

    def _author(self, session: ViewerSession) -> JsonObject:
        """Return the ordering user: a reference to the user's resource, if any, and the name."""
        user = self._service.configuration.users.get(session.principal.user)
        reference = {"reference": user.fhir_user} if user is not None and user.fhir_user else {}
        return {**reference, "display": session.name}


def may_order(service: Service, principal: Principal) -> bool:
    """Say whether scopes and role allow placing an order."""
    try:
        authorise(service, principal, CREATE)
    except RefusedError:
        return False
    return True

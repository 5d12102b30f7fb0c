"""The pages: login, patient search, and one patient's chart."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion
from engine.interchange.core.service import Service
from engine.interchange.web.chart.operation import LISTINGS, READ
from engine.interchange.web.http.calls import Calls
from engine.interchange.web.http.route import INTERACTIONS
from engine.interchange.web.http.tokens import read_form
from engine.interchange.web.viewer import filters, naming
from engine.interchange.web.viewer.documents import content_of, find_document, narrative, parts_of
from engine.interchange.web.viewer.login_flow import LoginFlow
from engine.interchange.web.viewer.rendering import FILES, HEADERS, page
from engine.interchange.web.viewer.session import (
    HOME,
    ORIGIN,
    RETURN,
    Asker,
    RefusedPageError,
    ViewerSession,
    allowed,
    form_token,
    is_ours,
    session_of,
)
from engine.interchange.web.viewer.trend import USUAL, VOID, flowsheet, series

Fields = dict[str, str]

# The search fields of patients: name in the Chart API, label, and an example.
CRITERIA: Final = (
    ("name", "Name", ""),
    ("birthdate", "Date of birth", "1984-02-29"),
    ("identifier", "Record number", ""),
)
FOUND: Final = 50
# Maximum bytes of a form: an order of many tests with their answers.
MOST_FIELDS: Final = 1000
ENDED: Final = "Your session has ended. Please sign in again."
NOTHING: Final = "Enter a name, a date of birth or a record number."
PAGES: Final = {
    400: ("This cannot be searched for", "Dates are written as 1984-02-29."),
    403: ("Not permitted", "Your role, or the application you signed in with, does not allow this."),
    404: ("Nothing is here", "There is no such patient, or the chart has no such record."),
    409: ("This record was merged", "Open the chart of the record that it was merged into, and place the order there."),
    410: ("No longer here", "This record was deleted."),
    429: ("Too many calls", "Please wait a moment, then try again."),
}
FAILED: Final = ("Something went wrong", "The service could not answer. Please try again.")

Show = Callable[[Asker, Request], Awaitable[Response]]
Do = Callable[[Asker, Request, Fields], Awaitable[Response]]


class Site:
    """The pages of one service."""

    def __init__(self, service: Service, calls: Calls, entrance: LoginFlow) -> None:
        self._service = service
        self._calls = calls
        self._entrance = entrance

    def routes(self) -> list[Route]:
        """Return the routes of the pages."""
        return [
            Route("/", self._front, methods=["GET"]),
            *(Route(f"{HOME}/{name}", _file, methods=["GET"], name=name) for name in FILES),
            Route(f"{HOME}/sign-in", self._entrance.leave, methods=["GET"]),
            Route(RETURN, self._entrance.arrive, methods=["GET"]),
            Route(f"{HOME}/sign-out", self.doing(self._sign_out), methods=["POST"]),
            Route(HOME, self.showing(self._search), methods=["GET"]),
            Route(HOME, self.doing(self._find), methods=["POST"]),
            Route(f"{HOME}/patients/{{id}}", self.showing(self._summary), methods=["GET"]),
            *(
                Route(f"{HOME}/patients/{{id}}/{path}", self.showing(show), methods=["GET"])
                for path, show in (
                    ("results", self._results),
                    ("visits", self._visits),
                    ("documents", self._documents),
                    ("documents/{document}", self._document),
                    ("documents/{document}/content/{number:int}", self._content),
                )
            ),
        ]

    def showing(self, show: Show) -> Callable[[Request], Awaitable[Response]]:
        """Return a page that needs a session; without one it redirects to the login."""

        async def answer(request: Request) -> Response:
            session = session_of(self._service, self._entrance.session, request)
            if session is None:
                return self._entrance.show(ENDED if self._entrance.session.read(request) else "")
            try:
                return await show(self._asker(session, request), request)
            except RefusedPageError as refusal:
                return self._refused(session, refusal)

        return answer

    def doing(self, do: Do) -> Callable[[Request], Awaitable[Response]]:
        """Return the handler of a form that needs a session and a valid CSRF token."""

        async def answer(request: Request) -> Response:
            session = session_of(self._service, self._entrance.session, request)
            if session is None:
                return self._entrance.show(ENDED, 403)
            fields = _fields(await read_form(request))
            if not is_ours(self._service, session, fields.get("form", "")):
                return self._message(session, "This page was open for too long", "Go back, reload it, try again.", 403)
            try:
                return await do(self._asker(session, request), request, fields)
            except RefusedPageError as refusal:
                return self._refused(session, refusal)

        return answer

    def _asker(self, session: ViewerSession, request: Request) -> Asker:
        sis = self._service.configuration.service_identifier_system
        origin = request.scope.get(ORIGIN, ("", ""))
        return Asker(self._calls, session, origin, sis, request.scope["path"], request.query_params)

    async def _front(self, _request: Request) -> Response:
        configuration = self._service.configuration
        bases = [(f"FHIR {version}", self._service.base(version)) for version in FhirVersion]
        addresses = [
            *bases,
            ("Patient Chart API", f"{configuration.base_url}/chart/v1"),
            ("its OpenAPI document", f"{configuration.base_url}/chart/v1/openapi.json"),
            ("SMART configuration", f"{configuration.base_url}/.well-known/smart-configuration"),
        ]
        values = {"session": None, "prefix": configuration.path_prefix, "addresses": addresses}
        return page("front.html", values)

    async def _search(self, asker: Asker, _request: Request) -> Response:
        return self._found(asker, {})

    async def _find(self, asker: Asker, _request: Request, fields: Fields) -> Response:
        entered = {name: fields[name].strip() for name, _, _ in CRITERIA if fields.get(name, "").strip()}
        if not entered:
            return self._found(asker, entered, alarm=NOTHING)
        query = urlencode({**entered, "sort": "name", "limit": FOUND})
        try:
            found = await asker.chart("patients", query)
        except RefusedPageError as refusal:
            if refusal.status != 400:
                raise
            return self._found(asker, entered, alarm=". ".join(PAGES[400]))
        return self._found(asker, entered, {**found, "items": sorted(found["items"], key=naming.by_name)})

    def _found(self, asker: Asker, entered: Fields, found: JsonObject | None = None, alarm: str = "") -> Response:
        sought = [(label, entered[name]) for name, label, _ in CRITERIA if name in entered]
        values = {"criteria": CRITERIA, "entered": entered, "sought": sought, "found": found, "alarm": alarm}
        return self._page("search.html", asker.session, values)

    async def _summary(self, asker: Asker, request: Request) -> Response:
        patient = await self.patient(asker, request)
        may = {path: allowed(self._service, asker.session.principal, LISTINGS[path]) for path, _ in SUMMARY}
        parts = {path: await asker.items(f"patients/{patient['id']}/{path}") for path, _ in SUMMARY if may[path]}
        for path, in_order in SUMMARY:
            if path in parts:
                parts[path]["items"] = in_order(parts[path]["items"])
        return self.chart("summary.html", asker, patient, "", {**parts, "clinical": all(may.values())})

    async def _results(self, asker: Asker, request: Request) -> Response:
        patient = await self.patient(asker, request)
        tests = await asker.items(f"patients/{patient['id']}/clinical-tests")
        filtered = filters.results(tests["items"], asker.query)
        parts = {
            "read": tests,
            "filtered": filtered,
            "sheet": flowsheet(series(filtered.items), asker.query.get("page", ""), TIMES),
            "reports": filters.page_of(filtered.items, asker.query.get("reports", ""), REPORTS),
            "usual": USUAL,
            "void": VOID,
        }
        return self.chart("results.html", asker, patient, "results", parts)

    async def _visits(self, asker: Asker, request: Request) -> Response:
        patient = await self.patient(asker, request)
        visits = await asker.items(f"patients/{patient['id']}/encounters")
        filtered = filters.visits(filters.visits_in_order(visits["items"]), asker.query)
        page = filters.page_of(filtered.items, asker.query.get("page", ""), ENTRIES)
        return self.chart("visits.html", asker, patient, "visits", {"read": visits, "filtered": filtered, "page": page})

    async def _documents(self, asker: Asker, request: Request) -> Response:
        patient = await self.patient(asker, request)
        documents = await asker.items(f"patients/{patient['id']}/documents")
        filtered = filters.documents(documents["items"], asker.query)
        page = filters.page_of(filtered.items, asker.query.get("page", ""), ENTRIES)
        parts = {"read": documents, "filtered": filtered, "page": page}
        return self.chart("documents.html", asker, patient, "documents", parts)

    async def _document(self, asker: Asker, request: Request) -> Response:
        patient = await self.patient(asker, request)
        document = await find_document(asker, patient["id"], request.path_params["document"])
        attached = await parts_of(asker, document)
        titles = (one.title for one in attached)
        parts = {
            "title": document.get("description") or next(filter(None, titles), "Document"),
            "parts": attached,
            "narrative": narrative(document),
            "address": f"{self._service.configuration.path_prefix}{request.scope['path']}",
        }
        return self.chart("document.html", asker, patient, "documents", parts)

    async def _content(self, asker: Asker, request: Request) -> Response:
        document = await find_document(asker, request.path_params["id"], request.path_params["document"])
        return await content_of(asker, document, request.path_params["number"])

    async def patient(self, asker: Asker, request: Request) -> JsonObject:
        """Return the demographics of the patient in the address; RefusedPageError for a refusal."""
        patient = await asker.chart(f"patients/{request.path_params['id']}")
        return {**patient, "age": naming.age(patient.get("birthDate", ""), self._service.clock())}

    async def _sign_out(self, asker: Asker, _request: Request, _fields: Fields) -> Response:
        return await self._entrance.end(asker.session.token)

    def chart(self, template: str, asker: Asker, patient: JsonObject, tab: str, parts: JsonObject) -> Response:
        """Return a page of a patient's chart, with the tabs that the person may open; with `print`, for paper."""
        own = {name.replace("-", "_").replace("/", "_"): part for name, part in parts.items()}
        principal = asker.session.principal
        query = {name: text for name, text in asker.query.items() if name != PRINT}
        values = {
            "patient": patient,
            "tabs": [(path, title) for path, title, one in TABS if allowed(self._service, principal, one)],
            "tab": tab,
            "at": f"{self._service.configuration.path_prefix}{asker.path}",
            "query": query,
            "links": dict(asker.query),
            "printing": PRINT in asker.query,
            "printed_at": naming.moment(self._service.clock().astimezone(UTC).isoformat()),
        }
        return self._page(template, asker.session, {**values, **own})

    def _refused(self, session: ViewerSession, refusal: RefusedPageError) -> Response:
        title, text = PAGES.get(refusal.status, FAILED)
        return self._message(session, title, text, refusal.status)

    def _message(self, session: ViewerSession, title: str, text: str, status: int) -> Response:
        return self._page("message.html", session, {"title": title, "text": text}, status)

    def _page(self, template: str, session: ViewerSession, values: dict[str, Any], status: int = 200) -> Response:
        own = {"prefix": self._service.configuration.path_prefix, "form": form_token(self._service, session)}
        return page(template, {"session": session, **own, **values}, status)


# The lists of the summary, and the order of each.
SUMMARY: Final[tuple[tuple[str, Callable[[Iterable[JsonObject]], list[JsonObject]]], ...]] = (
    ("allergies", filters.allergies_in_order),
    ("problems", filters.problems_in_order),
    ("medications", filters.medications_in_order),
    ("immunizations", filters.immunizations_in_order),
    ("care-teams/members", list),
)
# Times of a flowsheet, reports, and visits or documents on one page.
TIMES: Final = 8
REPORTS: Final = 10
ENTRIES: Final = 50
# The query parameter of a page for paper.
PRINT: Final = "print"
ORDERS: Final = next(one for one in INTERACTIONS if one.type == "RequestGroup" and one.code == "search-type")
# The pages of a chart: path below the patient, title, and the interaction that the page needs.
TABS: Final = (
    ("", "Summary", READ),
    ("results", "Results", LISTINGS["clinical-tests"]),
    ("visits", "Visits", LISTINGS["encounters"]),
    ("documents", "Documents", LISTINGS["documents"]),
    ("orders", "Orders", ORDERS),
)


def _fields(body: bytes | None) -> Fields:
    """Return the fields of a form, the last of each name; none if it is too large or not a form."""
    try:
        return dict(parse_qsl((body or b"").decode(), errors="strict", max_num_fields=MOST_FIELDS))
    except ValueError:
        return {}


async def _file(request: Request) -> Response:
    content, kind = FILES[request.scope["path"].rpartition("/")[2]]
    return Response(content, 200, HEADERS, kind)

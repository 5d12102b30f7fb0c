"""The pages call the service's own APIs with the signed-in user's token, so that they see no more than it allows."""

from dataclasses import dataclass
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.interchange.core.exchange import HttpAnswer
from engine.interchange.kernel.exact import read_resource, write_json
from engine.interchange.web.http.call import HttpCall
from engine.interchange.web.http.calls import Calls
from engine.interchange.web.http.wire import RequestBody, Scope
from engine.interchange.web.viewer.session import ViewerSession

JSON_IN: Final = "application/fhir+json"
# The ASGI scope keys of the client's address and the request id.
ORIGIN: Final = "interchange.origin"
MOST: Final = 100


class RefusedPageError(Exception):
    """An API has refused a request of a page."""

    def __init__(self, status: int, issues: tuple[tuple[str, str], ...] = ()) -> None:
        """Take the status, and each issue with its location."""
        super().__init__(f"refused with {status}")
        self.status = status
        self.issues = issues


@dataclass(frozen=True, slots=True)
class Asker:
    """Calls the APIs for one session and one request of a browser; `sis` is the service's identifier system."""

    calls: Calls
    session: ViewerSession
    origin: tuple[str, str]
    sis: str

    async def chart(self, path: str, query: str = "") -> JsonObject:
        """Return the answer of the Chart API; RefusedPageError for a refusal."""
        return read_resource(
            (await self._answer(HttpCall("GET", path, query, self._headers(), _body(b""), chart=True))).body
        )

    async def items(self, path: str) -> JsonObject:
        """Return the first items of a list of the Chart API, 100 at most, and the total."""
        return await self.chart(path, f"limit={MOST}")

    async def fhir(self, path: str, query: str = "") -> JsonObject:
        """Return the answer of FHIR R4; RefusedPageError for a refusal."""
        return read_resource((await self.get(path, query)).body)

    async def get(self, path: str, query: str = "", accept: str = "") -> HttpAnswer:
        """Return the answer of FHIR R4 to a GET; RefusedPageError for a refusal."""
        headers = {**self._headers(), **({"accept": accept} if accept else {})}
        return await self._answer(HttpCall("GET", f"R4/{path}", query, headers, _body(b"")))

    async def found(self, path: str, query: str = "") -> list[JsonObject]:
        """Return the resources on the first page of a FHIR R4 search."""
        bundle = await self.fhir(path, query)
        return [one["resource"] for one in bundle["entry"] if one.get("search", {}).get("mode") != "outcome"]

    async def send(self, path: str, resource: JsonObject, once: str) -> Json:
        """Create a resource unless the query `once` matches (If-None-Exist), and return it; RefusedPageError."""
        headers = {**self._headers(), "content-type": JSON_IN, "if-none-exist": once}
        return read_resource(
            (await self._answer(HttpCall("POST", f"R4/{path}", "", headers, _body(write_json(resource))))).body
        )

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.session.token}"}

    async def _answer(self, call: HttpCall) -> HttpAnswer:
        call.origin = self.origin
        answer = await self.calls.answer(call, self.origin[1])
        if answer.status < 400:
            return answer
        issues = read_resource(answer.body).get("issue", ()) if answer.body else ()
        raise RefusedPageError(
            answer.status, tuple((one.get("diagnostics", ""), (one.get("location") or [""])[0]) for one in issues)
        )


def _body(text: bytes) -> RequestBody:
    async def receive() -> Scope:
        return {"type": "http.request", "body": text, "more_body": False}

    return RequestBody(receive)

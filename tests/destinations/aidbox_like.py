"""A scripted server with the ways of Aidbox, each a switch, each with its public source."""

from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import orjson
from aiohttp import encode_basic_auth, web

from tests.deliver.fake_chart import BASE, Habit
from tests.deliver.fake_fhir import outcome_of
from tests.destinations.server_like import ServerLike


class AidboxLike(ServerLike):
    """Ids of a client are taken (docs.aidbox.app, rest-api/crud/update: "Create a patient with a specified id").

    `credentials`: name and secret of the Client that signs in by HTTP Basic (its page on Basic Auth); empty: anybody
    does. What is not below the base is Aidbox's own format (its page "FHIR and Aidbox formats"), here nothing.
    `condition_in_query`: the condition of a create is its query; If-None-Exist is not read (docs.aidbox.app,
    api-1/api/crud-1/fhir-and-aidbox-crud). `collides_each`: each so-manieth write meets another one, and is refused
    with 412 whatever it asks (rest-api/crud/update, "Isolation levels": serializable, "this may lead to 412 errors");
    0: none does. `bare_etags`: an ETag is the version alone (rest-api/crud/create: "ETag: [vid]").
    """

    def __init__(self) -> None:
        super().__init__("aidbox")
        self.credentials = ("", "")
        self.condition_in_query = True
        self.collides_each = 0
        self.bare_etags = True
        self.collisions = 0
        self._writes = 0

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if not request.path.startswith(BASE):
            return outcome_of(404, "not-found")
        if not self._signed_in(request):
            return outcome_of(401, "login")
        answer = await super()._handle(request)
        if self.bare_etags and "ETag" in answer.headers:
            answer.headers["ETag"] = answer.headers["ETag"].removeprefix("W/").strip('"')
        return answer

    def _answer(self, request: web.Request, path: str, body: bytes) -> web.Response:
        if request.method in {"POST", "PUT"} and self._collides():
            return outcome_of(412, "conflict")
        if request.method == "POST" and path != BASE and "$" not in path and self.condition_in_query:
            condition, content = unquote(request.query_string) or None, orjson.loads(body)
            asked = SimpleNamespace(method="POST", headers={"If-None-Exist": condition})
            return self._create(content, condition) if path == "Patient" else self._written(asked, path, content)
        return super()._answer(request, path, body)

    def _signed_in(self, request: web.Request) -> bool:
        return not any(self.credentials) or request.headers.get("Authorization") == encode_basic_auth(*self.credentials)

    def _collides(self) -> bool:
        self._writes += 1
        collides = self.collides_each > 0 and self._writes % self.collides_each == 0
        self.collisions += collides
        return collides

    def _transaction(self, bundle: dict[str, Any]) -> web.Response:
        if self.condition_in_query:
            self.habits.add(Habit.IGNORES_CONDITIONS)
        return super()._transaction(bundle)

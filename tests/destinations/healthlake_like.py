"""A scripted server with the ways of AWS HealthLake, each a switch, each with its public source."""

from typing import Any, Final
from uuid import UUID

import orjson
from aiohttp import web

from tests.deliver.fake_fhir import answer_json, outcome_of
from tests.destinations.server_like import ServerLike

KEY: Final = "x-amz-fhir-idempotency-key"
CONSISTENCY: Final = "x-amz-fhir-history-consistency-level"


class HealthLakeLike(ServerLike):
    """Nothing conditional on a search, ids of a client are taken.

    `idempotent`: a create that repeats a key makes nothing and is answered 409 with the original; a key that is no
    UUID is answered 400 (HealthLake developer guide, "Idempotency and Concurrency"). `shows_original`: that 409 has
    the original as its body, else only its Location. `behind`: a search shows what was indexed (`index`) only, unless
    the request asks for strong consistency (the guide, "FHIR Search Consistency Levels"). `conditional`: If-None-Exist
    counts (the guide, "Managing FHIR resources", lists no conditional create). An update of an id that is not there
    creates it (the guide, "Updating a FHIR resource").
    """

    def __init__(self) -> None:
        super().__init__("AWS HealthLake", transactions=False)
        self.idempotent = True
        self.shows_original = True
        self.behind = True
        self.conditional = False
        self.keys: dict[str, str] = {}
        self.repeats = 0
        self._indexed: set[str] = set()

    def index(self) -> None:
        """Let searches show all that was written until now."""
        self._indexed = {*(f"Patient/{logical_id}" for logical_id in self.patients), *self.chart}

    def _answer(self, request: web.Request, path: str, body: bytes) -> web.Response:
        key = request.headers.get(KEY, "")
        if request.method != "POST" or not key or not self.idempotent:
            return super()._answer(request, path, body)
        if not _is_uuid(key):
            return outcome_of(400, "invalid")
        if key in self.keys:
            self.repeats += 1
            return self._original(self.keys[key])
        answer = super()._answer(request, path, body)
        if answer.status == 201:
            assert isinstance(answer.body, bytes)
            self.keys[key] = f"{path}/{orjson.loads(answer.body)['id']}"
        return answer

    def _original(self, reference: str) -> web.Response:
        type_, _, logical_id = reference.partition("/")
        held = self.patients.get(logical_id) if type_ == "Patient" else self.chart.get(reference)
        answer = answer_json(409, held) if held and self.shows_original else outcome_of(409, "duplicate")
        answer.headers["Location"] = f"{self.base}/{reference}"
        return answer

    def _found(self, request: web.Request, type_: str) -> list[dict[str, Any]]:
        found = super()._found(request, type_)
        if not self.behind or request.headers.get(CONSISTENCY) == "strong":
            return found
        return [resource for resource in found if f"{type_}/{resource['id']}" in self._indexed]

    def _create(self, body: dict[str, Any], condition: str | None) -> web.Response:
        return super()._create(body, condition if self.conditional else None)

    def _made(self, type_: str, body: dict[str, Any], condition: str | None) -> web.Response:
        return super()._made(type_, body, condition if self.conditional else None)

    def _statement(self) -> dict[str, Any]:
        statement = super()._statement()
        for resource in statement["rest"][0]["resource"]:
            resource["conditionalCreate"] = self.conditional
        return statement


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False
